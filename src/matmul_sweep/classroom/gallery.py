"""The gallery of mistakes: kernels that are wrong on purpose, what breaks, and who would have
seen it."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.classroom.experiments import SEED, Run
from matmul_sweep.classroom.mistakes import Mistake, mistakes_of
from matmul_sweep.classroom.program import build_for_cpu
from matmul_sweep.classroom.verdict import Verdict, judge
from matmul_sweep.operations import fills
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.project import ROOT
from matmul_sweep.process.workers import workers
from matmul_sweep.process.yaml_files import read_yaml

GALLERY = ROOT / "kernels" / "mistakes" / "gallery.yaml"
CLASSROOM = 64  # the one size, a multiple of every tile, at which a classroom checks
FOUND, WRONG, MISSED = "found", "wrong C", "–"
CHECKS = {
    "ones": "n = 64, ones and twos",
    "random": "n = 64, random",
    "ragged": "the smallest shape, random",
    "address": "address sanitizer",
    "thread": "thread sanitizer",
}


@dataclass(frozen=True)
class Exhibit:
    """A mistake and what shows it.

    documents: that have it. line: of the kernel. shape: the smallest that shows it. rule: where the
    kernel is right, if that is simple. caught: for each of CHECKS, FOUND, WRONG or MISSED. picture:
    the run whose C shows it.
    """

    name: str
    title: str
    documents: Sequence[str]
    kind: str
    line: int
    shape: str
    what: str
    rule: str
    cure: str
    caught: Mapping[str, str]
    source: str
    picture: Run | None


def exhibits(gallery: Path = GALLERY, processes: int = 1) -> list[Exhibit]:
    """Every mistake of the gallery, run in so many processes. Raises UserError if one is not what
    its entry says."""
    entries = read_yaml(gallery)
    sources = [gallery.parent / f"{name}.cu" for name in entries]
    with workers(processes) as pool:
        return [*pool.map(exhibit, sources, entries.values())]


def exhibit(source: Path, entry: Mapping[str, Any]) -> Exhibit:
    verdict = judge(source, {})
    rounded_down = entry.get("blocks") == "rounded down"
    with tempfile.TemporaryDirectory(prefix="gallery-") as name:
        watched = Path(name)
        if rounded_down:
            mistake, picture = of_the_grid(verdict, watched)
        elif not verdict.mistakes:
            raise UserError(f"{source}: no mistake is found in it; {verdict.message}")
        else:
            mistake, picture = verdict.mistakes[0], verdict.picture
        if mistake.kind != entry["kind"]:
            raise UserError(
                f"{source}: kind: {entry['kind']} in gallery.yaml, {mistake.kind} when run"
            )
        caught = {check: seen(check, verdict, mistake, rounded_down, watched) for check in CHECKS}
    return Exhibit(
        source.stem, entry["title"], entry["documents"], mistake.kind, mistake.line,
        str(mistake.run.shape), mistake.what, verdict.rule, entry["cure"], caught,
        source.read_text(), picture,
    )  # fmt: skip


def grid_of(verdict: Verdict, shape: Any, rounded_down: bool) -> tuple[int, int, int]:
    """The grid of a launch, or that of a program which divides towards zero."""
    assert verdict.bench and verdict.bench.launch.tile
    if not rounded_down:
        return verdict.bench.launch.grid(shape)
    tile = verdict.bench.launch.tile
    rows, columns = (max(1, n // t) for n, t in zip(shape.output, tile, strict=True))
    return columns, rows, 1


def of_the_grid(verdict: Verdict, folder: Path) -> tuple[Mistake, Run | None]:
    """The mistake of a launch with too few blocks, at the smallest n that shows it."""
    assert verdict.bench and verdict.bench.launch.tile
    side = verdict.bench.launch.tile[0] + 1
    bench = verdict.bench.rebuilt(folder)
    shape = bench.shape(side, side, side)
    run = bench.run(shape, grid_of(verdict, shape, rounded_down=True))
    return mistakes_of(run, verdict.program, None)[0], run


def seen(check: str, verdict: Verdict, mistake: Mistake, rounded_down: bool, folder: Path) -> str:
    """What a check says of a kernel with a mistake."""
    assert verdict.bench
    sanitizer = check if check in emulation.SANITIZERS else None
    classroom = verdict.bench.shape(CLASSROOM, CLASSROOM, CLASSROOM)
    shape = mistake.run.shape if check not in ("ones", "random") else classroom
    executable = folder / f"trial-{sanitizer}"
    if not executable.exists():
        build_for_cpu(verdict.program, folder, sanitizer)
    dtype = verdict.program.signature.operation.dtype
    fill = "constant" if check == "ones" else "uniform"
    inputs = tuple(fills.inputs(fill, SEED, shape, dtype))
    # Classrooms do not poison C: what an earlier, right kernel left lies there.
    expected, bound = verdict.bench.reference(shape, inputs)
    before = expected.astype(dtype) if check == "ones" else np.full(shape.output, np.nan, dtype)
    launch = verdict.bench.launch
    try:
        c = emulation.launch(
            executable, launch.plan(grid_of(verdict, shape, rounded_down)), shape, inputs, before,
        )  # fmt: skip
    except EmulationError:
        return FOUND
    return MISSED if (np.abs(c - expected) <= bound).all() else WRONG
