"""Numbers for the sentences and tables of the report."""
