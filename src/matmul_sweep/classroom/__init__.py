"""A verdict on anyone's kernel: one .cu file, read, run and judged; the gallery of mistakes."""
