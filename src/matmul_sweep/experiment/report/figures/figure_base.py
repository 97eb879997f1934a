"""What all figures of a data set share: a place in FIGURES, title and source, and the line,
interval and label of a kernel.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sized
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import (
    Results,
    in_words,
    processor,
    rate_unit,
    short_commit,
    thermally_throttled,
    version_words,
)
from matmul_sweep.experiment.report.facts.published import stand_in
from matmul_sweep.experiment.report.figures import labels, style
from matmul_sweep.experiment.report.figures.claims import listed
from matmul_sweep.experiment.report.figures.style import Look
from matmul_sweep.operations.operation import Operation

Draw = Callable[[Results], Figure]
Rows = Callable[[Results], pd.DataFrame]
JOB = ["sweep", "variant"]
FIGURES: dict[str, Draw] = {}


def of_one_card(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """Of each variant those of one card, of its cards the one that has most of all: cards of one
    model differ, and a line through points of two would tell of that."""
    cards = rows.merge(results.jobs, "left", JOB).uuid.fillna("").set_axis(rows.index)
    held = cards.map(cards.value_counts())
    return rows[held == held.groupby(rows.variant).transform("max")]


def in_turn(results: Results) -> pd.DataFrame:
    """The rows that times are of, each variant's of one card."""
    return of_one_card(results, results.timed())


def compared(results: Results) -> pd.DataFrame:
    """The rows that compare kernels at one size."""
    return results.at_compared(results.leads)


class NothingToDraw(Exception):
    """The data of a figure are missing; the message is a sentence that says why."""


def need(found: Sized, why: str) -> None:
    """Raises NothingToDraw where nothing was found; `why` is a sentence."""
    if not len(found):
        raise NothingToDraw(why)


def figure(
    title: str, *operations: Operation, reduced: bool = False, of: Rows | None = in_turn
) -> Callable[[Draw], Draw]:
    """Register a figure of each of these operations, or (of none) of everything timed, by the
    operation's prefix and the function's name. It has the theme, its title, in which `{product}`
    stands for the operation, and its source, and raises NothingToDraw.

    reduced: kernels with reduced arithmetic are among the operation's.
    of: its rows, whose way of timing the source names; None where the panels have several.
    """

    def drawn(draw: Draw, operation: Operation | None, whole: Results) -> Figure:
        results = whole.of(operation.name, reduced) if operation else whole
        words = title.format(product=in_words(operation)) if operation else title
        with style.theme():
            made = draw(results)
            source = source_line(results) + way_note(results, of and of(results))
            style.finish(made, words, list(notes(results, made)), source)
        return made

    def decorate(draw: Draw) -> Draw:
        for operation in operations or [None]:
            prefix = operation.figure_prefix if operation else ""
            FIGURES[prefix + draw.__name__] = partial(drawn, draw, operation)
        return draw

    return decorate


def source_line(results: Results) -> str:
    """Device, date and commit, and a note if the kernels were not today's."""
    date = results.device.get("date") or "date unknown"
    parts = [processor(results.device), date, f"commit {short_commit(results.device)}"]
    return " · ".join([*parts, *filter(None, [version_words(results)])])


def way_note(results: Results, rows: pd.DataFrame | None) -> str:
    """How the GPU's kernel times among these rows were measured, if it is one way for all, and on
    how many cards, because two jobs may have had two."""
    if rows is None:
        return ""
    own = rows[results.gpu(rows)]
    caches, jobs = sorted(set(own.cache)), own[JOB].drop_duplicates()
    words = {"alone": " · alone, at its own clock",
             "hot": " · in turn, hot",
             "cold": " · cold: the L2 is cleared before each"}  # fmt: skip
    count = results.jobs.merge(jobs).uuid.nunique()
    cards = f" · {count} cards" if count > 1 else ""
    return "".join([*(words[cache] for cache in caches), cards])


def notes(results: Results, made: Figure) -> Iterator[str]:
    """What a reader has to know of the drawn lines."""
    drawn = [kernel for kernel in results.order if style.has(made, kernel)]
    words = {text.get_text() for ax in made.axes for text in ax.texts}
    grey = [results.title(name) for name in drawn if look(results, name) == style.CONTEXT]
    if unnamed := [title for title in grey if title not in words]:
        yield f"grey: {listed(unnamed)}"
    if style.has(made, style.HOLLOW):
        yield "hollow: the card slowed down for heat while this was measured"
    if style.has(made, style.CROSS):
        yield "crosses: the documents' times, of other cards"
    if style.has(made, style.PUBLISHED) and (other := stand_in(results)):
        date = other.device.get("date") or "at an unknown date"
        yield f"dashed: {processor(other.device)}, published {date}, not measured here"


def look(results: Results, kernel: str) -> Look:
    """A kernel's look, the same in every figure: by its place among the steps of the ladder, the
    libraries, the kernels of reduced arithmetic or those of the CPU; else as context."""
    entry = results.catalogue.get(kernel)
    if results.operation is None:
        if entry is None:
            return style.CONTEXT
        results = results.of(entry.operation)
    own = [name for name, known in results.catalogue.items() if known.product is results.product]
    steps = [name for name in own if results.catalogue[name].adds]
    if kernel in steps:
        return style.step_look(steps.index(kernel), len(steps))
    tuned = [name for name in own if results.catalogue[name].tuned]
    kinds = [
        ([*results.full_rivals, *tuned], style.LIBRARIES),
        ([name for name in own if not results.on_gpu(name)], style.CPU),
        ([name for name in own if results.arithmetic(name) != "full"], style.REDUCED),
    ]
    for names, looks in kinds:
        if kernel in names:
            return looks[names.index(kernel) % len(looks)]
    return style.CONTEXT


def kernel_lines(
    ax: Axes, results: Results, rows: pd.DataFrame, column: str, over: str = "n",
    joined: bool = True,
) -> None:  # fmt: skip
    """Draw a line per kernel, or only its markers, over n or another column."""
    for kernel in (name for name in results.order if name in set(rows.kernel)):
        own, line = rows[rows.kernel == kernel], look(results, kernel)
        line = line if joined else dataclasses.replace(line, dashes="")
        hot = thermally_throttled(own.throttled) if "throttled" in own else None
        style.draw_line(ax, own[over], own[column], line, kernel, hot=hot)


def name_lines(ax: Axes, results: Results, context: bool = False) -> None:
    """Label the ends of the lines, of those of the context if asked for. Limits must be final."""
    named = style.named_lines(ax).items()
    lines = [(line, results.title(name)) for name, line in named
             if context or line.get_color() != style.CONTEXT.colour]  # fmt: skip
    labels.label_ends(ax, lines)


def rated(rows: pd.DataFrame) -> tuple[pd.DataFrame, str, int]:
    """Rows with their `rate`; the unit of the rate, and its number per TFLOP/s."""
    unit, per_tflops = rate_unit(rows.tflops)
    return rows.assign(rate=rows.tflops * per_tflops), unit, per_tflops
