"""Kernels for CUDA matrix multiplication, the experiment that measures them, and the classroom."""

__version__ = "1.1.0"
