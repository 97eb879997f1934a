"""Blocks of contenders that have the card for themselves: who takes part, and what is left of a
point when one of them fails."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from stub_card import MS, Card, at_once, kept, late, nothing_again
from support import the_catalogue

from matmul_sweep.experiment.measure import together
from matmul_sweep.experiment.measure.alone import BLOCKS, Alone
from matmul_sweep.experiment.measure.bench import LostDevice, Point, Split
from matmul_sweep.experiment.measure.together import AloneBench
from matmul_sweep.experiment.plan.settings import Case, Sampling
from matmul_sweep.experiment.verify.cublaslt import CublasError
from matmul_sweep.operations.gemm import Gemm

# What a library has, and the ms of each.
OFFERED = {"slow": 0.06, "fast": 0.045, "middle": 0.048, "faster": 0.03, "wrong": 0.01}
KERNEL, LIBRARY, TUNED = "naive/32", "cublas_sgemm", "cublas_tuned"


class Broken(Exception):
    """What the driver raises of a launch after which the card is lost."""


@pytest.fixture(autouse=True)
def offers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets what the library offers: the ways of writing by name, or a failure."""

    def offered(found: Any) -> None:
        def own(operation: object, tools: Any, shape: Gemm) -> dict[str, Any]:
            if isinstance(found, Exception):
                raise found
            card: Card = tools.empty.__self__
            return {name: card.product(name, OFFERED[name], way) for name, way in found.items()}

        monkeypatch.setattr(together, "offers", own)

    offered({"fast": at_once})
    return offered


def timed(size: int = 64, write: Any = at_once, library: Any = at_once) -> tuple[Any, Card]:
    """What is found of a kernel beside its rivals."""
    catalogue, card = the_catalogue(), Card()
    ways = {KERNEL: ("own", write), LIBRARY: ("library", library)}
    case = Case(Gemm(size, size, size), "uniform", "burst")
    bench, wanted = card.seat(AloneBench, "alone", Sampling(6, 6, 1, 1), case.shape)
    bench.operation, bench.split = wanted.operation, Split()
    bench.gpu = SimpleNamespace(drv=SimpleNamespace(MemoryError=MemoryError), errors=Broken)
    bench.alone = Alone(bench.stream, bench.recorder, None)
    bench.variants = [catalogue.variant(name) for name in (KERNEL, LIBRARY, TUNED)]
    bench.rivals = {KERNEL: bench.variants[1:]}
    own = {name: card.product(way, MS[way], write) for name, (way, write) in ways.items()}
    bench.product = lambda variant: own[variant.name]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(together, "reference", lambda *_: wanted)
        return bench.measure(case, bench.variants[:1])[KERNEL], card


def who(found: Point) -> list[str]:
    return [name for name, _, _ in found.times]


@pytest.mark.parametrize("size", [64, 4096])
def test_a_point_is_six_blocks_of_each_without_the_neutral_kernels_time(size, caplog):
    point, card = timed(size)
    for name, ms in ((KERNEL, MS["own"]), (LIBRARY, MS["library"]), (TUNED, OFFERED["fast"])):
        assert point.times[name, "kernel", "alone"] == pytest.approx([ms] * BLOCKS)
    [row] = point.rows
    assert (row["status"], row["error"], row["power_w"], row["sm_clock_mhz"]) == (
        "ok", 0.5, None, None,
    )  # fmt: skip
    assert (card.arrays[0] == np.eye(4)).all()
    said = ["no power: the card's energy counter stands still, or it has none"]
    assert caplog.messages == (said if size == 4096 else [])


@pytest.mark.parametrize("write", [nothing_again, kept, late])
def test_a_kernel_that_is_right_once_and_not_when_it_is_timed_has_no_point(write):
    found, _ = timed(write=write)
    assert found == "wrong result of naive/32 in its last timed launch: error inf times the bound"


def wrong(card: Card, product: np.ndarray, c: int) -> None:
    card.arrays[c] = product + 1


def refusing(failure: Exception, after: int) -> Any:
    """Fails in a launch after so many."""
    count = iter(range(after))

    def write(card: Card, product: np.ndarray, c: int) -> None:
        if next(count, None) is None:
            raise failure
        at_once(card, product, c)

    return write


@pytest.mark.parametrize("failure", [TimeoutError("late"), CublasError("status 15"), MemoryError()])
@pytest.mark.parametrize("after", [0, 400])
def test_a_rival_that_fails_is_left_out_and_the_kernels_point_stays(failure, after):
    point, card = timed(library=refusing(failure, after))
    assert (card.arrays[0] == np.eye(4)).all()
    assert who(point) == [KERNEL, TUNED]
    assert [row["status"] for row in point.rows] == ["ok"]


def test_a_kernel_that_fails_has_no_point_and_says_why():
    found, _ = timed(write=refusing(TimeoutError("the host is late"), 400))
    assert found == "the host is late"


def test_a_lost_device_names_who_was_launched():
    with pytest.raises(LostDevice, match="the launch failed: gone") as lost:
        timed(library=refusing(Broken("gone"), 400))
    assert lost.value.who == LIBRARY


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ({}, "no algorithm of the library is right at 64x64x64"),
        ({"wrong": wrong}, "no algorithm of the library is right at 64x64x64"),
        (CublasError("status 15"), "status 15"),
    ],
)
def test_where_the_library_offers_nothing_right_the_others_stay(offers, caplog, offered, said):
    offers(offered)
    point, _ = timed()
    assert who(point) == [KERNEL, LIBRARY]
    assert caplog.messages == [f"cublas_tuned 64x64x64 uniform burst: {said}"]


def test_a_tuned_library_is_the_fastest_of_its_algorithms_that_are_right(offers):
    offers({name: wrong if name == "wrong" else at_once for name in OFFERED})
    point, _ = timed(4096)
    assert point.times[TUNED, "kernel", "alone"] == pytest.approx([OFFERED["faster"]] * BLOCKS)
    assert who(point) == [KERNEL, TUNED]  # the other is so far behind that it is no rival
