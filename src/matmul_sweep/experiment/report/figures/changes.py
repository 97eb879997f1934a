"""The figure of the changes between two data sets: a line per kernel, a panel per operation."""

from collections.abc import Sequence
from statistics import geometric_mean

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from matmul_sweep.experiment.dataset.selection import Results, in_words
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.figure_base import kernel_lines, look, name_lines
from matmul_sweep.operations import OPERATIONS

QUANTITY = {"times": "time", "ratios": "time relative to the library"}
LARGE = 3  # times the smallest change, from which on a panel is in doublings


def draw_changes(
    points: pd.DataFrame, results: Results, what: str, tolerance: float, sources: Sequence[str]
) -> Figure:
    """The changes of compare_points over the size, for the key `what` of VALUES, in a panel per
    operation.

    `results` decides how the kernels look; `sources` says where A and B come from.
    """
    sized = points.assign(n=size(points))
    own = [(OPERATIONS[name], rows) for name, rows in sized.groupby("operation", sort=False)]
    with style.theme():
        made, grid = style.panels(rows=len(own), height=4.4 if len(own) == 1 else 3.2)
        for ax, (operation, rows) in zip(grid[:, 0], own, strict=True):
            draw_operation(ax, rows, results, tolerance)
            ax.set_title(in_words(operation), loc="left")
        made.supylabel(f"change of {QUANTITY[what]}", fontsize="medium")
        grid[-1, 0].set_xlabel("size: the cube root of m·n·k, for AᵀA of m·n·n")
        notes = [
            "lines: geometric means over variants and caches; bars: points faster or slower",
            f"shaded: ±{tolerance:.1%} from run to run, beside the timer's step",
        ]
        source = " · ".join(f"{side}: {words}" for side, words in zip("AB", sources, strict=True))
        style.finish(made, f"Change of {QUANTITY[what]}, from A to B", notes, source)
    return made


def draw_operation(ax: Axes, points: pd.DataFrame, results: Results, tolerance: float) -> None:
    """The changes of the kernels of one operation; in doublings where they are large."""
    means = points.groupby(["kernel", "n"], as_index=False).change.agg(geometric_mean)
    ax.axhspan(1 / (1 + tolerance), 1 + tolerance, color=style.PALE, alpha=0.5, linewidth=0)
    style.parity(ax)
    kernel_lines(ax, results, means, "change")
    single_points(ax, results, points[points.verdict.isin(["faster", "slower"])])
    style.size_axis(ax, means.n, words="")
    if means.change.max() > LARGE * means.change.min():
        ax.set_yscale("log", base=2)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda change, _: f"×{change:g}"))
    else:
        low, high = ax.get_ylim()
        ax.set_ylim(min(low, 1 - 2 * tolerance), max(high, 1 + 2 * tolerance))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda change, _: f"{change - 1:+.1%}"))
    name_lines([ax], results, context=True)


def size(points: pd.DataFrame) -> pd.Series:
    """The n of a square product with as many terms, a scale for all shapes."""
    return (points.m * points.n * points.k.fillna(points.n)).astype(float) ** (1 / 3)


def single_points(ax: Axes, results: Results, points: pd.DataFrame) -> None:
    """Single points with the intervals of their changes."""
    for kernel, own in points.groupby("kernel"):
        spans = [own.change - own.change_low, own.change_high - own.change]
        drawn = look(results, kernel)
        ax.errorbar(own.n, own.change, spans, fmt=drawn.marker or ".", color=drawn.colour,
                    markersize=3, elinewidth=0.8, capsize=1.5)  # fmt: skip
