"""Processes that share out the work of a program."""

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor

from matmul_sweep.process.lifetime import die_with_parent


def workers(count: int) -> ProcessPoolExecutor:
    """So many processes, which know what this one knows when it hands out the first work."""
    forking = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(count, forking, initializer=start)


def start() -> None:
    """Leave interrupts to the process that started this one, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
