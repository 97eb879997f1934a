"""Sampling stops when the rule says so: examples of tests/properties/test_any_samples.py."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from matmul_sweep.experiment.dataset.intervals import Rule, median_interval
from matmul_sweep.experiment.measure import sampling

RULE = Rule(minimum=10, maximum=100, interval=0.01, seconds=1.0)
NOISE = np.random.default_rng(2026).normal(1, 0.02, 10_000)


def steady(_: int) -> float:
    return 2.0


def restless(i: int) -> float:
    return 1.0 + 2.0 * (i % 2)


@pytest.mark.parametrize(
    ("time_ms", "seconds", "changes", "fewest", "most", "stopped"),
    [
        (steady, 1e-4, {}, 10, 20, "interval"),
        (steady, 1e-4, {"minimum": 40}, 40, 80, "interval"),
        (lambda i: NOISE[i], 1e-5, {"maximum": 5000}, 11, 999, "interval"),
        (restless, 1e-4, {}, 100, 100, "maximum"),
        (restless, 0.02, {}, 50, 60, "seconds"),
        (steady, 30, {}, 1, 1, "seconds"),
        # Too few samples for an interval get twice the time.
        (steady, 0.19, {}, 6, 6, "seconds"),
        (steady, 0.34, {}, 6, 6, "seconds"),
        (steady, 0.5, {}, 4, 4, "seconds"),
        (steady, 0.1, {}, 10, 10, "interval"),
    ],
)
def test_sampling_stops_by_its_rule(
    monkeypatch: pytest.MonkeyPatch, time_ms: Callable[[int], float], seconds: float,
    changes: dict[str, int], fewest: int, most: int, stopped: str,
) -> None:  # fmt: skip
    """By a clock that only the samples move."""
    taken: list[float] = []
    rule = replace(RULE, **changes)

    def take() -> float:
        taken.append(time_ms(len(taken)))
        return taken[-1]

    monkeypatch.setattr(sampling.time, "perf_counter", lambda: seconds * len(taken))
    [times], why = sampling.collect(rule, sampling.repeated(take))
    assert times == taken and fewest <= len(taken) <= most
    assert why == stopped
    if stopped == "interval":
        low, high = median_interval(times)
        assert (high - low) / 2 <= rule.interval * np.median(times)
