"""Processes: isolated, ended with their parent, locked; and the errors that end them."""
