"""Compute everything that the report prints from a data set and the documents' numbers.

There are no sentences here, and each number carries the cells that it was computed from.
"""

import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from matmul_sweep.catalogue.entries import Kind, kernel_name, load_catalogue
from matmul_sweep.catalogue.schema import read_yaml
from matmul_sweep.experiment.dataset.selection import (
    Results,
    changed_variants,
    fastest,
    in_order,
    limits_of,
    load_results,
    points_of,
    processor,
    rate_unit,
    series_of,
    shapes_of,
    short_commit,
    size_name,
    version_words,
    with_others,
)
from matmul_sweep.experiment.dataset.sourced_numbers import cell
from matmul_sweep.experiment.dataset.sweeps import sweep_of, takes_place
from matmul_sweep.experiment.report.facts.beside import beside, documents_beside, ladders, loads
from matmul_sweep.experiment.report.facts.cards import cards
from matmul_sweep.experiment.report.facts.checks import cross_check, timer_check
from matmul_sweep.experiment.report.facts.findings import all_findings
from matmul_sweep.experiment.report.facts.measuring import measuring
from matmul_sweep.experiment.report.facts.random_shapes import random_shapes
from matmul_sweep.operations import OPERATIONS, fills, shape_of
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process import arguments
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_json

GIBIBYTE = 2**30
DRAWN = "drawn at random"


def tables_of(results: Results, documents: dict[str, Any]) -> dict[str, Any]:
    """tables.json."""
    return {
        "data_set": data_set(results),
        "device": device_facts(results.device),
        "scope": scope(results),
        "operations": operations(),
        "catalogue": catalogue_entries(results),
        "findings": all_findings(results),
        "published": beside(results),
        "ladders": ladders(results),
        "loads": loads(results),
        "rates": {operation: rates(results.of(operation)) for operation in OPERATIONS},
        "documents": documents_beside(results, documents),
        "random_shapes": random_shapes(results),
        "cards": cards(results),
        "not_measured": not_measured(results),
        "measuring": measuring(results),
        "sampling": sampling(results.device),
        "overlapping": overlapping(results),
        "cross_check": cross_check(results),
        "timer_check": timer_check(results),
    }


def data_set(results: Results) -> dict[str, Any]:
    """The facts that identify the data set on every page."""
    device = results.device
    return {
        "processor": processor(device),
        "date": device.get("date") or "date unknown",
        "commit": short_commit(device),
        "dirty": bool(device.get("dirty")),
        "earlier": version_words(results) or None,
    }


def operations() -> dict[str, dict[str, Any]]:
    """Each operation in words, in the order of the report."""
    return {
        operation.name: {
            "title": operation.title,
            "dtype": operation.dtype,
            "work": operation.work,
            "figures": operation.figure_prefix,
            "factors": ["Aᵀ" if operation.left_transposed else "A", "AB"[operation.right]],
        }
        for operation in OPERATIONS.values()
    }


def device_facts(device: dict[str, Any]) -> list[list[str]]:
    """Label and text for each fact of the machine; unknown ones say so."""
    compilers = [entry["compiler"] for entry in (device.get("compilers") or {}).values()]
    cuda = device.get("driver_cuda")
    facts = {
        "GPU": device.get("gpu") or "none",
        "compute capability": device.get("compute_capability"),
        "multiprocessors": device.get("multiprocessors"),
        "highest clock": with_unit(device.get("clock_mhz"), "MHz"),
        "float32 peak": with_unit(device.get("fp32_peak_tflops"), "TFLOP/s"),
        "float64 peak": with_unit(device.get("fp64_peak_tflops"), "TFLOP/s"),
        "float64 peak of the tensor cores": with_unit(
            device.get("fp64_tensor_peak_tflops"), "TFLOP/s"
        ),
        "memory, L2 cache": sizes(device.get("memory_bytes"), device.get("l2_bytes")),
        "power limit": with_unit(device.get("power_limit_w"), "W"),
        "driver": device.get("driver") and f"{device['driver']}{cuda_text(cuda)}",
        "cuBLAS": device.get("cublas"),
        "math mode": device.get("math_mode"),
    }
    if not device.get("gpu"):
        facts = {"GPU": "none"}
    facts |= {
        "processor": cpu_text(device),
        "BLAS on the CPU": device.get("blas"),
        "compilers": "; ".join(sorted(compilers)) or None,
    }
    optional = (
        "math mode", "multiprocessors", "highest clock", "float64 peak of the tensor cores"
    )  # fmt: skip
    return [
        [label, str(fact) if fact is not None else "unknown"]
        for label, fact in facts.items()
        if fact is not None or label not in optional
    ]


def with_unit(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:.4g} {unit}"


def sizes(memory: float | None, cache: float | None) -> str | None:
    if memory is None:
        return None
    return f"{memory / GIBIBYTE:.1f} GiB" + (f", {cache / 2**20:.0f} MiB" if cache else "")


def cuda_text(version: int | None) -> str:
    return f" (CUDA {version // 1000}.{version % 1000 // 10})" if version else ""


def cpu_text(device: dict[str, Any]) -> str | None:
    name, cores = device.get("cpu"), device.get("cores")
    return name and name + (f", {cores} cores" if cores else "")


def catalogue_entries(results: Results) -> list[dict[str, Any]]:
    """What the catalogue says about the kernels in the data."""
    known = [results.catalogue[name] for name in results.present if name in results.catalogue]
    return [
        {
            "name": k.name,
            "title": k.title,
            "lesson": k.lesson,
            "idea": k.idea or k.lesson,
        }
        for k in known
    ]


def scope(results: Results) -> dict[str, Any]:
    """How many points were timed, skipped and failed, on the GPU and on the CPU."""
    points = points_of(results.summary)
    gpu = results.gpu(points)
    counts = {
        where: {s: int((rows.status == s).sum()) for s in ("ok", "skipped", "failed")}
        for where, rows in (("gpu", points[gpu]), ("cpu", points[~gpu]))
    }
    checked = results.verification
    cuda = results.kernels[results.kernels.kernel.map(results.kind) == Kind.CUDA]
    timed = points[points.status == "ok"]
    return {
        "timed": counts,
        "on_gpu": results.timed_gpu,
        "cards": len(results.cards),
        "gpu_absence": results.absence(set(points[gpu].kernel))
        if gpu.any()
        else "the data set has no kernel for one",
        "architectures": sorted(set(results.instructions.architecture.dropna())),
        "compiled": {s: int((cuda.status == s).sum()) for s in ("ok", "failed")},
        "timed_and_verified": int((timed.error <= 1).sum()),
        "verified": {
            where: {s: int((rows.status == s).sum()) for s in ("ok", "failed")}
            for where, rows in checked[checked.status != "skipped"].groupby("where")
        },
        "operations": {
            operation: {
                "kernels": len(view.present),
                "variants": int(view.summary.variant.nunique()),
                "shapes": by_series(shapes_of(view.summary)),
            }
            for operation in OPERATIONS
            if (view := results.of(operation, reduced=True)).present
        },
    }


def by_series(shapes: Sequence[Shape]) -> list[dict[str, Any]]:
    """Names of shapes, grouped by series, in order."""
    return [group(name, own) for name, own in itertools.groupby(shapes, series_of)]


def group(name: str, shapes: Iterable[Shape]) -> dict[str, Any]:
    """The names of some shapes under one heading."""
    return {"series": name, "shapes": [size_name(shape) for shape in shapes]}


def rates(results: Results) -> dict[str, Any]:
    """An operation's main table: the rate of each kernel's fastest variant at each shape."""
    best = fastest(results.timed())
    unit, factor = rate_unit(best.tflops)
    cells = [
        cell(row, "tflops").times(factor).json() | {"limits": limits_of(row.throttled)}
        for _, row in best.iterrows()
    ]
    caches = sorted(set(best[results.gpu(best)].cache))
    return {"unit": unit, "caches": caches} | grid(results, best, cells)


def grid(results: Results, rows: pd.DataFrame, cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A table with a row per shape and a column per kernel: `cells`, one for each of `rows`."""
    columns = [kernel for kernel in results.order if kernel in set(rows.kernel)]
    places = [(row.kernel, shape_of(row)) for row in rows.itertuples()]
    found = dict(zip(places, cells, strict=True))
    return {
        "kernels": [{"name": name, "title": results.title(name)} for name in columns],
        "rows": [
            {
                "size": size_name(shape),
                "series": series_of(shape),
                "cells": [found.get((kernel, shape)) for kernel in columns],
            }
            for shape in shapes_of(rows)
        ],
    }


def not_measured(results: Results) -> dict[str, list[dict[str, Any]]]:
    """Points without a time, failed ones first, grouped by operation and similar reason; those of
    random shapes apart."""
    points = points_of(results.summary)
    points = points.assign(drawn=results.drawn(points))
    groups: dict[tuple[str, str, bool, str], list[pd.Series]] = {}
    for _, row in points[points.status != "ok"].iterrows():
        kind = (row.status, row.operation, row.drawn, pattern(row))
        groups.setdefault(kind, []).append(row)
    entries: dict[str, list[dict[str, Any]]] = {"failed": [], "skipped": []}
    for (status, _, drawn, words), rows in groups.items():
        shapes = in_order(map(shape_of, rows))
        entries[status].append(
            {
                "reason": ranged(words, [numbers_in(row) for row in rows]),
                "points": len(rows),
                "variants": shortened(results, rows),
                "shapes": [group(DRAWN, shapes)] if drawn else by_series(shapes),
            }
        )
    return entries


def shortened(results: Results, rows: Sequence[pd.Series]) -> list[str]:
    """The variants in these rows, or only a kernel's name if all of its variants are there."""
    of_kernel: dict[str, list[str]] = {}
    for row in rows:
        own = of_kernel.setdefault(row.kernel, [])
        own += [row.variant] if row.variant not in own else []
    every = results.summary.groupby("kernel").variant.nunique()
    return [
        name
        for kernel, variants in of_kernel.items()
        for name in ([kernel] if len(variants) == every[kernel] else variants)
    ]


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def impersonal(row: pd.Series) -> str:
    """A row's reason without its own shape and variant, so that similar reasons are equal."""
    text = str(row.reason).replace(str(shape_of(row)), "this shape")
    text = text.replace(row.variant, "the kernel")
    return re.sub(rf"^{re.escape(row.kernel)}\b", "the kernel", text)


def pattern(row: pd.Series) -> str:
    """A reason with a placeholder for each number."""
    return NUMBER.sub("{}", impersonal(row).replace("{", "(").replace("}", ")"))


def numbers_in(row: pd.Series) -> list[str]:
    return NUMBER.findall(impersonal(row))


def ranged(words: str, found: Sequence[Sequence[str]]) -> str:
    """The pattern with its numbers: one if all agree, otherwise the smallest to the largest."""
    spans = []
    for column in zip(*found, strict=True):
        ordered = sorted(set(column), key=float)
        spans.append(ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}")
    return words.format(*spans)


def sampling(device: dict[str, Any]) -> dict[str, Any]:
    """The configured stopping rules, inputs and limits; empty if the data set has none."""
    configuration = device.get("configuration") or {}
    sweeps, on_gpu = configuration.get("sweeps", {}), bool(device.get("gpu"))
    measured = [name for name, own in sweeps.items() if takes_place(own, on_gpu)]
    return {
        "sweeps": {name: sweep_of(configuration, name) for name in measured},
        "seed": configuration.get("seed"),
        "fills": fills.DESCRIPTIONS,
    }


def overlapping(results: Results) -> list[str]:
    """The dispatches that chose a kernel whose launches overlap. Of sources that have changed since
    they were measured, nobody knows."""
    changed = changed_variants(results.kernels, results.catalogue)
    today = results.kernels.kernel[~results.kernels.variant.isin(changed)]
    overlap = [name for name in today if results.catalogue[name].overlaps]
    timed = results.timed()
    found = set(timed.kernel[timed.ran.map(kernel_name).isin(overlap)])
    return [results.title(name) for name in results.order if name in found]


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_data_set(parser)
    parser.add_argument("--documents", type=Path, default=Path("reports/documents.yaml"))
    parser.add_argument("--output", type=Path, required=True, help="tables.json")
    options = arguments.parsed(parser)

    results = load_results(options.data, load_catalogue(options.catalogue))
    results = with_others(results, options.beside)
    write_json(tables_of(results, read_yaml(options.documents)), options.output)


if __name__ == "__main__":
    main()
