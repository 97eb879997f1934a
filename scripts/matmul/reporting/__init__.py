"""What figures, tables and the report share: a data set read, drawn and put into words."""
