"""Limits on the time that work on somebody else's text may take."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence

from matmul_sweep.process.errors import UserError

MOST_MEMORY = 8 << 30  # of an address space


@contextlib.contextmanager
def time_limit(seconds: float, message: str) -> Iterator[None]:
    """Raise UserError with this message if the block takes so much processor time; of the main
    thread only."""

    def late(*_: object) -> None:
        raise UserError(message)

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run_limited(command: Sequence[str], seconds: float | None) -> subprocess.CompletedProcess[str]:
    """Run a compiler, for as long as it takes if `seconds` is None; what it started ends with it.
    With a limit to its time it has one to its memory too. Raises subprocess.TimeoutExpired."""
    if seconds is not None:  # by a program, because Python's own way forks this process
        command = ["prlimit", f"--as={MOST_MEMORY}", *command]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)
