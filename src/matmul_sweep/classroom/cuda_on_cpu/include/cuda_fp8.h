// Nothing: many sources include it and use nothing of it.
