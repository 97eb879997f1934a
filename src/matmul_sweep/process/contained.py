"""Run a program that somebody else wrote: within limits, and writing to one folder only.

It may read every file that this user may read. docs/teaching.md says what else is not contained.
"""

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from matmul_sweep.process.errors import Unfinished
from matmul_sweep.process.lifetime import die_with_parent

MOST_BYTES = 16 << 20  # of a file that it writes, what it prints included
MOST_MEMORY = 8 << 30  # of its address space
PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
# linux/landlock.h and the numbers of its system calls.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
WRITES = 0x7FF2  # every right of its third version to change files or folders
PATH_BENEATH = 1


class PathBeneath(ctypes.Structure):
    """landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code, minus the signal's number if it was killed, and what it
    printed."""

    code: int
    out: str
    err: str


def can_contain() -> bool:
    """Whether this Linux has Landlock of the version that knows every way to change a file: 6.2."""
    version: int = ctypes.CDLL(None, use_errno=True).syscall(CREATE_RULESET, None, 0, 1)
    return version >= 3


def write_only_below(folder: Path) -> bool:
    """Let this process and its children change no file outside `folder`, by Linux's Landlock.

    Returns whether this Linux can do that.
    """
    if not can_contain():
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    handled = ctypes.c_uint64(WRITES)
    rules = libc.syscall(CREATE_RULESET, ctypes.byref(handled), 8, 0)
    opened = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    rule = PathBeneath(WRITES, opened)
    libc.syscall(ADD_RULE, rules, PATH_BENEATH, ctypes.byref(rule), 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    restricted: int = libc.syscall(RESTRICT_SELF, rules, 0)
    os.close(opened)
    os.close(rules)
    return restricted == 0


def run_contained(
    command: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str]
) -> Ended:
    """Run a program in `folder`, which is all that it can write to.

    What it prints lies in the files `out` and `err` there, up to MOST_BYTES; the first 64 kB of
    each come back. Raises Unfinished if it has not ended after `seconds`.
    """

    def contain() -> None:
        die_with_parent()
        for limit, most in (
            (resource.RLIMIT_FSIZE, MOST_BYTES),
            (resource.RLIMIT_AS, MOST_MEMORY),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_CPU, int(seconds) + 2),
        ):
            resource.setrlimit(limit, (most, most))
        write_only_below(folder)

    files = [folder / "out", folder / "err"]
    with open(files[0], "wb") as out, open(files[1], "wb") as err:
        process = subprocess.Popen(
            command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL,
            stdout=out, stderr=err, preexec_fn=contain, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Unfinished(seconds) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Ended(code, *(file.read_bytes()[: 1 << 16].decode(errors="replace") for file in files))
