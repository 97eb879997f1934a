"""The dispatches at shapes drawn at random, beside the library."""

from typing import Any

import pandas as pd

from matmul_sweep.catalogue.entries import kernel_name
from matmul_sweep.experiment.dataset.selection import (
    Results,
    leading,
    quotable,
    to_fastest,
    verdict_of,
    way_of,
)
from matmul_sweep.experiment.dataset.tables import POINT
from matmul_sweep.experiment.report.facts.findings import named
from matmul_sweep.operations import operation_of, shape_of
from matmul_sweep.operations.operation import COMPACT

A_FEW = 2  # shapes: one says nothing of others
# The shares of the shapes that are as fast as that or slower.
SHARES = {"worst": 0.0, "median": 0.5}


def random_shapes(results: Results) -> list[dict[str, Any]]:
    """What is reported of each dispatch that was timed beside a library at random shapes."""
    return [random_facts(results, kernel, rows) for kernel, rows in drawn_ratios(results).items()]


def drawn_ratios(results: Results) -> dict[str, pd.DataFrame]:
    """The ratios of each dispatch, in the catalogue's order, at random shapes to the fastest rival
    that fills C there, or where none was timed to the end to one that leaves half of it, the lowest
    first, with `class`, that of the shape, and `throttled`; without those of too few pairs, or left
    to another dispatch. Only of a few shapes at least."""
    rows = own_choice(results, results.launches[results.drawn(results.launches)])
    held = rows[[*POINT, "kernel", "cache", "throttled"]].merge(results.ratios)
    fills = ~held.baseline.map(results.writes_half).astype(bool)
    here = held.groupby([*POINT, "kernel", "cache"], dropna=False).ngroup()
    held = held[fills | ~here.isin(here[fills])]
    dispatches = filter(results.is_dispatch, results.order)
    drawn = {kernel: classed(held[held.kernel == kernel]) for kernel in dispatches}
    return {kernel: rows for kernel, rows in drawn.items() if len(rows) >= A_FEW}


def own_choice(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the summary, without those in which a dispatch ran a kernel of other arithmetic than
    its own: another dispatch has these shapes."""
    own = rows.kernel.map(results.arithmetic)
    ran = rows.ran.map(kernel_name).map(results.arithmetic)
    return rows[(ran == own) | (rows.ran == "")]


def classed(rows: pd.DataFrame) -> pd.DataFrame:
    """Those of a dispatch's ratios that lead, to the fastest library, with the shapes' classes."""
    rows = quotable(to_fastest(rows[rows.cache == leading(rows)]))
    rows = rows.sort_values("ratio", kind="stable")
    shapes = [shape_of(row) for row in rows.itertuples()]
    return rows.assign(**{"class": [operation_of(shape).class_of(shape) for shape in shapes]})


def random_facts(results: Results, kernel: str, rows: pd.DataFrame) -> dict[str, Any]:
    """What is reported of one dispatch."""
    operation = operation_of(shape_of(rows.iloc[0]))
    classes = [(name, rows[rows["class"] == name]) for name in (*operation.classes, COMPACT)]
    verdicts = [verdict_of(row.ratio_low, row.ratio_high) for row in rows.itertuples()]
    rivals = [name for name in results.order if name in set(rows.baseline)]
    return {
        "operation": operation.name,
        "kernel": named(results, kernel),
        "all": spread(rows),
        "classes": [{"name": name} | spread(own) for name, own in classes if len(own)],
        "verdicts": {word: verdicts.count(word) for word in ("faster", "tie", "slower")},
        "rivals": [results.title(name) for name in rivals],
        "way": way_of(rows),
        "half": beside_half(results, kernel, rows),
    }


def beside_half(results: Results, kernel: str, rows: pd.DataFrame) -> dict[str, Any] | None:
    """At how many of these shapes a kernel that fills C is slower than a routine that leaves half
    of it, and the lowest ratio; None where no such routine was timed."""
    own = results.ratios[results.ratios.kernel == kernel]
    own = own[own.baseline.map(results.writes_half).astype(bool)]
    own = own.merge(rows[[*POINT, "cache"]])
    if own.empty:
        return None
    own = quotable(to_fastest(own))
    return {"slower": int((own.ratio_high < 1).sum()), "worst": float(own.ratio.min())}


def spread(rows: pd.DataFrame) -> dict[str, Any]:
    """The distribution of ratios."""
    quantiles = {name: float(rows.ratio.quantile(share)) for name, share in SHARES.items()}
    return {"shapes": len(rows)} | quantiles
