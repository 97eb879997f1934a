"""The same kernels on a CPU."""
