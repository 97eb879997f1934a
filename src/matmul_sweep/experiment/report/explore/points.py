"""The points that the page draws, and what it says of each."""

import html
from collections.abc import Sequence
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import (
    Results,
    limits_of,
    rate_unit,
    series_of,
    size_name,
    squares,
)
from matmul_sweep.experiment.dataset.tables import POINT
from matmul_sweep.experiment.dataset.words import CACHES
from matmul_sweep.experiment.report.facts.report import for_readers
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations import shape_of
from matmul_sweep.operations.operation import OTHER
from matmul_sweep.operations.shapes import Shape

KEY = ["kernel", "variant", *POINT, "cache"]
SQUARE = "square (m = n = k)"  # of gemm
ALONE = ", alone"  # after the name of a series
RATE, TIME, ERROR = "rate", "time", "error"
PLACE = ["operation", "series"]  # what selects points; one without a time has them too
LIMITS = {"p": "at its power limit", "h": "slowed down for heat"}


def form(shape: Shape) -> str:
    """The series of a shape on the page."""
    return series_of(shape) or (SQUARE if shape.square else OTHER)


def placed(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the series and the name of their shapes, and their place on the axis: n in a
    series, and the name among shapes that have nothing in common."""
    shapes = pd.Series([shape_of(row) for row in rows.itertuples()], rows.index, dtype=object)
    rows = rows.assign(series=shapes.map(form), size=shapes.map(size_name),
                       work=shapes.map(lambda shape: shape.operations))  # fmt: skip
    return rows.assign(x=rows["size"].where(rows.series == OTHER, rows.n).astype(object))


def points(view: Results, per_tflops: int) -> pd.DataFrame:
    """A row for every point that the figures draw too and each of its quantities, with `value`, and
    with `low` and `high` where it has an interval; squares that were timed alone are a series of
    their own. Rates are in the unit of which `per_tflops` are a TFLOP/s. Kernels with reduced
    arithmetic do other work, so their speed stands beside their error only."""
    alone = placed(squares(view.timed(cache="alone")))
    rows = pd.concat([placed(view.timed()), alone.assign(series=alone.series + ALONE)])
    rows = rows.reset_index(names="row")
    held = rows.merge(view.ratios, on=KEY)
    said = pd.Series([speedup_words(view, row) for row in held.itertuples()], dtype=str)
    speedups = said.groupby(held.row).agg(list)
    texts = [words(view, row, speedups.get(row.row, [])) for row in rows.itertuples()]
    rows = rows.assign(words=texts, rate=rows.tflops * per_tflops)
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
            held.assign(quantity="speed-up over " + held.baseline.map(view.title), value=held.ratio,
                        low=held.ratio_low, high=held.ratio_high),
        ]
    )  # fmt: skip


def words(view: Results, row: Any, speedups: Sequence[str]) -> str:
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
        *speedups,
        ", ".join(text.format(state) for text, state in states.items() if pd.notna(state))
        or "clock and power not recorded",
        ", ".join([row.status, *(LIMITS[letter] for letter in limits_of(row.throttled))]),
        *["writes one half of the symmetric C"] * view.writes_half(row.kernel),
    ]
    return "<br>".join(map(plain, lines))


def speedup_words(view: Results, row: Any) -> str:
    """The text of a point's speed-up over a library."""
    speedup = f"{significant(row.ratio, 4)}{between(row.ratio_low, row.ratio_high)}"
    return f"{speedup} times as fast as {view.title(row.baseline)}, pairs: {row.pairs:.0f}"


def between(low: float, high: float) -> str:
    """A 95% interval in words."""
    if pd.isna([low, high]).any():
        return " (too few samples for an interval)"
    return f" [{significant(low, 4)}, {significant(high, 4)}]"


def plain(text: str) -> str:
    """Text in which plotly.js finds neither markup nor mathematics (between dollars)."""
    return html.escape(text, quote=False).replace("$", "&#36;")


def absent(view: Results) -> list[dict[str, Any]]:
    """The points without a time, in words, grouped by variant and reason; of the first cache state
    that was asked for, whose times the page shows."""
    rows = view.summary[view.summary.phase == "kernel"]
    cache = next((name for name in CACHES if name in set(rows.cache)), None)
    rows = placed(rows[(rows.cache == cache) & (rows.status != "ok")])
    groups = rows.groupby([*PLACE, "variant", "status", "reason"], sort=False)
    return [
        dict(zip(PLACE, key, strict=False))
        | {"words": f"{key[-3]} at {', '.join(own['size'])}: {key[-2]}, {for_readers(key[-1])}"}
        for key, own in groups
    ]
