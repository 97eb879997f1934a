"""Everything that the page draws, and the choices that it offers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matmul_sweep.experiment.dataset.selection import Results, in_words
from matmul_sweep.experiment.report.explore.axes import CONFIG, LAYOUT, NOTHING
from matmul_sweep.experiment.report.explore.lines import (
    ALL,
    FASTEST,
    RANDOM,
    random_lines,
    with_published,
)
from matmul_sweep.experiment.report.explore.points import ALONE, ERROR, RATE, SQUARE, TIME, absent
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.operation import OTHER

# What a choice is called on the page, where its name in the data says little.
WORDS = {
    RATE: "speed",
    ERROR: "error against speed",
} | {name: in_words(known) for name, known in OPERATIONS.items()}


def page_data(results: Results) -> dict[str, Any]:
    """Everything that the page draws, and the choices that it offers."""
    views = [results.of(operation) for operation in OPERATIONS]
    lines = [line for name in OPERATIONS for line in with_published(results, name)]
    lines += random_lines(results)
    return {
        "choices": choices(lines, results.timed_gpu),
        "lines": lines,
        "absent": [item for view in views for item in absent(view)],
        "layout": LAYOUT,
        "nothing": NOTHING,
        "config": CONFIG,
    }


def choices(lines: Sequence[Mapping[str, Any]], timed_gpu: bool) -> dict[str, dict[str, Any]]:
    """Each choice with its heading and its values, in the order of the page."""
    found_here = dict.fromkeys(line["quantity"] for line in lines)
    speedups = [name for name in found_here if name not in (RATE, TIME, ERROR)]
    # Beside a card, a processor's rates all lie on the axis.
    order = (RATE, *speedups, TIME, ERROR) if timed_gpu else (TIME, RATE, *speedups, ERROR)
    quantities = [name for name in order if name in found_here]
    squared = [SQUARE, *(name for operation in OPERATIONS.values() for name in operation.series)]
    found: dict[str, tuple[str, Iterable[str]]] = {
        "operation": ("product", OPERATIONS),
        "series": ("shapes", [*(name + ALONE for name in squared), *squared, OTHER, RANDOM]),
        "variants": ("variants", [FASTEST, ALL]),
        "quantity": ("show", quantities),
    }
    words = {name: f"{name}, in turn" for name in squared if timed_gpu} | WORDS
    return {
        name: {"heading": heading, "values": {value: words.get(value, value) for value in values}}
        for name, (heading, values) in found.items()
    }
