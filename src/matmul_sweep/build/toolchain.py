"""The compilers: where they are, their flags, and what ptxas reports about a kernel."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from cuda.pathfinder import find_nvidia_binary_utility

from matmul_sweep.build import cache
from matmul_sweep.build.packages import BESIDE_PYTORCH, SYNC, TAKE_CUDA_12, files_of, installed
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.process.errors import UserError, one_line

FLAGS = {"cuda": ["-O3", "-std=c++17", "-lineinfo"], "c": ["-O3", "-std=c11"]}

DROPPED = re.compile(r"sm_(6[0-2]|7[02])")  # by CUDA 13
NVRTC = Path(__file__).with_name("nvrtc.py")

# Reports that say nothing about the source: the next run may well compile it.
MACHINE = re.compile(
    r".*(No space left on device|Read-only file system|Cannot allocate memory|died due to signal 9"
    r"|Killed signal terminated|Could not open output file '.*tmpxft).*"
)
KILLS = (signal.SIGKILL, signal.SIGTERM)
DAMAGED = re.compile(r"error: (.*--reinstall-package.*)")  # a wheel; of nvrtc.py


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel: registers per thread, shared memory and spills in bytes."""

    registers: int
    shared_bytes: int
    spill_bytes: int


class MachineFailed(UserError):
    """A program that failed because of the machine, not of what it read."""


class CompileError(Exception):
    """A source that does not compile; the message is the compiler's first error."""


@once
def cuda() -> tuple[str, ...]:
    """The command of the CUDA compiler, which takes nvcc's options: nvcc, or NVRTC where the
    packages of CUDA 12 are installed, or where it is there and nvcc is not.

    Raises UserError if there is none, or if the packages are damaged or of two versions.
    """
    nvrtc = sys.executable, str(NVRTC)
    if installed() == "cuda12":
        return nvrtc
    try:
        return (nvcc(),)
    except UserError:
        if files_of(BESIDE_PYTORCH):
            return nvrtc
        raise


@once
def nvcc() -> str:
    """Path of nvcc: the wheels', conda's, or a toolkit's that CUDA_PATH, CUDA_HOME or PATH names.

    Raises UserError if there is none.
    """
    on_path = shutil.which("nvcc")
    # A module may set only PATH; the loader's cache, which pathfinder asks last, may be older.
    if on_path and not {"CUDA_PATH", "CUDA_HOME"} & os.environ.keys():
        os.environ["CUDA_HOME"] = str(Path(on_path).resolve().parents[1])
    path = find_nvidia_binary_utility("nvcc") or on_path
    if path is None:
        raise UserError(
            f"no nvcc: run `{SYNC['cuda13']}`, or `{SYNC['cuda12']}` for a driver of CUDA 12, or "
            "load a CUDA toolkit; as a library: `pip install matmul-sweep[compiler]`"
        )
    return path


@once
def nvdisasm() -> str | None:
    """Path of the disassembler: the wheels', conda's or a toolkit's, or None."""
    return find_nvidia_binary_utility("nvdisasm") or shutil.which("nvdisasm")


@once
def gcc() -> str:
    """Path of the C compiler. Raises UserError if there is none."""
    path = shutil.which("gcc") or shutil.which("cc")
    if path is None:
        raise UserError("no gcc: install a C compiler (Debian: apt install g++)")
    return path


@once
def version(*compiler: str) -> str:
    """The line of a compiler's --version with the release. Raises UserError if it does not run."""
    done = subprocess.run([*compiler, "--version"], capture_output=True, text=True)
    if done.returncode:
        check_machine(compiler[-1], done)
        raise UserError(f"{compiler[-1]}: {done.stderr}")
    found = re.search(r"^.*release.*$|^.*\d+\.\d+\.\d+.*$", done.stdout, re.MULTILINE)
    return found[0].strip() if found else "unknown"


def toolkit_version() -> tuple[int, int]:
    """CUDA version of the CUDA compiler, as (major, minor)."""
    said = version(*cuda())
    found = re.search(r"release (\d+)\.(\d+)", said)
    if not found:
        raise UserError(f"{cuda()[-1]} --version names no release: {said}")
    return int(found[1]), int(found[2])


def check_architectures(architectures: list[str]) -> None:
    """Raise UserError if the CUDA compiler does not compile for one of them; sm_90a counts as
    sm_90."""
    done = subprocess.run([*cuda(), "--list-gpu-code"], capture_output=True, text=True)
    check_machine(cuda()[-1], done)
    known = done.stdout.split()
    for name in architectures:
        if name.rstrip("af") not in known:
            remedy = f"; {TAKE_CUDA_12}" if DROPPED.fullmatch(name) else ""
            raise UserError(
                f"architectures: '{name}' is not one that {version(*cuda())} compiles for: "
                f"{', '.join(known)}{remedy}"
            )


def build_cubin(
    source: Path, functions: Sequence[str], flags: list[str], arch: str, cubin: Path
) -> dict[str, Resources]:
    """Compile `source` for one architecture (sm_90), unless the cache has it, and read ptxas's
    report on each function.

    Raises CompileError with the compiler's first error.
    """
    key = cache.key_of(["cubin", version(*cuda()), arch, *flags], source_files(source))
    report = cache.fetch(key, cubin)
    if report is None:
        report = run(cubin_command(source, flags, arch, cubin))
        cache.keep(key, cubin, report)
    return {function: read_ptxas(report, function) for function in functions}


def cubin_command(source: Path, flags: Sequence[str], arch: str, cubin: Path) -> list[str]:
    """What compiles `source` for an architecture and prints ptxas's report. Raises UserError if
    there is no CUDA compiler."""
    target = ["-cubin", f"-arch={arch}", "-Xptxas=-v", "-o", str(cubin)]
    return [*cuda(), *target, *flags, str(source)]


def build_shared_object(source: Path, flags: list[str], library: Path) -> None:
    """Compile a C source into a shared object. Raises CompileError with the first error of gcc."""
    run([gcc(), "-shared", "-fPIC", *flags, str(source), "-o", str(library)])


def run(command: list[str]) -> str:
    """Run a compiler and return what it printed.

    Raises CompileError with its first error, MachineFailed.
    """
    done = subprocess.run(command, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    if done.returncode:
        check_machine(command[0], done)
        errors = [line for line in printed.splitlines() if "error" in line.lower()]
        raise CompileError(one_line((errors or printed.splitlines() or ["no message"])[0]))
    return printed


def check_machine(program: str, done: subprocess.CompletedProcess[str]) -> None:
    """Raise MachineFailed if a program failed because of the machine, such as a full disk, or was
    killed, as where memory is short: that says nothing about what it read."""
    printed = done.stdout + done.stderr
    if found := DAMAGED.search(printed):
        raise MachineFailed(found[1])
    if found := MACHINE.search(printed):
        raise MachineFailed(f"{program}: {found[0]}; fix that and run again")
    if -done.returncode in KILLS:
        raise MachineFailed(f"{program}: it was killed; run the same command again")


def no_kernel(function: str) -> str:
    return f'the source has no kernel called {function} (is it extern "C"?)'


def read_ptxas(report: str, function: str) -> Resources:
    """The resources of `function` in the text that `ptxas -v` prints."""
    start = report.find(f"Compiling entry function '{function}'")
    if start < 0:
        raise CompileError(no_kernel(function))
    text = report[start:].split("Compiling entry function")[1]

    def number(pattern: str) -> int:
        return sum(int(value) for value in re.findall(pattern, text))

    return Resources(
        registers=number(r"Used (\d+) registers"),
        shared_bytes=number(r"(\d+) bytes smem"),
        spill_bytes=number(r"(\d+) bytes spill (?:stores|loads)"),
    )
