"""Figures by size and of the studies. Each takes a data set and returns a matplotlib Figure."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from matmul.operations import OPERATIONS
from matmul.operations.gemm import GEMM
from matmul.operations.operation import Document
from matmul.report.facts.executed_rates import unit_peak
from matmul.report.figures import style
from matmul.report.figures.figure_base import (
    FIGURES,
    Draw,
    NothingToDraw,
    best_ratios,
    best_squares,
    each_figure,
    figure,
    finished,
    interval_bars,
    kernel_lines,
    look,
    name_lines,
)
from matmul.report.figures.style import Look
from matmul.report.selection import (
    AXES,
    Results,
    fastest,
    few,
    of_series,
    over_hot,
    rate_unit,
    shapes_of,
    size_name,
    squares,
    thermally_throttled,
)

RATIO = ("ratio", "ratio_low", "ratio_high")
EQUAL, PARITY = "equally fast", Look(style.INK, "", (0, (6, 2)))


def linear_durations(results: Results, document: str, unit: str, per_ms: float) -> Figure:
    """Time by size on linear axes, for the kernels that a document describes."""
    rows = best_squares(results, results.of_document(document))
    rows = rows.assign(time=rows.time_ms * per_ms)
    made, (ax,) = style.panels(height=3.1)
    drawn = kernel_lines(ax, results, rows, "time")
    style.size_axis(ax, rows.n, log=False)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"time in {unit}")
    name_lines([ax], results, [drawn])
    return made


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


@figure(GEMM, "Duration of every kernel, both axes logarithmic")
def duration_loglog(results: Results) -> Figure:
    """All kernels, with the slope of n³ operations at a constant rate."""
    rows = best_squares(results)
    made, (ax,) = style.panels(height=4.0)
    drawn = kernel_lines(ax, results, rows, "time_ms")
    style.size_axis(ax, rows.n)
    style.log_values(ax)
    ax.set_ylabel("time in ms")
    cubic_guide(ax, rows)
    name_lines([ax], results, [drawn])
    return made


def cubic_guide(ax: Axes, rows: pd.DataFrame) -> None:
    """A line of slope 3 below all points, from the fastest point of the largest size."""
    last = rows[rows.n == rows.n.max()].time_ms.min() / 3
    sizes = [rows.n.max() / 8, rows.n.max()]
    ax.plot(sizes, [last / 512, last], color=style.QUIET, linewidth=0.9, linestyle=(0, (2, 2)))
    ax.annotate("slope 3: time grows as n³", (sizes[0], last / 512), xytext=(8, 0),
                textcoords="offset points", va="top", fontsize=style.SMALL_TEXT,
                color=style.QUIET)  # fmt: skip


@each_figure("Rate over size")
def rate(results: Results) -> Figure:
    """Rate by size under the card's peaks, one panel per series; for the CPU kernels if none was
    timed on a GPU."""
    timed = fastest(results.timed())
    on_gpu = results.gpu(timed)
    timed = timed[on_gpu] if on_gpu.any() else timed
    forms = {name: of_series(timed, name) for name in results.product.series}
    panels = {name: own for name, own in (forms or {"": squares(timed)}).items() if len(own)}
    if not panels:
        raise NothingToDraw(f"No kernel was timed ({results.absence(results.order)}).")
    unit, per_tflops = rate_unit(timed.tflops)
    made, axes = style.panels(len(panels))
    axes[0].set_ylabel(f"rate in {unit} ({results.product.work} operations)")
    drawn, peaks = [], {}
    for ax, (name, own) in zip(axes, panels.items(), strict=True):
        drawn.append(kernel_lines(ax, results, own.assign(rate=own.tflops * per_tflops), "rate"))
        if on_gpu.any():
            peaks = peak_lines(ax, results, own.n, per_tflops)
        style.size_axis(ax, own.n, words="n, columns of C")
        ax.set_title(name, loc="left")
    axes[0].set_ylim(bottom=0)
    name_lines(axes, results, drawn, peaks)
    return made


def peak_lines(ax: Axes, results: Results, sizes: pd.Series, per_tflops: float) -> dict[str, Look]:
    """Draw the card's peaks, from number of units and clock, if they are known; return the look of
    each by its text."""
    dashes = [(0, (6, 2)), (0, (6, 2, 1, 2))]
    looks = {}
    for (unit, words), pattern in zip(results.product.units.items(), dashes, strict=False):
        if peak := unit_peak(results, unit):
            named = f"peak, {words}"
            looks[named] = Look(style.INK, "", pattern)
            ends = [sizes.min(), sizes.max()]
            style.draw_line(ax, ends, [peak.value * per_tflops] * 2, looks[named], named)
    return looks


@each_figure("Share of the library")
def share(results: Results) -> Figure:
    """Library time over kernel time for squares, neighbours in time, one panel per library routine
    that fills C, with the median's 95% interval."""
    rows = best_ratios(results)
    rivals = results.full_rivals
    panels = {name: own for name in rivals if len(own := rows[rows.baseline == name])}
    if not panels:
        names = " and ".join(map(results.title, rivals))
        raise NothingToDraw(f"No kernel was timed beside {names} ({results.absence(rivals)}).")
    made, axes = style.panels(len(panels))
    axes[0].set_ylabel("library time / kernel time")
    drawn = []
    for ax, (library, own) in zip(axes, panels.items(), strict=True):
        drawn.append(share_lines(ax, results, own))
        style.size_axis(ax, own.n)
        ax.set_title(f"against {results.title(library)}", loc="left")
    share_axis(axes[0], pd.concat(panels.values()))
    name_lines(axes, results, drawn, {EQUAL: PARITY})
    return made


def share_lines(ax: Axes, results: Results, rows: pd.DataFrame) -> list[str]:
    """Draw ratios to one library with intervals and the line of parity; return the kernels."""
    drawn = kernel_lines(ax, results, rows, "ratio")
    interval_bars(ax, results, rows, RATIO)
    style.draw_line(ax, [rows.n.min(), rows.n.max()], [1, 1], PARITY, EQUAL)
    return drawn


def share_axis(ax: Axes, rows: pd.DataFrame) -> None:
    """The limits of the axis in percent, from 0 to above parity and all of these ratios."""
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.set_ylim(0, max(1.1, rows[["ratio", "ratio_high"]].max(axis=None) * 1.05))


@figure(GEMM, "Tile width 16 against 32 at equal n")
def tile_width(results: Results) -> Figure:
    """Rate by tile width, one panel per kernel of document 001: the comparison that it intended."""
    kernels = [k for k in results.of_document("001")
               if "TILE_WIDTH" in results.catalogue[k].variants[0].parameters]  # fmt: skip
    rows = squares(results.timed())
    kernels_timed = [k for k in kernels if rows[rows.kernel == k].variant.nunique() > 1]
    if not kernels_timed:
        raise NothingToDraw(f"No kernel was timed at two tile widths ({results.absence(kernels)}).")
    made, axes = style.panels(len(kernels_timed))
    axes[0].set_ylabel("rate in TFLOP/s (2n³ operations)")
    for ax, kernel in zip(axes, kernels_timed, strict=True):
        own = look(results, kernel)
        widths = {v.name: v.parameters["TILE_WIDTH"] for v in results.catalogue[kernel].variants}
        for variant, width in sorted(widths.items(), key=lambda item: -item[1]):
            points = rows[rows.variant == variant]
            wide = width == max(widths.values())
            drawn = Look(own.colour, "o" if wide else "s", "-" if wide else (0, (2, 1.2)))
            style.draw_line(ax, points.n, points.tflops, drawn, f"TILE_WIDTH={width}")
            hot = points[thermally_throttled(points.throttled)]
            style.hollow(ax, hot.n, hot.tflops, drawn)
        style.size_axis(ax, rows[rows.kernel.isin(kernels_timed)].n)
        ax.set_title(results.title(kernel), loc="left")
        ax.legend(loc="lower right", frameon=True, framealpha=1, edgecolor=style.PALE)
    axes[0].set_ylim(bottom=0)
    return made


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
    return made


def speedups(results: Results, rows: pd.DataFrame, base: str) -> pd.DataFrame:
    """Time of `base` over the time of each other kernel, where both were measured."""
    slow = rows[rows.kernel == base].set_index("n").time_ms
    others = rows[(rows.kernel != base) & rows.n.isin(slow.index)]
    if base != "cpu_loop":
        others = others[results.gpu(others)]
    return others.assign(speedup=others.n.map(slow) / others.time_ms)


@figure(GEMM, "What the L2 gives: over hot times", one_cache=False)
def hot_and_cold(results: Results) -> Figure:
    """Times on rotating buffers and with the L2 cleared, over hot ones, for square products by the
    variant that is fastest hot."""
    panels = {
        title: rows
        for cache, title in (("rotated", "rotating buffers"), ("cold", "L2 cleared"))
        if len(rows := few(results, squares(over_hot(results, cache))))
    }
    if not panels:
        reason = results.gpu_absence()
        raise NothingToDraw(f"No kernel was timed both hot and cold ({reason}).")
    made, axes = style.panels(len(panels))
    axes[0].set_ylabel("time / hot time")
    drawn = []
    for ax, (title, rows) in zip(axes, panels.items(), strict=True):
        drawn.append(kernel_lines(ax, results, rows, "ratio"))
        interval_bars(ax, results, rows, RATIO)
        style.parity(ax)
        style.size_axis(ax, rows.n)
        ax.set_title(title, loc="left")
    name_lines(axes, results, drawn)
    return made


@figure(None, "What the inputs hold: rate and power")
def fills(results: Results) -> Figure:
    """Rate and power by fill, at one large size."""
    return study_panels(results, "fill", {"power_w": "power in W"}, joined=False)


@figure(None, "Burst against sustained load")
def sustained(results: Results) -> Figure:
    """Rate, clock and power at once and after seconds of load, at one large size."""
    columns = {"sm_clock_mhz": "SM clock in MHz", "power_w": "power in W"}
    return study_panels(results, "mode", columns, joined=True)


@figure(None, "Error against speed, by what the inputs hold")
def error_and_speed(results: Results) -> Figure:
    """Mean error over rate in a panel for each fill, at one large size. Kernels with reduced
    arithmetic are among them; an error of zero has no place on the axis."""
    rows = results.study_points("fill", reduced=True).query("mean_error > 0")
    if rows.empty:
        raise NothingToDraw(f"Not measured: {results.study_absence('fill')}.")
    unit, per_tflops = rate_unit(rows.tflops)
    rows = rows.assign(rate=rows.tflops * per_tflops)
    values = [value for value in AXES["fill"] if value in set(rows.fill)]
    made, axes = style.panels(len(values))
    drawn = []
    for ax, value in zip(axes, values, strict=True):
        own = rows[rows.fill == value]
        drawn.append(kernel_lines(ax, results, own, "mean_error", "rate", joined=False))
        style.log_values(ax, style.power_of_ten)
        ax.set_xlim(0, rows.rate.max() * 1.1)
        ax.set_xlabel(f"rate in {unit}")
        ax.set_title(value, loc="left")
    axes[0].set_ylabel(f"mean error, share of Σ|a||b|, n = {size_name(shapes_of(rows)[0])}")
    name_lines(axes, results, drawn)
    return made


def study_panels(results: Results, axis: str, columns: Mapping[str, str], joined: bool) -> Figure:
    """A panel for the rate and one for each known column of `columns`, over the axis values."""
    rows = results.study_points(axis)
    if rows.empty:
        raise NothingToDraw(f"Not measured: {results.study_absence(axis)}.")
    values = [value for value in AXES[axis] if value in set(rows[axis])]
    unit, per_tflops = rate_unit(rows.tflops)
    rows = rows.assign(place=rows[axis].map(values.index), rate=rows.tflops * per_tflops)
    known = {column: words for column, words in columns.items() if rows[column].notna().any()}
    panels = {"rate": f"rate in {unit}"} | known
    sizes = ", ".join(dict.fromkeys(map(size_name, shapes_of(rows))))
    made, axes = style.panels(len(panels), sharey=False)
    drawn = []
    for ax, (column, words) in zip(axes, panels.items(), strict=True):
        own = rows.dropna(subset=[column])
        drawn.append(kernel_lines(ax, results, own, column, "place", joined))
        ax.set_xticks(range(len(values)), values, rotation=30, ha="right")
        ax.set_xlabel(f"{axis}, at n = {sizes}")
        ax.set_xlim(-0.4, len(values) - 0.6)
        ax.set_ylim(0, own[column].max() * 1.08)
        ax.set_title(words, loc="left")
    name_lines(axes, results, drawn)
    return made
