"""The documents' timing charts: time over size, with the documents' own times as crosses.

Every report begins with these figures. So they have something to draw whatever was measured: where
a data set has no time of a GPU's kernel, the times of a published set stand for it, dashed.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import (
    Results,
    fastest,
    of_series,
    processor,
    quotable,
    squares,
    thermally_throttled,
)
from matmul_sweep.experiment.report.facts.documents import document_times
from matmul_sweep.experiment.report.facts.published import stand_in
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import listed
from matmul_sweep.experiment.report.figures.figure_base import figure, in_turn, look, name_lines
from matmul_sweep.experiment.report.figures.style import Look
from matmul_sweep.experiment.report.numbers import UNITS, in_unit, significant
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.gram import GRAM

IN_MS = 1000.0  # the longest time that is drawn in milliseconds on linear axes
PROCESSOR, SQUARE = ["cpu_loop", "cpu_blas"], ["naive", "shared"]  # SQUARE: of 002 and 003
ANY_SHAPE = ["naive_rect", "shared_rect", "shared_rect_split"]  # of document 000
GUIDE = Look(style.QUIET, "", (0, (2, 2)))
NO_POINTS = pd.DataFrame(columns=["kernel", "n", "time_ms", "text"])
Select = Callable[[pd.DataFrame], pd.DataFrame]


def times_of(
    results: Results, kernels: Sequence[str], select: Select = squares, most: float = math.inf
) -> pd.DataFrame:
    """The times of these kernels up to a size, in their order: of the fastest variants, and of the
    shapes that `select` keeps. `hot`: the card slowed down for heat; `card`: that of the published
    set which has these times, or empty if they were measured here."""

    def chosen(source: Results, card: str) -> pd.DataFrame:
        rows = select(fastest(in_turn(source)))
        rows = rows[rows.kernel.isin(kernels) & (rows.n <= most)]
        hot = thermally_throttled(rows.throttled)
        return rows[["kernel", "n", "time_ms", "time_low_ms"]].assign(hot=hot, card=card)

    own = chosen(results, "")
    if other := stand_in(results):
        theirs = chosen(other.of(results.product.name), processor(other.device))
        theirs = theirs[other.gpu(theirs) & ~theirs.kernel.isin(own.kernel)]
        own = pd.concat([rows for rows in (own, theirs) if len(rows)] or [own])
    return own.sort_values("kernel", key=lambda names: names.map([*kernels].index), kind="stable")


def draw_lines(ax: Axes, results: Results, rows: pd.DataFrame, per_ms: float = 1.0) -> None:
    """A line for each kernel, dashed if its times are published ones."""
    other = stand_in(results)
    for (kernel, card), own in rows.groupby(["kernel", "card"], sort=False):
        line, mark = look(results, kernel), None
        if other and card:
            line = look(other.of(results.product.name), kernel)
            line, mark = dataclasses.replace(line, dashes=style.DASHES), style.PUBLISHED
        style.draw_line(ax, own.n, own.time_ms * per_ms, line, kernel, mark, own.hot)


def draw_crosses(
    ax: Axes, results: Results, points: pd.DataFrame, per_ms: float = 1.0, named: bool = False
) -> None:
    """The documents' own times, each in the colour of the line that it is compared with; `named`:
    those at their largest size have a name, as lines have."""
    drawn = style.named_lines(ax)
    for point in points.itertuples():
        line, last = drawn.get(point.kernel), named and point.n == points.n.max()
        ax.plot(point.n, point.time_ms * per_ms, "x",
                color=line.get_color() if line else style.INK, markersize=6, markeredgewidth=1.5,
                label=f"{results.title(point.kernel)}: {point.text}" if last else None,
                zorder=4, gid=style.CROSS, clip_on=False)  # fmt: skip


def tick(ms: float) -> str:
    """`10 µs`, `1 ms`, `100 s`."""
    value, unit = in_unit(ms)
    return f"{value:.4g} {unit}"


def common_sizes(rows: pd.DataFrame) -> pd.DataFrame:
    """Times by size and kernel, of the sizes at which all the kernels have one."""
    return rows.pivot(index="n", columns="kernel", values="time_ms").dropna()


def took(results: Results, rows: pd.DataFrame) -> str:
    """What a product takes with each of several kernels at their largest common size, the slowest
    first."""
    common = common_sizes(rows)
    if common.empty or len(common.columns) < 2:
        return ""
    cards = rows.groupby("kernel").card.first()
    one = cards.iloc[0] if cards.nunique() == 1 else ""
    said = []
    for kernel, ms in common.iloc[-1].sort_values(ascending=False).items():
        value, unit = in_unit(ms)
        name = " on ".join(filter(None, [results.title(kernel), "" if one else cards[kernel]]))
        said.append(f"{significant(value)}\u00a0{unit} ({name})")
    where = f"On an {one}, a" if one else "A"
    return f"{where} product of n = {common.index[-1]} takes {listed(said)}"


@figure("Time of square products in seconds, as in document 002", GEMM)
def time_seconds(results: Results) -> Figure:
    """On linear axes: left with the document's points, right the GPU's kernels only."""
    points = document_times(GEMM.name, "002")
    own, loop = (times_of(results, names, most=points.n.max()) for names in (SQUARE, PROCESSOR[:1]))
    panels = {"with document 002's times": (own, points, loop),
              "without them": (own, NO_POINTS, loop[:0])}  # fmt: skip
    return two_panels(results, "s", panels)


@figure("Time of square products in milliseconds, as in document 003", GEMM)
def time_milliseconds(results: Results) -> Figure:
    """On linear axes: left small products with the document's points, right the sizes at which
    every kernel takes less than a second."""
    rows = times_of(results, [*SQUARE, *results.full_rivals])
    points = document_times(GEMM.name, "003")
    points = points[points.time_ms <= IN_MS]
    small = rows[rows.n <= points.n.max()]
    blas = times_of(results, PROCESSOR[1:], most=points.n.max())
    large = rows[rows.n <= common_sizes(rows[rows.time_ms <= IN_MS]).index.max()]
    panels = {"with document 003's times": (small, points, blas),
              "larger products": (large, NO_POINTS, blas[:0])}  # fmt: skip
    return two_panels(results, "ms", panels)


def two_panels(view: Results, unit: str, panels: Mapping[str, tuple[pd.DataFrame, ...]]) -> Figure:
    """Panels by their titles, on linear axes from 0: times, a document's points, and times beside
    them, which may leave the axes."""
    made, [axes] = style.panels(len(panels), height=2.5, sharey=False)
    per_ms = 1 / UNITS[unit]
    for ax, (title, (rows, points, beside)) in zip(axes, panels.items(), strict=True):
        draw_lines(ax, view, rows, per_ms)
        draw_crosses(ax, view, points, per_ms, named=True)
        _, top = ax.get_ylim()
        draw_lines(ax, view, beside, per_ms)
        ax.set_ylim(0, top)
        ax.set_ylabel(f"time in {unit}")
        style.linear_sizes(ax, ticks=8)
        ax.set_title(title, loc="left")
        name_lines(ax, view, context=True)
    style.claim(made, took(view, next(iter(panels.values()))[0]))
    return made


@figure("Time of square products, both axes logarithmic", GEMM)
def time_loglog(results: Results) -> Figure:
    """The documents' kernels and the fastest one, the slope of n³, and all documents' points."""
    other = stand_in(results)
    told = results.told or (other.of(GEMM.name).told if other else [])
    named = [*PROCESSOR, *SQUARE, *ANY_SHAPE, *results.full_rivals, *told[-1:]]
    rows = times_of(results, list(dict.fromkeys(named)))
    made, [[ax]] = style.panels(height=3.3)
    logarithmic(ax, results, rows, document_times(GEMM.name))
    if len(rows):  # a line of slope 3 below all others
        n = rows.n.max()
        last = rows[rows.n == n].time_ms.min() / 4
        style.draw_line(ax, [n / 16, n], [last / 16**3, last], GUIDE, "slope of n³")
    name_lines(ax, results, context=True)
    best = (rows.time_ms / rows.n**3).groupby(rows.kernel).min().sort_values()
    ends = [*best.index[:1], *best.index[-1:]]
    style.claim(made, took(results, quotable(rows[rows.kernel.isin(ends)])))
    return made


def logarithmic(ax: Axes, results: Results, rows: pd.DataFrame, points: pd.DataFrame) -> None:
    """Lines and the documents' points on logarithmic axes."""
    draw_lines(ax, results, rows)
    draw_crosses(ax, results, points)
    style.size_axis(ax, [*rows.n, *points.n], crowd=False)
    style.log_values(ax, tick)


@figure("Time of AᵀA, as in document 004", GRAM)
def time(results: Results) -> Figure:
    """The document's three implementations in a panel for each form of A: above on linear axes as
    there, below on logarithmic ones with its points and the processor's times."""
    kernels = results.of_document("004")
    processors = [name for name in results.order if not results.on_gpu(name)]
    square = next(iter(GRAM.series))
    every = {name: times_of(results, [*kernels, *processors], partial(of_series, name=name))
             for name in GRAM.series}  # fmt: skip
    every = {name: rows for name, rows in every.items() if len(rows) or name == square}
    made, grid = style.panels(len(every), 2, height=1.95)
    for (above, below), (name, rows) in zip(grid.T, every.items(), strict=True):
        draw_lines(above, results, rows[rows.kernel.isin(kernels)], 1 / UNITS["s"])
        style.linear_sizes(above, words="")
        above.set_title(name, loc="left")
        points = document_times(GRAM.name) if name == square else NO_POINTS
        logarithmic(below, results, rows, points)
        below.set_xlabel("n, columns of A")
    grid[0, 0].set_ylabel("time in s")
    grid[0, 0].set_ylim(bottom=0)  # of the row, once all of it is drawn
    for ax in grid[:, -1]:
        name_lines(ax, results, context=True)
    rows = every[square]
    style.claim(made, took(results, rows[rows.kernel.isin(kernels)]))
    return made
