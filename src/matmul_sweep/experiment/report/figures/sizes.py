"""Figures over the size of square products. Each takes a data set and returns a Figure."""

from itertools import cycle

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import (
    Results,
    fastest,
    of_series,
    quotable,
    quotient_interval,
    squares,
    thermally_throttled,
)
from matmul_sweep.experiment.dataset.tables import POINT
from matmul_sweep.experiment.report.facts.peaks import unit_peak
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import beside, of_peak
from matmul_sweep.experiment.report.figures.figure_base import (
    figure,
    in_turn,
    kernel_lines,
    name_lines,
    need,
    of_one_card,
    rated,
)
from matmul_sweep.experiment.report.figures.style import Look
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.gemm import GEMM

LEAST = 0.05  # of the highest rate
A_LINE = 3  # sizes


def over_sizes(results: Results) -> pd.DataFrame:
    """What is drawn of an operation over sizes: what leads, if it is of enough squares for a line,
    with the libraries that were timed alone beside kernels only, else what was timed in turn."""
    leads = of_one_card(results, results.leads)
    if squares(leads).n.nunique() < A_LINE:
        return in_turn(results)
    return pd.concat([leads, rivals_of(results, leads)], ignore_index=True)


def rivals_of(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the libraries that fill C and have none of their own, each at the rate that follows
    from the fastest kernel's and its speed-up."""
    held = rows.merge(results.ratios, on=["kernel", "variant", *POINT, "cache"])
    left_out = {*filter(results.writes_half, held.baseline), *rows.kernel}
    held = held[~held.baseline.isin(left_out)]
    held = held.sort_values("tflops").drop_duplicates(["baseline", "m", "n", "k"], keep="last")
    found = held.assign(kernel=held.baseline, tflops=held.tflops / held.ratio)
    return found[[*rows.columns.intersection(found.columns)]]


@figure("Rate of square products: {product}", *OPERATIONS.values(), of=over_sizes)
def rate(results: Results) -> Figure:
    """Rate by size under the card's peaks, of squares or without one of the first series; for the
    CPU kernels if none was timed on a GPU."""
    timed = fastest(over_sizes(results))
    on_gpu = results.gpu(timed)
    timed = timed[on_gpu] if on_gpu.any() else timed
    forms = [squares(timed), *(of_series(timed, name) for name in results.product.series)]
    rows = next((own for own in forms if len(own)), timed[:0])
    need(rows, f"No kernel was timed ({results.absence(results.order)}).")
    rows, unit, per_tflops = rated(visible(rows))
    made, [[ax]] = style.panels(height=2.1)
    kernel_lines(ax, results, rows, "rate")
    if on_gpu.any():
        peak_lines(ax, results, rows.n, per_tflops)
    style.size_axis(ax, rows.n, words=style.SIZE if len(squares(rows)) else "n, columns of C")
    ax.set_ylim(bottom=0)
    ax.set_ylabel(unit)
    name_lines(ax, results)
    style.claim(made, of_peak(results, rows))
    return made


def visible(rows: pd.DataFrame) -> pd.DataFrame:
    """Without the sizes below the first at which a kernel reaches LEAST of the highest rate: all
    lines lie on the axis there."""
    best = rows.groupby("n").tflops.max()
    return rows[rows.n >= best[best >= LEAST * best.max()].index.min()]


def peak_lines(ax: Axes, results: Results, sizes: pd.Series, per_tflops: float) -> None:
    """The card's peaks, from number of units and clock, if they are known."""
    dashes = [(0, (6, 2)), (0, (6, 2, 1, 2))]
    for (unit, words), pattern in zip(results.product.units.items(), dashes, strict=False):
        if peak := unit_peak(results, unit):
            ends = [sizes.min(), sizes.max()]
            line = Look(style.INK, "", pattern)
            style.draw_line(ax, ends, [peak * per_tflops] * 2, line, f"peak, {words}")


@figure("Tile width 16 against 32 at equal n", GEMM)
def tile_width(results: Results) -> Figure:
    """Rate by tile width, one panel per kernel of document 001: the comparison that it intended."""
    kernels = [k for k in results.of_document("001")
               if "TILE_WIDTH" in results.catalogue[k].variants[0].parameters]  # fmt: skip
    widths = {variant.name: variant.parameters["TILE_WIDTH"]
              for k in kernels for variant in results.catalogue[k].variants}  # fmt: skip
    rows = squares(results.timed()).assign(width=lambda rows: rows.variant.map(widths))
    timed = [k for k in kernels if rows[rows.kernel == k].width.nunique() > 1]
    need(timed, f"No kernel was timed at two tile widths ({results.absence(kernels)}).")
    rows = visible(rows[rows.kernel.isin(timed)]).sort_values("width", kind="stable")
    made, [axes] = style.panels(len(timed), height=1.6)
    axes[0].set_ylabel("TFLOP/s")
    lines = [Look(style.INK, "s", (0, (2, 1.2))), Look(style.INK, "o")]
    for ax, kernel in zip(axes, timed, strict=True):
        by_width = rows[rows.kernel == kernel].groupby("width")
        for line, (width, own) in zip(cycle(lines), by_width, strict=False):
            hot = thermally_throttled(own.throttled)
            style.draw_line(ax, own.n, own.tflops, line, f"tiles of {width:.0f}", hot=hot)
        style.size_axis(ax, rows.n)
        ax.set_title(results.title(kernel), loc="left")
    axes[0].set_ylim(bottom=0)
    name_lines(axes[-1], results)
    style.claim(made, wider(results, rows[rows.kernel == timed[0]]))
    return made


def wider(results: Results, rows: pd.DataFrame) -> str:
    """How the widest tiles of a kernel compare with the narrowest, at the largest size with enough
    samples; `rows`: from narrow to wide."""
    own = quotable(rows)
    here = own[own.n == own.n[own.duplicated("n")].max()]
    if here.empty:
        return ""
    narrow, wide = here.iloc[0], here.iloc[-1]
    words = beside(narrow.time_ms / wide.time_ms, *quotient_interval(narrow, wide))
    return (f"At n = {wide.n}, {results.title(wide.kernel)} with tiles of {wide.width:.0f} is "
            f"{words} with tiles of {narrow.width:.0f}")  # fmt: skip
