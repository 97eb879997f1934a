"""The figure of the time of square products beside the CPU's."""

import pandas as pd
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import Results, fastest, quotable, squares
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import times
from matmul_sweep.experiment.report.figures.figure_base import (
    figure,
    name_lines,
    need,
    size_panels,
)
from matmul_sweep.operations.gemm import GEMM


@figure("Speed-up over the CPU", GEMM)
def speedup(results: Results) -> Figure:
    """CPU time over kernel time at the sizes where both were measured: loop, and BLAS."""
    rows = squares(fastest(results.timed()))
    bases = {base: found for base in ("cpu_loop", "cpu_blas")
             if len(found := speedups(results, rows, base))}  # fmt: skip
    need(bases, "No size was measured both on the CPU and by another kernel.")
    panels = {f"over {results.title(base)}": found for base, found in bases.items()}
    made, axes = size_panels(results, panels, "speedup", "CPU time / kernel time")
    for ax in axes:
        style.log_values(ax)
    name_lines(axes, results)
    style.claim(made, highest_speedup(results, *list(bases.items())[-1]))
    return made


def highest_speedup(results: Results, base: str, rows: pd.DataFrame) -> str:
    """The fastest kernel at the largest size, over one of the CPU's."""
    row = rows[rows.n == rows.n.max()].sort_values("speedup").iloc[-1]
    return (
        f"At n = {row.n}, {results.title(row.kernel)} is {times(row.speedup)} as fast as "
        f"{results.title(base)}"
    )


def speedups(results: Results, rows: pd.DataFrame, base: str) -> pd.DataFrame:
    """Time of `base` over the time of each other kernel, where both were measured; without sizes at
    which `base` has too few samples for an interval, if it has enough at any."""
    own = rows[rows.kernel == base]
    sure = quotable(own)
    slow = (own if sure.empty else sure).set_index("n").time_ms
    others = rows[(rows.kernel != base) & rows.n.isin(slow.index)]
    if base != "cpu_loop":
        others = others[results.gpu(others)]
    return others.assign(speedup=others.n.map(slow) / others.time_ms)
