"""Processes, files and errors: what every floor stands on."""
