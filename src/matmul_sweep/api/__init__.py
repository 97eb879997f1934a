"""Products of anybody's arrays: what `import matmul_sweep` offers."""
