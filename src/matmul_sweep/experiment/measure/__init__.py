"""Timing: the card, cuBLAS, samples, and a sweep of points."""
