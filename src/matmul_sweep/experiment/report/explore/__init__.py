"""What the interactive page of a data set draws."""
