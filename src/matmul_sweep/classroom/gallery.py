"""The gallery of mistakes: kernels that are wrong on purpose, what breaks, and who would have
seen it."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.catalogue import plans
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.classroom.experiments import SEED, Bench, Run
from matmul_sweep.classroom.program import build_for_cpu, executable_in
from matmul_sweep.classroom.verdict import judge
from matmul_sweep.operations import fills
from matmul_sweep.operations.shapes import Shape
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
}


@dataclass(frozen=True)
class Exhibit:
    """A mistake and what shows it.

    documents: that have it. line: where try.py sees it; elsewhere: where it is, in words, if that
    is another line. shape: the smallest that shows it. rule: where the kernel is right, if that is
    simple. caught: for each of CHECKS, FOUND, WRONG or MISSED. picture: the run whose C shows it.
    """

    name: str
    title: str
    documents: Sequence[str]
    kind: str
    line: int
    elsewhere: str
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
    if not (verdict.bench and verdict.mistakes):
        raise UserError(f"{source}: no mistake is found in it; {verdict.message}")
    mistake = verdict.mistakes[0]
    if mistake.kind != entry["kind"]:
        raise UserError(f"{source}: kind: {entry['kind']} in gallery.yaml, {mistake.kind} when run")
    with tempfile.TemporaryDirectory(prefix="gallery-") as name:
        caught = {
            check: seen(check, verdict.bench, mistake.run.shape, Path(name)) for check in CHECKS
        }
    elsewhere = f"; the mistake is in line {entry['line']}" if "line" in entry else ""
    return Exhibit(
        source.stem, entry["title"], entry["documents"], mistake.kind, mistake.line, elsewhere,
        str(mistake.run.shape), mistake.what, verdict.rule, entry["cure"], caught,
        source.read_text(), verdict.picture,
    )  # fmt: skip


def seen(check: str, bench: Bench, smallest: Shape, folder: Path) -> str:
    """What a check says of a kernel with a mistake."""
    classroom = bench.shape(CLASSROOM, CLASSROOM, CLASSROOM)
    shape = classroom if check in ("ones", "random") else smallest
    build_for_cpu(bench.program, folder, watch=False)
    executable = executable_in(folder, watch=False)
    dtype = bench.signature.operation.dtype
    inputs = tuple(fills.inputs("constant" if check == "ones" else "uniform", SEED, shape, dtype))
    # Classrooms do not poison C: what an earlier, right kernel left lies there.
    expected, bound = bench.reference(shape, inputs)
    before = expected.astype(dtype) if check == "ones" else np.full(shape.output, np.nan, dtype)
    plan = plans.Plan((bench.launch.at(shape),))
    try:
        c = emulation.launch(executable, plan, shape, inputs, before)
    except EmulationError:
        return FOUND
    return MISSED if (np.abs(c - expected) <= bound).all() else WRONG
