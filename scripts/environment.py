"""Imported first by programs that are run by hand: one line where the packages are missing."""

import sys
from importlib.util import find_spec

if not (find_spec("matmul_sweep") and find_spec("numpy")):
    sys.exit(f"error: {sys.executable} has not the packages: run this with `uv run python`")
