"""Figures that compare the kernels at one size: steps, and error."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import (
    Results,
    at,
    compared_errors,
    fastest,
    processor,
)
from matmul_sweep.experiment.report.facts.bars import cells, most
from matmul_sweep.experiment.report.facts.beside import ladder_shown, published
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import beside, listed, reduced_beside_full
from matmul_sweep.experiment.report.figures.figure_base import (
    compared,
    figure,
    kernel_lines,
    look,
    name_lines,
    need,
    rated,
)
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations import OPERATIONS

LETTERS = 24  # of a line of a step's name
ROW, AROUND = 0.28, 1.26  # inches: the least height of a step, and what most words around take


@figure("Step by step: {product}", *OPERATIONS.values(), of=compared)
def ladder(results: Results) -> Figure:
    """The ladder as lying bars, the first step on top, as the site has it: each with its bound
    behind it, its fastest library, its rate, and its gain over the step above. Without a GPU it is
    the published set's."""
    whole = results.whole or results
    climbed, other = ladder_shown(whole, results.product.name), published(whole)
    view = (other or whole).of(results.product.name, reduced=True)
    need(climbed["heights"], f"No kernel was timed on a GPU ({results.gpu_absence()}).")
    need([*climbed["heights"]][1:], "One step only was timed in the way that leads.")
    there = at(fastest(view.leads), results.product.parse(climbed["size"]))
    drawn = {name: own | {"colour": look(view, name).colour}
             for name, own in cells(view, climbed, there).items()}  # fmt: skip
    steps = {step["name"]: step for step in climbed["steps"]}
    top, size = steps[climbed["top"]], climbed["size"]
    made, [[ax]] = style.panels(height=AROUND + ROW * len(drawn))
    keys = lay_bars(ax, drawn, steps, drawn[top["name"]] | {"title": top["short"]})
    if other:
        keys.append(f"{processor(other.device)}, published {other.device.get('date')}")
    ax.set_xlabel("\n".join(keys), fontsize=style.SMALL_TEXT, color=style.QUIET, loc="left")
    ax.set_title(f"{climbed['unit']} at {'' if '×' in size else 'n = '}{size}", loc="left")
    # Alone sentences tell the fastest library only.
    told = sorted(top["shares"], key=lambda share: share["ratio"])
    told = told[:1] if climbed["way"] == "alone" else told
    style.claim(made, as_fast(climbed["gain"], top["title"], told))
    return made


def lay_bars(
    ax: Axes, drawn: Mapping[str, Any], steps: Mapping[str, Any], top: Mapping[str, Any]
) -> list[str]:
    """A bar for each cell, from the top down, with its bound and its library. What their colours
    mean, with the library's rate beside the highest cell."""
    bounds = {name: (steps[name]["bound"] or {}).get("rate") or 0.0 for name in drawn}
    for place, (name, own) in enumerate(drawn.items()):
        ax.barh(place, bounds[name], 0.9, color=style.PALE)
        ax.barh(place, own["reached"], 0.58, color=own["colour"])
        if own["library"]:
            ax.vlines(own["library"], place - 0.45, place + 0.45, linewidth=1.8, zorder=3,
                      colors=style.LIBRARIES[0].colour)  # fmt: skip
        name_row(ax, place, (steps[name]["short"], steps[name]["adds"] or ""), own)
    ax.set_xlim(0, most(bounds, drawn))
    ax.set_ylim(len(drawn) - 0.4, -0.6)
    ax.set_yticks([])
    keys = ["grey: what its machine code allows"] if any(bounds.values()) else []
    if top["rival"]:
        keys.insert(0, f"orange: {top['rival']}, {top['theirs']} against {top['title']}")
    return keys


def name_row(ax: Axes, place: int, words: tuple[str, str], own: Mapping[str, Any]) -> None:
    """The words of a step: on the left its title and in small what it adds to the one above, on the
    right its rate and its gain."""
    name, adds = (textwrap.fill(text, LETTERS, break_long_words=False) for text in words)
    for x, above, below, ha in ((0, name, adds, "right"), (1, own["rate"], own["gain"], "left")):
        where = {"xycoords": ("axes fraction", "data"), "annotation_clip": False, "bbox": None,
                 "ha": ha}  # fmt: skip
        aside = 5 if x else -5
        style.say(ax, above, (x, place), (aside, 0), va="bottom" if below else "center", **where)
        style.say(ax, below, (x, place), (aside, -1), va="top", color=style.QUIET, **where)


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


@figure("Error against speed: {product}", *OPERATIONS.values(), reduced=True, of=compared)
def accuracy(results: Results) -> Figure:
    """Mean error of C's elements over the rate, with a line to the largest error, at the largest
    common size."""
    rows = compared_errors(results)
    need(rows, f"No error of a timed product is on record ({results.absence(results.order)}).")
    rows, unit, _ = rated(rows)
    made, [[ax]] = style.panels(height=2.25)
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
