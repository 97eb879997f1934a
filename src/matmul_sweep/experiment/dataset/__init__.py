"""The data set: its tables, where it comes from, its checks, and the view that compares points."""
