"""Whether a data set can be what it says that it is."""
