"""Whether a kernel's C is right, and the records of it."""
