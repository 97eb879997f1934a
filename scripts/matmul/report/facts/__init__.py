"""Numbers for the sentences and tables of the report, each with the cells that it comes from."""
