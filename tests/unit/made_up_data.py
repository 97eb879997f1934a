"""A small data set that no machine measured: plausible times, seeded, with holes on demand."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from matmul.catalogue import Catalogue, Kernel, Variant, load_catalogue
from matmul.dataset import COLUMNS, point_of, write_json, write_table
from matmul.reporting.results import Results, load_results
from matmul.shapes import Shape, parse_shape

SHAPES = {
    "gemm": (32, 320, 640, 1024, "3200x2400x1600"),
    "gram": (500, "1000x1001", 2500, 4500, "2250x4500", "4500x2250"),
}
PACE = {"c": 1e-6, "cuda": 1e-10, "library": 2e-11}  # ms per operation
COPIES = {"h2d": 2.0, "d2h": 1.0, "end_to_end": 4.0, "unified": 9.0}  # times the kernel
DEVICE = {
    "gpu": "Imaginary GPU",
    "compute_capability": "9.0",
    "date": "2026-01-02",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "dirty": False,
    "fp32_peak_tflops": 60.0,
    "fp64_peak_tflops": 30.0,
    "fp64_tensor_peak_tflops": 65.0,
    "cpu": "Imaginary CPU",
    "cores": 4,
    "configuration": {
        "sweeps": {
            "gemm": {"shapes": [32], "verify_shapes": [], "copies": True},
            "gram": {"shapes": [500], "verify_shapes": [], "copies": False, "caches": ["hot"],
                     "sampling": {"seconds": 2}},
        },
        "fill": "uniform",
        "seed": 1,
        "caches": ["hot", "cold"],
        "sampling": {"minimum": 10, "maximum": 20, "interval": 0.01, "seconds": 1,
                     "copy_seconds": 0.1},
        "limits": {"gpu_seconds": 5, "cpu_seconds": 6, "memory_share": 0.8},
    },
}  # fmt: skip

the_catalogue = functools.cache(load_catalogue)
Change = Callable[[pd.DataFrame], pd.DataFrame]


def made_up(
    folder: Path,
    gpu: bool = True,
    kernels: Sequence[str] = (),
    caches: Sequence[str] = ("hot", "cold"),
    shapes: Mapping[str, Sequence[int | str]] = SHAPES,
    device: dict | None = None,
    change: Change = lambda summary: summary,
    catalogue: Catalogue | None = None,
) -> Results:
    """Write a data set and load it; `change` alters its summary first."""
    catalogue = catalogue or the_catalogue()
    chosen = [
        kernel
        for name, kernel in catalogue.items()
        if name in (kernels or catalogue) and shapes.get(kernel.operation)
    ]
    variants = [variant for kernel in chosen for variant in kernel.variants]
    random = np.random.default_rng(7)
    rows = [
        row | {"kernel": variant.kernel.name, "variant": variant.name}
        for variant in variants
        for text in shapes[variant.kernel.operation]
        for row in point(variant, parse_shape(text, variant.kernel.operation), gpu, caches, random)
    ]
    columns = COLUMNS["summary.csv"]
    summary = change(pd.DataFrame(rows, columns=columns).astype({"k": "Int64"}))
    write_table(summary, "summary.csv", folder / "summary.csv")
    write_table(ratios(summary, catalogue), "ratios.csv", folder / "ratios.csv")
    write_table(verifications(variants, gpu), "verification.csv", folder / "verification.csv")
    write_table(records(chosen), "kernels.csv", folder / "kernels.csv")
    write_table(jobs(variants), "jobs.csv", folder / "jobs.csv")
    peaks = dict.fromkeys(key for key in DEVICE if key.endswith("_peak_tflops"))
    known = DEVICE if gpu else DEVICE | {"gpu": None} | peaks
    write_json(known if device is None else device, folder / "device.json")
    return load_results(folder, catalogue)


def point(
    variant: Variant, shape: Shape, gpu: bool, caches: Sequence[str], random: np.random.Generator
) -> list[dict]:
    """Summary rows of one point: all its phases, or why there are none."""
    kernel = variant.kernel
    what = point_of(kernel.dtype, shape)
    own = caches if kernel.on_gpu else ("hot",)
    reason = variant.refusal(shape)
    if kernel.on_gpu and not gpu:
        reason = "there is no GPU on this machine"
    if reason:
        refused = {"phase": "kernel", "status": "skipped", "reason": reason, "samples": 0}
        return [what | refused | {"cache": cache} for cache in own]
    width = variant.parameters.get("TILE_WIDTH", 16)
    pace = PACE[kernel.language if kernel.on_gpu else "c"] * (16 / width) ** 0.5
    time = (0.005 + shape.operations * pace) * random.uniform(0.9, 1.1)
    factors = {("kernel", cache): 1.2 if cache == "cold" else 1.0 for cache in own}
    factors["first", "cold"] = 3.0
    if kernel.on_gpu and shape.operation == "gemm":
        factors |= {(phase, "cold"): factor for phase, factor in COPIES.items()}
    state = {"sm_clock_mhz": 1980.0, "power_w": 300.0, "temperature_c": 50.0}
    return [
        what | span(phase, cache, time * factor, shape)
        | (state if kernel.on_gpu and phase == "kernel" else {})
        for (phase, cache), factor in factors.items()
    ]  # fmt: skip


def span(phase: str, cache: str, time_ms: float, shape: Shape) -> dict:
    """The columns of one measured phase."""
    timed = phase == "kernel"
    return {
        "phase": phase,
        "cache": cache,
        "status": "ok",
        "samples": 20,
        "time_ms": time_ms,
        "time_low_ms": time_ms * 0.99,
        "time_high_ms": time_ms * 1.01,
        "tflops": shape.operations / time_ms / 1e9 if timed else None,
        "error": 0.5 if timed else None,
    }


def ratios(summary: pd.DataFrame, catalogue: Catalogue) -> pd.DataFrame:
    """Library time over kernel time, wherever both are."""
    timed = summary[(summary.phase == "kernel") & (summary.status == "ok")]
    key = ["operation", "dtype", "m", "n", "k", "cache"]
    libraries = timed[["kernel", *key, "time_ms"]].rename(columns={"kernel": "baseline"})
    held = [(name, library) for name, k in catalogue.items() for library in k.baselines]
    rivals = pd.DataFrame(held, columns=["kernel", "baseline"])
    pairs = timed.merge(rivals, on="kernel").merge(
        libraries, on=["baseline", *key], suffixes=("", "_library")
    )
    ratio = pairs.time_ms_library / pairs.time_ms
    return pairs.assign(pairs=20, ratio=ratio, ratio_low=ratio * 0.99, ratio_high=ratio * 1.01)


def verifications(variants: Sequence[Variant], gpu: bool) -> pd.DataFrame:
    """Two small products per variant."""
    rows = []
    for variant in variants:
        kernel = variant.kernel
        skipped = kernel.on_gpu and not gpu and kernel.language == "library"
        where = "cpu" if not kernel.on_gpu else "gpu" if gpu else "emulation"
        for n in (1, 17):
            rows.append(
                point_of(kernel.dtype, parse_shape(n, kernel.operation))
                | {
                    "kernel": kernel.name, "variant": variant.name, "where": where,
                    "status": "skipped" if skipped else "ok",
                    "reason": "there is no GPU here" if skipped else "",
                    "error": None if skipped else n / 100,
                }
            )  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS["verification.csv"])


def records(kernels: Sequence[Kernel]) -> pd.DataFrame:
    rows = [
        {"kernel": kernel.name, "variant": variant.name, "sha256": "ab", "status": "ok",
         "registers": 32, "shared_bytes": 8192, "spill_bytes": 0, "occupancy": 0.75}
        for kernel in kernels for variant in kernel.variants
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS["kernels.csv"])


def jobs(variants: Sequence[Variant]) -> pd.DataFrame:
    rows = [{"variant": variant.name, "wall_s": 10.0, "start_s": 1.0, "inputs_s": 0.5,
             "verification_s": 2.0, "timed_s": 6.0} for variant in variants]  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS["jobs.csv"])
