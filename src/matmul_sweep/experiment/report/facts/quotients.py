"""How many times as long one kernel takes as another.

Alone, in one sweep, their blocks take turns on one card, so their times are divided. In turn they
have two series, with two clocks and maybe on two cards. Then the quotient is that of two ratios, to
something that was timed in turn with both.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from matmul_sweep.catalogue.entries import kernel_name
from matmul_sweep.experiment.dataset.selection import (
    Results,
    at,
    quotient_interval,
    verdict_of,
)
from matmul_sweep.experiment.report.numbers import ends, significant
from matmul_sweep.operations import shape_of


@dataclass(frozen=True)
class Quotient:
    """One kernel's time over another's, with the widest interval that the data allow; its ends are
    NaN where there is none."""

    value: float
    low: float
    high: float
    beside: str | None = None  # what was timed in turn with both

    def facts(self, results: Results) -> dict[str, Any]:
        """With its verdict: whether the other kernel is faster, slower, or neither, or the same to
        the digits that are printed."""
        printed_as_one = significant(self.value) == "1.00"
        return {
            "quotient": self.value,
            "interval": ends(self.low, self.high),
            "verdict": "same" if printed_as_one else verdict_of(self.low, self.high),
            "beside": self.beside and results.title(kernel_name(self.beside)),
            "cards": len(results.cards),
        }


def quotient(results: Results, slow: pd.Series, fast: pd.Series) -> Quotient | None:
    """The time in one row over that in another; None if they were timed in two ways, alone in two
    sweeps, or in turn beside nothing that was timed with both."""
    if slow.cache != fast.cache:
        return None
    if slow.cache != "alone":
        return by_pairs(partners(results, slow), partners(results, fast))
    if slow.sweep != fast.sweep:
        return None
    return Quotient(slow.time_ms / fast.time_ms, *quotient_interval(slow, fast))


def by_pairs(slow: dict[str, Quotient], fast: dict[str, Quotient]) -> Quotient | None:
    """The quotient by the partner of both with the narrowest interval; None if there is none."""
    found = [
        Quotient(fast[name].value / slow[name].value,
                 fast[name].low / slow[name].high, fast[name].high / slow[name].low, name)
        for name in sorted(slow.keys() & fast.keys())
    ]  # fmt: skip
    sure = [one for one in found if one.low > 0]
    return min(sure, key=lambda one: one.high / one.low, default=None)


def partners(results: Results, row: pd.Series) -> dict[str, Quotient]:
    """The time of each thing that was timed in turn with a row's kernel or library, which is one of
    them, over the row's."""
    pairs = results.ratios
    pairs = pairs[(pairs.variant == row.variant) | (pairs.baseline == row.variant)]
    for name in ("fill", "mode", "cache"):
        pairs = pairs[pairs[name] == row[name]]
    found = {row.variant: Quotient(1, 1, 1)}
    for pair in at(pairs, shape_of(row)).itertuples():
        low, high = pair.ratio_low, pair.ratio_high
        if pair.variant == row.variant:
            found[pair.baseline] = Quotient(pair.ratio, low, high)
        elif pair.baseline == row.variant:
            found[pair.variant] = Quotient(1 / pair.ratio, 1 / high, 1 / low)
    return found
