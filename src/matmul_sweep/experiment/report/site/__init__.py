"""The pages that a browser shows: a data set's story, Explore, the cards and the mistakes."""
