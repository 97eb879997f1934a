"""Taking samples until there are enough."""

import time
from collections.abc import Callable

from matmul_sweep.experiment.dataset.intervals import SMALLEST, Rule


def run_for(seconds: float, action: Callable[[], object]) -> None:
    """Repeat `action` until `seconds` have passed; with 0 seconds not at all."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        action()


def repeated(take: Callable[[], float]) -> Callable[[int], list[list[float]]]:
    """Batches of one thing, for `collect`."""
    return lambda count: [[take() for _ in range(count)]]


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
        if enough := rule.enough(times):
            return times, enough
        if now - start >= rule.seconds * (1 if taken >= SMALLEST else 2):
            return times, "seconds"
        affordable = int(rule.seconds / 10 * count / max(now - begun, 1e-9))
        count = max(1, min(2 * count, affordable, rule.maximum - taken))
        begun = time.perf_counter()
        for old, new in zip(times, batch(count), strict=True):
            old += new
