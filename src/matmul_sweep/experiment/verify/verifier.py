"""Runs verifications, and keeps the records that finished ones leave.

A record is of certain sources, compilers, launches, shapes, machine and programs; what has one of
today's is not verified again.
"""

import hashlib
import json
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pynvml

from matmul_sweep.build.binaries import binary_of, digest
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError, NotRunnable
from matmul_sweep.experiment.dataset.tables import product_of
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.experiment.plan.settings import EMULATION, GPU, NOWHERE, place_of
from matmul_sweep.experiment.verify import cublas
from matmul_sweep.experiment.verify.runner import Runner, WrongAccess, runner
from matmul_sweep.experiment.verify.tasks import Rows, Task, architecture_of, unchosen
from matmul_sweep.experiment.verify.verification import accuracy
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.launch.products import NotCompiled
from matmul_sweep.operations import fills
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.children import until_done
from matmul_sweep.process.errors import Unfinished, UserError
from matmul_sweep.process.files import read_json, read_record, write_json
from matmul_sweep.process.programs import program_digest
from matmul_sweep.process.project import ROOT
from matmul_sweep.process.workers import workers

VERIFY_ALL = ": --config verify=all"


def verdict(status: str, reason: str, error: object = "") -> dict[str, str]:
    """The columns of what came out; the error is text, because JSON has no infinity, the error of
    an element that was never written."""
    return {"status": status, "reason": reason, "error": str(error)}


def check(run: Runner, variant: Variant, shape: Shape, fill: str, seed: int) -> dict[str, str]:
    """Status, reason and error of one product. Raises Unfinished."""
    inputs = fills.inputs(fill, seed, shape, variant.kernel.dtype)
    try:
        share = accuracy(variant.kernel, run.multiply(variant, shape, *inputs), *inputs).share
    except WrongAccess as error:
        return verdict("failed", str(error))
    if share > 1:
        return verdict("failed", f"wrong result at {shape}", share)
    return verdict("ok", "", share)


def verify(run: Runner, variant: Variant, shapes: Sequence[Shape], fill: str, seed: int) -> Rows:
    """One row of verification.csv per shape; after a launch that did not finish, none is tried."""
    rows, unfinished = [], ""
    for shape in shapes:
        try:
            found = (
                verdict("failed", f"not run: {unfinished}")
                if unfinished
                else check(run, variant, shape, fill, seed)
            )
        except Unfinished as error:
            found = verdict("failed", str(error))
            unfinished = f"at {shape} {error}"
        logging.info("%s %s: %s %s", variant.name, shape, found["status"], found["reason"])
        rows.append(row_of(variant, shape, run.place) | found)
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


@dataclass(frozen=True)
class Verifier:
    """Runs tasks, and keeps a record of each.

    machine: GPU and driver; if empty, as on a cluster, those of the machine that this runs on.
    """

    experiment: Experiment
    build: Path
    records: Path
    machine: str

    def record(self, task: Task) -> Rows | None:
        """The rows of a finished task; None if it has to run."""
        found = read_record(self.records / task.file, self.identity(task))
        return found["rows"] if found else None

    def identity(self, task: Task) -> str:
        """SHA-256 of everything that determines the rows of a task."""
        run, kernel = self.experiment.configuration, task.variant.kernel
        place = place_of(kernel, self.experiment.device)
        settings = [run["fills"][0], run["seed"], self.hang_seconds, place]
        shapes = [str(shape) for shape in task.shapes]
        if place == GPU and kernel.library:
            made_by: list[Any] = [cublas.version()]
        else:
            made_by = [] if place == EMULATION else self.compiled(task.variant)
        own = [digest(task.variant), task.variant.launch_identity, shapes, settings, made_by]
        text = json.dumps([own, self.cards, programs()], default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def cards(self) -> str:
        """The machine, if anything runs on a GPU."""
        return self.machine or (cards_here() if self.experiment.device == GPU else "")

    def compiled(self, variant: Variant) -> list[list[str]]:
        """The compiler of each binary of a variant, and whether it succeeded."""
        folders = (self.build / name for name in self.experiment.folders(variant))
        files = (binary_of(variant, folder).with_suffix(".json") for folder in folders)
        records = [read_json(file) for file in files if file.exists()]
        return [[record["compiler"], record["status"]] for record in records]

    def pending(self, tasks: Sequence[Task]) -> list[Task]:
        return [task for task in tasks if self.record(task) is None]

    def keep(self, task: Task, rows: Rows) -> Rows:
        write_json({"identity": self.identity(task), "rows": rows}, self.records / task.file)
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
        device = self.experiment.device
        place = place_of(task.variant.kernel, device)
        if place == NOWHERE:
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

    def table(self, operation: str, tasks: Sequence[Task]) -> Rows:
        """The rows of all finished tasks of an operation, and of what is left out, by variant."""
        rows: Rows = []
        for variant in self.experiment.operations[operation]:
            for task in tasks:
                if task.owner == variant:
                    rows += task.named(self.record(task) or [])
            rows += self.left_out(variant, unchosen(self.experiment, tasks, variant))
        return rows

    def left_out(self, dispatch: Variant, shapes: Sequence[Shape]) -> Rows:
        """Rows of shapes for which a dispatch chooses what is not verified here."""
        run = self.experiment
        arch, place = architecture_of(run), place_of(dispatch.kernel, run.device)
        why = ", but at no shape that is measured" if run.everything else VERIFY_ALL
        return [
            row
            for shape in shapes
            for row in refused(
                dispatch, place, [shape], "skipped",
                f"it chooses {dispatch.part(shape, arch).name}{why}",
            )
        ]  # fmt: skip

    def failure(self, tasks: Sequence[Task]) -> str | None:
        """The first failed verification of these tasks; None if there is none."""
        rows = (row for task in tasks for row in self.record(task) or [])
        failed = (f"verification: {row['reason']}" for row in rows if row["status"] == "failed")
        return next(failed, None)

    @property
    def hang_seconds(self) -> float:
        return float(self.experiment.configuration["limits"]["hang_seconds"])


@cache
def programs() -> str:
    """What verifies: the program of that step, and the emulation with its compiler."""
    code = program_digest(ROOT / "scripts" / "steps" / "verify.py", *emulation.runtime())
    return code + emulation.compiler_version()


def cards_here() -> str:
    """The GPU models and the driver of this machine, or an empty text.

    By NVML, because after a fork the driver is of no use to a process that has begun to use it.
    """
    try:
        pynvml.nvmlInit()
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        names = sorted({pynvml.nvmlDeviceGetName(handle) for handle in handles})
        found = f"{', '.join(names)} {pynvml.nvmlSystemGetDriverVersion()}"
        pynvml.nvmlShutdown()
        return found
    except pynvml.NVMLError:
        return ""
