"""One run at a time in a results folder."""

import fcntl
import os
from functools import cache
from pathlib import Path


@cache
def refusal(path: Path) -> str | None:
    """Lock the file at `path` for the rest of this process; why that cannot be had, or None.

    The kernel lets go of the lock when the process ends, however it ends: a run that was killed
    does not lock out the next one.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fcntl.flock(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return f"{path.parent}: another snakemake works here; wait for it, then run this again"
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None
