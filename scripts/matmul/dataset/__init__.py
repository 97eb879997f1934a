"""The data set's files, and where their figures come from."""
