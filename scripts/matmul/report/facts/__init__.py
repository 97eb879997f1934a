"""Numbers for the report's sentences and tables, each with the cells it was made from."""
