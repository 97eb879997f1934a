"""The compilers and their binaries."""
