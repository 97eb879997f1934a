"""The kernels: catalogue entries, their variants and layouts."""
