"""Run a call in its own process, so that a crash or an endless call harms nothing else."""

import math
import mmap
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import numpy as np

from matmul_sweep.process.errors import Unfinished, UserError, said
from matmul_sweep.process.lifetime import die_with_parent

T = TypeVar("T")


class Crashed(Exception):
    """A call that killed its process; the message says how."""


def shared_array(extents: Sequence[int], dtype: str) -> np.ndarray:
    """An array full of NaN that a call in another process can write to."""
    memory = mmap.mmap(-1, math.prod(extents) * np.dtype(dtype).itemsize)
    array = np.frombuffer(memory, dtype).reshape(extents)
    array.fill(np.nan)
    return array


def result_of(action: Callable[[], T], seconds: float) -> T:
    """What `action` returns in a copy of this process, which pickles it; a UserError or an error of
    the system becomes a UserError here.

    Raises Unfinished if it has not ended after `seconds`, or Crashed.
    """
    forking = multiprocessing.get_context("fork")
    receiver, sender = forking.Pipe(duplex=False)

    def run() -> None:
        die_with_parent()
        try:
            sender.send(action())
        except (UserError, OSError) as error:
            sender.send(UserError(said(error)))

    process = forking.Process(target=run)
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise Unfinished(seconds)
        found = receiver.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        died = signal.Signals(-code).name if code < 0 else f"an error (exit code {code})"
        raise Crashed(f"it died of {died}") from None
    finally:
        process.kill()
        process.join()
    if isinstance(found, UserError):
        raise found
    return cast(T, found)
