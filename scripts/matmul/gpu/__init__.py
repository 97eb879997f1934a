"""The card: device, state, cuBLAS, and kernels that fill, hold and compare."""
