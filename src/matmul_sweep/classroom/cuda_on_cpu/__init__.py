"""CUDA on the CPU: kernels thread by thread, with every access watched."""
