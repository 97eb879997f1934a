"""The run's configuration, what a cluster would refuse, and options of command lines."""
