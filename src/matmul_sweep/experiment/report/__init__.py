"""What a data set shows: facts, figures, and the page."""
