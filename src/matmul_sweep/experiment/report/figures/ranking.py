"""Figures that compare the kernels at one size: steps, and error."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import Results, compared_errors, processor
from matmul_sweep.experiment.report.facts.beside import ladder_shown, published
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import beside, listed, reduced_beside_full
from matmul_sweep.experiment.report.figures.figure_base import (
    LEADS,
    figure,
    kernel_lines,
    look,
    name_lines,
    need,
    rated,
)
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations import OPERATIONS

LETTERS = 78  # of a line below all bars
ABOVE = 0.13  # of the highest bar: the height of the words above one


@figure("Step by step: {product}", *OPERATIONS.values(), of=LEADS)
def ladder(results: Results) -> Figure:
    """The ladder as a staircase: each bar with its gain over the one to its left, which is the
    quotient of their heights, and the fastest library beside the highest; in turn without gains.
    Without a GPU it is the published set's."""
    whole = results.whole or results
    climbed = ladder_shown(whole, results.product.name)
    heights, unit = climbed["heights"], climbed["unit"]
    need(heights, f"No kernel was timed on a GPU ({results.gpu_absence()}).")
    need([*heights][1:], "One step only was timed in the way that leads.")
    known = {step["name"]: step for step in climbed["steps"]}
    steps = [known[name] for name in heights]
    top = known[climbed["top"]]
    fastest = sorted(top["shares"], key=lambda share: share["ratio"])[:1]
    rates = [max(heights.values()) / share["ratio"] for share in fastest]
    made, [[ax]] = style.panels(height=3.0)
    for place, (name, height) in enumerate(heights.items()):
        ax.bar(place, height, 0.78, color=style.step_look(place, len(heights)).colour)
        words = significant(height) + gained(climbed["stairs"][name])
        meets = any(0 < rate - height < ABOVE * max([rate, *heights.values()]) for rate in rates)
        inside: dict[str, Any] = {"va": "top", "color": "white", "bbox": None} if meets else {}
        style.say(ax, words, (place, height), (0, -4 if meets else 3), ha="center", **inside)
    for share, rate in zip(fastest, rates, strict=True):
        ax.axhline(rate, color=style.LIBRARIES[0].colour, linewidth=1.2, linestyle="--")
        words = f"{share['library']['title']}: {significant(rate)} {unit}"
        style.say(ax, words, (0, rate), (2, 2), va="bottom", xycoords=("axes fraction", "data"))
    below_bars(ax, steps)
    ax.grid(visible=False, axis="x")
    other = published(whole)
    card = f", {processor(other.device)}, published {other.device.get('date')}" if other else ""
    ax.set_title(f"{unit} at n = {climbed['size']}{card}", loc="left")
    ax.set_ylim(0, ax.get_ylim()[1] * 1.06)
    # Alone sentences tell the fastest library only.
    told = fastest if climbed["way"] == "alone" else top["shares"]
    style.claim(made, as_fast(climbed["gain"], top["title"], told))
    return made


def gained(gain: dict[str, Any] | None) -> str:
    """`\n×2.76`, or `\n≈1.01` for a tie; empty if the two cannot be compared."""
    if not gain:
        return ""
    return f"\n{'≈' if gain['verdict'] in ('tie', 'same') else '×'}{significant(gain['quotient'])}"


def below_bars(ax: Axes, steps: Sequence[dict[str, Any]]) -> None:
    """The title of each step, and in small what it adds to the one before."""
    titles, adds = ([textwrap.fill(step[fact] or "", LETTERS // len(steps), break_long_words=False)
                     for step in steps] for fact in ("title", "adds"))  # fmt: skip
    ax.set_xticks(range(len(steps)), titles)
    ax.xaxis.remove_overlapping_locs = False
    ax.set_xticks(range(len(steps)), adds, minor=True)
    lines = max(words.count("\n") + 1 for words in titles)
    ax.tick_params("x", which="minor", length=0, labelcolor=style.QUIET,
                   labelsize=style.SMALL_TEXT - 0.5, pad=6 + 12 * lines)  # fmt: skip


def as_fast(gain: dict[str, Any] | None, title: str, shares: Sequence[dict[str, Any]]) -> str:
    """How the highest bar, which has this title, compares with the first one and the libraries;
    empty if it cannot be compared."""
    said = [f"{significant(gain['quotient'])} times as fast as {gain['from']['title']}"
            ] if gain else []  # fmt: skip
    said += [
        f"{words} {share['library']['title']}"
        for share in shares
        if share["interval"] and (words := beside(share["ratio"], *share["interval"]))
    ]
    return f"{title} is {listed(said)}" if said else ""


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
    ax.set_ylabel("error / Σ|a||b|")
    name_lines(ax, results)
    style.claim(made, reduced_beside_full(results, rows))
    return made
