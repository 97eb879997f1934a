"""Samples of several launches: how many, in which order, and their time for one."""

import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import the_catalogue

from matmul_sweep.experiment.measure.bench import Point
from matmul_sweep.experiment.measure.gpu_bench import MOST_LAUNCHES, GpuBench, launches_of
from matmul_sweep.experiment.plan.settings import Case, Limits, Sampling, Settings
from matmul_sweep.operations.gemm import Gemm

MS = {"own": 0.004, "library": 0.05}  # of a launch


class Card:
    """A stream whose clock only launches move."""

    def __init__(self) -> None:
        self.holds: list[list[str]] = []  # the launches of each hold

    def launch(self, name: str) -> Callable[[], None]:
        return lambda: self.holds[-1].append(name)

    def times(self, rows: Sequence[Callable[[], None]], before: object) -> list[float]:
        self.holds.append([])
        found = []
        for row in rows:
            begun = len(self.holds[-1])
            row()
            found.append(sum(MS[name] for name in self.holds[-1][begun:]))
        return found


def timed(sample_seconds: float, cache: str = "hot") -> tuple[Point, Card]:
    """A point of a kernel and a library, with as many samples as the maximum says."""
    catalogue, card = the_catalogue(), Card()
    sampling = Sampling(20, 20, 1e-9, 60, sample_seconds=sample_seconds)
    bench = GpuBench.__new__(GpuBench)
    bench.settings = Settings(1, (cache,), sampling, Limits(5, 9, 0.8, 75, 60))
    bench.tools: Any = SimpleNamespace(clear_l2=lambda: None)
    bench.stream: Any = card
    bench.recorder: Any = SimpleNamespace(now=lambda: [], span=lambda start, end: [])
    bench.random, bench.loaded_s = np.random.default_rng(1), 0.0
    bench.contenders = [catalogue.variant(name) for name in ("naive", "cublas_sgemm")]
    point, case = Point(), Case(Gemm(64, 64, 64), "uniform", "burst")
    launches = [card.launch("own"), card.launch("library")]
    bench.time_kernel(point, case, cache, launches, {"error": 0.5})
    return point, card


def test_a_sample_takes_about_the_seconds_asked_for_and_its_time_is_that_of_one_launch() -> None:
    point, card = timed(0.0002)
    assert [row["launches"] for row in point.rows] == [50]
    for variant, name in (("naive/32", "own"), ("cublas_sgemm", "library")):
        taken = point.times[variant, "kernel", "hot"]
        assert len(taken) == 20
        assert taken == pytest.approx([MS[name]] * 20)
    assert len(card.holds[0]) == 2  # the first pair says how many make a sample
    assert {hold[0] for hold in card.holds[1:]} == {*MS}  # in random order
    for hold in card.holds[1:]:
        assert len(hold) <= MOST_LAUNCHES
        runs = [(name, len(list(run))) for name, run in itertools.groupby(hold)]
        assert all(count % {"own": 50, "library": 4}[name] == 0 for name, count in runs)


@pytest.mark.parametrize(("seconds", "cache"), [(0.0, "hot"), (0.0002, "cold")])
def test_without_seconds_or_with_the_l2_cleared_a_sample_is_one_launch(
    seconds: float, cache: str
) -> None:
    point, card = timed(seconds, cache)
    assert [row["launches"] for row in point.rows] == [1]
    assert sum(map(len, card.holds)) == 2 * 20


@pytest.mark.parametrize(
    ("launch_ms", "expected"), [(0.0, 32), (0.005, 32), (0.01, 20), (0.15, 1), (9.0, 1)]
)
def test_launches_of_a_sample_fit_a_hold_and_are_one_at_least(
    launch_ms: float, expected: int
) -> None:
    assert launches_of(0.0002, launch_ms, 32) == expected
