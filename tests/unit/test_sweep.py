"""A sweep: finished points are kept, and points that cannot be measured become rows that say
why."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import the_catalogue

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.words import MODES
from matmul_sweep.experiment.measure.bench import LostDevice, Point, Wrong
from matmul_sweep.experiment.measure.state import State
from matmul_sweep.experiment.measure.sweep import Sweep
from matmul_sweep.experiment.plan.settings import Case, Limits, Sampling, Settings
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.shapes import Shape

SETTINGS = Settings(1, ("hot", "cold"), Sampling(3, 3, 1, 1), Limits(1.0, 2.0, 0.8, 75, 60))


def case(m: int, n: int | None = None, k: int | None = None) -> Case:
    return Case(Gemm(m, n or m, k or m), "uniform", "burst")


CASES = [case(n) for n in (8, 16, 32, 64)]
CATALOGUE = the_catalogue()
CPU, GPU = CATALOGUE.variant("cpu_loop"), CATALOGUE.variant("naive")

MakeSweep = Callable[..., Sweep]


@dataclass
class FakeBench:
    """Gives times that no other call gives, or fails at a shape; leaves out some cache states."""

    variant: Variant
    failures: dict[Case, BaseException] = field(default_factory=dict)
    refusals: dict[Shape, str] = field(default_factory=dict)
    time_ms: float = 0.1
    left_out: tuple[str, ...] = ()
    measured: list[Case] = field(default_factory=list)
    clock: float = 0.0

    def refusal(self, shape: Shape) -> str | None:
        return self.refusals.get(shape)

    def times(self) -> list[float]:
        self.clock += 1e-9 / 3
        return [self.time_ms + self.clock] * 3

    def measure(self, case: Case) -> Point:
        self.measured.append(case)
        if case in self.failures:
            raise self.failures[case]
        point, name = Point(), self.variant.name
        point.add("first", "cold", {name: self.times()[:1]})
        for cache in ("hot", "cold") if self.variant.kernel.on_gpu else ("hot",):
            if cache in self.left_out:
                point.add("kernel", cache, {}, status="skipped", reason="alike")
                continue
            state = asdict(State(throttled="power_cap"))
            times = {who: self.times() for who in (name, *self.variant.kernel.product.rivals)}
            point.add("kernel", cache, times, error=0.25, stopped="maximum", **state)
            span = {"phase": "kernel", "cache": cache, "when": "during", "readings": 3}
            point.states.append(span | state)
        return point


@pytest.fixture
def make(tmp_path: Path) -> MakeSweep:
    def make(variant: Variant, identity: str = "this kernel, these settings") -> Sweep:
        return Sweep("mine", variant, SETTINGS, tmp_path / "journal", identity)

    return make


def ran(sweep: Sweep, bench: FakeBench, cases: list[Case]) -> Sweep:
    sweep.run(bench, cases)
    return sweep


def at(table: list[dict[str, Any]], case: Case) -> list[dict[str, Any]]:
    """The rows of a case."""
    return [row for row in table if row["m"] == case.shape.m]


def said(sweep: Sweep, case: Case) -> set[tuple[str, str, str]]:
    """Cache, status and reason of the case's rows of kernel times."""
    rows = [row for row in at(sweep.rows, case) if row["phase"] == "kernel"]
    return {(row["cache"], row["status"], row["reason"]) for row in rows}


OK = {("hot", "ok", ""), ("cold", "ok", "")}


@pytest.mark.parametrize("variant", [CPU, GPU], ids=["cpu", "gpu"])
def test_an_interrupted_sweep_measures_nothing_finished_again(
    make: MakeSweep, variant: Variant
) -> None:
    first, again = make(variant), FakeBench(variant, clock=1.0)
    with pytest.raises(KeyboardInterrupt):
        first.run(FakeBench(variant, {CASES[2]: KeyboardInterrupt()}), CASES)
    second = ran(make(variant), again, CASES)
    assert again.measured == CASES[2:]
    for case in CASES[:2]:
        assert at(second.rows, case) == at(first.rows, case)
        assert at(second.states, case) == at(first.states, case)
        assert at(second.samples, case) == at(first.samples, case) != []
    assert {row["status"] for row in second.rows} == {"ok"}
    another = FakeBench(variant)
    ran(make(variant, "another kernel"), another, CASES)
    assert another.measured == CASES


def test_a_dispatch_says_what_it_ran(tmp_path: Path) -> None:
    for name, expected in (("sgemm", True), ("naive", False)):
        variant = CATALOGUE.variant(name)
        sweep = Sweep("gemm", variant, SETTINGS, tmp_path / name, "x")
        sweep.architecture = "sm_75"
        sweep.run(FakeBench(variant), CASES)
        chosen = [variant.part(case.shape, "sm_75").name for case in CASES]
        found = list(dict.fromkeys((row["n"], row["ran"]) for row in sweep.rows))
        assert [name for _, name in found] == (chosen if expected else [""] * len(CASES))


@pytest.mark.parametrize("left_out", [("cold",), ("hot",), ("hot", "cold")], ids=" and ".join)
def test_a_point_is_kept_with_its_reason_although_a_cache_state_was_left_out(
    make: MakeSweep, left_out: tuple[str, ...]
) -> None:
    """As with `rotated` named first, of matrices that do not fit the L2."""
    sweep = ran(make(GPU), FakeBench(GPU, left_out=left_out), CASES)
    there = {("skipped", "alike", cache) if cache in left_out else ("ok", "", cache)
             for cache in ("hot", "cold")}  # fmt: skip
    assert {(status, reason, cache) for cache, status, reason in said(sweep, CASES[0])} == there
    assert len(sweep.rows) == 3 * len(CASES)
    timed = {sample["cache"] for sample in sweep.samples if sample["phase"] == "kernel"}
    assert timed == {"hot", "cold"} - {*left_out}
    assert (sweep.pace is None) == (len(left_out) == 2)


def test_each_fill_and_mode_has_its_own_journal_and_rows(make: MakeSweep) -> None:
    cases = [Case(Gemm(8, 8, 8), fill, mode) for fill in ("uniform", "index") for mode in MODES]
    ran(make(GPU), FakeBench(GPU, {cases[3]: Wrong("x")}), cases)
    bench = FakeBench(GPU)
    sweep = ran(make(GPU), bench, cases)
    assert bench.measured == cases[3:]
    for table in (sweep.rows, sweep.samples, sweep.states):
        assert {(row["sweep"], row["fill"], row["mode"]) for row in table} == {
            ("mine", case.fill, case.mode) for case in cases
        }


def test_a_wrong_result_is_a_failed_row_without_times_and_is_tried_again(make: MakeSweep) -> None:
    why = "wrong result of naive: error 3 times the bound"
    sweep = ran(make(GPU), FakeBench(GPU, {CASES[1]: Wrong(why)}), CASES)
    assert said(sweep, CASES[1]) == {(cache, "failed", why) for cache in ("hot", "cold")}
    assert at(sweep.samples, CASES[2]) and not at(sweep.samples, CASES[1])
    again = FakeBench(GPU)
    ran(make(GPU), again, CASES)
    assert again.measured == [CASES[1]]


def test_a_lost_device_fails_the_rest_and_loses_no_point_of_the_journal(make: MakeSweep) -> None:
    """A point that was wrong before the interrupt takes the device with it on the second try."""
    ran(make(GPU), FakeBench(GPU, {CASES[1]: Wrong("wrong result")}), CASES[:3])
    bench = FakeBench(GPU, {CASES[1]: LostDevice("the launch failed: illegal address")})
    sweep = ran(make(GPU), bench, CASES)
    assert bench.measured == [CASES[1]]
    assert said(sweep, CASES[0]) == said(sweep, CASES[2]) == OK
    reason = "the launch failed: illegal address"
    rest = f"not run: at {CASES[1].shape} {reason}"
    for case, why in ((CASES[1], reason), (CASES[3], rest)):
        assert said(sweep, case) == {(cache, "failed", why) for cache in ("hot", "cold")}
        assert not at(sweep.samples, case)


@pytest.mark.parametrize(("time_ms", "skipped"), [(200, True), (15, False)])
def test_a_point_predicted_over_the_budget_is_skipped_with_the_numbers(
    make: MakeSweep, time_ms: float, skipped: bool
) -> None:
    """64³ at 200 ms predicts 12.8 s at 256³, 64 times the operations; also from the journal."""
    cases = [case(64), case(256)]
    for again in (False, True):
        bench = FakeBench(CPU, time_ms=time_ms)
        sweep = ran(make(CPU), bench, cases)
        assert bench.measured == cases[int(again) : 1 if skipped else 2 - 2 * again]
        [(_, status, reason)] = said(sweep, cases[1])
        why = "predicted 12.8 s per launch, over the budget of 1 s"
        assert (status, reason) == (("skipped", why) if skipped else ("ok", ""))


def test_shapes_that_the_kernel_the_machine_or_the_user_refuses_are_skipped_rows(
    make: MakeSweep,
) -> None:
    cases = [CASES[0], case(9, 8, 7), *CASES[2:]]
    bench, sweep = FakeBench(GPU, refusals={CASES[3].shape: "needs 99 GB"}), make(GPU)
    sweep.spared = {CASES[2].shape}
    sweep.run(bench, cases)
    assert bench.measured == cases[:1]
    for skipped, part in zip(cases[1:], ("square", "cpu_without", "needs 99 GB"), strict=True):
        found = sorted(said(sweep, skipped))
        assert [(cache, status) for cache, status, _ in found] == [
            ("cold", "skipped"),
            ("hot", "skipped"),
        ]
        assert all(part in reason for *_, reason in found)


def test_rows_and_samples_say_whose_they_are(make: MakeSweep) -> None:
    sweep = ran(make(GPU), FakeBench(GPU), CASES[:1])
    assert {row["variant"] for row in sweep.rows} == {GPU.name}
    whose = {(s["variant"], s["baseline_of"], s["cache"], s["sample"])
             for s in sweep.samples if s["phase"] == "kernel"}  # fmt: skip
    assert whose == {
        (who, of, cache, i)
        for who, of in ((GPU.name, ""), ("cublas_sgemm", GPU.name))
        for cache in ("hot", "cold")
        for i in range(3)
    }
    timed = {row["phase"]: row for row in sweep.rows if row["cache"] == "cold"}
    assert (timed["kernel"]["error"], timed["kernel"]["throttled"]) == (0.25, "power_cap")
    assert timed["first"]["status"] == "ok"


def test_a_finished_point_is_kept_although_it_would_be_refused_today(make: MakeSweep) -> None:
    """Less memory is free than before the interrupt, the first prediction came out slower, or the
    configuration spares the CPU the shape."""
    ran(make(CPU), FakeBench(CPU), CASES[:2])
    again = make(CPU)
    again.pace, again.spared = 1.0, {CASES[0].shape}  # a calibration that predicts days
    again.run(FakeBench(CPU, refusals={CASES[1].shape: "needs 99 GB"}), CASES[:2])
    assert {row["status"] for row in again.rows} == {"ok"}
