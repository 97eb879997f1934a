"""Run a call in its own process, so that a crash or an endless call harms nothing else."""

import math
import mmap
import multiprocessing
import signal
from collections.abc import Callable, Sequence

import numpy as np

from matmul_sweep.process.errors import Unfinished
from matmul_sweep.process.lifetime import die_with_parent


class Crashed(Exception):
    """A call that killed its process; the message says how."""


def shared_array(extents: Sequence[int], dtype: str) -> np.ndarray:
    """An array full of NaN that a call in another process can write to."""
    memory = mmap.mmap(-1, math.prod(extents) * np.dtype(dtype).itemsize)
    array = np.frombuffer(memory, dtype).reshape(extents)
    array.fill(np.nan)
    return array


def run_isolated(action: Callable[[], object], seconds: float) -> None:
    """Run `action` in a copy of this process; only shared arrays come back.

    Raises Unfinished if it has not ended after `seconds`, or Crashed.
    """

    def run() -> None:
        die_with_parent()
        action()

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        raise Unfinished(seconds)
    if code := process.exitcode:
        died = signal.Signals(-code).name if code < 0 else f"an error (exit code {code})"
        raise Crashed(f"it died of {died}")
