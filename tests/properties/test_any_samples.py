"""For all samples: intervals and ratios are right, and sampling stops on time."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matmul_sweep.experiment.dataset.derived import resampled_interval
from matmul_sweep.experiment.dataset.intervals import SMALLEST, Rule, median_interval
from matmul_sweep.experiment.measure import sampling
from matmul_sweep.experiment.measure.sampling import collect

# Some come again, as from a coarse timer.
TIMES = st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.5]) | st.floats(1e-6, 1e6)
NEARLY = 1e-9


def samples(least: int, most: int) -> st.SearchStrategy[list[float]]:
    return st.lists(TIMES, min_size=least, max_size=most)


# The interval of a median.


@given(st.integers(SMALLEST, 600))
def test_the_interval_has_95_percent_and_the_next_narrower_one_has_less(count):
    """Exactly: of the 2^count ways in which samples lie on either side of the median."""
    low, high = (int(end) for end in median_interval(range(1, count + 1)))
    assert low + high == count + 1
    below = [math.comb(count, r) for r in range(low + 1)]
    assert 40 * sum(below[:low]) <= 2**count < 40 * sum(below)


# When sampling stops.


@dataclass
class Bench:
    """Times of `things` in turn on a clock that only they move, at most so many in a batch."""

    times: list[float]  # ms, again and again
    seconds: float  # that it takes to time each of the things once
    things: int
    most: int
    now: float = 0.0
    asked: list[int] = field(default_factory=list)
    after: list[tuple[int, float]] = field(default_factory=list)  # a batch: samples and clock

    @property
    def taken(self) -> int:
        return self.after[-1][0] if self.after else 0

    def batch(self, count: int) -> list[list[float]]:
        self.asked.append(count)
        first, last = self.taken, self.taken + min(count, self.most)
        self.now += (last - first) * self.seconds
        self.after.append((last, self.now))
        return self.between(first, last)

    def between(self, first: int, last: int) -> list[list[float]]:
        """The samples of each thing."""
        return [
            [self.times[(i + thing) % len(self.times)] for i in range(first, last)]
            for thing in range(self.things)
        ]

    def reasons(self, rule: Rule, taken: int, now: float) -> set[str]:
        """Why sampling may stop after so many samples and seconds."""
        ends = [(*median_interval(own), np.median(own)) for own in self.between(0, taken)]
        narrow = all((high - low) / 2 <= rule.interval * middle for low, high, middle in ends)
        reasons = {
            "interval": taken >= rule.minimum and narrow,
            "maximum": taken >= rule.maximum,
            "seconds": now >= rule.seconds * (1 if taken >= SMALLEST else 2),
        }
        return {reason for reason, holds in reasons.items() if holds}


RULES = st.builds(
    lambda minimum, more, width, seconds: Rule(minimum, minimum + more, width, seconds),
    st.integers(1, 30), st.integers(0, 100), st.floats(1e-6, 1), st.floats(1e-3, 100),
)  # fmt: skip
BENCHES = st.builds(
    Bench, samples(1, 12), st.floats(1e-6, 300), st.integers(1, 3), st.integers(1, 50)
)


@given(RULES, BENCHES)
def test_sampling_stops_when_the_rule_says_so_and_not_before(rule, bench):
    """Its batches double at most and take a tenth of the budget at most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling.time, "perf_counter", lambda: bench.now)
        times, stopped = collect(rule, bench.batch)
    assert times == bench.between(0, bench.taken)
    assert bench.taken <= rule.maximum
    *earlier, last = bench.after
    assert stopped in bench.reasons(rule, *last)
    assert not any(bench.reasons(rule, *after) for after in earlier)
    assert bench.asked[0] == 1
    for count, before in zip(bench.asked[1:], bench.asked, strict=False):
        assert count <= 2 * before
        seconds = min(count, bench.most) * bench.seconds
        assert count == 1 or seconds <= rule.seconds / 10 * (1 + NEARLY)


# Ratios of pairs.


@given(samples(1, 40))
def test_a_resampled_interval_lies_around_the_median_and_repeats(ratios):
    low, high = resampled_interval(np.array(ratios))
    if len(ratios) < SMALLEST:
        assert np.isnan([low, high]).all()
        return
    around = [min(ratios), low, np.median(ratios), high, max(ratios)]
    assert around == pytest.approx(sorted(around), rel=NEARLY)
    assert resampled_interval(np.array(ratios)) == (low, high)
