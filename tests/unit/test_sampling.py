"""Sampling stops when the rule says so: at numbers that are right by hand.

tests/properties/test_any_samples.py holds it, and the median's interval, for all samples.
"""

from collections.abc import Callable

import numpy as np
import pytest

from matmul_sweep.experiment.dataset.intervals import Rule, median_interval
from matmul_sweep.experiment.measure import sampling
from matmul_sweep.experiment.measure.sampling import collect

RULE = Rule(minimum=10, maximum=100, interval=0.01, seconds=1.0)
NOISE = np.random.default_rng(2026).normal(1, 0.01, RULE.maximum)


def steady(_: int) -> float:
    return 2.0


def restless(i: int) -> float:
    return 1.0 + 2.0 * (i % 2)


@pytest.mark.parametrize(
    ("time_ms", "seconds", "fewest", "most", "stopped"),
    [
        (steady, 1e-4, 10, 20, "interval"),
        (steady, 0.1, 10, 10, "interval"),
        (NOISE.item, 1e-5, 11, 99, "interval"),
        (restless, 1e-4, 100, 100, "maximum"),
        (restless, 0.02, 50, 60, "seconds"),
        # Too few samples for an interval get twice the time.
        (steady, 0.34, 6, 6, "seconds"),
        (steady, 0.5, 4, 4, "seconds"),
        (steady, 30, 1, 1, "seconds"),
    ],
)
def test_sampling_stops_by_its_rule(
    monkeypatch: pytest.MonkeyPatch, time_ms: Callable[[int], float], seconds: float, fewest: int,
    most: int, stopped: str,
) -> None:  # fmt: skip
    taken: list[float] = []

    def batch(count: int) -> list[list[float]]:
        own = [time_ms(i) for i in range(len(taken), len(taken) + count)]
        taken.extend(own)
        return [own]

    monkeypatch.setattr(sampling.time, "perf_counter", lambda: seconds * len(taken))
    [times], reason = collect(RULE, batch)
    assert times == taken and fewest <= len(times) <= most
    assert reason == stopped
    if reason == "interval":
        low, high = median_interval(times)
        assert (high - low) / 2 <= RULE.interval * np.median(times)
