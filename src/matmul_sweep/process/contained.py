"""Run a program that somebody else wrote: within limits, out of reach of all files but those of one
folder, and with no way to another process.

This holds from before its first instruction on. docs/teaching.md says what is not contained.
"""

import ctypes
import os
import platform
import re
import resource
import signal
import struct
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from matmul_sweep.process.errors import Unfinished, printable
from matmul_sweep.process.lifetime import die_with_parent
from matmul_sweep.process.limits import MOST_MEMORY

MOST_BYTES = 16 << 20  # of a file that it writes, what it prints included
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2  # linux/prctl.h, seccomp.h
# linux/landlock.h and the numbers of its system calls.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 14
EVERY_RIGHT = 0x7FFF  # of its third version
PATH_BENEATH = 1
# The system calls that a program makes which computes, and reads and writes files, with their
# numbers in asm/unistd_64.h. A list of what is refused would miss what Linux is to learn.
CALLS = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lseek": 8, "mmap": 9, "mprotect": 10,
    "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "pread64": 17, "writev": 20, "access": 21, "sched_yield": 24, "mremap": 25, "madvise": 28,
    "nanosleep": 35, "setitimer": 38, "getpid": 39, "execve": 59, "exit": 60, "uname": 63,
    "getcwd": 79, "readlink": 89, "gettimeofday": 96, "getuid": 102, "getgid": 104, "geteuid": 107,
    "getegid": 108, "sigaltstack": 131, "arch_prctl": 158, "gettid": 186, "futex": 202,
    "set_tid_address": 218, "restart_syscall": 219, "clock_gettime": 228, "clock_nanosleep": 230,
    "exit_group": 231, "newfstatat": 262, "set_robust_list": 273, "getrandom": 318,
    "statx": 332, "rseq": 334, "faccessat2": 439,
}  # fmt: skip
TGKILL, OPENAT = 234, 257
O_TMPFILE = 0x400000  # asm-generic/fcntl.h: a new file without a name, which Landlock lets pass
X86_64 = 0xC000003E  # linux/audit.h; a call by the numbers of 32 bits has another
# linux/bpf_common.h, linux/seccomp.h and the offsets in its seccomp_data.
LOAD, EQUAL, ANY_OF, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, THIRD_ARGUMENT = 0, 4, 16, 32
STEP_BYTES = 8
ALLOW, REFUSE = 0x7FFF0000, 0x00050001  # with EPERM


class PathBeneath(ctypes.Structure):
    """landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("path", ctypes.c_int32))


class Filter(ctypes.Structure):
    """sock_fprog."""

    _fields_ = (("steps", ctypes.c_ushort), ("program", ctypes.c_char_p))


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
    version: int = ctypes.CDLL(None, use_errno=True).syscall(CREATE_RULESET, None, 0, 1)
    return version >= 3 and platform.machine() == "x86_64"


def rules_of(rights: Mapping[Path, int]) -> int:
    """A descriptor of Landlock's rules that leave no right but these, at and below these paths."""
    libc = ctypes.CDLL(None, use_errno=True)
    handled = ctypes.c_uint64(EVERY_RIGHT)
    rules: int = libc.syscall(CREATE_RULESET, ctypes.byref(handled), 8, 0)
    for path, allowed in rights.items():
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = PathBeneath(allowed, opened)
        libc.syscall(ADD_RULE, rules, PATH_BENEATH, ctypes.byref(rule), 0)
        os.close(opened)
    return rules


def step(code: int, value: int, steps_if_not: int = 0) -> bytes:
    """A step of a filter for seccomp, an instruction of BPF."""
    return struct.pack("=HBBI", code, 0, steps_if_not, value)


@once
def steps_for_calls() -> tuple[bytes, bytes]:
    """A filter that leaves the system calls of CALLS, files that have a name, and signals to
    itself: what comes before the step with the number of the process, and what comes behind."""
    steps = [step(LOAD, NUMBER)]
    for number in CALLS.values():
        steps += [step(EQUAL, number, 1), step(RETURN, ALLOW)]
    steps += [step(EQUAL, OPENAT, 4), step(LOAD, THIRD_ARGUMENT), step(ANY_OF, O_TMPFILE, 1)]
    steps += [step(RETURN, REFUSE), step(RETURN, ALLOW)]
    steps += [step(EQUAL, TGKILL, 3), step(LOAD, FIRST_ARGUMENT)]
    behind = [step(RETURN, ALLOW), step(RETURN, REFUSE)]
    steps = [step(LOAD, ARCHITECTURE), step(EQUAL, X86_64, len(steps) + 2), *steps]
    return b"".join(steps), b"".join(behind)


def restrict(rules: int) -> None:
    """Put these rules, and the filter for calls, on this process."""
    before, behind = steps_for_calls()
    steps = before + step(EQUAL, os.getpid(), 1) + behind
    program = Filter(len(steps) // STEP_BYTES, steps)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.syscall(RESTRICT_SELF, rules, 0):
        raise OSError(ctypes.get_errno(), "Landlock")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


@once
def libraries(executable: str) -> tuple[Path, ...]:
    """What the loader reads for an executable, without running any of it."""
    told = subprocess.run(["ldd", executable], capture_output=True, text=True).stdout
    found = map(Path, ["/etc/ld.so.cache", *re.findall(r"(/\S+) \(0x", told)])
    return tuple(path for path in found if path.exists())


def run_contained(
    command: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str],
    files: Sequence[int] = (), stdin: int = subprocess.DEVNULL,
) -> Ended:  # fmt: skip
    """Run a program in `folder`, of which it can read and change the files that are there already:
    it creates none, and opens no others but itself and its libraries.

    files: descriptors that it inherits. What it prints lies in `out` and `err` in the folder, up to
    MOST_BYTES; the first 64 kB of each come back. Raises Unfinished if it has not ended after
    `seconds`.
    """
    programs = [Path(command[0]), *libraries(command[0])]
    rights = {folder: READ_FILE | WRITE_FILE | TRUNCATE}
    rights |= dict.fromkeys(programs, READ_FILE | EXECUTE)
    rules = rules_of(rights) if can_contain() else None
    steps_for_calls()  # what can be made ready here need not be in each process

    def contain() -> None:
        die_with_parent()
        for limit, most in (
            (resource.RLIMIT_FSIZE, MOST_BYTES),
            (resource.RLIMIT_AS, MOST_MEMORY),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_CPU, int(seconds) + 2),
        ):
            resource.setrlimit(limit, (most, most))
        if rules is not None:
            restrict(rules)

    printed = [folder / "out", folder / "err"]
    with open(printed[0], "wb") as out, open(printed[1], "wb") as err:
        process = subprocess.Popen(
            command, cwd=folder, env=dict(environment), stdin=stdin, stdout=out, stderr=err,
            pass_fds=files, preexec_fn=contain, start_new_session=True,
        )  # fmt: skip
        if rules is not None:
            os.close(rules)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Unfinished(seconds) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    texts = (file.read_bytes()[: 1 << 16].decode(errors="replace") for file in printed)
    return Ended(code, *map(printable, texts))
