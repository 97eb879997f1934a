"""The 95% interval of a median, from its samples alone, and when there are enough of them.

Apart from the tables, because measuring jobs need it and do without pandas.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

SMALLEST = 6  # fewest samples that give a 95% interval of their median


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """The 95% interval of the median, from order statistics (no assumption about the distribution).

    The number of samples below the median is binomial (n, 1/2); cutting its two tails of 2.5% gives
    the ranks of the interval's ends (Conover, Practical Nonparametric Statistics, 3rd ed.,
    section 3.2). Both ends are NaN for fewer than SMALLEST samples.
    """
    rank = lower_rank(len(samples))
    if rank is None:
        return math.nan, math.nan
    ordered = np.sort(samples)
    return float(ordered[rank]), float(ordered[-1 - rank])


@cache
def lower_rank(count: int) -> int | None:
    """The largest r with P(X ≤ r) ≤ 2.5% for X binomial (count, 1/2); None if there is none.

    It uses whole numbers, because importing SciPy takes longer than measuring a small sweep.
    """
    tail, allowed = 0, 2**count // 40
    for r in range(count):
        tail += math.comb(count, r)
        if tail > allowed:
            return r - 1 if r else None
    return None


def settled(samples: Sequence[float], interval: float) -> bool:
    """Whether the median's interval lies within ±`interval` of it."""
    low, high = median_interval(samples)
    return (high - low) / 2 <= interval * float(np.median(samples))  # NaN compares false


@dataclass(frozen=True)
class Rule:
    """When to stop: after `minimum` samples, once the median's interval is within ±`interval` of
    the median; or at `maximum` samples; or after `seconds`, doubled if there are still too few
    samples for an interval."""

    minimum: int
    maximum: int
    interval: float
    seconds: float

    def enough(self, times: Sequence[Sequence[float]]) -> str | None:
        """Why these times, one list of as many samples per thing, are enough: interval or maximum.

        None if they are not; then only the seconds can end the sampling.
        """
        taken = len(times[0])
        if taken >= self.minimum and all(settled(own, self.interval) for own in times):
            return "interval"
        return "maximum" if taken >= self.maximum else None
