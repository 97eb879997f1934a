"""A small data set that no machine measured: plausible times, seeded, with holes on demand."""

import copy
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from support import DEFAULT, the_catalogue

from matmul_sweep import __version__ as VERSION
from matmul_sweep.build.binaries import digest, tool_source
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.experiment.dataset.selection import Results, load_results, pictures
from matmul_sweep.experiment.dataset.sweeps import sweep_of
from matmul_sweep.experiment.dataset.tables import (
    COLUMNS,
    COUNTED,
    ERRORS,
    LOOP,
    POINT,
    TIMES,
    product_of,
    read_table,
    write_rows,
    write_table,
)
from matmul_sweep.experiment.dataset.words import CEILINGS, MODES
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.fills import FILLS
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.files import write_json
from matmul_sweep.process.programs import program_digest
from matmul_sweep.process.project import ROOT

SHAPES = {
    "gemm": (32, 320, 640, 1024, "3200x2400x1600"),
    "gram": (500, "1000x1001", 2500, 4500, "2250x4500", "4500x2250"),
    "gemm_bf16": (320, 1024),
}
PACE = {Kind.C: 1e-6, Kind.CUDA: 1e-10, Kind.DISPATCH: 1e-10, Kind.LIBRARY: 2e-11}  # ms each
# Sweeps over random shapes, as documents.yaml has them.
RANDOM = {
    "random_gemm": {"operation": "gemm", "kernels": ["sgemm"], "caches": ["hot"],
                    "shapes": {"random": 40, "seed": 1, "from": 64, "to": 12000,
                               "operations": 4.0e11},
                    "sampling": {"sample_seconds": 0.0002}},
    "random_gram": {"operation": "gram", "kernels": ["gram"], "caches": ["hot"],
                    "shapes": {"random": 30, "seed": 2, "from": 64, "to": "20000x9000"}},
}  # fmt: skip
LESSONS = {"processor": DEFAULT["sweeps"]["processor"] | {"shapes": [1000, 1023, 1024, 1025]}}
TF32 = "cublas_sgemm_tf32"
# As many times as long as the kernel.
COPIES = {"h2d": 2.0, "d2h": 1.0, "end_to_end": 4.0, "unified": 9.0, "submitted": 0.1}
STATE = {"sm_clock_mhz": 1980.0, "memory_clock_mhz": 2619.0, "power_w": 300.0,
         "temperature_c": 50.0}  # fmt: skip
NO_GPU = {"status": "skipped", "reason": "there is no GPU on this machine"}
SWEEPS = {
    "gemm": {"operation": "gemm", "shapes": [32], "copies": "all"},
    "gram": {"operation": "gram", "shapes": [500], "caches": ["hot"], "sampling": {"seconds": 2}},
    "fills": {"operation": "gemm", "shapes": [2048], "fills": list(FILLS), "modes": ["sustained"],
              "caches": ["hot"], "kernels": ["shared_rect", "cublas_sgemm", TF32]},
    "sustained": {"operation": "gram", "shapes": [3000], "fills": ["uniform"],
                  "modes": list(MODES), "caches": ["hot"],
                  "kernels": ["gram_register_tile", "cublas_dgemm", "cublas_dsyrk"]},
}  # fmt: skip
STEPS = ROOT / "scripts" / "steps"
PEAKS = {"fp32_peak_tflops": 60.0, "fp64_peak_tflops": 30.0, "fp64_tensor_peak_tflops": 65.0}
DEVICE = PEAKS | {
    "gpu": "Imaginary GPU",
    "compute_capability": "9.0",
    "date": "2026-01-02",
    "version": VERSION,
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "dirty": False,
    "code": program_digest(STEPS / "measure.py"),
    "nvml": "available",
    "uuid": "GPU-of-this-card",
    "cublas": "13.1.0",
    "cpu": "Imaginary CPU",
    "cores": 4,
    "configuration": DEFAULT | {"sweeps": SWEEPS},
}

Change = Callable[[pd.DataFrame], pd.DataFrame]
Row = dict[str, Any]


def speed_up_tf32(summary: pd.DataFrame) -> pd.DataFrame:
    """TF32 ten times as fast, and as wrong."""
    own = summary.kernel == TF32
    summary.loc[own, ["tflops", "largest_error", "mean_error"]] *= 10
    summary.loc[own, TIMES] /= 10
    return summary


def where(of: str, **cells: Any) -> Change:
    """A change that sets cells of the rows that a query chooses."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        summary = summary.astype({"reason": object, "throttled": object})
        summary.loc[summary.query(of).index, [*cells]] = [*cells.values()]
        return summary

    return change


def failed(summary: pd.DataFrame) -> pd.DataFrame:
    return summary.assign(status="failed", reason="wrong result", time_ms=None, tflops=None)


def by_residues(summary: pd.DataFrame) -> pd.DataFrame:
    """The dispatch takes residues, and they are the fastest at 4500, under their own name too."""
    own = summary.kernel.isin(["residues", "gram_residues"])
    summary.loc[own & (summary.n == 4500), TIMES] /= 100
    summary.loc[summary.kernel == "residues", TIMES] /= 2
    summary.loc[summary.kernel == "gram_residues", "ran"] = "residues/componentwise"
    return summary.assign(tflops=summary.m * summary.n * (summary.n + 1) / summary.time_ms / 1e9)


# What was timed alone of AᵀA, by residues too.
RESIDUES: dict[str, Any] = {
    "kernels": ["gram", "residues", "gram_residues", "cublas_dsyrk"],
    "caches": ["alone"],
    "shapes": {"gram": (2500, 4500)},
    "change": by_residues,
}


def made_up(
    folder: Path,
    gpu: bool = True,
    kernels: Sequence[str] = (),
    caches: Sequence[str] = ("hot", "cold"),
    shapes: Mapping[str, Sequence[int | str]] = SHAPES,
    device: dict | None = None,
    change: Change = lambda summary: summary,
    checked: bool = False,
    drawn: Mapping[str, Any] = MappingProxyType({}),
) -> Results:
    """Write a data set and load it; `change` alters its summary first. `checked`: with both checks
    of the timing. `drawn`: with these of RANDOM."""
    catalogue = the_catalogue()
    chosen = [
        kernel
        for name, kernel in catalogue.items()
        if name in (kernels or catalogue) and shapes.get(kernel.operation)
        if name in kernels or not kernel.named_only
    ]
    variants = [variant for kernel in chosen for variant in kernel.variants]
    usual = DEVICE if gpu else DEVICE | dict.fromkeys(["gpu", *PEAKS])
    known = copy.deepcopy(usual if device is None else device)
    if drawn:
        known["configuration"]["sweeps"] |= drawn
    random = np.random.default_rng(7)
    arch = "sm_" + known.get("compute_capability", "9.0").replace(".", "")
    rows: list[Row] = []
    for variant in variants:
        for text in shapes[variant.kernel.operation]:
            shape = parse_shape(text, variant.kernel.operation)
            rows += point(variant, shape, gpu, caches, random, arch)
    rows += [*study_rows(variants, gpu, random), *random_rows(drawn, gpu, random, arch)]
    summary = change(pd.DataFrame(rows, columns=COLUMNS["summary.csv"]).astype({"k": "Int64"}))
    # Libraries have no jobs of their own in sweeps over random shapes.
    libraries = summary.kernel.isin([k.name for k in catalogue.values() if k.kind is Kind.LIBRARY])
    measured = summary[~(summary.sweep.isin(drawn) & libraries)].reset_index(drop=True)
    tables = {
        "summary.csv": measured,
        "ratios.csv": ratios(summary),
        "verification.csv": [verified(variant, gpu) for variant in variants],
        "kernels.csv": [record(variant) for variant in variants],
        "instructions.csv": [instructions(v) for v in variants if v.kernel.kind is Kind.CUDA],
        "counters.csv": [row for v in variants if gpu and v.kernel.on_gpu for row in counted(v)],
        "jobs.csv": [
            named(v)
            | {"sweep": v.kernel.operation, "uuid": DEVICE["uuid"] if v.kernel.on_gpu else ""}
            for v in variants
        ],
        "ceilings.csv": ceilings() if gpu else [],
        "states.csv": measured[measured.power_w.notna()].assign(when="during", readings=9),
    }
    if checked:
        empty = {"variant": "empty kernel", "time_ms": 0.003}
        tables |= {"cross_check.csv": cross_checks(measured), "timer_check.csv": [empty]}
    for kind, table in tables.items():
        write_table(pd.DataFrame(table).reindex(columns=COLUMNS[kind]), kind, folder / kind)
    write_json({"version": VERSION} | known, folder / "device.json")
    return load_results(folder, catalogue)


def publishable(folder: Path, tables: Mapping[str, Sequence[Row]] = MappingProxyType({})) -> Path:
    """A set of one product of `naive` and of the library beside its report and its pictures, as
    publishing takes it; with some cells of the first rows of its tables changed."""
    device, *_ = [*tables.get("device", ()), {}]
    device = DEVICE | {"gpu": "NVIDIA H100 80GB HBM3"} | device
    made_up(folder, kernels=["naive", "cublas_sgemm"], shapes={"gemm": (64,)}, caches=["hot"],
            device=device, change=kernels_at_once)  # fmt: skip
    write_rows([], "samples.csv.gz", folder / "samples.csv.gz")
    for kind in tables.keys() - {"device"}:
        path = folder / f"{kind}.csv"
        rows = read_table(path.name, path).astype(object)
        for line, cells in enumerate(tables[kind]):
            rows.loc[line, [*cells]] = [*cells.values()]
        write_table(rows, path.name, path)
    (folder / "report.pdf").write_bytes(b"%PDF")
    (folder / "figures").mkdir()
    for name in pictures().values():
        (folder / "figures" / name).write_text(f"<svg id='{name}'/>")
    return folder


def kernels_at_once(summary: pd.DataFrame) -> pd.DataFrame:
    """A change that leaves the launches of one variant of each kernel, on a card without
    readings."""
    rows = summary[summary.phase == "kernel"].drop_duplicates("kernel")
    return rows.assign(**dict.fromkeys(STATE)).reset_index(drop=True)


def beside_a_card(folder: Path, **options: Any) -> Results:
    """A data set without a GPU beside that of a card, with LESSONS and the loads of two kernels."""
    card = made_up(folder / "imaginary-gpu", **options)
    configuration = DEVICE["configuration"] | {"sweeps": SWEEPS | LESSONS}
    device = DEVICE | {"gpu": None, "configuration": configuration}

    def lessons(summary: pd.DataFrame) -> pd.DataFrame:
        """The products at the sizes of the sweep belong to it."""
        own = summary.n.isin(LESSONS["processor"]["shapes"]) & (summary.operation == "gemm")
        return summary.assign(sweep=summary.sweep.mask(own, "processor"))

    sizes = [320, 640, *LESSONS["processor"]["shapes"]]
    names = ["cpu_loop", "cpu_loop_rows", "cpu_blas", "gram_cpu_loop", "gram_cpu_blas"]
    kernels = [*names, *(options.get("kernels") or ["naive", "shared", "vectors", "gram_naive"])]
    made_up(folder, kernels=kernels, gpu=False, shapes=SHAPES | {"gemm": sizes}, device=device,
            change=lessons)  # fmt: skip
    counted = [{"kernel": name, "variant": f"{name}/32", "operation": "gemm", "loads": loads,
                "multiply_adds": 32, "status": "ok"}
               for name, loads in (("naive", 64), ("shared", 2))]  # fmt: skip
    write_rows(counted, "loads.csv", folder / "loads.csv")
    return dataclasses.replace(load_results(folder, the_catalogue()), others=(card,))


def named(variant: Variant) -> Row:
    return {"kernel": variant.kernel.name, "variant": variant.name}


def launched(variant: Variant, shape: Shape, sweep: str) -> Row:
    """What a hot launch is of."""
    what = {"sweep": sweep, "fill": "uniform", "mode": "burst", "phase": "kernel", "cache": "hot"}
    return named(variant) | product_of(variant.kernel.dtype, shape) | what


def span(phase: str, cache: str, time_ms: float, shape: Shape) -> Row:
    """The columns of one measured phase."""
    row = {"phase": phase, "cache": cache, "status": "ok", "samples": 20, "time_ms": time_ms,
           "time_low_ms": time_ms * 0.99, "time_high_ms": time_ms * 1.01}  # fmt: skip
    if phase == "kernel":
        row |= dict(zip(ERRORS, (0.5, 1e-6, 1e-7), strict=True)) | {"stopped": "interval"}
        row["tflops"] = shape.operations / time_ms / 1e9
    return row


def point(
    variant: Variant, shape: Shape, gpu: bool, caches: Sequence[str], random: np.random.Generator,
    arch: str = "sm_90",
) -> list[Row]:  # fmt: skip
    """Summary rows of one point: all its phases, or why there are none."""
    kernel = variant.kernel
    what = launched(variant, shape, kernel.operation)
    own = caches if kernel.on_gpu else ("hot",)
    reason = NO_GPU["reason"] if kernel.on_gpu and not gpu else variant.refusal(shape)
    if reason:
        refused = {"status": "skipped", "reason": reason, "samples": 0}
        return [what | refused | {"cache": cache} for cache in own]
    width = variant.parameters.get("TILE_WIDTH", 16)
    what["ran"] = ran_of(variant, shape, arch)
    pace = PACE[kernel.kind if kernel.on_gpu else Kind.C] * (16 / width) ** 0.5
    time = (0.005 + shape.operations * pace) * random.uniform(0.9, 1.1)
    factors = {("kernel", cache): 1.2 if cache == "cold" else 1.0 for cache in own}
    factors["first", "cold"] = 3.0
    if kernel.on_gpu and shape.operation == "gemm":
        factors |= {(phase, "cold"): factor for phase, factor in COPIES.items()}
    return [
        what | span(phase, cache, time * factor, shape)
        | (STATE if kernel.on_gpu and phase == "kernel" else {})
        for (phase, cache), factor in factors.items()
    ]  # fmt: skip


@functools.cache
def ran_of(variant: Variant, shape: Shape, arch: str) -> str:
    """What a dispatch chooses, which takes long; empty for another variant."""
    part = variant.part(shape, arch)
    return "" if part == variant else part.name


def study_rows(variants: Sequence[Variant], gpu: bool, rng: np.random.Generator) -> Iterator[Row]:
    """Hot kernel rows of the sweeps that vary an axis at one size: less power for other fills, less
    speed when sustained."""
    for name in ("fills", "sustained"):
        sweep = SWEEPS[name]
        for variant in (v for v in variants if v.kernel.name in sweep["kernels"]):
            shape = parse_shape(sweep["shapes"][0], variant.kernel.operation)
            row = point(variant, shape, gpu, ["hot"], rng)[0] | {"sweep": name}
            for i, (fill, mode) in enumerate(itertools.product(sweep["fills"], sweep["modes"])):
                own = {"fill": fill, "mode": mode}
                if row["status"] == "ok" and mode == "sustained":
                    own |= span("kernel", "hot", row["time_ms"] * (1 + i / 20), shape)
                    own |= {"power_w": 400.0 - 30 * i, "sm_clock_mhz": 1700.0}
                yield row | own


def random_rows(
    sweeps: Mapping[str, Any], gpu: bool, random: np.random.Generator, arch: str
) -> Iterator[Row]:  # fmt: skip
    """Hot kernel rows of sweeps over random shapes, of their rivals too: between half and twice as
    fast as the library."""
    for name in sweeps:
        sweep = sweep_of(DEVICE["configuration"] | {"sweeps": sweeps}, name)
        dispatch = the_catalogue().variant(sweep["kernels"][0])
        for text in sweep["shapes"]:
            shape = parse_shape(text, sweep["operation"])
            base = 0.004 + shape.operations * PACE[Kind.LIBRARY]
            for variant in [*the_catalogue().rivals(dispatch.kernel), dispatch]:
                row = launched(variant, shape, name) | {"launches": 3}
                row["ran"] = ran_of(variant, shape, arch)
                timed = span("kernel", "hot", base / random.lognormal(0.03, 0.15), shape)
                yield row | (timed if gpu else NO_GPU | {"samples": 0})


def ratios(summary: pd.DataFrame) -> pd.DataFrame:
    """Library time over kernel time, wherever both are."""
    timed = summary[(summary.phase == "kernel") & (summary.status == "ok")]
    own = ["kernel", *POINT, "cache", "time_ms"]
    catalogue = the_catalogue()
    tuned = timed.kernel.isin([name for name, kernel in catalogue.items() if kernel.tuned])
    names = {"kernel": "baseline", "time_ms": "library_ms"}
    libraries = timed.loc[~tuned | (timed.cache == "alone"), own].rename(columns=names)
    rivals = {name: [v.kernel.name for v in catalogue.rivals(k, alone=True)]
              for name, k in catalogue.items()}  # fmt: skip
    pairs = timed.assign(baseline=timed.kernel.map(rivals)).explode("baseline").merge(libraries)
    ratio = pairs.library_ms / pairs.time_ms
    return pairs.assign(pairs=20, ratio=ratio, ratio_low=ratio * 0.997, ratio_high=ratio * 1.003)


def verified(variant: Variant, gpu: bool) -> Row:
    """A small product."""
    kernel = variant.kernel
    where = "cpu" if not kernel.on_gpu else "gpu" if gpu else "emulation"
    found = NO_GPU if where == "emulation" and kernel.library else {"status": "ok", "error": 0.1}
    return launched(variant, parse_shape(17, kernel.operation), "") | {"where": where} | found


def record(variant: Variant) -> Row:
    known = {"registers": 32, "shared_bytes": 8192, "spill_bytes": 0, "occupancy": 0.5}
    return named(variant) | known | {"sha256": digest(variant), "status": "ok"}


def instructions(variant: Variant) -> Row:
    """A loop of 70 instructions, but in a kernel without a loop."""
    row = record(variant) | {"architecture": "sm_90", "code_bytes": 4096}
    if variant.kernel.name == "direct":
        return row | {"status": "skipped", "reason": "no loop of it multiplies"}
    row |= {"loop_start": 160, "loop_instructions": 70, "excerpt": "LDS R4,[R8]; FFMA R0,R4"}
    return row | dict.fromkeys(LOOP, 0) | {"ffma": 64, "shared_loads_128": 4, "integer": 2}


def counted(variant: Variant) -> Iterator[Row]:
    """Counters at two sizes: nothing is busy at the small one, and multiply-adds at the large one.
    The card does not know what loads and stores do."""
    small = dict.fromkeys(COUNTED, 1.0) | {"load_store_percent": None, "memory_percent": 30.0}
    small |= {"stall_barrier": 3.0, "stall_not_selected": 9.0, "shared_wavefronts": 8.0}
    for n, busy in ((512, {}), (4096, {"fma_percent": 90.0, "issue_percent": 85.0})):
        shape = parse_shape(n, variant.kernel.operation)
        yield launched(variant, shape, "") | small | busy | {"status": "ok"}


def ceilings() -> list[Row]:
    """Below the made-up card's peaks, and 2 TB/s."""
    known = {"status": "ok", "samples": 20, "gpu": DEVICE["gpu"], "uuid": DEVICE["uuid"],
             "sha256": program_digest(STEPS / "ceilings.py", tool_source("ceilings"))}  # fmt: skip
    values = zip(CEILINGS.items(), (59.0, 29.5, 64.0, 2000.0), strict=True)
    return [{"name": name, "unit": unit, "value": value} | known for (name, unit), value in values]


def cross_checks(summary: pd.DataFrame) -> pd.DataFrame:
    """do_bench 2% faster than the library's cold times of squares."""
    libraries = summary.variant.isin(["cublas_sgemm", "cublas_dgemm"])
    cold = (summary.phase == "kernel") & (summary.cache == "cold") & (summary.m == summary.n)
    rows = summary[libraries & cold & (summary.status == "ok")]
    return rows.assign(do_bench_ms=rows.time_ms / 1.02)
