"""What a run verifies, and the records that finished verifications leave.

A record is of certain sources, compilers, launches, shapes, machine and programs; what has one of
today's is not verified again.
"""

import hashlib
import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from matmul_sweep.build.binaries import binary_of, digest
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError, NotRunnable
from matmul_sweep.experiment.dataset.tables import product_of
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.experiment.verify.runner import (
    EMULATION,
    GPU,
    NOWHERE,
    Runner,
    WrongAccess,
    most_of_a_block,
    place_of,
    runner,
    tile_mistake,
)
from matmul_sweep.experiment.verify.verification import accuracy, verification_shapes
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.launch.products import NotCompiled
from matmul_sweep.operations import fills
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.children import until_done
from matmul_sweep.process.errors import Unfinished, UserError
from matmul_sweep.process.files import read_json, write_json
from matmul_sweep.process.programs import program_digest
from matmul_sweep.process.project import ROOT
from matmul_sweep.process.workers import workers

Rows = list[dict[str, Any]]


def verdict(status: str, reason: str, error: float | None = None) -> dict[str, Any]:
    return {"status": status, "reason": reason, "error": error}


def check(
    run: Runner, variant: Variant, shape: Shape, fill: str, seed: int, tile: bool
) -> dict[str, Any]:
    """Status, reason and error of one product; with `tile` also whether the catalogue's tile is
    right. Raises Unfinished."""
    kernel = variant.kernel
    inputs = fills.inputs(fill, seed, shape, kernel.dtype)
    try:
        share = accuracy(kernel, run.multiply(variant, shape, *inputs), *inputs).share
        mistake = tile_mistake(run, variant, shape, *inputs) if tile else None
    except WrongAccess as error:
        return verdict("failed", str(error))
    if share > 1:
        return verdict("failed", f"wrong result at {shape}", share)
    return verdict("failed", mistake, share) if mistake else verdict("ok", "", share)


def verify(run: Runner, variant: Variant, shapes: Sequence[Shape], fill: str, seed: int) -> Rows:
    """One row of verification.csv per shape; after a launch that did not finish, none is tried."""
    rows, unfinished = [], ""
    most = most_of_a_block(variant)
    larger = (shape for shape in shapes if most and shape.elements[-1] > most)
    tile_at = min(larger, key=lambda shape: shape.operations, default=None)
    for shape in shapes:
        if unfinished:
            found = verdict("failed", f"not run: {unfinished}")
        else:
            try:
                found = check(run, variant, shape, fill, seed, tile=shape == tile_at)
            except Unfinished as error:
                found = verdict("failed", str(error))
                unfinished = f"at {shape} {error}"
        row = row_of(variant, shape, run.place) | found
        logging.info("%s %s: %s %s", variant.name, shape, row["status"], row["reason"])
        rows.append(row)
    return rows


def row_of(variant: Variant, shape: Shape, where: str) -> dict[str, Any]:
    """The columns that name a verification."""
    kernel = variant.kernel
    names = {"kernel": kernel.name, "variant": variant.name, "where": where}
    return names | product_of(kernel.dtype, shape)


def refused(
    variant: Variant, place: str, shapes: Sequence[Shape], status: str, reason: str
) -> Rows:
    """Rows that say why nothing was run."""
    return [row_of(variant, shape, place) | verdict(status, reason) for shape in shapes]


def with_error(row: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """A row with its error, if it has one, as text or as a number: JSON has no infinity, the error
    of an element that was never written."""
    return row if row["error"] is None else row | {"error": convert(row["error"])}


@dataclass(frozen=True)
class Task:
    """A variant at its shapes, or what a dispatch, the owner, chooses at some."""

    owner: Variant
    variant: Variant
    shapes: tuple[Shape, ...]

    def __str__(self) -> str:
        return str(self.variant)

    @property
    def file(self) -> str:
        """The name of its record."""
        return f"{self.owner.slug}.{self.variant.slug}.json"

    def named(self, rows: Rows) -> Rows:
        """The rows under the owner's name."""
        if self.owner == self.variant:
            return rows
        own = {"kernel": self.owner.kernel.name, "variant": self.owner.name}
        for row in rows:
            if row["reason"]:
                row["reason"] = f"{self.variant.name}: {row['reason']}"
        return [row | own for row in rows]


def tasks_of(experiment: Experiment, operation: str) -> list[Task]:
    """What is verified of an operation: each variant once, and what the dispatches choose."""
    every = experiment.operations[operation]
    dispatches = [variant for variant in every if variant.kernel.kind is Kind.DISPATCH]
    own = [variant for variant in every if variant not in dispatches]
    tasks = []
    for variant in own:
        shapes = verification_shapes(variant, experiment.verify_shapes(variant))
        tasks.append(Task(variant, variant, tuple(shapes)))
    known = {variant.slug for variant in own}
    for dispatch in dispatches:
        found = list(chosen(experiment, dispatch, known))
        known |= {task.variant.slug for task in found}
        tasks += found
    return tasks


def tasks_for(experiment: Experiment, variants: Sequence[Variant]) -> list[Task]:
    """What has to be right before these variants of one operation are timed."""
    arch = architecture_of(experiment)
    parts = {part for variant in variants for part in experiment.parts(variant, arch)}
    tasks = tasks_of(experiment, variants[0].kernel.operation)
    return [task for task in tasks if task.owner in variants or task.variant in parts]


def chosen(experiment: Experiment, dispatch: Variant, known: set[str]) -> Iterator[Task]:
    """What a dispatch chooses: variants that nobody else verifies (not `known`) at their own
    shapes, and each at the built-in shapes for which it is chosen."""
    arch, extra = architecture_of(experiment), experiment.verify_shapes(dispatch)
    at: dict[Variant, list[Shape]] = {}
    for part in experiment.parts(dispatch, arch):
        at[part] = [] if part.slug in known else list(verification_shapes(part, extra))
    ready = known | {part.slug for part in at}
    for shape in verification_shapes(dispatch, extra):
        part = dispatch.part(shape, arch)
        if part.slug in ready:
            at.setdefault(part, []).append(shape)
    for part, shapes in at.items():
        if shapes:
            yield Task(dispatch, part, tuple(dict.fromkeys(shapes)))


def architecture_of(experiment: Experiment) -> str | None:
    """The architecture whose table a dispatch uses: the GPU's, or that of the emulation."""
    return experiment.architectures[0] if experiment.device == GPU else None


@dataclass(frozen=True)
class Verifier:
    """Runs tasks, and keeps a record of each."""

    experiment: Experiment
    build: Path
    records: Path
    machine: str  # GPU and driver

    def record(self, task: Task) -> Rows | None:
        """The rows of a finished task; None if it has to run."""
        path = self.records / task.file
        if not path.exists():
            return None
        try:
            found = read_json(path)
        except UserError:
            return None
        if found["identity"] != self.identity(task):
            return None
        return [with_error(row, float) for row in found["rows"]]

    def identity(self, task: Task) -> str:
        """SHA-256 of everything that determines the rows of a task."""
        run = self.experiment.configuration
        place = place_of(task.variant.kernel, self.experiment.device)
        settings = [run["fills"][0], run["seed"], run["limits"]["hang_seconds"], place]
        shapes = [str(shape) for shape in task.shapes]
        binaries = [] if place == EMULATION else self.compiled(task.variant)
        own = [digest(task.variant), task.variant.launch_identity, shapes, settings, binaries]
        text = json.dumps([own, self.machine, programs()], default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def compiled(self, variant: Variant) -> list[list[str]]:
        """The compiler of each binary of a variant, and whether it succeeded."""
        folders = (self.build / name for name in self.experiment.folders(variant))
        files = (binary_of(variant, folder).with_suffix(".json") for folder in folders)
        records = [read_json(file) for file in files if file.exists()]
        return [[record["compiler"], record["status"]] for record in records]

    def pending(self, tasks: Sequence[Task]) -> list[Task]:
        return [task for task in tasks if self.record(task) is None]

    def keep(self, task: Task, rows: Rows) -> Rows:
        texts = [with_error(row, str) for row in rows]
        write_json({"identity": self.identity(task), "rows": texts}, self.records / task.file)
        return rows

    def run(self, tasks: Sequence[Task], processes: int) -> None:
        """Run what has no record yet."""
        if self.experiment.device == GPU:
            on_gpu = [task for task in tasks if task.variant.kernel.on_gpu]
            until_done(lambda: self.pending(on_gpu), self.on_gpu)
        pending = self.pending(tasks)
        with workers(min(processes, len(pending)) or 1) as pool:
            for _ in pool.map(self.on_cpu, pending):
                pass

    def on_gpu(self, tasks: Sequence[Task]) -> None:
        """Run tasks until one fails, because a failed launch may have cost the device."""
        try:
            with runner(GPU, self.build, self.hang_seconds, shared=True) as run:
                for task in tasks:
                    rows = self.keep(task, self.rows(run, task))
                    if any(row["status"] == "failed" for row in rows):
                        return
        except NoDevice as error:
            raise UserError(f"device: gpu: {error}") from None

    def on_cpu(self, task: Task) -> None:
        """Run a task by the processor's own kernel, or by a CUDA source thread by thread."""
        place = place_of(task.variant.kernel, self.experiment.device)
        if place == NOWHERE:
            device = self.experiment.device
            reason = "there is no GPU here"
            self.keep(task, refused(task.variant, device, task.shapes, "skipped", reason))
            return
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder) if place == EMULATION else self.build
            with runner(place, build, self.hang_seconds) as run:
                self.keep(task, self.rows(run, task))

    def rows(self, run: Runner, task: Task) -> Rows:
        """The rows of a task. Raises UserError."""
        settings = self.experiment.configuration
        try:
            return verify(run, task.variant, task.shapes, settings["fills"][0], settings["seed"])
        except NotRunnable as error:
            return refused(task.variant, run.place, task.shapes, "skipped", str(error))
        except (NotCompiled, EmulationError) as error:
            return refused(task.variant, run.place, task.shapes, "failed", str(error))

    @property
    def hang_seconds(self) -> float:
        return float(self.experiment.configuration["limits"]["hang_seconds"])


@cache
def programs() -> str:
    """What verifies: the program of that step, and the emulation with its compiler."""
    code = program_digest(ROOT / "scripts" / "steps" / "verify.py", *emulation.runtime())
    return code + emulation.compiler_version()


def first_failure(tasks: Sequence[Task], verifier: "Verifier", variant: Variant) -> str | None:
    """Why a variant must not be timed: the first failed verification of its own or, of a dispatch,
    of what it chooses; None if there is none."""
    experiment = verifier.experiment
    parts = experiment.parts(variant, architecture_of(experiment))
    for task in tasks:
        if task.owner == variant or task.variant in parts:
            rows = verifier.record(task) or []
            if failed := [row["reason"] for row in rows if row["status"] == "failed"]:
                return f"verification: {failed[0]}"
    return None


def unchosen(experiment: Experiment, tasks: Sequence[Task], dispatch: Variant) -> Rows:
    """Rows of a dispatch's built-in shapes for which it chooses what is not verified here."""
    arch, place = architecture_of(experiment), place_of(dispatch.kernel, experiment.device)
    done = {shape for task in tasks if task.owner == dispatch for shape in task.shapes}
    why = ": --config verify=all"
    if experiment.everything:
        why = ", but at no shape that is measured"
    rows: Rows = []
    for shape in verification_shapes(dispatch, experiment.verify_shapes(dispatch)):
        if shape not in done:
            reason = f"it chooses {dispatch.part(shape, arch).name}{why}"
            rows += refused(dispatch, place, [shape], "skipped", reason)
    return rows
