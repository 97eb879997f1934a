"""The configuration of a run, checks for a cluster, and shared command-line options."""
