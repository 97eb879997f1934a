"""Mistakes of measuring, each shown by what the data set measured on its GPU, and what the checks
of the timer found. What it cannot show is left out."""

from typing import Any

from matmul_sweep.experiment.dataset.selection import Results, quotable, squares
from matmul_sweep.experiment.dataset.tables import POINT, PRODUCT
from matmul_sweep.experiment.report.numbers import known
from matmul_sweep.operations.gemm import GEMM

# Mistakes that a phase shows beside the kernel's own time, at the largest or the smallest size.
SHOWN_BY = {
    "not_waiting": ("submitted", max),
    "first_in_the_mean": ("first", min),
    "copies": ("end_to_end", max),
}


def timer(results: Results) -> dict[str, Any]:
    """What the timer reads for an empty kernel in µs, and by how much another program's times of
    the largest products differ from ours alone at most; each None if nobody checked. `of`: whose
    products these were, of `n`."""
    empty = results.timer_check[results.timer_check.n.isna()].time_ms
    key = ["variant", *PRODUCT, "fill", "mode"]
    both = results.cross_check[[*key, "do_bench_ms"]].merge(results.timed(cache="alone"), on=key)
    both = both[both.n == both.n.max()]
    return {
        "empty_us": known(empty.max() * 1e3),
        "n": known(both.n.max()),
        "of": [results.title(name) for name in results.order if name in set(both.kernel)],
        "difference": known((both.time_ms / both.do_bench_ms - 1).abs().max()),
    }


def measuring(whole: Results) -> dict[str, dict[str, Any]]:
    """The numbers of each mistake that the data set shows, by name: the times of a phase and of the
    kernel of one product, of the kernels with both the fastest at that size."""
    results = whole.of(GEMM.name)
    found = {}
    for name, (phase, extreme) in SHOWN_BY.items():
        kernels, others = (squares(results.timed(which)) for which in ("kernel", phase))
        others = others if phase == "first" else quotable(others)
        key = ["kernel", "variant", *POINT]
        both = kernels[results.gpu(kernels)].merge(others, on=key, suffixes=("", "_other"))
        if both.empty:
            continue
        row = both.loc[both.time_ms.where(both.n == extreme(both.n)).idxmin()]
        found[name] = {
            "n": int(row.n),
            "title": results.title(row.kernel),
            "kernel": row.time_ms,
            "other": row.time_ms_other,
            "quotient": row.time_ms_other / row.time_ms,
        }
    return found
