"""Figures that compare the kernels at one size: steps, and error."""

import math
import textwrap
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import (
    Results,
    at,
    compared_errors,
    size_name,
    told_ratios,
)
from matmul_sweep.experiment.report.facts.quotients import quotient
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import (
    against_libraries,
    reduced_beside_full,
    times,
)
from matmul_sweep.experiment.report.figures.figure_base import (
    LEADS,
    figure,
    gpu_compared,
    kernel_lines,
    look,
    name_lines,
    need,
    rated,
)
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations import OPERATIONS, shape_of

LETTERS = 9  # of a line of a kernel's name


@figure("Step by step: {product}", *OPERATIONS.values(), of=LEADS)
def ladder(results: Results) -> Figure:
    """The steps that are told of as a staircase of rates at one size: each with its gain over the
    step before, and the rate of each library in the pairs that it was timed in with the step. Alone
    the factors are the quotients of the heights, because all of it is one contest."""
    rows, unit, per_tflops = gpu_compared(results)
    named = [kernel for kernel in results.told if kernel in set(rows.kernel)]
    need(named, f"No kernel was timed on a GPU ({results.gpu_absence()}).")
    steps = [rows[rows.kernel == kernel].iloc[0] for kernel in named]
    made, [[ax]] = style.panels(height=2.7)
    for place, row in enumerate(steps):
        ax.bar(place, row.rate, 0.78, color=look(results, row.kernel).colour)
        words = gained(results, steps[place - 1], row) if place else ""
        style.say(ax, significant(row.rate) + words, (place, row.rate), (0, 3), ha="center",
                  zorder=5)  # fmt: skip
    beside_steps(ax, results, steps, per_tflops)
    titles = [textwrap.fill(results.title(row.kernel), LETTERS, break_long_words=False)
              for row in steps]  # fmt: skip
    ax.set_xticks(range(len(steps)), titles)
    ax.grid(visible=False, axis="x")
    ax.set_ylabel(f"{unit} at n = {size_name(shape_of(steps[0]))}")
    ax.set_ylim(0, ax.get_ylim()[1] * 1.06)
    style.claim(made, climbed(results, steps))
    return made


def gained(results: Results, before: pd.Series, row: pd.Series) -> str:
    """`\\n×2.7`: how many times as fast a step is as the one before; empty if they cannot be
    compared."""
    found = quotient(results, before, row)
    if not found:
        return ""
    return f"\n×{significant(found.value, 2 if found.value >= 1.1 else 3)}"


def beside_steps(ax: Axes, results: Results, steps: Sequence[pd.Series], per_tflops: float) -> None:
    """A dash over each step for each library that fills C, alone for the fastest, at its rate in
    the pairs with that step: in turn rates of other pairs differ by the card's clock."""
    for place, row in enumerate(steps):
        pairs = at(results.ratios[results.ratios.variant == row.variant], shape_of(row))
        for pair in told_ratios(results, pairs[pairs.cache == row.cache]).itertuples():
            rate = row.tflops / pair.ratio * per_tflops
            ax.plot([place - 0.45, place + 0.45], [rate, rate], linewidth=1.6,
                    color=look(results, pair.baseline).colour, linestyle="--",
                    label=pair.baseline)  # fmt: skip
    name_lines([ax], results)


def climbed(results: Results, steps: Sequence[pd.Series]) -> str:
    """From the first step to the last, and beside the libraries."""
    found = quotient(results, steps[0], steps[-1]) if len(steps) > 1 else None
    first, last = (results.title(steps[i].kernel) for i in (0, -1))
    gain = f"{last} is {times(found.value)} as fast as {first}" if found else ""
    library = against_libraries(results)
    if gain and library.startswith(f"{last} is "):
        return f"{gain}, {library.removeprefix(f'{last} is ')}"
    return gain or library


@figure("Error against speed: {product}", *OPERATIONS.values(), reduced=True, of=LEADS)
def accuracy(results: Results) -> Figure:
    """Mean error of C's elements over the rate, with a line to the largest error, at the largest
    common size."""
    rows = compared_errors(results)
    need(rows, f"No error of a timed product is on record ({results.absence(results.order)}).")
    rows, unit, _ = rated(rows)
    made, [[ax]] = style.panels()
    ax.vlines(rows.rate, rows.mean_error, rows.largest_error, linewidth=0.8, zorder=1,
              colors=[look(results, kernel).colour for kernel in rows.kernel])  # fmt: skip
    kernel_lines(ax, results, rows, "mean_error", over="rate", joined=False)
    style.log_values(ax, style.power_of_ten)
    low, high = map(math.log10, ax.get_ylim())
    if high < low + 2:  # fewer than two powers of ten would have a label
        ax.set_ylim(10 ** math.floor(low), 10 ** math.ceil(high))
    style.log_values(ax, axis="x")
    ax.set_xlabel(f"rate in {unit} at n = {rows.n.iloc[0]}")
    ax.set_ylabel("error as a share of Σ|a||b|")
    reduced = [name for name in rows.kernel if results.arithmetic(name) != "full"]
    name_lines([ax], results, only={*results.told[-1:], *results.full_rivals, *reduced})
    style.claim(made, reduced_beside_full(results, rows))
    return made
