"""One run at a time in a results folder."""

import fcntl
import os
from functools import cache
from pathlib import Path


@cache
def refusal(path: Path) -> str | None:
    """Lock the file at `path` for the rest of this process; return why that fails, or None.

    The kernel releases the lock when the process ends, in whatever way, so a killed run does not
    lock out the next one.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fcntl.flock(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return f"{path.parent}: another snakemake is running here; wait for it, then run this again"
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None
