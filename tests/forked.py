"""Snakemake without its imports, two of the three seconds of its start: a fork of a process that
has made them, in the folder and the environment of its own.

This module is imported in the fork: of the project's it imports none, so that the Snakefile finds
those of its own copy.
"""

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
# Snakemake, what it imports only when it is at work, and the Snakefile's libraries.
FORKS.set_forkserver_preload(
    ["snakemake.cli", "snakemake.report", "smart_open", "jsonschema", "cuda.pathfinder"]
)
# multiprocessing looks after all of its processes wherever one is started, and reads an exit code
# once: two threads at a time would lose it.
ONE_AT_A_TIME = threading.Lock()


@atexit.register
def end() -> None:
    """Let none that a failed test has left outlast the tests, which would wait for it."""
    for left in multiprocessing.active_children():
        left.kill()


class Fork:
    """A Snakemake that was started, as a Popen; it has a session of its own."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], said: Path
    ) -> None:
        inputs = ([*arguments], str(folder), {**environment}, str(said))
        self.process = FORKS.Process(target=run, args=inputs)
        with ONE_AT_A_TIME:
            self.process.start()
        self.pid: int = self.process.pid

    def poll(self) -> int | None:
        with ONE_AT_A_TIME:
            return self.process.exitcode

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def wait(self, timeout: float = float("inf")) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("snakemake", timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(arguments: list[str], folder: str, environment: dict[str, str], said: str) -> None:
    """`python -m snakemake` with these arguments, in the fork."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which its server ignores
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    # As in a new process: not what pytest has added.
    prefixes = (sys.prefix, sys.base_prefix)
    sys.path[:] = [folder, *(place for place in sys.path if place.startswith(prefixes))]
    from snakemake import cli

    sys.argv = [cli.__file__, *arguments]
    cli.main()
