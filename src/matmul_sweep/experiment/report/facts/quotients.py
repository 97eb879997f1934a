"""How many times as long one kernel takes as another.

Each kernel is timed in a job of its own. A card at its power limit has another clock in each job,
so there the two times are not compared. Then the quotient is that of two ratios, to something that
was timed in turn with both kernels.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from matmul_sweep.catalogue.entries import kernel_name
from matmul_sweep.experiment.dataset.selection import Results, at, limits_of, shown, verdict_of
from matmul_sweep.experiment.dataset.sourced_numbers import Number, cell, cell_if_any
from matmul_sweep.operations import shape_of

Ends = tuple[Number | None, Number | None]


@dataclass(frozen=True)
class Quotient:
    """One kernel's time over another's, with the widest interval that the data allow."""

    value: Number
    ends: Ends
    beside: str | None = None  # what was timed in turn with both, if the two times do not count

    @property
    def verdict(self) -> str:
        """Whether the other kernel is faster, slower, or neither."""
        return verdict_of(*(end.value if end else np.nan for end in self.ends))

    def json(self, results: Results) -> dict[str, Any]:
        low, high = self.ends
        return {
            "quotient": self.value.json(),
            "interval": [low.json(), high.json()] if low and high else None,
            "verdict": shown(self.value, self.verdict),
            "beside": self.beside and results.title(kernel_name(self.beside)),
        }


def quotient(results: Results, slow: pd.Series, fast: pd.Series) -> Quotient | None:
    """The time in one row over that in another; None if the card was at its power limit in one of
    them, and nothing was timed in turn with both."""
    if "p" in limits_of(slow.throttled) + limits_of(fast.throttled):
        return by_pairs(partners(results, slow), partners(results, fast))
    ends = [
        over(cell_if_any(slow, f"time_{one}_ms"), cell_if_any(fast, f"time_{other}_ms"))
        for one, other in (("low", "high"), ("high", "low"))
    ]
    return Quotient(cell(slow, "time_ms") / cell(fast, "time_ms"), (ends[0], ends[1]))


def over(one: Number | None, other: Number | None) -> Number | None:
    return one / other if one and other else None


def by_pairs(slow: dict[str, Quotient], fast: dict[str, Quotient]) -> Quotient | None:
    """The quotient by the partner of both with the narrowest interval; None if there is none."""
    found = []
    for name in slow.keys() & fast.keys():
        (low, high), (least, most) = slow[name].ends, fast[name].ends
        ends = (over(least, high), over(most, low))
        if ends[0] and ends[1]:
            width = ends[1].value / ends[0].value
            found.append((width, name, Quotient(fast[name].value / slow[name].value, ends, name)))
    return min(found)[-1] if found else None


def partners(results: Results, row: pd.Series) -> dict[str, Quotient]:
    """The time of each thing that was timed in turn with a row's kernel or library, over the
    row's."""
    pairs = at(results.ratios, shape_of(row))
    same = ["fill", "mode", "cache"]
    pairs = pairs[(pairs[same] == row[same]).all(axis=1)]
    found = {}
    for _, pair in pairs.iterrows():
        value, low, high = (
            cell_if_any(pair, column, "ratios.csv")
            for column in ("ratio", "ratio_low", "ratio_high")
        )
        if value and pair.variant == row.variant:
            found[pair.baseline] = Quotient(value, (low, high))
        elif value and pair.baseline == row.variant:
            one = Number(1, "1")
            found[pair.variant] = Quotient(one / value, (over(one, high), over(one, low)))
    return found
