"""Measure the variants of a kernel over a sweep's shapes, fills and modes, each verified before it
is timed.

At each shape a variant and its rivals are timed in turn on the same inputs. Each finished point is
written to a journal, so an interrupted job continues where it stopped. Points that cannot be
measured become rows with a status and a reason.
"""

import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matmul.build.binaries import HOST, digest
from matmul.catalogue.entries import Kind, Variant
from matmul.dataset.provenance import VERSION, commit, host_facts
from matmul.dataset.tables import write_json, write_rows
from matmul.gpu.device import Gpu, NoDevice, opened
from matmul.gpu.instruments import Instruments
from matmul.gpu.occupancy import occupancy
from matmul.measure.bench import LostDevice, Split, Wrong
from matmul.measure.cpu_bench import CpuBench
from matmul.measure.gpu_bench import GpuBench
from matmul.measure.products import NotCompiled, compile_record, cpu_product
from matmul.measure.runner import GPU
from matmul.measure.sweep import Sweep
from matmul.operations.shapes import Shape
from matmul.process.errors import UserError, command_line
from matmul.process.programs import program_digest
from matmul.settings import arguments
from matmul.settings.experiment import Experiment, read_experiment
from matmul.settings.verifier import Verifier, first_failure, tasks_for

Machine = dict[str, Any]


class Measured:
    """What a job has measured so far, and how its time was spent."""

    def __init__(self, experiment: Experiment, sweep: str, build: Path, journal: Path) -> None:
        self.experiment, self.sweep, self.build, self.journal = experiment, sweep, build, journal
        self.cases = experiment.cases(sweep)
        self.code = program_digest(Path(__file__))
        self.sweeps: list[Sweep] = []
        self.splits: list[dict[str, Any]] = []
        self.occupancies: dict[str, float | None] = {}
        self.machine: Machine = {}
        self.lost = ""  # why no further variant can be measured

    def variant(self, variant: Variant, reason: str | None, split: Split, gpu: Gpu | None) -> None:
        """Measure a variant, or refuse all of its points for a reason."""
        settings = self.experiment.settings(self.sweep, variant)
        identity = [digest(variant), variant.launch_identity, asdict(settings), self.code]
        spared = self.experiment.spared(self.sweep, variant)
        journal = self.journal / variant.slug
        own = Sweep(self.sweep, variant, settings, journal, json.dumps(identity), spared)
        self.sweeps.append(own)
        try:
            if reason:
                own.refuse_all(self.cases, "failed", reason)
            elif gpu:
                self.on_gpu(own, gpu, split)
            else:
                self.on_cpu(own, split)
        except NotCompiled as error:
            own.refuse_all(self.cases, "failed", str(error))
        if own.lost:
            self.lost = f"not run: {variant.name}: {own.lost}"
        self.splits.append({"sweep": self.sweep, "variant": variant.name} | split.row())
        logging.info("time split: %s", self.splits[-1])

    def on_gpu(self, sweep: Sweep, gpu: Gpu, split: Split) -> None:
        """Measure on the GPU. Raises NotCompiled."""
        variant, shapes = sweep.variant, [case.shape for case in self.cases]
        rivals = self.experiment.catalogue.rivals(variant.kernel)
        bench = GpuBench(gpu, variant, rivals, self.build, sweep.settings, split, shapes)
        split.started()
        machine = gpu.facts() | bench.tools.cublas.facts()
        sweep.identity += json.dumps([machine, compiler_of(variant, bench.tools.binaries, shapes)])
        sweep.architecture = gpu.architecture
        sweep.run(bench, self.cases)
        bench.close()
        self.machine |= machine
        self.occupancies[variant.name] = occupancy_of(variant, gpu, bench.tools)

    def on_cpu(self, sweep: Sweep, split: Split) -> None:
        """Measure on the CPU. Raises NotCompiled."""
        variant, settings = sweep.variant, sweep.settings
        product = cpu_product(variant, self.build, settings.threads)
        bench = CpuBench(variant, product, settings, split)
        split.started()
        machine = host_facts() | {"date": None}
        sweep.identity += json.dumps([machine, compiler_of(variant, self.build / HOST, [])])
        try:
            sweep.pace = bench.pace()
        except (Wrong, LostDevice) as error:
            sweep.lost = str(error)
        sweep.run(bench, self.cases)

    @property
    def facts(self) -> dict[str, Any]:
        """What holds for the whole job."""
        settings = {sweep.variant.name: asdict(sweep.settings) for sweep in self.sweeps}
        job = {"version": VERSION, "code": self.code, "settings": settings}
        found = {"splits": self.splits, "occupancy": self.occupancies}
        return host_facts() | self.machine | commit() | job | found


def occupancy_of(variant: Variant, gpu: Gpu, tools: Instruments) -> float | None:
    """The share of a multiprocessor's threads that can be resident with the compiled kernel."""
    if variant.kernel.kind is not Kind.CUDA:
        return None
    record = compile_record(variant, tools.binaries)
    threads = variant.block[0] * variant.block[1]
    shared = record["shared_bytes"] + variant.dynamic_shared_bytes
    return occupancy(threads, record["registers"], shared, gpu.limits)


def compiler_of(variant: Variant, binaries: Path, shapes: Sequence[Shape]) -> str | None:
    """The compiler of the binaries that the variant runs at these shapes; None for a library."""
    if variant.kernel.kind is Kind.LIBRARY:
        return None
    parts = variant.parts(binaries.name, shapes)
    return compile_record(parts[0], binaries)["compiler"] if parts else None


@contextmanager
def device_of(variants: Sequence[Variant], device: str) -> Iterator[Gpu | None]:
    """The GPU, held alone, if these variants run on one. Raises UserError if there is none."""
    if device != GPU or not variants[0].kernel.on_gpu:
        yield None
        return
    try:
        with opened() as gpu:
            yield gpu
    except NoDevice as error:
        raise UserError(f"--device gpu: {error}") from None


def write(measured: Measured, folder: Path) -> None:
    """The files of a job, with its facts last, because without them it is not finished."""
    for name, rows in (
        ("points.csv", [row for sweep in measured.sweeps for row in sweep.rows]),
        ("samples.csv.gz", [row for sweep in measured.sweeps for row in sweep.samples]),
        ("states.csv", [row for sweep in measured.sweeps for row in sweep.states]),
    ):
        write_rows(rows, name, folder / name)
    write_json(measured.facts, folder / "facts.json")


@command_line
def main() -> None:
    split = Split()
    parser = arguments.parser(__doc__)
    parser.add_argument("kernel", help="a kernel of the catalogue")
    parser.add_argument("--sweep", required=True, help="its name in the configuration")
    arguments.add_verifier(parser)
    parser.add_argument("--journal", type=Path, required=True, help="folder of finished points")
    parser.add_argument("--output", type=Path, required=True, help="folder of the tables and facts")
    options = arguments.parsed(parser)

    experiment = read_experiment(options.experiment)
    variants = experiment.measured[options.sweep, options.kernel]
    measured = Measured(experiment, options.sweep, options.build, options.journal)
    verifier = Verifier(experiment, options.build, options.records, options.machine)
    tasks = tasks_for(experiment, variants)
    verifier.run(tasks, processes=1)  # what has no record yet
    with device_of(variants, experiment.device) as gpu:
        for variant in variants:
            reason = measured.lost or first_failure(tasks, verifier, variant)
            measured.variant(variant, reason, split, gpu)
            split = Split(begun=time.perf_counter())
    write(measured, options.output)


if __name__ == "__main__":
    main()
