"""A small data set that no machine measured: plausible times, seeded, with holes on demand."""

import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from matmul_sweep import __version__ as VERSION
from matmul_sweep.build.binaries import digest
from matmul_sweep.catalogue.entries import Catalogue, Kernel, Kind, Variant
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import Results, load_results
from matmul_sweep.experiment.dataset.sweeps import sweep_of
from matmul_sweep.experiment.dataset.tables import (
    COLUMNS,
    COUNTERS,
    LOOP,
    POINT,
    product_of,
    write_table,
)
from matmul_sweep.experiment.dataset.words import MODES
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.fills import FILLS
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.files import write_json

SHAPES = {
    "gemm": (32, 320, 640, 1024, "3200x2400x1600"),
    "gram": (500, "1000x1001", 2500, 4500, "2250x4500", "4500x2250"),
    "gemm_bf16": (320, 1024),
}
PACE = {Kind.C: 1e-6, Kind.CUDA: 1e-10, Kind.DISPATCH: 1e-10, Kind.LIBRARY: 2e-11}  # ms each
# Sweeps that vary an axis at one size: kernels, shape, fills and modes, as documents.yaml has them.
STUDIES = {
    "fills": (("shared_rect", "cublas_sgemm", "cublas_sgemm_tf32"), 2048, FILLS, ("sustained",)),
    "sustained": (
        ("gram_register_tile", "cublas_dgemm", "cublas_dsyrk"),
        3000,
        ("uniform",),
        MODES,
    ),
}
# Sweeps over random shapes, as documents.yaml has them.
RANDOM = {
    "random_gemm": {"operation": "gemm", "kernels": ["sgemm"], "caches": ["hot"],
                    "shapes": {"random": 40, "seed": 1, "from": 64, "to": 12000,
                               "operations": 4.0e11},
                    "sampling": {"sample_seconds": 0.0002}},
    "random_gram": {"operation": "gram", "kernels": ["gram"], "caches": ["hot"],
                    "shapes": {"random": 30, "seed": 2, "from": 64, "to": "20000x9000"}},
}  # fmt: skip
TF32 = "cublas_sgemm_tf32"
# As many times as long as the kernel.
COPIES = {"h2d": 2.0, "d2h": 1.0, "end_to_end": 4.0, "unified": 9.0, "submitted": 0.1}
STATE = {
    "sm_clock_mhz": 1980.0,
    "memory_clock_mhz": 2619.0,
    "power_w": 300.0,
    "temperature_c": 50.0,
}
NO_GPU = {"status": "skipped", "reason": "there is no GPU on this machine"}
DEVICE = {
    "gpu": "Imaginary GPU",
    "compute_capability": "9.0",
    "date": "2026-01-02",
    "version": VERSION,
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "dirty": False,
    "nvml": "available",
    "uuid": "GPU-of-this-card",
    "cublas": "13.1.0",
    "fp32_peak_tflops": 60.0,
    "fp64_peak_tflops": 30.0,
    "fp64_tensor_peak_tflops": 65.0,
    "cpu": "Imaginary CPU",
    "cores": 4,
    "configuration": {
        "sweeps": {
            "gemm": {"operation": "gemm", "shapes": [32], "copies": "all"},
            "gram": {"operation": "gram", "shapes": [500], "caches": ["hot"],
                     "sampling": {"seconds": 2}},
            "fills": {"operation": "gemm", "shapes": [2048], "kernels": ["shared_rect"],
                      "fills": list(FILLS), "modes": ["sustained"], "caches": ["hot"]},
            "sustained": {"operation": "gram", "shapes": [3000], "modes": list(MODES),
                          "caches": ["hot"]},
        },
        "fills": ["uniform"],
        "modes": ["burst"],
        "seed": 1,
        "caches": ["hot", "cold"],
        "sampling": {"minimum": 10, "maximum": 20, "interval": 0.01, "seconds": 1,
                     "copy_seconds": 0.1, "warm_seconds": 0.1,
                     "load_seconds": 3},
        "limits": {"gpu_seconds": 5, "cpu_seconds": 6, "hang_seconds": 120, "memory_share": 0.8,
                   "cool_celsius": 75, "cool_seconds": 60},
    },
}  # fmt: skip

the_catalogue = functools.cache(load_catalogue)
Change = Callable[[pd.DataFrame], pd.DataFrame]


def with_tf32() -> Catalogue:
    """The catalogue with cuBLAS in TF32 too."""
    catalogue = Catalogue(the_catalogue())
    default = catalogue["cublas_sgemm"]
    catalogue[TF32] = dataclasses.replace(
        default, name=TF32, title="cuBLAS TF32", arithmetic="tf32"
    )
    return catalogue


def speed_up_tf32(summary: pd.DataFrame) -> pd.DataFrame:
    """TF32 ten times as fast, and as wrong."""
    own = summary.kernel == TF32
    summary.loc[own, ["tflops", "largest_error", "mean_error"]] *= 10
    summary.loc[own, ["time_ms", "time_low_ms", "time_high_ms"]] /= 10
    return summary


def made_up(
    folder: Path,
    gpu: bool = True,
    kernels: Sequence[str] = (),
    caches: Sequence[str] = ("hot", "cold"),
    shapes: Mapping[str, Sequence[int | str]] = SHAPES,
    device: dict | None = None,
    change: Change = lambda summary: summary,
    catalogue: Catalogue | None = None,
    checked: bool = False,
    drawn: Mapping[str, Any] = MappingProxyType({}),
    studies: Mapping[str, Any] = STUDIES,
) -> Results:
    """Write a data set and load it; `change` alters its summary first. `checked`: with both checks
    of the timing. `drawn`: with these of RANDOM."""
    catalogue = catalogue or the_catalogue()
    chosen = [
        kernel
        for name, kernel in catalogue.items()
        if name in (kernels or catalogue) and shapes.get(kernel.operation)
        if name in kernels or not kernel.named_only
    ]
    variants = [variant for kernel in chosen for variant in kernel.variants]
    random = np.random.default_rng(7)
    capability = (DEVICE if device is None else device).get("compute_capability", "9.0")
    arch = "sm_" + capability.replace(".", "")
    rows = [
        named(variant) | row
        for variant in variants
        for text in shapes[variant.kernel.operation]
        for row in point(
            variant, parse_shape(text, variant.kernel.operation), gpu, caches, random, arch
        )
    ]
    rows += study_rows(variants, studies, gpu, random)
    rows += random_rows(drawn, catalogue, gpu, random, arch)
    summary = change(pd.DataFrame(rows, columns=COLUMNS["summary.csv"]).astype({"k": "Int64"}))
    # Libraries have no jobs of their own in sweeps over random shapes.
    libraries = summary.kernel.isin([k.name for k in catalogue.values() if k.kind is Kind.LIBRARY])
    measured = summary[~(summary.sweep.isin(drawn) & libraries)].reset_index(drop=True)
    tables = {
        "summary.csv": measured,
        "ratios.csv": ratios(summary, catalogue),
        "verification.csv": verifications(variants, gpu),
        "kernels.csv": records(chosen),
        "instructions.csv": instructions(chosen),
        "counters.csv": counted(chosen, gpu),
        "jobs.csv": jobs(variants),
        "ceilings.csv": ceilings(gpu),
        "states.csv": measured[measured.power_w.notna()].assign(when="during", readings=9),
    }
    if checked:
        tables |= {"cross_check.csv": cross_checks(measured), "timer_check.csv": timer_checks()}
    for kind, table in tables.items():
        write_table(table.reindex(columns=COLUMNS[kind]), kind, folder / kind)
    peaks = dict.fromkeys(key for key in DEVICE if key.endswith("_peak_tflops"))
    known = DEVICE if gpu else DEVICE | {"gpu": None} | peaks
    known = copy.deepcopy(known if device is None else device)
    if drawn:
        known["configuration"]["sweeps"] |= drawn
    write_json(known, folder / "device.json")
    return load_results(folder, catalogue)


def named(variant: Variant) -> dict[str, Any]:
    return {"kernel": variant.kernel.name, "variant": variant.name}


LESSONS = {"processor": {"operation": "gemm", "without_gpu": True,
                         "shapes": [1000, 1023, 1024, 1025],
                         "kernels": ["cpu_loop", "cpu_loop_rows", "cpu_blas"]}}  # fmt: skip


def beside_a_card(folder: Path, **options: Any) -> Results:
    """A data set without a GPU beside that of a card, with LESSONS and the loads of two kernels."""
    card = made_up(folder / "imaginary-gpu", **options)
    device = DEVICE | {"gpu": None}
    sweeps = DEVICE["configuration"]["sweeps"] | LESSONS
    device |= {"configuration": DEVICE["configuration"] | {"sweeps": sweeps}}

    def lessons(summary: pd.DataFrame) -> pd.DataFrame:
        """The products at the sizes of the sweep belong to it."""
        own = summary.n.isin(LESSONS["processor"]["shapes"]) & (summary.operation == "gemm")
        return summary.assign(sweep=summary.sweep.mask(own, "processor"))

    sizes = [320, 640, *LESSONS["processor"]["shapes"]]
    own = {"gemm": sizes, "gram": SHAPES["gram"]}
    names = ["cpu_loop", "cpu_loop_rows", "cpu_blas", "gram_cpu_loop", "gram_cpu_blas"]
    kernels = [*names, *(options.get("kernels") or ["naive", "shared", "vectors", "gram_naive"])]
    made_up(folder, kernels=kernels, gpu=False, shapes=own, device=device, change=lessons)
    loads = [{"kernel": name, "variant": f"{name}/32", "operation": "gemm", "m": 128, "n": 128,
              "k": 128, "loads": count, "multiply_adds": 128**3, "status": "ok"}
             for name, count in (("naive", 2 * 128**3), ("shared", 2 * 128**3 // 32))]  # fmt: skip
    table = pd.DataFrame(loads, columns=COLUMNS["loads.csv"])
    write_table(table, "loads.csv", folder / "loads.csv")
    results = load_results(folder, the_catalogue())
    return dataclasses.replace(results, others=(card,))


def point(
    variant: Variant, shape: Shape, gpu: bool, caches: Sequence[str], random: np.random.Generator,
    arch: str = "sm_90",
) -> list[dict]:  # fmt: skip
    """Summary rows of one point: all its phases, or why there are none."""
    kernel = variant.kernel
    what = product_of(kernel.dtype, shape)
    what |= {"sweep": kernel.operation, "fill": "uniform", "mode": "burst"}
    own = caches if kernel.on_gpu else ("hot",)
    reason = variant.refusal(shape)
    if kernel.on_gpu and not gpu:
        reason = NO_GPU["reason"]
    if reason:
        refused = {"phase": "kernel", "status": "skipped", "reason": reason, "samples": 0}
        return [what | refused | {"cache": cache} for cache in own]
    width = variant.parameters.get("TILE_WIDTH", 16)
    part = variant.part(shape, arch)
    what["ran"] = "" if part == variant else part.name
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


def study_rows(
    variants: Sequence[Variant], studies: Mapping[str, Any], gpu: bool, random: np.random.Generator
) -> list[dict]:
    """Hot kernel rows of studies: less power for other fills, less speed when sustained."""
    rows = []
    for sweep, (kernels, n, fills, modes) in studies.items():
        for variant in (v for v in variants if v.kernel.name in kernels):
            shape = parse_shape(n, variant.kernel.operation)
            row = point(variant, shape, gpu, ["hot"], random)[0] | named(variant) | {"sweep": sweep}
            for i, (fill, mode) in enumerate(itertools.product(fills, modes)):
                own = {"fill": fill, "mode": mode}
                if row["status"] == "ok" and mode == "sustained":
                    own |= span("kernel", "hot", row["time_ms"] * (1 + i / 20), shape)
                    own |= {"power_w": 400.0 - 30 * i, "sm_clock_mhz": 1700.0}
                rows.append(row | own)
    return rows


def random_rows(
    sweeps: Mapping[str, Any], catalogue: Catalogue, gpu: bool, random: np.random.Generator,
    arch: str,
) -> list[dict]:  # fmt: skip
    """Hot kernel rows of sweeps over random shapes, of their rivals too: between half and twice as
    fast as the library."""
    rows = []
    for name in sweeps:
        sweep = sweep_of(DEVICE["configuration"] | {"sweeps": sweeps}, name)
        dispatch = catalogue.variant(sweep["kernels"][0])
        for text in sweep["shapes"]:
            shape = parse_shape(text, sweep["operation"])
            what = {"sweep": name, "fill": "uniform", "mode": "burst"}
            what |= product_of(dispatch.kernel.dtype, shape)
            base = 0.004 + shape.operations * PACE[Kind.LIBRARY]
            for variant in [*catalogue.rivals(dispatch.kernel), dispatch]:
                library = variant.kernel.kind is Kind.LIBRARY
                gain = random.uniform(0.9, 1.1) if library else random.lognormal(0.03, 0.15)
                skipped = {"phase": "kernel", "cache": "hot", "samples": 0} | NO_GPU
                own = named(variant) | {"launches": 3}
                own["ran"] = "" if library else dispatch.part(shape, arch).name
                timed = span("kernel", "hot", base / gain, shape)
                rows.append(what | own | (timed if gpu else skipped))
    return rows


def span(phase: str, cache: str, time_ms: float, shape: Shape) -> dict:
    """The columns of one measured phase."""
    row = {"phase": phase, "cache": cache, "status": "ok", "samples": 20, "time_ms": time_ms,
           "time_low_ms": time_ms * 0.99, "time_high_ms": time_ms * 1.01}  # fmt: skip
    if phase != "kernel":
        return row
    errors = {"error": 0.5, "largest_error": 1e-6, "mean_error": 1e-7}
    return row | errors | {"tflops": shape.operations / time_ms / 1e9, "stopped": "interval"}


def ratios(summary: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """Library time over kernel time, wherever both are."""
    timed = summary[(summary.phase == "kernel") & (summary.status == "ok")]
    key = [*POINT, "cache"]
    libraries = timed[["kernel", *key, "time_ms"]].rename(columns={"kernel": "baseline"})
    held = [(name, library.kernel.name) for name, k in catalogue.items() for library in
            catalogue.rivals(k)]  # fmt: skip
    rivals = pd.DataFrame(held, columns=["kernel", "baseline"])
    pairs = timed.merge(rivals, on="kernel").merge(
        libraries, on=["baseline", *key], suffixes=("", "_library")
    )
    ratio = pairs.time_ms_library / pairs.time_ms
    return pairs.assign(pairs=20, ratio=ratio, ratio_low=ratio * 0.99, ratio_high=ratio * 1.01)


def verifications(variants: Sequence[Variant], gpu: bool) -> pd.DataFrame:
    """Two small products per variant."""
    rows = []
    for variant, n in itertools.product(variants, (1, 17)):
        kernel = variant.kernel
        skipped = kernel.on_gpu and not gpu and kernel.library
        where = "cpu" if not kernel.on_gpu else "gpu" if gpu else "emulation"
        row = product_of(kernel.dtype, parse_shape(n, kernel.operation)) | {"where": where}
        found = NO_GPU if skipped else {"status": "ok", "reason": "", "error": n / 100}
        rows.append(row | named(variant) | found)
    return pd.DataFrame(rows)


def records(kernels: Sequence[Kernel]) -> pd.DataFrame:
    def occupancy(variant: Variant) -> float:
        """Of whole blocks that have half of a multiprocessor's 2048 threads at most."""
        threads = math.prod(variant.block) if variant.kernel.threads else 256
        return 1024 // threads * threads / 2048

    rows = [
        named(variant) | {"sha256": digest(variant), "status": "ok", "registers": 32,
                          "shared_bytes": 8192, "spill_bytes": 0, "occupancy": occupancy(variant)}
        for kernel in kernels for variant in kernel.variants
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS["kernels.csv"])


def instructions(kernels: Sequence[Kernel]) -> pd.DataFrame:
    """A loop of 70 instructions for each kernel in CUDA, but for those without a loop."""
    loop = {"loop_start": 160, "loop_instructions": 70} | dict.fromkeys(LOOP, 0)
    loop |= {"ffma": 64, "shared_loads_128": 4, "integer": 2, "excerpt": "LDS R4,[R8]; FFMA R0,R4"}
    none = {"status": "skipped", "reason": "no loop of it multiplies"}
    own = records([kernel for kernel in kernels if kernel.kind is Kind.CUDA])
    rows = [
        row | {"architecture": "sm_90", "code_bytes": 4096}
        | (none if row["kernel"] == "direct" else loop)
        for row in own.to_dict("records")
    ]  # fmt: skip
    return pd.DataFrame(rows)


def counted(kernels: Sequence[Kernel], gpu: bool) -> pd.DataFrame:
    """Counters at two sizes: nothing is busy at the small one, and multiply-adds at the large one.
    The card does not know what loads and stores do."""
    small = dict.fromkeys(COUNTERS, 1.0) | {"load_store_percent": None, "memory_percent": 30.0}
    small |= {"stall_barrier": 3.0, "stall_not_selected": 9.0, "shared_wavefronts": 8.0}
    large = small | {"fma_percent": 90.0, "issue_percent": 85.0}
    return pd.DataFrame(
        named(variant)
        | product_of(kernel.dtype, parse_shape(n, kernel.operation))
        | ({"status": "ok"} | found if gpu else NO_GPU)
        for kernel in kernels
        if kernel.on_gpu
        for variant in kernel.variants
        for n, found in ((512, small), (4096, large))
    )


def jobs(variants: Sequence[Variant]) -> pd.DataFrame:
    split = {"wall_s": 10.0, "start_s": 1.0, "inputs_s": 0.5, "verification_s": 2.0,
             "cooling_s": 0.0, "timed_s": 6.0}  # fmt: skip
    return pd.DataFrame(
        split | named(variant) | {"sweep": variant.kernel.operation,
                                  "uuid": DEVICE["uuid"] if variant.kernel.on_gpu else None}
        for variant in variants
    )  # fmt: skip


def ceilings(gpu: bool) -> pd.DataFrame:
    """Below the made-up card's peaks, and 2 TB/s."""
    values = {"multiply_add_float32": 59.0, "multiply_add_float64": 29.5, "tensor_float64": 64.0}
    rows = [{"name": name, "unit": "TFLOP/s", "value": value} for name, value in values.items()]
    rows.append({"name": "copy", "unit": "GB/s", "value": 2000.0})
    table = pd.DataFrame(rows, columns=COLUMNS["ceilings.csv"])
    if gpu:
        return table.assign(status="ok", samples=20, gpu=DEVICE["gpu"], uuid=DEVICE["uuid"])
    return table.assign(value=None, samples=0, **NO_GPU)


def cross_checks(summary: pd.DataFrame) -> pd.DataFrame:
    """do_bench 2% faster than the library's cold times of squares."""
    libraries = summary.variant.isin(["cublas_sgemm", "cublas_dgemm"])
    cold = (summary.phase == "kernel") & (summary.cache == "cold") & (summary.m == summary.n)
    rows = summary[libraries & cold & (summary.status == "ok")]
    theirs = rows.time_ms / 1.02
    return rows.assign(
        rounds=3, do_bench_ms=theirs, do_bench_low_ms=theirs * 0.99, do_bench_high_ms=theirs * 1.01,
        torch="2.9.1", triton="3.5.1", cublas="13.1.0", uuid=DEVICE["uuid"],
    )  # fmt: skip


def timer_checks() -> pd.DataFrame:
    """An empty kernel of 3 µs, and a recorder that costs 0.1% at each of two sizes."""
    empty = {"variant": "empty kernel", "n": None, "recorder": "off", "readings": 0, "samples": 200,
             "time_ms": 0.003, "time_low_ms": 0.00298, "time_high_ms": 0.00302}  # fmt: skip
    off, on = (
        {"variant": "cublas_sgemm", "recorder": recorder, "readings": readings, "samples": 16,
         "time_ms": time, "time_low_ms": time * 0.99, "time_high_ms": time * 1.01}
        for recorder, readings, time in (("off", 0, 1.0), ("on", 200, 1.001))
    )  # fmt: skip
    on |= {"ratio": 1.001, "ratio_low": 0.999, "ratio_high": 1.003}
    rows = [empty, *(row | {"n": n} for n in (320, 1024) for row in (off, on))]
    return pd.DataFrame(rows).assign(uuid=DEVICE["uuid"])
