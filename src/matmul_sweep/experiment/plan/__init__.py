"""The configuration of a run, and what follows from it."""
