"""How many samples to take, and what they say: medians, their intervals, and ratios of pairs."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

SMALLEST = 6  # fewest samples that give a 95% interval of their median


@dataclass(frozen=True)
class Rule:
    """When to stop: after `minimum` samples, once the median's interval is within ±`interval` of
    the median; or at `maximum` samples; or after `seconds`, doubled if there are still too few
    samples for an interval."""

    minimum: int
    maximum: int
    interval: float
    seconds: float


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


def run_for(seconds: float, action: Callable[[], object]) -> None:
    """Repeat `action` until `seconds` have passed; with 0 seconds not at all."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        action()


def collect(rule: Rule, batch: Callable[[int], list[list[float]]]) -> tuple[list[list[float]], str]:
    """Sample until the rule says stop.

    `batch(count)` returns up to `count` times in ms, at least one, for each thing that is timed.
    Batches grow to a tenth of the budget. Returns all times in order, one list per thing, and what
    ended the sampling: interval, maximum or seconds.
    """
    start = begun = time.perf_counter()
    times = batch(1)
    count = 1
    while True:
        now = time.perf_counter()
        taken = len(times[0])
        if taken >= rule.minimum and all(settled(t, rule.interval) for t in times):
            return times, "interval"
        if taken >= rule.maximum:
            return times, "maximum"
        if now - start >= rule.seconds * (1 if taken >= SMALLEST else 2):
            return times, "seconds"
        affordable = int(rule.seconds / 10 * count / max(now - begun, 1e-9))
        count = max(1, min(2 * count, affordable, rule.maximum - taken))
        begun = time.perf_counter()
        for old, new in zip(times, batch(count), strict=True):
            old += new
