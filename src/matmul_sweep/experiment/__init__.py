"""The experiment: what is run, verified, measured, kept and reported."""
