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
import tempfile
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
    """Let none outlast the tests, which would wait for it."""
    for left in multiprocessing.active_children():
        left.kill()


def forked(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a Snakemake with these arguments to its end, in a session of its own."""
    with tempfile.NamedTemporaryFile("r") as said:
        inputs = ([*arguments], str(folder), {**environment}, said.name)
        process = FORKS.Process(target=run, args=inputs)
        with ONE_AT_A_TIME:
            process.start()
        code = None
        while code is None:
            time.sleep(0.01)
            with ONE_AT_A_TIME:
                code = process.exitcode
        return subprocess.CompletedProcess(arguments, code, said.read())


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
