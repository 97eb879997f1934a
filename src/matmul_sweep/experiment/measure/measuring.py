"""Measure variants over a sweep's shapes, fills and modes, each verified before it is timed.

At each shape a variant and its rivals are timed in turn on the same inputs or, in a sweep that is
timed alone, all variants and rivals in one contest. Each finished point is written to a journal,
and is not measured again by the same programs on the same card, so an interrupted job continues
where it stopped, and on that card. Points that cannot be measured become rows with a status and a
reason.
"""

import itertools
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from matmul_sweep import __version__ as VERSION
from matmul_sweep.build.binaries import digest
from matmul_sweep.build.recipes import HOST
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.experiment.dataset.provenance import commit, host_facts
from matmul_sweep.experiment.dataset.tables import write_rows
from matmul_sweep.experiment.measure.bench import LostDevice, Split, Wrong
from matmul_sweep.experiment.measure.cpu_bench import CpuBench
from matmul_sweep.experiment.measure.gpu_bench import GpuBench
from matmul_sweep.experiment.measure.in_turn import InTurnBench
from matmul_sweep.experiment.measure.occupancy import occupancy_of
from matmul_sweep.experiment.measure.state import recording
from matmul_sweep.experiment.measure.sweep import Sweep, run_together
from matmul_sweep.experiment.measure.together import AloneBench
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.experiment.plan.settings import Case
from matmul_sweep.experiment.verify.gpu import Gpu, opened
from matmul_sweep.experiment.verify.products import cpu_product
from matmul_sweep.experiment.verify.tasks import needed, tasks_of
from matmul_sweep.experiment.verify.verifier import Verifier
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.launch.products import NotCompiled, compile_record
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.children import until_done
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import write_json
from matmul_sweep.process.programs import program_digest
from matmul_sweep.process.project import ROOT

FACTS = "facts.json"


@dataclass(frozen=True)
class Measuring:
    """Measures variants in a sweep, and leaves a folder of tables and facts for each."""

    experiment: Experiment
    sweep: str
    build: Path
    journal: Path
    output: Path

    def run(self, variants: Sequence[Variant], verifier: Verifier, split: Split) -> None:
        """Verify what has no record yet, and measure what is right. Raises UserError."""
        tasks = tasks_of(self.experiment, variants[0].kernel.operation)
        first = {v.name: needed(self.experiment, tasks, v) for v in variants}
        verifier.run([*dict.fromkeys(itertools.chain(*first.values()))], processes=1)
        reasons = {name: verifier.failure(own) for name, own in first.items()}
        if variants[0].kernel.on_gpu:
            until_done(lambda: self.pending(variants), lambda left: self.on_gpu(left, reasons))
            return
        for variant in variants:
            self.finished(self.begun(variant), reasons[variant.name], split, None)

    def pending(self, variants: Sequence[Variant]) -> list[Variant]:
        """The variants that are not finished."""
        return [v for v in variants if not (self.output / v.slug / FACTS).exists()]

    def on_gpu(self, variants: Sequence[Variant], reasons: Mapping[str, str | None]) -> None:
        """Measure on the GPU, held alone, until a variant loses it. Raises UserError."""
        split = Split()
        try:
            with opened(begun=self.journal / f"{self.output.name}.card") as gpu:
                if self.experiment.is_alone(self.sweep):
                    self.together(variants, reasons, split, gpu)
                    return
                for variant in variants:
                    sweep = self.begun(variant)
                    if self.finished(sweep, reasons[variant.name], split, gpu):
                        return
                    split = Split(begun=time.perf_counter())
        except NoDevice as error:
            raise UserError(f"device: gpu: {error}") from None

    def together(
        self, variants: Sequence[Variant], reasons: Mapping[str, str | None], split: Split, gpu: Gpu
    ) -> None:
        """Measure variants in one contest, of which each has an equal share of the job's time."""
        cases, sweeps = self.experiment.cases(self.sweep), [*map(self.begun, variants)]
        right = [sweep for sweep in sweeps if not reasons[sweep.variant.name]]
        through = [sweep for sweep in sweeps if sweep not in right]
        for sweep in through:
            sweep.refuse(cases, "failed", str(reasons[sweep.variant.name]))
        facts: dict[str, dict[str, Any]] = {}
        if right:
            timed, facts = timed_together(right, cases, self, gpu, split)
            through += timed
        share = split.row(len(through) or 1)
        for sweep in through:
            self.write(sweep, host_facts() | facts.get(sweep.variant.name, {}), share)

    def begun(self, variant: Variant) -> Sweep:
        """A variant before its first point."""
        settings = self.experiment.settings(self.sweep, variant)
        identity = [digest(variant), variant.launch_identity, asdict(settings), code()]
        spared = self.experiment.spared(self.sweep, variant)
        journal = self.journal / variant.slug
        return Sweep(self.sweep, variant, settings, journal, json.dumps(identity), spared)

    def finished(self, sweep: Sweep, reason: str | None, split: Split, gpu: Gpu | None) -> bool:
        """Measure a variant, or refuse all of its points for a reason; whether that lost the
        device."""
        cases, facts = self.experiment.cases(self.sweep), host_facts()
        try:
            if reason:
                sweep.refuse(cases, "failed", reason)
            elif gpu:
                facts |= timed_on_gpu(sweep, cases, self, gpu, split)
            else:
                timed_on_cpu(sweep, cases, self.build, split)
        except NotCompiled as error:
            sweep.refuse(cases, "failed", str(error))
        self.write(sweep, facts, split.row())
        return bool(sweep.lost)

    def write(self, sweep: Sweep, facts: dict[str, Any], split: dict[str, float]) -> None:
        """The files of a variant, with its facts last, because without them it is not finished."""
        folder = self.output / sweep.variant.slug
        write_rows(sweep.rows, "points.csv", folder / "points.csv")
        write_rows(sweep.samples, "samples.csv.gz", folder / "samples.csv.gz")
        write_rows(sweep.states, "states.csv", folder / "states.csv")
        row = {"sweep": sweep.name, "variant": sweep.variant.name} | split
        logging.info("time split: %s", row)
        own = {"version": VERSION, "code": code(), "settings": asdict(sweep.settings), "split": row}
        write_json(facts | commit() | own, folder / FACTS)


@cache
def code() -> str:
    """SHA-256 of the program that measures."""
    return program_digest(ROOT / "scripts" / "steps" / "measure.py")


def timed_on_gpu(
    sweep: Sweep, cases: Sequence[Case], job: Measuring, gpu: Gpu, split: Split
) -> dict[str, Any]:
    """Measure on the GPU, in turn with rivals; the facts of the machine. Raises NotCompiled."""
    variant, shapes = sweep.variant, [case.shape for case in cases]
    rivals, settings = job.experiment.catalogue.rivals(variant.kernel), sweep.settings
    with recording(gpu.nvml) as recorder:
        bench = InTurnBench(gpu, variant, rivals, job.build, settings, split, shapes, recorder)
        split.started()
        facts = identified(sweep, bench, bench.machine(), shapes)
        sweep.run(bench, cases)
    return facts


def timed_together(
    sweeps: Sequence[Sweep], cases: Sequence[Case], job: Measuring, gpu: Gpu, split: Split
) -> tuple[list[Sweep], dict[str, dict[str, Any]]]:
    """Measure on the GPU, each alone; the variants that are through, and the facts of the machine
    by variant."""
    variants, shapes = [sweep.variant for sweep in sweeps], [case.shape for case in cases]
    settings, catalogue = sweeps[0].settings, job.experiment.catalogue
    rivals = {v.name: catalogue.rivals(v.kernel, alone=True) for v in variants}
    compiled: list[Sweep] = []
    facts: dict[str, dict[str, Any]] = {}
    with recording(gpu.nvml) as recorder:
        bench = AloneBench(gpu, variants, rivals, job.build, settings, split, shapes, recorder)
        split.started()
        machine = bench.machine()
        for sweep in sweeps:
            try:
                facts[sweep.variant.name] = identified(sweep, bench, machine, shapes)
                compiled.append(sweep)
            except NotCompiled as error:
                sweep.refuse(cases, "failed", str(error))
        missing = [sweep for sweep in sweeps if sweep not in compiled]
        return missing + (run_together(compiled, bench, cases) if compiled else []), facts


def identified(
    sweep: Sweep, bench: GpuBench, machine: dict[str, Any], shapes: Sequence[Shape]
) -> dict[str, Any]:
    """The facts of the machine and of the variant on it, by which a sweep knows its points. Raises
    NotCompiled."""
    variant, gpu, binaries = sweep.variant, bench.gpu, bench.tools.binaries
    sweep.identity += json.dumps([machine, compiler_of(variant, binaries, shapes)])
    sweep.architecture = gpu.architecture
    cuda = variant.kernel.kind is Kind.CUDA
    occupancy = occupancy_of(variant, gpu, compile_record(variant, binaries)) if cuda else None
    return machine | {"occupancy": occupancy}


def timed_on_cpu(sweep: Sweep, cases: Sequence[Case], build: Path, split: Split) -> None:
    """Measure on the CPU. Raises NotCompiled."""
    variant, threads = sweep.variant, len(os.sched_getaffinity(0))
    bench = CpuBench(variant, cpu_product(variant, build, threads), sweep.settings, split)
    split.started()
    machine = host_facts() | {"date": None}
    sweep.identity += json.dumps([machine, compiler_of(variant, build / HOST, [])])
    try:
        sweep.pace = bench.pace()
    except (Wrong, LostDevice) as error:
        sweep.lost = str(error)
    sweep.run(bench, cases)


def compiler_of(variant: Variant, binaries: Path, shapes: Sequence[Shape]) -> str | None:
    """The compiler of the binaries that the variant runs at these shapes; None for a library."""
    if variant.kernel.kind is Kind.LIBRARY:
        return None
    parts = variant.parts(binaries.name, shapes)
    return compile_record(parts[0], binaries)["compiler"] if parts else None
