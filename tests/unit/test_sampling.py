"""The median's interval covers what it claims, and sampling stops when the rule says so."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from matmul_sweep.experiment.dataset.intervals import Rule, median_interval
from matmul_sweep.experiment.measure import sampling
from matmul_sweep.experiment.measure.sampling import collect


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


NOISE = np.random.default_rng(2026).normal(1, 0.02, 10_000)


@pytest.mark.parametrize(
    ("bench", "changes", "fewest", "most", "stopped"),
    [
        (Bench(steady, 1e-4), {}, 10, 20, "interval"),
        (Bench(steady, 1e-4), {"minimum": 40}, 40, 80, "interval"),
        (Bench(lambda i: NOISE[i], 1e-5), {"maximum": 5000}, 11, 999, "interval"),
        (Bench(restless, 1e-4), {}, 100, 100, "maximum"),
        (Bench(restless, 1e-4, most=7), {}, 100, 100, "maximum"),
        (Bench(restless, 0.02), {}, 50, 60, "seconds"),
        (Bench(steady, 30), {}, 1, 1, "seconds"),
        # Too few samples for an interval get twice the time.
        (Bench(steady, 0.19), {}, 6, 6, "seconds"),
        (Bench(steady, 0.34), {}, 6, 6, "seconds"),
        (Bench(steady, 0.5), {}, 4, 4, "seconds"),
        (Bench(steady, 0.1), {}, 10, 10, "interval"),
    ],
    ids=lambda value: f"{value.seconds} s" if isinstance(value, Bench) else None,
)
def test_sampling_stops_by_its_rule(
    monkeypatch: pytest.MonkeyPatch, bench: Bench, changes: dict[str, int], fewest: int, most: int,
    stopped: str,
) -> None:  # fmt: skip
    rule = replace(RULE, **changes)
    [times] = bench.run(rule, monkeypatch)
    assert fewest <= len(times) <= most and len(times) == bench.taken
    assert bench.stopped == stopped
    if stopped == "interval":
        low, high = median_interval(times)
        assert (high - low) / 2 <= rule.interval * np.median(times)


def test_no_batch_takes_more_than_a_tenth_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(restless, seconds=0.004)
    bench.run(replace(RULE, maximum=10**6), monkeypatch)
    assert max(bench.asked) * bench.seconds <= 0.1 + bench.seconds


def test_all_things_have_to_settle_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(lambda i: 1.0 + 0.5 * (i % 2), seconds=1e-5, things=2)
    times = bench.run(replace(RULE, interval=0.2, maximum=64), monkeypatch)
    assert len(times[0]) == len(times[1]) == bench.taken == 64  # the first never settles
    assert times[1] == [time_ms + 1 for time_ms in times[0]]
    assert times[0][:4] == [1.0, 1.5, 1.0, 1.5]
