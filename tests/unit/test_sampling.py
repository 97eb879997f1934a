"""The median's interval covers what it claims, and sampling stops when the rule says so."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from matmul_sweep.experiment.dataset.intervals import median_interval
from matmul_sweep.experiment.measure import sampling
from matmul_sweep.experiment.measure.sampling import Rule, collect


@pytest.mark.parametrize("count", [7, 30])
def test_the_interval_covers_the_median_of_skewed_times(count: int) -> None:
    random, hits, repetitions = np.random.default_rng(2026), 0, 600
    for _ in range(repetitions):
        low, high = median_interval(random.lognormal(0, 1, count))
        hits += low <= 1 <= high
    assert hits / repetitions >= 0.95


@dataclass
class Bench:
    """A clock that only the samples move, and the batches that were asked for."""

    time_ms: Callable[[int], float]
    seconds: float = 0.0
    things: int = 1
    most: int = 10**9
    now: float = 0.0
    taken: int = 0
    asked: list[int] = field(default_factory=list)

    def batch(self, count: int) -> list[list[float]]:
        self.asked.append(count)
        count = min(count, self.most)
        numbers = range(self.taken, self.taken + count)
        self.taken += count
        self.now += self.seconds * count * self.things
        return [[self.time_ms(i) + thing for i in numbers] for thing in range(self.things)]

    def run(self, rule: Rule, monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
        monkeypatch.setattr(sampling.time, "perf_counter", lambda: self.now)
        times, self.stopped = collect(rule, self.batch)
        return times


RULE = Rule(minimum=10, maximum=100, interval=0.01, seconds=1.0)


def steady(_: int) -> float:
    return 2.0


def restless(i: int) -> float:
    return 1.0 + 2.0 * (i % 2)


def test_steady_times_stop_soon_after_the_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(steady, seconds=1e-4)
    [times] = bench.run(RULE, monkeypatch)
    assert 10 <= len(times) <= 20
    assert bench.stopped == "interval"


def test_the_minimum_is_kept_although_the_interval_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [times] = Bench(steady, seconds=1e-4).run(replace(RULE, minimum=40), monkeypatch)
    assert 40 <= len(times) <= 80


def test_restless_times_stop_at_the_maximum_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(restless, seconds=1e-4)
    [times] = bench.run(RULE, monkeypatch)
    assert len(times) == 100
    assert bench.stopped == "maximum"


def test_restless_times_stop_when_the_seconds_are_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(restless, seconds=0.02)
    [times] = bench.run(RULE, monkeypatch)
    assert 1.0 <= bench.now <= 1.2
    assert len(times) == bench.taken


def test_no_batch_takes_more_than_a_tenth_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(restless, seconds=0.004)
    bench.run(replace(RULE, maximum=10**6), monkeypatch)
    assert max(bench.asked) * bench.seconds <= 0.1 + bench.seconds


def test_a_sample_over_twice_the_budget_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Bench(steady, seconds=30).run(RULE, monkeypatch) == [[2.0]]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.1, 10), (0.19, 6), (0.3, 6), (0.34, 6), (0.5, 4)]
)
def test_too_few_samples_for_an_interval_get_twice_the_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: int
) -> None:
    [times] = Bench(steady, seconds=seconds).run(RULE, monkeypatch)
    assert len(times) == expected


def test_sampling_stops_once_the_interval_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(2026).normal(1, 0.02, 10_000)
    bench = Bench(lambda i: noise[i], seconds=1e-5)
    [times] = bench.run(replace(RULE, maximum=5000), monkeypatch)
    low, high = median_interval(times)
    assert 10 < len(times) < 1000
    assert (high - low) / 2 <= 0.01 * np.median(times)


def test_all_things_have_to_settle_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(lambda i: 1.0 + 0.5 * (i % 2), seconds=1e-5, things=2)
    times = bench.run(replace(RULE, interval=0.2, maximum=64), monkeypatch)
    assert len(times[0]) == len(times[1]) == bench.taken == 64  # the first never settles
    assert times[1] == [time_ms + 1 for time_ms in times[0]]
    assert times[0][:4] == [1.0, 1.5, 1.0, 1.5]


def test_batches_that_give_less_than_asked_still_end_at_the_maximum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [times] = Bench(restless, seconds=1e-4, most=7).run(RULE, monkeypatch)
    assert len(times) == 100
