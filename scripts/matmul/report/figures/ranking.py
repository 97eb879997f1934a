"""Figures that compare the kernels at one size, or shape by shape: steps, shares, and error."""

import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from matmul.operations import shape_of
from matmul.operations.operation import OTHER
from matmul.operations.shapes import Shape
from matmul.report.facts.quotients import quotient
from matmul.report.figures import labels, style
from matmul.report.figures.claims import against_libraries, faster_at, reduced_beside_full, times
from matmul.report.figures.dips import because
from matmul.report.figures.figure_base import (
    NothingToDraw,
    each_figure,
    gpu_compared,
    kernel_lines,
    look,
    name_lines,
)
from matmul.report.selection import (
    Results,
    at,
    compared_errors,
    rate_unit,
    series_of,
    shapes_of,
    size_name,
    verdict_of,
)
from matmul.report.sourced_numbers import significant

MOST_SHAPES = 18  # rows of a table of shares
SHADES, DARKEST = mpl.colormaps["Blues"], 1.25  # of the ratio: lightness alone distinguishes them
SHORT_MS = 0.01  # a library's product below it is mostly launching, so its cells have no shade
LETTERS = 9  # of a line of a kernel's name
SLOW = 0.85  # of the highest share at a shape


@each_figure("Step by step")
def ladder(results: Results) -> Figure:
    """The steps that are told of as a staircase of rates at one size: each with its gain over the
    step before, and the rate of each library in the pairs that it was timed in with the step."""
    rows, unit, per_tflops = gpu_compared(results)
    named = [kernel for kernel in results.told if kernel in set(rows.kernel)]
    if not named:
        raise NothingToDraw(f"No kernel was timed on a GPU ({results.gpu_absence()}).")
    steps = [rows[rows.kernel == kernel].iloc[0] for kernel in named]
    made, (ax,) = style.panels(height=3.2)
    for place, row in enumerate(steps):
        ax.bar(
            place, row.rate, width=0.78, color=look(results, row.kernel).colour, label=row.kernel
        )
        words = gained(results, steps[place - 1], row) if place else ""
        ax.annotate(significant(row.rate) + words, (place, row.rate), xytext=(0, 3), ha="center",
                    textcoords="offset points", fontsize=style.SMALL_TEXT, bbox=style.PAPER,
                    zorder=5)  # fmt: skip
    beside_steps(ax, results, steps, per_tflops)
    titles = [in_lines(results.title(row.kernel)) for row in steps]
    ax.set_xticks(range(len(steps)), titles)
    ax.grid(visible=False, axis="x")
    ax.set_ylabel(f"{unit} at n = {size_name(shape_of(steps[0]))}")
    ax.set_ylim(0, ax.get_ylim()[1] * 1.06)
    style.claim(made, climbed(results, steps))
    return made


def in_lines(title: str) -> str:
    """A kernel's name in short lines of whole words."""
    return textwrap.fill(title, LETTERS, break_long_words=False)


def gained(results: Results, before: pd.Series, row: pd.Series) -> str:
    """`\\n×2.7`: how many times as fast a step is as the one before; empty if they cannot be
    compared."""
    found = quotient(results, before, row)
    if not found:
        return ""
    return f"\n×{significant(found.value.value, 2 if found.value.value >= 1.1 else 3)}"


def beside_steps(ax: Axes, results: Results, steps: Sequence[pd.Series], per_tflops: float) -> None:
    """A dash over each step for each library that fills C, at its rate beside that step: rates of
    separate jobs differ by the card's clock."""
    for name in results.full_rivals:
        own = results.ratios[results.ratios.baseline == name]
        for place, row in enumerate(steps):
            pairs = at(own[(own.variant == row.variant) & (own.cache == row.cache)], shape_of(row))
            if len(pairs):
                rate = row.tflops / pairs.ratio.iloc[0] * per_tflops
                ax.plot([place - 0.45, place + 0.45], [rate, rate], linewidth=1.6,
                        color=look(results, name).colour, linestyle="--", label=name)  # fmt: skip
    drawn = dict.fromkeys(line.get_label() for line in ax.get_lines())
    looks = {str(name): look(results, str(name)) for name in drawn}
    labels.label_ends(ax, {name: results.title(name) for name in looks}, looks)


def climbed(results: Results, steps: Sequence[pd.Series]) -> str:
    """From the first step to the last, and beside the libraries."""
    found = quotient(results, steps[0], steps[-1]) if len(steps) > 1 else None
    first, last = (results.title(steps[i].kernel) for i in (0, -1))
    gain = f"{last} is {times(found.value.value)} as fast as {first}" if found else ""
    library = against_libraries(results)
    if gain and library.startswith(f"{last} is "):
        return f"{gain}, {library.removeprefix(f'{last} is ')}"
    return gain or library


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
    """Ratios to one library, hot ones if there are any, for the best variant of each kernel that is
    told of at each shape. Raises NothingToDraw."""
    rows = results.ratios[results.ratios.baseline == rival]
    rows = hot if len(hot := rows[rows.cache == "hot"]) else rows
    rows = rows[rows.kernel.isin(results.told)]
    if rows.empty:
        reason = results.gpu_absence()
        raise NothingToDraw(f"No kernel was timed beside {results.title(rival)} ({reason}).")
    return rows.loc[
        rows.groupby(["kernel", "m", "n", "k"], sort=False, dropna=False).ratio.idxmax()
    ]


@each_figure("Share of the library's speed by shape")
def heat_map(results: Results) -> Figure:
    """Share of the library by shape and kernel, bold if the kernel is faster; and why the steps are
    slow at a shape, if that is known."""
    rival = results.full_rivals[-1]
    rows = best_shares(results, rival)
    forms = shapes_by_form(rows)
    shapes = [shape for form in forms for shape in form]
    cells = [(shape_of(row), row) for row in rows.itertuples() if shape_of(row) in shapes]
    shown = {row.kernel for _, row in cells}
    kernels = [kernel for kernel in results.told if kernel in shown]
    made, (ax,) = style.panels(height=1.3 + 0.19 * len(shapes))
    for shape, row in cells:
        cell(ax, kernels.index(row.kernel), shapes.index(shape), row, short(results, row))
    names = [in_lines(results.title(kernel)) for kernel in kernels]
    ax.set_xlim(-0.5, len(kernels) - 0.5)
    ax.set_ylim(len(shapes) - 0.5, -0.5)
    ax.set_xticks(range(len(kernels)), names, fontsize=style.SMALL_TEXT)
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(shapes)), [size_name(shape) for shape in shapes])
    ax.grid(visible=False)
    for end in pd.Series([len(form) for form in forms]).cumsum()[:-1]:
        ax.axhline(end - 0.5, color=style.INK, linewidth=1.5)
    for place, why in enumerate(reasons(results, shapes, rows)):
        ax.annotate(why, (1.02, place), va="center", xycoords=("axes fraction", "data"),
                    annotation_clip=False, **style.ASIDE)  # fmt: skip
    ax.set_xlabel(f"{results.title(rival)} time over kernel time, in percent")
    style.claim(made, faster_at(results, rows, "shapes"))
    return made


def short(results: Results, row: Any) -> bool:
    """Whether the library's product in a row of ratios takes less than SHORT_MS."""
    own = results.timed(cache=row.cache)
    times = at(own[own.variant == row.variant], shape_of(row)).time_ms
    return bool((times * row.ratio < SHORT_MS).any())


def reasons(results: Results, shapes: Sequence[Shape], shares: pd.DataFrame) -> list[str]:
    """For each shape, why the last step before a dispatch is slow there, if the dispatch is not: it
    takes another tiling instead."""
    own = [kernel for kernel in results.told if not results.is_dispatch(kernel)][-1:]
    timed = results.timed()
    found = []
    for shape in shapes:
        here = at(shares, shape)
        ratio = here.ratio[here.kernel.isin(own)].max()
        rows = at(timed[timed.kernel.isin(own)], shape).nsmallest(1, "time_ms")
        whys = [because(results, results.ran(row), shape) for _, row in rows.iterrows()]
        slow = ratio < SLOW * here.ratio.max()
        found.append("".join(f"{results.title(own[0])}:\n{why}" for why in whys if why and slow))
    return found


def cell(ax: Axes, x: int, y: int, row: Any, plain: bool) -> None:
    """A square with its percentage, darker for a faster kernel, or `plain`."""
    shade = 0.0 if plain else min(row.ratio / DARKEST, 1.0)
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=SHADES(shade), linewidth=0))
    faster = verdict_of(row.ratio_low, row.ratio_high) == "faster"
    ax.text(x, y, f"{row.ratio * 100:.0f}", ha="center", va="center", fontsize=style.SMALL_TEXT,
            color="white" if shade > 0.55 else style.QUIET if plain else style.INK,
            fontweight="bold" if faster else "normal")  # fmt: skip


@each_figure("Error against speed", reduced=True)
def accuracy(results: Results) -> Figure:
    """Mean error of C's elements over the rate, with a line to the largest error, at the largest
    common size."""
    rows = compared_errors(results)
    if rows.empty:
        raise NothingToDraw(
            f"No error of a timed product is on record ({results.absence(results.order)})."
        )
    unit, per_tflops = rate_unit(rows.tflops)
    rows = rows.assign(rate=rows.tflops * per_tflops)
    made, (ax,) = style.panels()
    ax.vlines(rows.rate, rows.mean_error, rows.largest_error, linewidth=0.8, zorder=1,
              colors=[look(results, kernel).colour for kernel in rows.kernel])  # fmt: skip
    drawn = kernel_lines(ax, results, rows, "mean_error", over="rate", joined=False)
    style.powers_of_ten(ax, "y")
    style.log_values(ax, axis="x")
    ax.set_xlabel(f"rate in {unit} at n = {rows.n.iloc[0]}")
    ax.set_ylabel("error as a share of Σ|a||b|")
    told = {*results.told[-1:], *results.full_rivals}
    named = [name for name in drawn if name in told or results.arithmetic(name) != "full"]
    name_lines([ax], results, [named])
    style.claim(made, reduced_beside_full(results, rows))
    return made
