"""What a data set shows: the points that are compared, facts and figures."""
