"""Measure one variant over a sweep's shapes, fills and modes, each verified before it is timed.

At each shape the kernel and its rivals are timed in turn on the same inputs. Each finished point
is written to a journal, so an interrupted job continues where it stopped. Points that cannot be
measured become rows with a status and a reason.
"""

import json
import logging
import os
import shutil
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matmul.build.binaries import HOST, digest
from matmul.catalogue.entries import Kind, Variant, load_catalogue
from matmul.dataset.provenance import VERSION, commit, host_facts
from matmul.dataset.tables import read_rows, write_json, write_rows
from matmul.gpu.device import Gpu, NoDevice, opened
from matmul.gpu.instruments import Instruments
from matmul.gpu.occupancy import occupancy
from matmul.measure.bench import CACHES, MODES, Case, LostDevice, Settings, Split, Wrong
from matmul.measure.cpu_bench import CpuBench
from matmul.measure.gpu_bench import GpuBench
from matmul.measure.products import NotCompiled, compile_record, cpu_product
from matmul.measure.runner import CPU, EMULATION, NOWHERE, place_of
from matmul.measure.sampling import Rule
from matmul.measure.sweep import Sweep
from matmul.operations import fills, parse_shape
from matmul.operations.shapes import Shape
from matmul.process.errors import UserError, command_line
from matmul.process.programs import program_digest
from matmul.settings import arguments


def run(
    sweep: Sweep, rivals: Sequence[Variant], build: Path, device: str, cases: Sequence[Case],
    split: Split,
) -> dict[str, Any]:  # fmt: skip
    """Measure on the GPU or the CPU, or skip everything; return the facts of the machine.

    Raises NotCompiled, NoDevice.
    """
    variant, settings = sweep.variant, sweep.settings
    place = place_of(variant.kernel, device)
    if place in (EMULATION, NOWHERE):  # where nothing can be timed
        sweep.refuse_all(cases, "skipped", "there is no GPU on this machine")
        return host_facts()
    if place == CPU:
        bench = CpuBench(variant, cpu_product(variant, build, settings.threads), settings, split)
        split.started()
        machine = host_facts() | {"date": None}
        sweep.identity += json.dumps([machine, compiler_of(variant, build / HOST, [])])
        try:
            sweep.pace = bench.pace()
        except (Wrong, LostDevice) as error:
            sweep.lost = str(error)
        sweep.run(bench, cases)
        return host_facts()
    with opened() as gpu:
        shapes = [case.shape for case in cases]
        on_gpu = GpuBench(gpu, variant, rivals, build, settings, split, shapes)
        split.started()
        machine = gpu.facts() | on_gpu.tools.cublas.facts()
        sweep.identity += json.dumps([machine, compiler_of(variant, on_gpu.tools.binaries, shapes)])
        sweep.architecture = gpu.architecture
        sweep.run(on_gpu, cases)
        on_gpu.close()
        return host_facts() | machine | {"occupancy": occupancy_of(variant, gpu, on_gpu.tools)}


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


def wrong_at_small_shapes(verification: Path) -> str | None:
    """The first failure in the verification, as a reason not to time the variant; None if none."""
    rows = read_rows("verification.csv", verification)
    reasons = [row["reason"] for row in rows if row["status"] == "failed"]
    return f"verification: {reasons[0]}" if reasons else None


def parse() -> Namespace:
    parser = arguments.parser(__doc__)
    arguments.add_variant(parser)
    parser.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--verification", type=Path, help="verify.py's table for this variant")
    parser.add_argument("--device", choices=("gpu", "cpu"), required=True)
    parser.add_argument("--shapes", nargs="+", required=True)
    parser.add_argument("--spared", nargs="*", default=[], help="the shapes that are not measured")
    parser.add_argument("--sweep", required=True, help="its name in the data set")
    parser.add_argument("--fills", nargs="+", choices=fills.FILLS, default=["uniform"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["burst"])
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--caches", nargs="+", choices=CACHES, default=["hot", "cold"])
    parser.add_argument("--minimum", type=int, default=10, help="fewest samples per point")
    parser.add_argument("--maximum", type=int, default=200, help="most samples per point")
    parser.add_argument("--interval", type=float, default=0.01, help="as a share of the median")
    parser.add_argument("--seconds", type=float, default=0.5, help="for the samples of a point")
    parser.add_argument("--sample-seconds", type=float, default=0, help="launches per sample; 0: 1")
    parser.add_argument("--copy-seconds", type=float, default=0.1, help="per copy phase; 0: none")
    parser.add_argument("--warm-seconds", type=float, default=0.1, help="before burst samples")
    parser.add_argument("--load-seconds", type=float, default=3, help="before sustained samples")
    parser.add_argument("--cool-celsius", type=float, default=75, help="wait if hotter")
    parser.add_argument("--cool-seconds", type=float, default=60, help="longest wait")
    parser.add_argument("--launch-seconds", type=float, default=10, help="skip longer launches")
    arguments.add_hang_seconds(parser)
    parser.add_argument("--memory-share", type=float, default=0.8, help="of the free memory")
    parser.add_argument("--journal", type=Path, required=True, help="folder of finished points")
    parser.add_argument("--keep-journal", action="store_true", help="collect.py removes it")
    parser.add_argument("--points", type=Path, required=True, help="points.csv")
    parser.add_argument("--samples", type=Path, required=True, help="samples.csv.gz")
    parser.add_argument("--states", type=Path, required=True, help="states.csv")
    parser.add_argument("--facts", type=Path, required=True, help="JSON about machine and job")
    return arguments.parsed(parser)


def settings_of(options: Namespace) -> Settings:
    rule = Rule(options.minimum, options.maximum, options.interval, options.seconds)
    copies = Rule(5, 50, 0.02, options.copy_seconds) if options.copy_seconds else None
    return Settings(
        seed=options.seed,
        caches=tuple(options.caches),
        rule=rule,
        sample_seconds=options.sample_seconds,
        copies=copies,
        warm_seconds={"burst": options.warm_seconds, "sustained": options.load_seconds},
        cool_celsius=options.cool_celsius,
        cool_seconds=options.cool_seconds,
        launch_seconds=options.launch_seconds,
        hang_seconds=options.hang_seconds,
        memory_share=options.memory_share,
        threads=len(os.sched_getaffinity(0)),
    )


def cases_of(options: Namespace, operation: str) -> list[Case]:
    """Every combination of shape, fill and mode, small shapes first."""
    shapes = {parse_shape(text, operation) for text in options.shapes}
    return [
        Case(shape, fill, mode)
        for shape in sorted(shapes, key=lambda shape: shape.operations)
        for fill in options.fills
        for mode in options.modes
    ]


@command_line
def main() -> None:
    split = Split()
    options = parse()
    catalogue = load_catalogue(options.catalogue)
    variant, settings = catalogue.variant(options.variant), settings_of(options)
    cases = cases_of(options, variant.kernel.operation)
    code = program_digest(Path(__file__))
    identity = json.dumps([digest(variant), variant.launch_identity, asdict(settings), code])
    spared = {parse_shape(text, variant.kernel.operation) for text in options.spared}
    sweep = Sweep(options.sweep, variant, settings, options.journal, identity, spared)
    reason = wrong_at_small_shapes(options.verification) if options.verification else None
    try:
        if reason:
            sweep.refuse_all(cases, "failed", reason)
            facts = host_facts()
        else:
            rivals = catalogue.rivals(variant.kernel)
            facts = run(sweep, rivals, options.build, options.device, cases, split)
    except NotCompiled as reason:
        sweep.refuse_all(cases, "failed", str(reason))
        facts = host_facts()
    except NoDevice as error:
        raise UserError(f"--device gpu: {error}") from None

    write_rows(sweep.rows, "points.csv", options.points)
    write_rows(sweep.samples, "samples.csv.gz", options.samples)
    write_rows(sweep.states, "states.csv", options.states)
    split_row = {"sweep": sweep.name, "variant": variant.name} | split.row()
    logging.info("time split: %s", split_row)
    job = {"version": VERSION, "code": code, "settings": asdict(settings), "split": split_row}
    write_json(facts | commit() | job, options.facts)
    if not options.keep_journal:
        shutil.rmtree(options.journal, ignore_errors=True)


if __name__ == "__main__":
    main()
