"""What a data set says: which points are compared, facts and figures."""
