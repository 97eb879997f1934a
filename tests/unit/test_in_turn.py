"""Samples of several launches: how many, in which order, and their time for one."""

import itertools
from typing import Any

import pytest
from stub_card import MS, Card, at_once, kept, late, nothing_again
from support import the_catalogue

from matmul_sweep.experiment.measure.bench import Point, Wrong
from matmul_sweep.experiment.measure.contest import Contest
from matmul_sweep.experiment.measure.in_turn import MOST_LAUNCHES, InTurnBench
from matmul_sweep.experiment.measure.launches import launches_of
from matmul_sweep.experiment.plan.settings import Case, Sampling
from matmul_sweep.operations.gemm import Gemm


def timed(sample_seconds: float, cache: str = "hot", write: Any = at_once) -> tuple[Point, Card]:
    """A point of a kernel and a library, with as many samples as the maximum says, and one in which
    C was looked at."""
    catalogue, card = the_catalogue(), Card()
    sampling = Sampling(20, 20, 1e-9, 60, sample_seconds=sample_seconds)
    point, case = Point(), Case(Gemm(64, 64, 64), "uniform", "burst")
    bench, wanted = card.seat(InTurnBench, cache, sampling, case.shape)
    bench.loaded_s = 0.0
    contest = Contest(card.tools, wanted, (0, 1))
    products = [card.product(*own) for own in zip(MS, MS.values(), (write, at_once), strict=True)]
    variants = [catalogue.variant(name) for name in ("naive", "cublas_sgemm")]
    contenders = [*map(contest.contender, variants, products, (2, 3))]
    for contender in contenders:
        contender.launch()
    bench.time_in_turn(point, case, cache, contest, contenders, {"error": 0.5})
    return point, card


def test_a_sample_takes_about_the_seconds_asked_for_and_its_time_is_that_of_one_launch():
    point, card = timed(0.0002)
    assert [row["launches"] for row in point.rows] == [50]
    for variant, name in (("naive/32", "own"), ("cublas_sgemm", "library")):
        taken = point.times[variant, "kernel", "hot"]
        assert len(taken) == 21
        assert taken == pytest.approx([MS[name]] * 21)
    assert len(card.holds[0]) == 2  # the first pair says how many make a sample
    assert {hold[0] for hold in card.holds[1:]} == {*MS}  # in random order
    for hold in card.holds[1:]:
        assert len(hold) <= MOST_LAUNCHES
        runs = [(name, len(list(run))) for name, run in itertools.groupby(hold)]
        assert all(count % {"own": 50, "library": 4}[name] == 0 for name, count in runs)


@pytest.mark.parametrize(("seconds", "cache"), [(0.0, "hot"), (0.0002, "cold")])
def test_without_seconds_or_with_the_l2_cleared_a_sample_is_one_launch(seconds, cache):
    point, card = timed(seconds, cache)
    assert [row["launches"] for row in point.rows] == [1]
    assert sum(map(len, card.holds)) == 2 * 21


@pytest.mark.parametrize(
    ("launch_ms", "expected"), [(0.0, 32), (0.005, 32), (0.01, 20), (0.15, 1), (9.0, 1)]
)
def test_launches_of_a_sample_fit_a_hold_and_are_one_at_least(launch_ms, expected):
    assert launches_of(0.0002, launch_ms, 32) == expected


@pytest.mark.parametrize("cache", ["hot", "cold"])
@pytest.mark.parametrize("write", [nothing_again, kept, late])
def test_a_kernel_that_is_right_before_it_is_timed_and_not_then_is_wrong(write, cache):
    with pytest.raises(Wrong, match="wrong result of naive/32 in its last timed launch: error inf"):
        timed(0.0, cache, write=write)
