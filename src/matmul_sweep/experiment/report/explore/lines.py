"""The lines of a data set as plotly.js draws them, each with the choice that shows it."""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import (
    Results,
    fastest,
    processor,
    rate_unit,
    size_name,
)
from matmul_sweep.experiment.report.explore.axes import GRID, PARITY, PERCENT, axes, titled
from matmul_sweep.experiment.report.explore.points import (
    ALONE,
    ERROR,
    PLACE,
    plain,
    points,
    speedup_words,
)
from matmul_sweep.experiment.report.facts.published import stand_in
from matmul_sweep.experiment.report.facts.random_shapes import drawn_ratios
from matmul_sweep.experiment.report.figures.figure_base import look, way_note
from matmul_sweep.experiment.report.figures.style import Look
from matmul_sweep.operations import shape_of
from matmul_sweep.operations.operation import OTHER

RANDOM = "drawn at random"
FASTEST, ALL = "the fastest of each kernel", "all"
CHOICES = [*PLACE, "variants", "quantity"]
SYMBOLS = {"o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down",
           "P": "cross", "X": "x", "p": "pentagon", "<": "triangle-left",
           ">": "triangle-right"}  # fmt: skip
LINE = 1.5  # pixels


Unit = tuple[str, int]  # of rates, and its number per TFLOP/s


def with_published(results: Results, operation: str) -> Iterator[dict[str, Any]]:
    """The lines of an operation; beside a processor's those of a published card's kernels."""
    card = None if results.timed_gpu else stand_in(results)
    everything = [own.of(operation) for own in (results, card) if own]
    unit = rate_unit(pd.concat([own.launches.tflops for own in everything]))
    yield from lines_of(results.of(operation, reduced=True), unit)
    if card:
        own = card.of(operation, reduced=True)
        own = dataclasses.replace(own, summary=own.summary[own.gpu(own.summary)])
        yield from lines_of(own, unit, f", {processor(card.device)}")


def lines_of(view: Results, unit: Unit, where: str = "") -> Iterator[dict[str, Any]]:
    """One line for each kernel and one for each variant, for every choice; `where` follows their
    names."""
    found = points(view, unit[1])
    if found.empty:
        return
    best = [fastest(own) for _, own in found.groupby(["quantity", *PLACE])]
    drawn = pd.concat([pd.concat(best).assign(variants=FASTEST), found.assign(variants=ALL)])
    drawn["place"] = drawn.kernel.map(view.position)
    drawn = drawn.sort_values(["place", "work"], kind="stable")
    names = drawn.kernel.map(view.title).where(drawn.variants == FASTEST, drawn.variant)
    drawn["name"] = names + where
    ways = {True: way_note(view, view.timed(cache="alone")), False: way_note(view, view.timed())}
    for key, own in drawn.groupby([*CHOICES, "kernel", "name"], sort=False):
        chosen = dict(zip(CHOICES, key, strict=False))
        way = ways[chosen["series"].endswith(ALONE)]
        yield chosen | {"trace": trace(view, own), "axes": axes(chosen, unit[0]), "way": way}


def trace(view: Results, rows: pd.DataFrame) -> dict[str, Any]:
    """A line as plotly.js draws it."""
    first = rows.iloc[0]
    own = look(view, first.kernel)
    joined = first.series != OTHER and first.quantity != ERROR
    drawn = dots(view, first.kernel, rows.x, rows.value, rows.words, first["name"])
    ends = {"array": rows.high - rows.value, "arrayminus": rows.value - rows.low}
    bars = {end: size.astype(object).where(size.notna(), None).tolist()
            for end, size in ends.items()}  # fmt: skip
    drawn["marker"]["symbol"] = symbol(view, own, first)
    return drawn | {
        "mode": "lines+markers" if joined else "markers",
        "error_y": bars | {"symmetric": False, "thickness": 1, "width": 2},
        "line": {"color": own.colour, "dash": dashes(own), "width": LINE},
    }


def dashes(own: Look) -> str:
    """The dashes of a figure in plotly.js's form."""
    if not isinstance(own.dashes, tuple):
        return "solid"
    _, lengths = own.dashes
    return ",".join(f"{length * LINE:g}px" for length in lengths)


def symbol(view: Results, own: Look, row: pd.Series) -> str:
    """The kernel's marker in the figures; if all variants are drawn, only the first one has it."""
    kernel = view.catalogue.get(row.kernel)
    names = [variant.name for variant in kernel.variants] if kernel else []
    step = names.index(row.variant) if row.variants == ALL and row.variant in names else 0
    first = list(SYMBOLS).index(own.marker or "o")
    return list(SYMBOLS.values())[(first + step) % len(SYMBOLS)]


def random_lines(results: Results) -> Iterator[dict[str, Any]]:
    """The speed-ups of each dispatch at shapes drawn at random, the lowest first."""
    across = PERCENT | titled("shapes with this speed-up or a lower one")
    for kernel, rows in drawn_ratios(results).items():
        view = results.of(rows.operation.iloc[0])
        upright = titled("time of the fastest library / kernel time")
        texts = [f"{size_name(shape_of(row))}<br>{plain(speedup_words(view, row))}"
                 for row in rows.itertuples()]  # fmt: skip
        places = [(place + 1) / len(rows) for place in range(len(rows))]
        drawn = dots(view, kernel, places, rows.ratio, texts)
        both = {"xaxis": GRID | across, "yaxis": GRID | upright, "shapes": [PARITY]}
        yield {"operation": view.product.name, "series": RANDOM, "trace": drawn, "axes": both,
               "quantity": "speed-up over the library", "way": way_note(view, rows)}  # fmt: skip


def dots(
    view: Results, kernel: str, x: Iterable[float], y: Iterable[float], texts: Iterable[str],
    name: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Markers of one kernel as plotly.js draws them, under its title or another name."""
    own = look(view, kernel)
    name = name or view.title(kernel)
    return {
        "uid": re.sub(r"\W+", "-", name),  # plotly.js looks for it as a class of the page's style
        "name": plain(name), "mode": "markers", "x": list(x), "y": list(y),
        "hovertext": list(texts), "hoverinfo": "text",
        "marker": {"symbol": SYMBOLS[own.marker or "o"], "size": 7, "color": own.colour},
    }  # fmt: skip
