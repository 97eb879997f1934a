"""Run a program that somebody else wrote: within limits, out of reach of all files but those of one
folder, and with no way to another process.

This holds from before its first instruction on. docs/teaching.md says what is not contained.
"""

import ctypes
import os
import platform
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from matmul_sweep.build import cache
from matmul_sweep.build.toolchain import version
from matmul_sweep.classroom.cuda_on_cpu.emulation import compiler
from matmul_sweep.process.errors import Unfinished, UserError, printable
from matmul_sweep.process.files import whole_file
from matmul_sweep.process.limits import MOST_MEMORY

MOST_BYTES = 16 << 20  # of a file that it writes, what it prints included
NOT_STARTED = 126  # exit code of a container that cannot do what it is for
SOURCE = Path(__file__).with_name("contain.c")
CREATE_RULESET, VERSION = 444, 1  # linux/landlock.h


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code, minus the signal's number if it was killed, and what it
    printed, without commands to a terminal."""

    code: int
    out: str
    err: str


@once
def can_contain() -> bool:
    """Whether this is x86-64 Linux with Landlock of the version that knows every way to change
    what a file holds: 6.2."""
    known: int = ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, VERSION)
    return known >= 3 and platform.machine() == "x86_64"


@once
def libraries(executable: str) -> tuple[str, ...]:
    """What the loader reads for an executable, without running any of it."""
    told = subprocess.run(["ldd", executable], capture_output=True, text=True).stdout
    found = ["/etc/ld.so.cache", *re.findall(r"(/\S+) \(0x", told)]
    return tuple(path for path in found if os.path.exists(path))


def container(executable: Path) -> Path:
    """The program of contain.c, beside an executable, with which it comes and goes."""
    made = executable.with_name("contain")
    if not made.exists():
        told = {"MOST_BYTES": MOST_BYTES, "MOST_MEMORY": MOST_MEMORY, "NOT_STARTED": NOT_STARTED}
        command = [compiler(), *(f"-D{name}={value}" for name, value in told.items()), "-x", "c"]
        key = cache.key_of([version(compiler()), *command], [SOURCE])
        with whole_file(made) as new:
            if cache.fetch(key, new) is None:
                subprocess.run([*command, SOURCE, "-o", new], check=True)
                cache.keep(key, new, "")
            new.chmod(0o755)
    return made


def run_contained(
    command: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str],
    files: Sequence[int] = (), stdin: int = subprocess.DEVNULL,
) -> Ended:  # fmt: skip
    """Run a program in `folder`, of which it can read and change the files that are there already:
    it creates none, and opens no others but itself and its libraries.

    files: descriptors that it inherits. What it prints lies in `out` and `err` in the folder, up to
    MOST_BYTES; the first 64 kB of each come back. Raises Unfinished if it has not ended after
    `seconds`, and UserError if this machine cannot contain or start it.
    """
    read = [command[0], *libraries(command[0])] if can_contain() else []
    contain = [str(container(Path(command[0]))), str(int(seconds)), *read, "--", *command]
    printed = [folder / "out", folder / "err"]
    with open(printed[0], "wb") as out, open(printed[1], "wb") as err:
        process = subprocess.Popen(  # without a fork, which a large process pays for
            contain, cwd=folder, env=dict(environment), stdin=stdin, stdout=out, stderr=err,
            pass_fds=files, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Unfinished(seconds) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    texts = (file.read_bytes()[: 1 << 16].decode(errors="replace") for file in printed)
    ended = Ended(code, *map(printable, texts))
    if code == NOT_STARTED:
        said = f"nothing can be run on this machine within its limits: {ended.err.strip()}"
        raise UserError(f"{said}; that is no mistake of the kernel's")
    return ended
