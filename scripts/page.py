"""Write a data set as one interactive page that works offline.

A reader chooses product, shapes, cache, variants and quantity, and reads the numbers of each point.
The page contains its data and plotly.js, both packed. The same data give the same bytes.
"""

import base64
import gzip
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from plotly.offline import get_plotlyjs

from matmul.catalogue.entries import load_catalogue
from matmul.dataset.provenance import ROOT
from matmul.dataset.tables import POINT, write_text
from matmul.measure.bench import CACHES, MODES
from matmul.operations import OPERATIONS, shape_of
from matmul.operations.fills import FILLS
from matmul.operations.operation import OTHER
from matmul.operations.shapes import Shape
from matmul.process.errors import command_line
from matmul.report.facts.cards import both
from matmul.report.facts.cards import points as points_of_cards
from matmul.report.facts.random_shapes import drawn_kernels, drawn_ratios
from matmul.report.figures import style
from matmul.report.figures.figure_base import look, source_line
from matmul.report.figures.style import Look
from matmul.report.selection import (
    Results,
    fastest,
    limits_of,
    load_results,
    processor,
    rate_unit,
    series_of,
    size_name,
    with_others,
)
from matmul.report.sourced_numbers import significant
from matmul.settings import arguments

KEY = ["kernel", "variant", *POINT, "cache"]
SQUARE = "square (m = n = k)"  # of gemm
RANDOM = "drawn at random"
FASTEST, ALL = "the fastest of each kernel", "all"
RATE, TIME, ERROR = "rate", "time", "error"
# The columns that select the points to draw, and those that a point without a time has too.
PLACE = ["operation", "series", "cache", "fill", "mode"]
CHOICES = [*PLACE, "variants", "quantity"]

# What a choice is called on the page, where its name in the data says little.
WORDS = {
    "hot": "hot: inputs may lie there",
    "rotated": "rotated: other inputs each time",
    "cold": "cold: cleared before each launch",
    "burst": "at once",
    "sustained": "after seconds of load",
    RATE: "speed",
    ERROR: "error against speed",
} | {name: f"{known.title} in {known.dtype}" for name, known in OPERATIONS.items()}
SYMBOLS = {"o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down",
           "P": "cross", "X": "x", "p": "pentagon", "<": "triangle-left",
           ">": "triangle-right"}  # fmt: skip
LINE = 1.5  # pixels
LIMITS = {"p": "at its power limit", "h": "slowed down for heat"}

LAYOUT = {
    "font": {"family": "DejaVu Sans, Verdana, sans-serif", "color": style.INK},
    "hovermode": "closest",
    "hoverlabel": {"align": "left", "bgcolor": "white", "font": {"color": style.INK}},
    "margin": {"t": 20, "r": 20},
    "paper_bgcolor": "white",
    "plot_bgcolor": "white",
    "showlegend": True,  # of one kernel too
    "uirevision": "kept",  # a hidden kernel stays hidden
}
# No other button: one of plotly.js's own sends the chart to a server.
BUTTONS = ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]
CONFIG = {"modeBarButtons": [BUTTONS], "displaylogo": False, "responsive": True, "showTips": False}
GRID = {"gridcolor": style.PALE, "linecolor": style.QUIET, "zeroline": False,
        "rangemode": "tozero"}  # fmt: skip
POWERS = {"type": "log", "tickvals": [2**i for i in range(31)], "tickformat": "d"}
LOG = {"type": "log", "dtick": 1, "exponentformat": "power"}
PERCENT = {"tickformat": ".0%"}
PARITY = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1,
          "line": {"color": style.INK, "width": 1, "dash": "dash"}}  # fmt: skip
NOTHING = {
    "xaxis": {"visible": False},
    "yaxis": {"visible": False},
    "annotations": [{"text": "Nothing was measured for this choice.", "showarrow": False}],
}


def page_data(results: Results) -> dict[str, Any]:
    """Everything that the page draws, and the choices that it offers."""
    views = [results.of(operation) for operation in OPERATIONS]
    every = [results.of(operation, reduced=True) for operation in OPERATIONS]
    lines = [line for view in every for line in lines_of(view)]
    lines += [line for view in views for line in beside_other_cards(results, view)]
    lines += random_lines(results)
    return {
        "choices": choices(lines),
        "lines": lines,
        "absent": [item for view in views for item in absent(view)],
        "layout": LAYOUT,
        "nothing": NOTHING,
        "config": CONFIG,
    }


def choices(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each choice with its heading and its values, in the order of the page."""
    found_here = dict.fromkeys(line["quantity"] for line in lines)
    shares = [name for name in found_here if name not in (RATE, TIME, ERROR)]
    quantities = [name for name in (RATE, *shares, TIME, ERROR) if name in found_here]
    forms = [name for operation in OPERATIONS.values() for name in operation.series]
    found: dict[str, tuple[str, Iterable[str]]] = {
        "operation": ("product", OPERATIONS),
        "series": ("shapes", [SQUARE, *forms, OTHER, RANDOM]),
        "cache": ("L2 cache", CACHES),
        "fill": ("inputs", FILLS),
        "mode": ("samples", MODES),
        "variants": ("variants", [FASTEST, ALL]),
        "quantity": ("show", quantities),
    }
    return {
        name: {"heading": heading, "values": {value: WORDS.get(value, value) for value in values}}
        for name, (heading, values) in found.items()
    }


def form(shape: Shape) -> str:
    """The series of a shape on the page."""
    return series_of(shape) or (SQUARE if shape.square else OTHER)


def placed(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the series and the name of their shapes, and their place on the axis: n in a
    series, and the name among shapes that have nothing in common."""
    shapes = [shape_of(row) for row in rows.itertuples()]
    series = [form(shape) for shape in shapes]
    sizes = [size_name(shape) for shape in shapes]
    places = zip(shapes, series, sizes, strict=True)
    return rows.assign(
        series=series,
        size=sizes,
        work=[shape.operations for shape in shapes],
        x=pd.Series([size if own == OTHER else shape.n for shape, own, size in places],
                    rows.index, dtype=object),
    )  # fmt: skip


def points(view: Results) -> pd.DataFrame:
    """A row for every timed point and each of its quantities, with `value`, and with `low` and
    `high` where it has an interval. Kernels with reduced arithmetic do other work, so their speed
    stands beside their error only."""
    rows = placed(view.launches).reset_index(names="row")
    held = rows.merge(view.ratios, on=KEY)
    said = pd.Series([share_words(view, row) for row in held.itertuples()], dtype=str)
    shares = said.groupby(held.row).agg(list)
    texts = [words(view, row, shares.get(row.row, [])) for row in rows.itertuples()]
    rows = rows.assign(words=texts)
    rows = rows.assign(rate=rows.tflops * rate_unit(rows.tflops)[1])
    full, held = view.rivals(rows), view.rivals(held)
    held = held.assign(words=held.row.map(rows.set_index("row").words))
    return pd.concat(
        [
            full.assign(quantity=RATE, value=full.rate,
                        low=full.rate * full.time_ms / full.time_high_ms,
                        high=full.rate * full.time_ms / full.time_low_ms),
            full.assign(quantity=TIME, value=full.time_ms, low=full.time_low_ms,
                        high=full.time_high_ms),
            rows.assign(quantity=ERROR, x=rows.rate, value=rows.mean_error).query("value > 0"),
            held.assign(quantity="share of " + held.baseline.map(view.title), value=held.ratio,
                        low=held.ratio_low, high=held.ratio_high),
        ]
    )  # fmt: skip


def words(view: Results, row: Any, shares: Sequence[str]) -> str:
    """The text that appears when the reader points at a point."""
    unit, per_tflops = rate_unit(pd.Series([row.tflops]))
    states = {"SM at {:.0f} MHz": row.sm_clock_mhz, "{:.0f} W": row.power_w,
              "{:.0f} °C": row.temperature_c}  # fmt: skip
    lines = [
        f"{view.title(row.kernel)} ({row.variant})",
        f"{row.operation} {row.size}, {row.dtype}",
        f"{significant(row.time_ms, 4)} ms{between(row.time_low_ms, row.time_high_ms)}, "
        f"median of {row.samples:.0f}",
        f"{significant(row.tflops * per_tflops, 4)} {unit}",
        *shares,
        ", ".join(text.format(state) for text, state in states.items() if pd.notna(state))
        or "clock and power not recorded",
        ", ".join([row.status, *(LIMITS[letter] for letter in limits_of(row.throttled))]),
        *["writes one half of the symmetric C"] * view.writes_half(row.kernel),
    ]
    return "<br>".join(map(plain, lines))


def share_words(view: Results, row: Any) -> str:
    """The text of a point's share of a library."""
    share, *ends = (100 * value for value in (row.ratio, row.ratio_low, row.ratio_high))
    return f"{share:.1f}%{between(*ends)} of {view.title(row.baseline)}, pairs: {row.pairs:.0f}"


def between(low: float, high: float) -> str:
    """A 95% interval in words."""
    if pd.isna([low, high]).any():
        return " (too few samples for an interval)"
    return f" [{significant(low, 4)}, {significant(high, 4)}]"


def plain(text: str) -> str:
    """Text in which plotly.js finds neither markup nor mathematics (between dollars)."""
    return html.escape(text, quote=False).replace("$", "&#36;")


def lines_of(view: Results) -> Iterator[dict[str, Any]]:
    """One line for each kernel and one for each variant, for every choice."""
    if view.launches.empty:
        return
    found = points(view)
    unit = rate_unit(view.launches.tflops)[0]
    best = [fastest(own) for _, own in found.groupby(["quantity", *PLACE])]
    drawn = pd.concat([pd.concat(best).assign(variants=FASTEST), found.assign(variants=ALL)])
    drawn["place"] = drawn.kernel.map(view.position)
    drawn = drawn.sort_values(["place", "work"], kind="stable")
    drawn["name"] = drawn.kernel.map(view.title).where(drawn.variants == FASTEST, drawn.variant)
    for key, own in drawn.groupby([*CHOICES, "kernel", "name"], sort=False):
        chosen = dict(zip(CHOICES, key, strict=False))
        yield chosen | {"trace": trace(view, own), "axes": axes(chosen, unit)}


def trace(view: Results, rows: pd.DataFrame) -> dict[str, Any]:
    """A line as plotly.js draws it."""
    first = rows.iloc[0]
    own = look(view, first.kernel)
    joined = first.series != OTHER and first.quantity != ERROR
    return {
        "uid": first["name"],
        "name": plain(first["name"]),
        "mode": "lines+markers" if joined else "markers",
        "x": rows.x.tolist(),
        "y": rows.value.tolist(),
        "error_y": {
            "array": known(rows.high - rows.value),
            "arrayminus": known(rows.value - rows.low),
            "symmetric": False,
            "thickness": 1,
            "width": 2,
        },
        "hovertext": rows.words.tolist(),
        "hoverinfo": "text",
        "line": {"color": own.colour, "dash": dashes(own), "width": LINE},
        "marker": {"symbol": symbol(view, own, first), "size": 7},
    }


def known(values: pd.Series) -> list[float | None]:
    """Numbers, with None for a missing one, because JSON has no NaN."""
    return [None if pd.isna(value) else value for value in values]


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


def beside_other_cards(results: Results, view: Results) -> Iterator[dict[str, Any]]:
    """Points of each other card's time over this one's, of the fastest kernel and the library."""
    for other in results.others:
        there = other.of(view.product.name)
        found = points_of_cards(view, there, both(view, there))
        rows = pd.DataFrame({"kernel": [point.kernel for point in found],
                             "series": [form(point.shape) for point in found],
                             "x": [point.intensity.value for point in found],
                             "y": [point.faster.value for point in found],
                             "size": [size_name(point.shape) for point in found]})  # fmt: skip
        card = processor(other.device)
        rows["words"] = [f"{row.size}: {significant(row.y)} times as fast as {card}"
                         for row in rows.itertuples()]  # fmt: skip
        across = titled("operations per byte, if each matrix is moved once")
        for (series, kernel), own in rows.groupby(["series", "kernel"], sort=False):
            yield {
                "operation": view.product.name,
                "series": series,
                "quantity": f"beside {card}",
                "trace": dots(view, kernel, own.x, own.y, own.words),
                "axes": {
                    "xaxis": GRID | LOG | across,
                    "yaxis": GRID | titled(f"time on {card} / time here"),
                    "shapes": [PARITY],
                },
            }


def random_lines(results: Results) -> Iterator[dict[str, Any]]:
    """The shares of each dispatch at shapes drawn at random, the lowest first."""
    for kernel in drawn_kernels(results):
        rows = drawn_ratios(results, kernel)
        if rows.empty:
            continue
        view = results.of(rows.operation.iloc[0])
        texts = [f"{size_name(shape_of(row))}<br>{plain(share_words(view, row))}"
                 for row in rows.itertuples()]  # fmt: skip
        places = [(place + 1) / len(rows) for place in range(len(rows))]
        across = titled("shapes with this ratio or a lower one")
        yield {
            "operation": view.product.name,
            "series": RANDOM,
            "quantity": "share of the library",
            "trace": dots(view, kernel, places, rows.ratio, texts),
            "axes": {
                "xaxis": GRID | PERCENT | across,
                "yaxis": GRID | PERCENT | titled("time of the fastest library / kernel time"),
                "shapes": [PARITY],
            },
        }


def dots(
    view: Results, kernel: str, x: Iterable[float], y: Iterable[float], texts: Iterable[str]
) -> dict[str, Any]:
    """Markers of one kernel as plotly.js draws them."""
    own = look(view, kernel)
    name = view.title(kernel)
    return {
        "uid": name, "name": plain(name), "mode": "markers", "x": list(x), "y": list(y),
        "hovertext": list(texts), "hoverinfo": "text",
        "marker": {"symbol": SYMBOLS[own.marker or "o"], "size": 7, "color": own.colour},
    }  # fmt: skip


def axes(chosen: Mapping[str, str], unit: str) -> dict[str, Any]:
    """The axes of a choice; an axis is reset when its meaning changes."""
    quantity, series = chosen["quantity"], chosen["series"]
    speed = f"speed in {unit} ({OPERATIONS[chosen['operation']].work} operations)"
    across = GRID | (titled("shape") | {"type": "category"} if series == OTHER
                     else POWERS | titled("n, columns of C"))  # fmt: skip
    if quantity == ERROR:
        across = GRID | LOG | titled(speed)
    upright = {
        RATE: titled(speed),
        TIME: titled("time in ms") | LOG,
        ERROR: titled("mean error, as a share of Σ|a||b|") | {"type": "log"},
    }
    share = titled(f"{quantity}: its time / kernel time") | PERCENT
    return {
        "xaxis": across | {"uirevision": f"{series} {quantity == ERROR}"},
        "yaxis": GRID | upright.get(quantity, share) | {"uirevision": f"{quantity} {unit}"},
        "shapes": [] if quantity in upright else [PARITY],
    }


def titled(words: str) -> dict[str, Any]:
    return {"title": {"text": plain(words)}}


def absent(view: Results) -> list[dict[str, Any]]:
    """The points without a time, in words, grouped by variant and reason."""
    rows = view.summary[(view.summary.phase == "kernel") & (view.summary.status != "ok")]
    groups = placed(rows).groupby([*PLACE, "variant", "status", "reason"], sort=False)
    return [
        dict(zip(PLACE, key, strict=False))
        | {"words": f"{key[-3]} at {', '.join(own['size'])}: {key[-2]}, {key[-1]}"}
        for key, own in groups
    ]


def packed(text: str) -> str:
    """Text as gzip in base64: two fifths of the size of a program, much less for these data."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def page(template: str, results: Results) -> str:
    """The page's HTML."""
    data = json.dumps(page_data(results), allow_nan=False, separators=(",", ":"))
    filled = {
        "source": html.escape(source_line(results)),
        "library": packed(get_plotlyjs()),
        "data": packed(data),
    }
    return re.sub(r"\{\{ (\w+) \}\}", lambda hole: filled[hole[1]], template)


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_data_set(parser)
    parser.add_argument("--template", type=Path, default=ROOT / "reports" / "explore.html")
    parser.add_argument("--output", type=Path, required=True, help="the HTML file")
    options = arguments.parsed(parser)

    results = load_results(options.data, load_catalogue(options.catalogue))
    results = with_others(results, options.beside)
    write_text(page(options.template.read_text(), results), options.output)


if __name__ == "__main__":
    main()
