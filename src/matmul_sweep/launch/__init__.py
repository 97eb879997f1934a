"""Kernels on a card through its driver: device, module, tensor maps, products."""
