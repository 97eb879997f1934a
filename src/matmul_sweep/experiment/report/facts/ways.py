"""The ways of timing beside each other: what each gives of a dispatch at one size."""

from collections.abc import Iterator, Sequence
from math import inf, nan
from operator import itemgetter
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import Results, squares, to_fastest
from matmul_sweep.experiment.dataset.tables import POINT
from matmul_sweep.experiment.report.numbers import judged, known
from matmul_sweep.operations import OPERATIONS

SETTLED = 1.02  # times the power limit, at most
# From what a program gets to what nothing but a stream of one kernel gets.
WAYS = ("alone", "in turn", "cold", "in a row")


def ways(results: Results) -> list[dict[str, Any]]:
    """What is reported of each dispatch at each square size at which it was timed alone."""
    return [own for name in OPERATIONS for own in of_dispatches(results.of(name, reduced=True))]


def of_dispatches(view: Results) -> Iterator[dict[str, Any]]:
    """The rates in TFLOP/s by the way of timing, as far as they are known, and alone what the card
    drew, unless that is above its limit, where it had not settled."""
    rows = dispatched(view)
    most = SETTLED * (view.device.get("power_limit_w") or inf)
    rows.loc[rows.power_w > most, ["power_w", "sm_clock_mhz"]] = nan
    for row in rows[rows.way == "alone"].itertuples():
        same = rows[(rows.kernel == row.kernel) & (rows.n == row.n) & (rows.fill == row.fill)]
        yield {
            "kernel": view.title(row.kernel),
            "n": row.n,
            "rates": same.groupby("way").tflops.max().to_dict(),
            "power_w": known(row.power_w),
            "clock_mhz": known(row.sm_clock_mhz),
            "per_joule": known(per_joule(row)),
        }


def dispatched(view: Results) -> pd.DataFrame:
    """The times of dispatches at squares, each with its `way`: hot samples of one launch were taken
    in turn, those of several in a row."""
    rows = squares(view.launches)
    rows = rows.sort_values("kernel", key=lambda own: own.map(view.position), kind="stable")
    rows = rows[rows.kernel.map(view.is_dispatch).astype(bool) & (rows.cache != "rotated")]
    many = (rows.cache == "hot") & (rows.launches > 1)
    return rows.assign(way=rows.cache.replace("hot", "in turn").mask(many, "in a row"))


def speedups(view: Results) -> list[dict[str, Any]]:
    """The speed-up of each dispatch at each square, by each way of timing, over the library's
    fastest routine of those that were timed in most ways."""
    key = ["kernel", "variant", *POINT, "cache"]
    full = view.ratios[~view.ratios.baseline.map(view.writes_half).astype(bool)]
    held = full.merge(dispatched(view)[[*key, "way"]], on=key)
    in_ways = held.groupby("baseline").way.transform("nunique")
    named = {"kernel": held.kernel.map(view.title), "rival": held.baseline.map(view.title)}
    rows = squares(to_fastest(held.assign(**named)[in_ways == in_ways.max()]))
    told = rows[["kernel", "rival", "way", "n"]].to_dict("records")
    return [own | judged(row) for own, row in zip(told, rows.itertuples(), strict=True)]


def widest(points: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The lowest and the highest of these speed-ups at the size at which the ways of timing differ
    most; None if no size was timed in two ways."""
    ends = [
        (min(own, key=itemgetter("ratio")), max(own, key=itemgetter("ratio")))
        for n in sorted({point["n"] for point in points})
        if len(own := [point for point in points if point["n"] == n]) > 1
    ]
    return max(ends, key=lambda pair: pair[1]["ratio"] / pair[0]["ratio"], default=None)


def per_joule(row: Any) -> Any:
    """Operations per joule, in GFLOP, of a row or of a table's rows."""
    return 1e3 * row.tflops / row.power_w
