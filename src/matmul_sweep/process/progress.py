"""Saying what takes long, while it does."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds


@contextmanager
def told_if_slow(doing: str) -> Iterator[None]:
    """Say on stderr what is being done, once it has taken PATIENCE seconds."""
    timer = threading.Timer(PATIENCE, lambda: print(f"{doing} ...", file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
