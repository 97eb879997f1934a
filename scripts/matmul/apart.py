"""A call in a process of its own: one that crashes or never ends harms nothing but itself."""

import ctypes
import math
import mmap
import multiprocessing
import signal
from collections.abc import Callable, Sequence

import numpy as np

from matmul.errors import Unfinished

PR_SET_PDEATHSIG = 1


class Crashed(Exception):
    """A call that took its process with it; the message says by which signal."""


def shared_array(extents: Sequence[int], dtype: str) -> np.ndarray:
    """An array, all NaN, that a call apart can write to."""
    memory = mmap.mmap(-1, math.prod(extents) * np.dtype(dtype).itemsize)
    array = np.frombuffer(memory, dtype).reshape(extents)
    array.fill(np.nan)
    return array


def run_apart(action: Callable[[], object], seconds: float) -> None:
    """Run `action` in a copy of this process, of which only shared arrays come back.

    Raises Unfinished where it has not ended after `seconds`, and Crashed.
    """

    def bound_to_this_process() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        action()

    process = multiprocessing.get_context("fork").Process(target=bound_to_this_process)
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        raise Unfinished(seconds)
    if process.exitcode:
        raise Crashed(f"it died of {signal.Signals(-process.exitcode).name}")
