"""The compilers, and the binaries that they make."""
