"""Processes: isolation, ending with the parent, locking, and the errors that end them."""
