"""Figures that compare the kernels side by side: rate, share of the library by shape, and error."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from matmul.catalogue.entries import Kind
from matmul.operations import shape_of
from matmul.operations.operation import OTHER
from matmul.operations.shapes import Shape
from matmul.report.figures import style
from matmul.report.figures.figure_base import NothingToDraw, each_figure, gpu_compared, look
from matmul.report.selection import (
    Results,
    compared_errors,
    rate_unit,
    series_of,
    shapes_of,
    size_name,
    verdict_of,
)
from matmul.report.sourced_numbers import significant

MOST_SHAPES = 20  # columns of a heat map
SHADES, DARKEST = mpl.colormaps["Blues"], 1.25  # of the ratio: lightness alone distinguishes them


def bars(ax: Axes, results: Results, rows: pd.DataFrame, column: str) -> None:
    """A bar per row in its kernel's colour, hollow for a library, from the top down, with the names
    of the kernels at the left."""
    for place, (kernel, value) in enumerate(zip(rows.kernel, rows[column], strict=True)):
        colour = look(results, kernel).colour
        own = results.kind(kernel) is not Kind.LIBRARY
        ax.barh(place, value, height=0.72, color=colour if own else "white", edgecolor=colour,
                linewidth=1)  # fmt: skip
    ax.set_yticks(range(len(rows)), [results.title(kernel) for kernel in rows.kernel])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")


def in_catalogue_order(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    return rows.sort_values("kernel", key=lambda column: column.map(results.order.index))


def height_of(rows: Sequence[object] | pd.DataFrame) -> float:
    """The height in inches of a figure with a line of text for each of these."""
    return 1.1 + 0.2 * len(rows)


def rival_of(results: Results) -> str:
    """The library that kernels are compared with; of several routines the last that fills C."""
    return results.full_rivals[-1]


@each_figure("Kernel by kernel")
def ladder(results: Results) -> Figure:
    """Rate of each GPU kernel at one size, in the order of the catalogue, with its share of the
    library from pairs."""
    rows, unit, _ = gpu_compared(results)
    rows = in_catalogue_order(results, rows)
    rival = rival_of(results)
    made, (ax,) = style.panels(height=height_of(rows))
    bars(ax, results, rows, "rate")
    ratios = results.square_ratios()
    shares = ratios[ratios.baseline == rival].set_index(["variant", "n"]).ratio
    for place, row in enumerate(rows.itertuples()):
        share = shares.get((row.variant, row.n))
        words = significant(row.rate) + (f"   {share:.1%}" if share else "")
        ax.annotate(words, (row.rate, place), xytext=(4, 0), textcoords="offset points",
                    va="center", fontsize=style.SMALL_TEXT,
                    bbox=style.PAPER)  # fmt: skip
    held = rows[rows.kernel == rival]
    if len(held):
        ax.axvline(held.rate.iloc[0], color=style.INK, linewidth=0.9, linestyle=(0, (6, 2)))
        ax.set_title(
            f"dashed: {results.title(rival)}; percent: its time over the kernel's", loc="left"
        )
    ax.set_xlim(0, rows.rate.max() * 1.18)
    ax.set_xlabel(f"rate in {unit} at n = {rows.n.iloc[0]}")
    return made


def form_of(shape: Shape) -> str:
    """The group of a shape: its series for gram, and square or not."""
    return series_of(shape) or ("square" if shape.square else OTHER)


def shapes_by_form(rows: pd.DataFrame) -> list[list[Shape]]:
    """The shapes of these rows by form; if there are many, some from the smallest to the largest,
    with the same number for each form."""
    forms: dict[str, list[Shape]] = {}
    for shape in shapes_of(rows):
        forms.setdefault(form_of(shape), []).append(shape)
    return [thinned(shapes, MOST_SHAPES // len(forms)) for shapes in forms.values()]


def thinned(shapes: list[Shape], count: int) -> list[Shape]:
    """At most `count` of them, evenly spaced, including the first and the last."""
    if len(shapes) <= count:
        return shapes
    return [shapes[round(i * (len(shapes) - 1) / max(count - 1, 1))] for i in range(count)]


def best_shares(results: Results, rival: str) -> pd.DataFrame:
    """Ratios to one library, hot ones if there are any, for the best variant of each kernel at each
    shape. Raises NothingToDraw."""
    rows = results.ratios[results.ratios.baseline == rival]
    rows = hot if len(hot := rows[rows.cache == "hot"]) else rows
    if rows.empty:
        reason = results.gpu_absence()
        raise NothingToDraw(f"No kernel was timed beside {results.title(rival)} ({reason}).")
    return rows.loc[
        rows.groupby(["kernel", "m", "n", "k"], sort=False, dropna=False).ratio.idxmax()
    ]


@each_figure("Share of the library by shape")
def heat_map(results: Results) -> Figure:
    """Share of the library by kernel and shape; bold if the kernel is faster."""
    rival = rival_of(results)
    rows = best_shares(results, rival)
    forms = shapes_by_form(rows)
    shapes = [shape for form in forms for shape in form]
    cells = [(shape_of(row), row) for row in rows.itertuples()]
    cells = [(shape, row) for shape, row in cells if shape in shapes]
    shown = {row.kernel for _, row in cells}
    kernels = [kernel for kernel in results.order if kernel in shown]
    made, (ax,) = style.panels(height=height_of(kernels) + 0.9)
    for shape, row in cells:
        cell(ax, shapes.index(shape), kernels.index(row.kernel), row)
    ax.set_xlim(-0.5, len(shapes) - 0.5)
    ax.set_ylim(len(kernels) - 0.5, -0.5)
    ax.set_xticks(range(len(shapes)), [size_name(shape) for shape in shapes], rotation=90)
    ax.set_yticks(range(len(kernels)), [results.title(kernel) for kernel in kernels])
    ax.grid(visible=False)
    for end in pd.Series([len(form) for form in forms]).cumsum()[:-1]:
        ax.axvline(end - 0.5, color=style.INK, linewidth=1.5)
    ax.set_title(f"{results.title(rival)} time over kernel time, in percent", loc="left")
    return made


def cell(ax: Axes, x: int, y: int, row: Any) -> None:
    """A square with its percentage, darker for a faster kernel."""
    shade = min(row.ratio / DARKEST, 1.0)
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=SHADES(shade), linewidth=0))
    faster = verdict_of(row.ratio_low, row.ratio_high) == "faster"
    ax.text(x, y, f"{row.ratio * 100:.0f}", ha="center", va="center", fontsize=6.5,
            color="white" if shade > 0.55 else style.INK,
            fontweight="bold" if faster else "normal")  # fmt: skip


@each_figure("Speed and error", reduced=True)
def accuracy(results: Results) -> Figure:
    """Rate, and mean error of C's elements with the largest as whisker, one row per kernel, at the
    largest common size."""
    rows = in_catalogue_order(results, compared_errors(results))
    if rows.empty:
        raise NothingToDraw(
            f"No error of a timed product is on record ({results.absence(results.order)})."
        )
    unit, per_tflops = rate_unit(rows.tflops)
    rows = rows.assign(rate=rows.tflops * per_tflops, place=range(len(rows)))
    made, (left, right) = style.panels(2, height=height_of(rows))
    bars(left, results, rows, "rate")
    left.set_xlabel(f"rate in {unit} at n = {rows.n.iloc[0]}")
    for row in rows.itertuples():
        own = look(results, row.kernel)
        right.plot([row.mean_error, row.largest_error], [row.place] * 2, "|-", color=own.colour)
        style.draw_line(right, [row.mean_error], [row.place], own, row.kernel)
    style.powers_of_ten(right)
    right.set_xlabel("error as a share of Σ|a||b|")
    return made
