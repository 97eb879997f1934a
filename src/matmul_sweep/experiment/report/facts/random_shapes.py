"""The dispatches at shapes drawn at random, beside the library."""

import math
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import Results, quotable, verdict_of
from matmul_sweep.experiment.dataset.tables import POINT
from matmul_sweep.experiment.measure.bench import CACHES
from matmul_sweep.experiment.report.facts.findings import TOO_FEW, named
from matmul_sweep.operations import OPERATIONS, operation_of, shape_of
from matmul_sweep.operations.operation import COMPACT

LOW, MIDDLE, HIGH = 0.05, 0.5, 0.95  # shares of the shapes


def random_shapes(results: Results) -> list[dict[str, Any]]:
    """What is reported of each dispatch that was measured at random shapes."""
    return [random_facts(results, kernel) for kernel in drawn_kernels(results)]


def drawn_kernels(results: Results) -> list[str]:
    """The dispatches with rows of random shapes, in the catalogue's order."""
    rows = results.summary[results.drawn(results.summary)]
    return [
        name for name in results.order if results.is_dispatch(name) and name in set(rows.kernel)
    ]


def drawn_ratios(results: Results, kernel: str) -> pd.DataFrame:
    """The ratios of a dispatch at random shapes to the fastest rival there, the lowest first, with
    `class`, that of the shape; without those of too few pairs."""
    return quotable(every_ratio(results, kernel))


def every_ratio(results: Results, kernel: str) -> pd.DataFrame:
    """The same with them."""
    rows = results.ratios[results.drawn(results.ratios)]
    rows = rows[rows.kernel == kernel]
    cache = min(set(rows.cache), key=CACHES.index, default=CACHES[0])
    rows = rows[rows.cache == cache]
    fastest = rows.groupby(POINT, sort=False, dropna=False).ratio.idxmin()
    rows = rows.loc[fastest].sort_values("ratio", kind="stable")
    shapes = [shape_of(row) for row in rows.itertuples()]
    return rows.assign(**{"class": [operation_of(shape).class_of(shape) for shape in shapes]})


def at_share(rows: pd.DataFrame, share: float) -> int:
    """The place among sorted rows that this share of them does not exceed."""
    return math.ceil(share * len(rows)) - 1


def random_facts(results: Results, kernel: str) -> dict[str, Any]:
    """What is reported of one dispatch, or why nothing was timed."""
    summary = results.summary[results.drawn(results.summary)]
    summary = summary[(summary.kernel == kernel) & (summary.phase == "kernel")]
    every = every_ratio(results, kernel)
    rows = quotable(every)
    few = len(every) - len(rows)
    operation = OPERATIONS[summary.operation.iloc[0]]
    about = {"operation": operation.name, "kernel": named(results, kernel, "")}
    if rows.empty:
        reasons = summary.reason[summary.status != "ok"].value_counts().index
        why = TOO_FEW if few else str(reasons[0]) if len(reasons) else "no library was timed"
        return about | {"missing": why}
    classes = [(name, rows[rows["class"] == name]) for name in (*operation.classes, COMPACT)]
    verdicts = [verdict_of(row.ratio_low, row.ratio_high) for row in rows.itertuples()]
    fastest = rows.baseline.value_counts()
    return about | {
        "missing": None,
        "all": spread(rows),
        "classes": [{"name": name} | spread(own) for name, own in classes if len(own)],
        "verdicts": {word: verdicts.count(word) for word in ("faster", "tie", "slower")}
        | {"unknown": few},
        "rivals": [
            {"title": results.title(name), "shapes": int(fastest[name])}
            for name in operation.rivals
            if name in fastest
        ],
    }


def spread(rows: pd.DataFrame) -> dict[str, Any]:
    """The distribution of sorted ratios; 5% of the shapes are at `low` or below."""
    ratios = [float(row.ratio) for _, row in rows.iterrows()]
    places = {"worst": 0} | {
        name: at_share(rows, share)
        for name, share in (("low", LOW), ("median", MIDDLE), ("high", HIGH))
    }
    return {"shapes": len(rows)} | {name: ratios[place] for name, place in places.items()}
