"""Mistakes of measuring, each shown by what the data set measured on its GPU, and what the checks
of the timer found. What it cannot show is left out."""

from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import Results, at, power_capped, shapes_of, squares
from matmul_sweep.experiment.dataset.tables import POINT
from matmul_sweep.experiment.report.numbers import known
from matmul_sweep.operations.gemm import GEMM

MEAN_OF = 5  # launches in the mean that a classroom takes


def timer(results: Results) -> dict[str, float | None]:
    """What the timer reads for an empty kernel in µs, and by how much another program's times of
    cold products, below the power limit, differ from ours at most; each None if nobody checked."""
    empty = results.timer_check[results.timer_check.n.isna()].time_ms
    ours = results.timed(cache="cold")
    ours = ours[~power_capped(ours.throttled)]
    both = results.cross_check.merge(ours, on=["variant", *POINT, "cache"])
    return {
        "empty_us": known(empty.max() * 1e3),
        "difference": known((both.time_ms / both.do_bench_ms - 1).abs().max()),
    }


def measuring(whole: Results) -> dict[str, dict[str, Any]]:
    """The numbers of each mistake that the data set shows, by name."""
    results = whole.of(GEMM.name)
    waited, first, copied = (
        beside_kernel(results, phase, largest=largest)
        for phase, largest in (("submitted", True), ("first", False), ("end_to_end", True))
    )
    found: dict[str, dict[str, Any] | None] = {}
    if waited:
        found["not_waiting"] = waited | {"quotient": waited["kernel"] / waited["other"]}
    if first:
        mean = (first["other"] + (MEAN_OF - 1) * first["kernel"]) / MEAN_OF
        more = {"launches": MEAN_OF, "mean": mean, "quotient": mean / first["kernel"]}
        found["first_in_the_mean"] = first | more
    if copied:
        found["copies"] = copied | {"quotient": copied["other"] / copied["kernel"]}
    found |= {"one_size": one_size(results), "one_run": one_run(results)}
    return {name: numbers for name, numbers in found.items() if numbers}


def on_card(results: Results, phase: str) -> pd.DataFrame:
    """Times of square products on the GPU, by size."""
    rows = squares(results.timed(phase))
    return rows[results.gpu(rows)]


def beside_kernel(results: Results, phase: str, *, largest: bool) -> dict[str, Any] | None:
    """The times of a phase and of the kernel of one product: of the kernels with both, the fastest
    at the largest or smallest size."""
    kernels, others = on_card(results, "kernel"), on_card(results, phase)
    both = kernels.merge(others, on=["kernel", "variant", *POINT], suffixes=("", "_other"))
    if both.empty:
        return None
    size = both.n.max() if largest else both.n.min()
    row = both.loc[both.time_ms.where(both.n == size).idxmin()]
    product = {"n": int(row.n), "title": results.title(row.kernel)}
    return product | {"kernel": row.time_ms, "other": row.time_ms_other}


def one_size(results: Results) -> dict[str, Any] | None:
    """The least and the largest share of the library by the variant with the largest one."""
    rows = results.square_ratios()
    rows = rows[rows.kernel.map(results.hand_written).astype(bool)]
    if rows.empty:
        return None
    best = rows.loc[rows.ratio.idxmax()]
    rows = rows[(rows.variant == best.variant) & (rows.baseline == best.baseline)]
    if rows.n.nunique() < 2:
        return None
    ends = {"most": best, "least": rows.loc[rows.ratio.idxmin()]}
    titles = {"title": results.title(best.kernel), "library": results.title(best.baseline)}
    return titles | {name: {"n": int(row.n), "share": row.ratio} for name, row in ends.items()}


def one_run(results: Results) -> dict[str, Any] | None:
    """The shortest and the longest time of one product, the smallest of the fastest kernel."""
    kernels = on_card(results, "kernel")
    if kernels.empty:
        return None
    kernels = kernels[kernels.n == kernels.n.min()]
    kernel = kernels.loc[kernels.time_ms.idxmin()]
    taken = at(results.samples, shapes_of(kernels)[0])
    own = ["sweep", "variant", "fill", "mode", "phase", "cache"]
    taken = taken[(taken[own] == kernel[own]).all(axis=1) & (taken.baseline_of == "")].time_ms
    if len(taken) < 2:
        return None
    product = {"n": int(kernel.n), "title": results.title(kernel.kernel), "samples": len(taken)}
    return product | {"shortest": taken.min(), "longest": taken.max()}
