"""Samples of several launches: how many, in which order, and their time for one."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import the_catalogue

from matmul_sweep.experiment.measure import alone
from matmul_sweep.experiment.measure.alone import BLOCKS, Alone
from matmul_sweep.experiment.measure.bench import Point, Wrong
from matmul_sweep.experiment.measure.contest import Contender, Contest
from matmul_sweep.experiment.measure.gpu_bench import MOST_LAUNCHES, GpuBench
from matmul_sweep.experiment.measure.launches import Launches, launches_of
from matmul_sweep.experiment.plan.settings import Case, Limits, Sampling, Settings
from matmul_sweep.experiment.verify.cublaslt import CublasError
from matmul_sweep.experiment.verify.verification import Accuracy
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.gemm import Gemm

NEUTRAL_MS = 0.002
MS = {"own": 0.004, "library": 0.05}  # of a launch
OFFERED = {"slow": 0.06, "fast": 0.03, "middle": 0.04, "wrong": 0.01}  # of what the library has


class Card:
    """A stream whose clock only launches move, and memory: arrays by their pointers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.holds: list[list[str]] = []  # the launches of each hold
        self.arrays = {which: np.eye(4) * (which + 1) for which in range(4)}  # A, B and two C
        self.late: list[Any] = []  # what another stream does when all else is done
        self.tools: Any = SimpleNamespace(
            clear_l2=lambda: None, empty=self.empty, scale=self.scale, poison=self.poison
        )

    def empty(self) -> None:
        self.now += NEUTRAL_MS

    def scale(self, which: int, count: int, dtype: str, factor: float) -> None:
        self.arrays[which] *= factor

    def poison(self, which: int, count: int, dtype: str) -> None:
        self.arrays[which] = np.full((4, 4), np.nan)

    def launch(self, name: str, write: Any) -> Any:
        def product(shape: Gemm, a: int, b: int, c: int) -> None:
            self.now += (MS | OFFERED)[name]
            if self.holds:
                self.holds[-1].append(name)
            write(self, self.arrays[a] @ self.arrays[b], c)

        return product

    def times(self, rows: Any, before: Any = None, behind: Any = None) -> list[float]:
        self.holds.append([])
        return [self.running(row, 0, 1, behind if row is rows[-1] else None) for row in rows]

    def running(self, launch: Any, first: int, count: int, behind: Any) -> float:
        for _ in range(first):
            launch()
        start = self.now
        for _ in range(count):
            launch()
        found = self.now - start
        if behind:
            behind()
        while self.late:
            self.late.pop()()
        return found

    def errors(self, cs: Any, kernels: Any) -> list[Accuracy]:
        """How far each C is from A·B."""
        wanted = self.arrays[0] @ self.arrays[1]
        right = [np.array_equal(self.arrays[c], wanted) for c in cs]
        return [Accuracy(0.5 if own else np.inf, 0.1, 0.1) for own in right]


def at_once(card: Card, product: np.ndarray, c: int) -> None:
    card.arrays[c] = product


def timed(
    sample_seconds: float, cache: str = "hot", size: int = 64, write: Any = at_once,
    library: Any = at_once, rival: str = "cublas_sgemm",
) -> tuple[Point, Card]:  # fmt: skip
    """A point of a kernel and a library, with as many samples as the maximum says, and one in which
    C was looked at."""
    catalogue, card = the_catalogue(), Card()
    sampling = Sampling(20, 20, 1e-9, 60, sample_seconds=sample_seconds)
    bench = GpuBench.__new__(GpuBench)
    bench.settings = Settings(1, (cache,), sampling, Limits(5, 9, 0.8, 75, 60))
    bench.tools = card.tools
    bench.stream: Any = card
    bench.recorder: Any = SimpleNamespace(now=lambda: [], span=lambda start, end: [])
    bench.alone = Alone(bench.stream, bench.recorder)
    bench.random, bench.loaded_s = np.random.default_rng(1), 0.0
    bench.contenders = [catalogue.variant(name) for name in ("naive", rival)]
    point, case = Point(), Case(Gemm(size, size, size), "uniform", "burst")
    contenders = [
        Contender(
            variant, Launches(card.launch(name, own), case.shape, itertools.repeat((0, 1, c)))
        )
        for variant, name, own, c in zip(
            bench.contenders, MS, (write, library), (2, 3), strict=True
        )
    ]
    for contender in contenders:
        contender.launches()
    wanted: Any = SimpleNamespace(
        operation=OPERATIONS["gemm"], shape=case.shape, errors=card.errors
    )
    contest = Contest(card.tools, contenders, wanted, bench.random)
    bench.time_cache(point, case, cache, contest, {"error": 0.5})
    return point, card


def test_a_sample_takes_about_the_seconds_asked_for_and_its_time_is_that_of_one_launch() -> None:
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
def test_without_seconds_or_with_the_l2_cleared_a_sample_is_one_launch(
    seconds: float, cache: str
) -> None:
    point, card = timed(seconds, cache)
    assert [row["launches"] for row in point.rows] == [1]
    assert sum(map(len, card.holds)) == 2 * 21


@pytest.mark.parametrize(
    ("launch_ms", "expected"), [(0.0, 32), (0.005, 32), (0.01, 20), (0.15, 1), (9.0, 1)]
)
def test_launches_of_a_sample_fit_a_hold_and_are_one_at_least(
    launch_ms: float, expected: int
) -> None:
    assert launches_of(0.0002, launch_ms, 32) == expected


def nothing_again(card: Card, product: np.ndarray, c: int) -> None:
    """Right once: what says that all is done is never reset."""
    if len(card.holds) == 0:
        card.arrays[c] = product


def kept(card: Card, product: np.ndarray, c: int) -> None:
    card.arrays[c] = card.arrays.setdefault(10 + c, product)


def late(card: Card, product: np.ndarray, c: int) -> None:
    card.late.append(lambda: at_once(card, product, c))


def refusing(failure: Exception) -> Any:
    """Fails where C was cleared, which is before it is looked at."""

    def write(card: Card, product: np.ndarray, c: int) -> None:
        if np.isnan(card.arrays[c]).any():
            raise failure
        at_once(card, product, c)

    return write


@pytest.mark.parametrize("cache", ["hot", "cold", "alone"])
@pytest.mark.parametrize("write", [nothing_again, kept, late])
def test_a_kernel_that_is_right_before_it_is_timed_and_not_then_is_wrong(
    write: Any, cache: str
) -> None:
    with pytest.raises(Wrong, match="wrong result of naive/32 in its last timed launch: error inf"):
        timed(0.0, cache, write=write)


@pytest.mark.parametrize("size", [64, 4096])
def test_alone_is_six_blocks_of_each_without_the_neutral_kernels_time(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    point, card = timed(0.0, "alone", size)
    for variant, name in (("naive/32", "own"), ("cublas_sgemm", "library")):
        assert point.times[variant, "kernel", "alone"] == pytest.approx([MS[name]] * BLOCKS)
    [row] = point.rows
    assert (row["status"], row["power_w"], row["sm_clock_mhz"]) == ("ok", None, None)
    assert (card.arrays[0] == np.eye(4)).all()
    said = ["no power: the card's energy counter stands still, or it has none"]
    assert caplog.messages == (said if size == 4096 else [])


def test_where_the_host_cannot_keep_up_the_row_alone_fails_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*_: object) -> float:
        raise TimeoutError("the host enqueues launches more slowly than they run")

    monkeypatch.setattr(Card, "times", late)
    point, _ = timed(0.0, "alone", 4096)
    assert [(row["status"], row["reason"][:8]) for row in point.rows] == [("failed", "the host")]
    assert not point.times


@pytest.mark.parametrize(
    "library", [late, refusing(TimeoutError("late")), refusing(CublasError("status 15"))]
)
def test_a_rival_that_fails_in_its_blocks_is_left_out_and_the_kernels_row_stays(
    library: Any,
) -> None:
    point, card = timed(0.0, "alone", library=library)
    assert (card.arrays[0] == np.eye(4)).all()
    assert [*point.times] == [("naive/32", "kernel", "alone")]
    assert [row["status"] for row in point.rows] == ["ok"]


NOT_RIGHT = "not compared: cublas_tuned: no algorithm of the library is right at 64x64x64"


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ({}, NOT_RIGHT),
        ({"wrong": late}, NOT_RIGHT),
        (CublasError("status 15"), "not compared: status 15"),
    ],
)
def test_where_the_library_offers_nothing_that_is_right_the_kernels_row_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, offered: Any, said: str
) -> None:
    def offers(operation: object, tools: Any, shape: Gemm) -> dict[str, Any]:
        if isinstance(offered, Exception):
            raise offered
        card: Card = tools.empty.__self__
        return {name: card.launch(name, write) for name, write in offered.items()}

    monkeypatch.setattr(alone, "offers", offers)
    point, _ = timed(0.0, "alone", rival="cublas_tuned")
    assert [*point.times] == [("naive/32", "kernel", "alone")]
    assert caplog.messages[-1] == said


@pytest.mark.parametrize("cache", ["alone", "hot"])
def test_a_tuned_library_is_the_fastest_of_its_algorithms_that_are_right_and_alone_only(
    monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    def offered(operation: object, tools: Any, shape: Gemm) -> dict[str, Any]:
        card: Card = tools.empty.__self__
        return {own: card.launch(own, late if own == "wrong" else at_once) for own in OFFERED}

    monkeypatch.setattr(alone, "offers", offered)
    point, _ = timed(0.0, cache, 4096, rival="cublas_tuned")
    assert point.rows[0]["status"] == "ok"
    found = {who: times for (who, _, _), times in point.times.items()}
    if cache == "hot":
        assert [*found] == ["naive/32"]
    else:
        assert found["cublas_tuned"] == pytest.approx([OFFERED["fast"]] * BLOCKS)
