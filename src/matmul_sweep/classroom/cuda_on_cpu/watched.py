"""A launch on the CPU of which every access is watched (cuda_on_cpu/watch.h), and what was
found."""

import json
import os
import re
import secrets
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.catalogue.plans import Plan
from matmul_sweep.classroom.cuda_on_cpu.contained import Ended, run_contained
from matmul_sweep.classroom.cuda_on_cpu.emulation import (
    RUNTIME,
    EmulationError,
    Extents,
    command_of,
)
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import Unfinished

DIVERGED = 4  # exit code of the driver
WRITER = np.dtype([("place", np.uint64), ("block", np.int32), ("thread", np.int32)])
NOBODY = np.array((0, -1, -1), WRITER)
PATIENCE = 10  # times the processor time of a launch that it may take on a busy machine


class Unclosed(EmulationError):
    """A program that neither came to its end nor was stopped."""

    def __init__(self) -> None:
        super().__init__("it ends its whole program, which no kernel can on a GPU")


@dataclass(frozen=True)
class Watched:
    """What a launch did.

    ended: whether it did by itself; if not, C is as before it, and without writers.
    findings: what watch.h told, each with its `kind` and further fields; `places` are addresses in
    the code. writers: who wrote each element of C last, as WRITER. loads: elements of the inputs
    that all threads read. printed: what the kernel printed.
    """

    executable: Path
    c: np.ndarray
    findings: tuple[Mapping[str, Any], ...]
    writers: np.ndarray
    printed: str
    loads: int = 0
    again: np.ndarray | None = None
    ended: bool = True

    @cached_property
    def lines(self) -> Mapping[int, tuple[str, int]]:
        """File and line of every place of the findings and of the writers."""
        places = {place for finding in self.findings for place in finding.get("places", ())}
        places |= {finding["other"] for finding in self.findings if "other" in finding}
        places |= {int(place) for place in np.unique(self.writers["place"])}
        return lines_of(self.executable, sorted(places - {0}))


def lines_of(executable: Path, places: Sequence[int]) -> dict[int, tuple[str, int]]:
    """File and line of addresses in the code, by addr2line; of inlined code, those of the
    caller that is no header of CUDA's."""
    if not places:
        return {}
    # A place is where a call returns to; the call is before it.
    command = ["addr2line", "-a", "-i", "-e", str(executable), *(hex(p - 1) for p in places)]
    told = subprocess.run(command, capture_output=True, text=True).stdout
    found = {}
    for block in re.split(r"^0x", told, flags=re.MULTILINE)[1:]:
        address, *frames = block.splitlines()
        named = [re.match(r"(.+):(\d+)", frame) for frame in frames]
        inside = [one for one in named if one and not one[1].startswith(str(RUNTIME))]
        if inside:
            found[int(address, 16) + 1] = (inside[0][1], int(inside[0][2]))
    return found


def launch(
    executable: Path, plan: Plan, shape: Shape | Extents, inputs: Sequence[np.ndarray],
    output: np.ndarray, seconds: float, factors: tuple[float, float] = (1, 0),
    corners: bool = False, twice: bool = True,
) -> Watched:  # fmt: skip
    """Run a kernel that emulation.build compiled for WATCH, as emulation.launch does, for so many
    seconds of processor time, and for `twice` once more. factors: alpha and beta. corners: whether
    only blocks at the grid's corners and in its middle run.

    Raises EmulationError if the launch itself is impossible: too many threads, or too much shared
    memory; Unclosed.
    """
    nobody = np.full(output.shape, NOBODY)
    with tempfile.TemporaryDirectory(prefix="cuda-on-cpu-") as name:
        folder, findings_file = Path(name, "own"), Path(name, "findings")
        folder.mkdir()
        for each in ("writers", "loads", "again"):  # which the program may write to, but not create
            (folder / each).touch()
        command = command_of(executable, plan, shape, (*inputs, output), folder)
        alpha, beta = map(str, factors)
        secret = secrets.token_hex(16)
        environment = {"WATCH_SECONDS": str(max(1, int(seconds))), "ALPHA": alpha, "BETA": beta}
        environment |= {"WATCH_CORNERS": "1"} if corners else {}
        environment |= {} if twice else {"WATCH_ONCE": "1"}
        try:
            ended = run_watched(command, folder, findings_file, secret, seconds, environment)
        except Unfinished:
            return Watched(executable, output, ({"kind": "endless"},), nobody, "", ended=False)
        findings = told(findings_file)
        closed = findings[-1:] and findings[-1].get("secret") == secret
        if ended.code == 0 and closed:
            c = np.fromfile(command[-1], output.dtype).reshape(output.shape)
            writers = np.fromfile(folder / "writers", WRITER).reshape(output.shape)
            loads = int((folder / "loads").read_text())
            again = (
                np.fromfile(folder / "again", output.dtype).reshape(output.shape) if twice else None
            )
            return Watched(executable, c, findings[:-1], writers, ended.out, loads, again)
    if ended.code == DIVERGED and ended.err.strip():
        findings = ({"kind": "divergent", "text": ended.err.strip()}, *findings)
    elif ended.code > 0 and ended.err.strip():
        raise EmulationError(ended.err.strip().splitlines()[0])
    elif ended.code < 0:
        findings = (*findings, {"kind": "killed", "signal": -ended.code})
    elif all(one["kind"] == "unwritten" for one in findings):
        raise Unclosed
    return Watched(executable, output, findings, nobody, ended.out, ended=False)


def run_watched(
    command: Sequence[str], folder: Path, findings: Path, secret: str, seconds: float,
    environment: Mapping[str, str],
) -> Ended:  # fmt: skip
    """Run the program, which writes `findings` and ends them with the secret. It inherits the file,
    and can only add to it. Raises Unfinished."""
    taken, given = os.pipe()
    os.write(given, secret.encode())
    os.close(given)
    file = os.open(findings, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    told = {**environment, "WATCH_FINDINGS": str(file)}
    try:
        return run_contained(command, folder, PATIENCE * seconds, told, files=[file], stdin=taken)
    finally:
        os.close(taken)
        os.close(file)


def told(path: Path) -> tuple[Mapping[str, Any], ...]:
    """The findings in a file; none if the launch did not begin."""
    return tuple(json.loads(line) for line in path.read_text().splitlines())
