"""Mistakes of measuring, each shown by what the data set measured on its GPU. What it cannot show
is left out."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import Results, at, power_capped, shapes_of, squares
from matmul_sweep.experiment.dataset.tables import POINT as PLACE
from matmul_sweep.experiment.report.numbers import known
from matmul_sweep.operations.gemm import GEMM

MEAN_OF = 5  # launches in the mean that a classroom takes
POINT = ["variant", "n", "fill", "mode"]  # of a square product in the sweep of its operation
Shown = dict[str, Any] | None


def measuring(whole: Results) -> dict[str, dict[str, Any]]:
    """The numbers of each mistake that the data set shows, by name."""
    results = whole.of(GEMM.name)
    shows: tuple[Callable[[Results], Shown], ...] = (
        not_waiting, first_in_the_mean, copies, one_size, one_run,
    )  # fmt: skip
    found = {show.__name__: show(results) for show in shows}
    return {name: numbers for name, numbers in found.items() if numbers}


def timer(results: Results) -> dict[str, float | None]:
    """What the timer reads for an empty kernel in µs, and by how much another program's times of
    cold products, below the power limit, differ from ours at most; each None if nobody checked."""
    empty = results.timer_check[results.timer_check.n.isna()].time_ms
    ours = results.timed(cache="cold")
    ours = ours[~power_capped(ours.throttled)]
    both = results.cross_check.merge(ours, on=["variant", *PLACE, "cache"])
    return {
        "empty_us": known(empty.max() * 1e3),
        "difference": known((both.time_ms / both.do_bench_ms - 1).abs().max()),
    }


def on_card(results: Results, phase: str) -> pd.DataFrame:
    """Times of square products on the GPU, by size."""
    rows = squares(results.timed(phase))
    return rows[results.gpu(rows)]


def beside_kernel(
    results: Results, phase: str, size: Callable[[pd.Series], int]
) -> tuple[dict[str, Any], float, float] | None:
    """A phase and the kernel of one product, as facts and as numbers: of the kernels with both, the
    fastest at a size."""
    others, kernels = on_card(results, phase), on_card(results, "kernel")
    kernels = kernels[kernels.set_index(POINT).index.isin(others.set_index(POINT).index)]
    if kernels.empty:
        return None
    kernels = kernels[kernels.n == size(kernels.n)]
    row = kernels.loc[kernels.time_ms.idxmin()]
    other = float(others[(others[POINT] == row[POINT]).all(axis=1)].iloc[0].time_ms)
    kernel = float(row.time_ms)
    return product(results, row) | {phase: other, "kernel": kernel}, other, kernel


def product(results: Results, row: pd.Series) -> dict[str, Any]:
    return {"n": int(row.n), "title": results.title(row.kernel)}


def not_waiting(results: Results) -> Shown:
    """Handing over the largest product, and the product."""
    if not (found := beside_kernel(results, "submitted", max)):
        return None
    facts, submitted, kernel = found
    return facts | {"quotient": kernel / submitted}


def first_in_the_mean(results: Results) -> Shown:
    """What the first launch does to a mean, at the smallest size."""
    if not (found := beside_kernel(results, "first", min)):
        return None
    facts, first, kernel = found
    mean = (first + kernel * (MEAN_OF - 1)) / MEAN_OF
    quotient = mean / kernel
    return facts | {"launches": MEAN_OF, "mean": mean, "quotient": quotient}


def copies(results: Results) -> Shown:
    """The largest product with and without its copies."""
    if not (found := beside_kernel(results, "end_to_end", max)):
        return None
    facts, whole, kernel = found
    return facts | {"quotient": whole / kernel}


def one_size(results: Results) -> Shown:
    """The least and the largest share of the library by the variant with the largest one."""
    rows = results.square_ratios()
    rows = rows[rows.kernel.map(results.hand_written).astype(bool)]
    if rows.empty:
        return None
    best = rows.loc[rows.ratio.idxmax()]
    rows = rows[(rows[["variant", "baseline"]] == best[["variant", "baseline"]]).all(axis=1)]
    least = rows.loc[rows.ratio.idxmin()]
    if least.n == best.n:
        return None
    return {
        "title": results.title(best.kernel),
        "library": results.title(best.baseline),
        "most": {"n": int(best.n), "share": float(best.ratio)},
        "least": {"n": int(least.n), "share": float(least.ratio)},
    }


def one_run(results: Results) -> Shown:
    """The shortest and the longest time of one product, the smallest of the fastest kernel."""
    kernels = on_card(results, "kernel")
    if kernels.empty:
        return None
    kernels = kernels[kernels.n == kernels.n.min()]
    kernel = kernels.loc[kernels.time_ms.idxmin()]
    [shape] = shapes_of(kernels)
    own = ["sweep", "variant", "fill", "mode", "phase", "cache"]
    taken = at(results.samples, shape)
    taken = taken[(taken[own] == kernel[own]).all(axis=1) & (taken.baseline_of == "")]
    if len(taken) < 2:
        return None
    shortest, longest = (taken.loc[pick()] for pick in (taken.time_ms.idxmin, taken.time_ms.idxmax))
    return product(results, kernel) | {
        "samples": len(taken),
        "shortest": float(shortest.time_ms),
        "longest": float(longest.time_ms),
    }
