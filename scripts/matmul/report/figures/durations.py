"""Figures of the time of square products, as in the documents' charts, and beside the CPU's."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matmul.operations import OPERATIONS
from matmul.operations.gemm import GEMM
from matmul.operations.operation import Document
from matmul.report.figures import labels, style
from matmul.report.figures.claims import times
from matmul.report.figures.figure_base import (
    FIGURES,
    Draw,
    NothingToDraw,
    best_squares,
    figure,
    finished,
    kernel_lines,
    name_lines,
)
from matmul.report.selection import Results, common_sizes, quotable
from matmul.report.sourced_numbers import significant


def linear_durations(results: Results, document: str, unit: str, per_ms: float) -> Figure:
    """Time by size on linear axes, for the kernels that a document describes. The axis ends with
    the GPU's times: a point of the CPU above them is named at the edge."""
    rows = best_squares(results, results.of_document(document))
    rows = rows.assign(time=rows.time_ms * per_ms)
    made, (ax,) = style.panels(height=2.8)
    drawn = kernel_lines(ax, results, rows, "time")
    style.size_axis(ax, rows.n, log=False)
    gpu = results.gpu(rows)
    top = 1.08 * rows[gpu if gpu.any() else ~gpu].time.max()
    ax.set_ylim(0, top)
    ax.set_ylabel(f"time in {unit}")
    above = rows[rows.time > top]
    labels.name_beyond(ax, {
        row.n: f"{results.title(row.kernel)}: {significant(row.time)} {unit} at n = {row.n}"
        for row in above.itertuples()
    })  # fmt: skip
    inside = [name for name in drawn if name not in set(above.kernel)]
    name_lines([ax], results, [inside])
    style.claim(made, slowest_and_fastest(results, rows[gpu]))
    return made


def slowest_and_fastest(results: Results, rows: pd.DataFrame) -> str:
    """The times of the slowest and the fastest of several kernels at their largest common size."""
    if rows.kernel.nunique() < 2:
        return ""
    n = common_sizes(rows, list(rows.kernel.unique()))[-1]
    here = rows[rows.n == n].sort_values("time_ms")
    fast, slow = here.iloc[0], here.iloc[-1]
    return (
        f"At n = {n}, {results.title(fast.kernel)} takes {duration(fast.time_ms)} "
        f"and {results.title(slow.kernel)} {duration(slow.time_ms)}"
    )


def duration(ms: float) -> str:
    """A time in a unit that suits it."""
    return f"{significant(ms / 1000)} s" if ms >= 1000 else f"{significant(ms)} ms"


PER_MS = {"s": 1e-3, "ms": 1.0}  # of a document's unit


def draw_document(document: Document) -> Draw:
    """A document's chart: the same systems, on the same linear axes, in its unit."""
    return lambda results: linear_durations(
        results, document.document, document.unit, PER_MS[document.unit]
    )


for operation in OPERATIONS.values():
    for document in operation.documents:
        FIGURES[document.figure] = finished(
            draw_document(document), operation, document.title, reduced=False, one_cache=True
        )


@figure(GEMM, "Duration of square products, both axes logarithmic")
def duration_loglog(results: Results) -> Figure:
    """All kernels, with the slope of n³ operations at a constant rate."""
    rows = best_squares(results)
    made, (ax,) = style.panels(height=3.6)
    drawn = kernel_lines(ax, results, rows, "time_ms")
    style.size_axis(ax, rows.n)
    style.log_values(ax)
    ax.set_ylabel("time in ms")
    cubic_guide(ax, rows)
    name_lines([ax], results, [drawn])
    named = rows[rows.kernel.isin([*results.told, *results.full_rivals])]
    style.claim(made, slowest_and_fastest(results, named[results.gpu(named)]))
    return made


def cubic_guide(ax: Axes, rows: pd.DataFrame) -> None:
    """A line of slope 3 below all points, from the fastest point of the largest size."""
    last = rows[rows.n == rows.n.max()].time_ms.min() / 3
    sizes = [rows.n.max() / 8, rows.n.max()]
    ax.plot(sizes, [last / 512, last], color=style.QUIET, linewidth=0.9, linestyle=(0, (2, 2)))
    ax.annotate("slope 3: time grows as n³", (sizes[0], last / 512), xytext=(8, 0),
                textcoords="offset points", va="top", fontsize=style.SMALL_TEXT,
                color=style.QUIET)  # fmt: skip


@figure(GEMM, "Speed-up over the CPU")
def speedup(results: Results) -> Figure:
    """CPU time over kernel time at the sizes where both were measured: loop, and BLAS."""
    rows = best_squares(results)
    bases = {base: speedups(results, rows, base) for base in ("cpu_loop", "cpu_blas")}
    bases = {base: found for base, found in bases.items() if not found.empty}
    if not bases:
        raise NothingToDraw("No size was measured both on the CPU and by another kernel.")
    made, axes = style.panels(len(bases))
    axes[0].set_ylabel("CPU time / kernel time")
    drawn = []
    for ax, (base, found) in zip(axes, bases.items(), strict=True):
        drawn.append(kernel_lines(ax, results, found, "speedup"))
        style.size_axis(ax, found.n)
        style.log_values(ax)
        style.parity(ax)
        ax.set_title(f"over {results.title(base)}", loc="left")
    name_lines(axes, results, drawn)
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
