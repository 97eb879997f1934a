"""This card beside others whose data sets are published: by rates, and by what both rooflines
predict.

The prediction is for a product that moves each matrix once, by the ceilings measured on each card.
It says nothing where the L2 of a card holds the matrices. What is compared was timed alone on both
cards. Where a set has no such times it is what was timed in turn, below the power limit, at which a
card has another clock in each series.
"""

from collections.abc import Iterable
from statistics import geometric_mean
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import (
    Results,
    fastest,
    fastest_own,
    power_capped,
    processor,
    quotable,
    version_words,
)
from matmul_sweep.experiment.report.facts.ladder import lead
from matmul_sweep.experiment.report.facts.peaks import ceiling
from matmul_sweep.operations import OPERATIONS, operation_of, shape_of
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.shapes import Shape

COPY = "copy"  # in ceilings.csv


def cards(results: Results) -> list[dict[str, Any]]:
    """What is reported of each other card, if a card was measured."""
    return [
        {
            "card": processor(other.device),
            "date": str(other.device.get("date")),
            "earlier": version_words(other) or None,
            "limits": limits(results, other),
            "operations": {
                name: own
                for name in OPERATIONS
                if (own := groups(results.of(name), other.of(name)))
            },
        }
        for other in (results.others if results.device.get("gpu") else ())
    ]


def tried(sets: Iterable[Results]) -> list[dict[str, Any]]:
    """The cards of these data sets, each with the lead of its float32 kernels and their version, if
    a library was timed beside it."""
    return [
        {"card": processor(one.device), "date": str(one.device.get("date"))}
        | {"version": f"of version {one.device['version']}" if one.earlier else "today's"}
        | best
        for one in sets
        if one.device.get("gpu")
        if (best := lead(one.of(GEMM.name), 1)) and best["speedup"]
    ]


def limits(results: Results, other: Results) -> list[dict[str, Any]]:
    """The numbers that the prediction takes: those on this card as multiples of the other one's."""
    words = {COPY: "memory"}
    for operation in OPERATIONS.values():
        words |= operation.units
    return [
        {"title": title, "times": here / there}
        for name, title in words.items()
        if (there := ceiling(other, name)) and (here := ceiling(results, name))
    ]


def is_alone(here: Results, there: Results) -> bool:
    """Whether times alone of both cards are compared."""
    return all((view.leads.cache == "alone").all() for view in (here, there))


def points(here: Results, there: Results) -> pd.DataFrame:
    """Every shape that the fastest kernel of this card, or its library, computed on both cards
    (see above): `kernel`, `shape`, `intensity` (operations per byte, if each
    matrix is moved once), `faster` (the other card's time over this one's), what is `predicted` of
    that, and the `bound` that both cards have; the last two None if that is not known."""
    alone = is_alone(here, there)
    own, theirs = (
        fastest(quotable(view.leads if alone else view.timed())) for view in (here, there)
    )
    best = fastest_own(here, here.at_compared(fastest(here.leads)))
    own = own[here.gpu(own) & own.kernel.isin([*best.kernel, here.full_rivals[-1]])]
    own = own.sort_values("kernel", key=lambda names: names.map(here.position), kind="stable")
    same = ["kernel", "m", "n", "k", "fill", "mode", "cache"]
    rows = own.merge(theirs, on=same, suffixes=("", "_other"))
    if not alone:
        rows = rows[~power_capped(rows.throttled) & ~power_capped(rows.throttled_other)]
    shapes = [shape_of(row) for row in rows.itertuples()]
    lines = [(roofline(here, shape), roofline(there, shape)) for shape in shapes]
    columns = {
        "kernel": rows.kernel.tolist(),
        "shape": shapes,
        "intensity": [shape.operations / bytes_of(shape) for shape in shapes],
        "faster": (rows.time_ms_other / rows.time_ms).tolist(),
        "predicted": [then[1] / now[1] if now and then else None for now, then in lines],
        "bound": [now[0] if now and then and now[0] == then[0] else None for now, then in lines],
    }
    return pd.DataFrame(columns)


def roof(view: Results) -> tuple[float, float] | None:
    """Bytes per second from memory, and operations per second; None if one is not known."""
    rates = [rate for unit in view.product.units if (rate := ceiling(view, unit))]
    copy = ceiling(view, COPY)
    if not rates or not copy:
        return None
    return copy * 1e9, max(rates) * 1e12


def roofline(view: Results, shape: Shape) -> tuple[str | None, float] | None:
    """What bounds a product that moves each matrix once, and its time; None if the ceilings are not
    known. Nothing is said to bound one whose matrices the L2 may hold."""
    known = roof(view)
    if known is None:
        return None
    copy, rate = known
    moved = bytes_of(shape)
    memory, arithmetic = moved / copy, shape.operations / rate
    if arithmetic >= memory:
        return "arithmetic", arithmetic
    return "memory" if moved > (view.device.get("l2_bytes") or 0) else None, memory


def bytes_of(shape: Shape) -> int:
    """Of a product that moves each matrix once."""
    return sum(operation_of(shape).sizes(shape))


def groups(here: Results, there: Results) -> list[dict[str, Any]]:
    """For each kernel and bound of an operation, how much faster this card is, and what was
    predicted."""
    return [
        {
            "title": here.title(kernel),
            "bound": bound,
            "alone": is_alone(here, there),
            "shapes": len(rows),
            "faster": geometric_mean(rows.faster),
            "predicted": geometric_mean(rows.predicted),
        }
        for (kernel, bound), rows in points(here, there).groupby(["kernel", "bound"], sort=False)
    ]
