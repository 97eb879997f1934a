"""The kernels: catalogue entries, their variants and layouts, and the schemas."""
