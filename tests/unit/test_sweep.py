"""A sweep: finished points are kept, and points that cannot be measured become rows that say
why."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import the_catalogue

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.measure.bench import MODES, Case, LostDevice, Point, Settings, Wrong
from matmul_sweep.experiment.measure.sampling import Rule
from matmul_sweep.experiment.measure.state import State
from matmul_sweep.experiment.measure.sweep import Sweep
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.shapes import Shape

RULE = Rule(minimum=3, maximum=3, interval=1, seconds=1)
SETTINGS = Settings(
    1, ("hot", "cold"), RULE, 0, RULE, {"burst": 0.1, "sustained": 3}, 75, 60, 1.0, 2.0, 0.8, 1
)


def case(m: int, n: int | None = None, k: int | None = None) -> Case:
    return Case(Gemm(m, n or m, k or m), "uniform", "burst")


CASES = [case(n) for n in (8, 16, 32, 64)]
CATALOGUE = the_catalogue()
CPU, GPU = CATALOGUE.variant("cpu_loop"), CATALOGUE.variant("naive")

MakeSweep = Callable[..., Sweep]


@dataclass
class FakeBench:
    """Gives times that no other call gives, or fails at a shape."""

    variant: Variant
    failures: dict[Case, BaseException] = field(default_factory=dict)
    refusals: dict[Shape, str] = field(default_factory=dict)
    time_ms: float = 0.1
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
        point.times[name, "first", "cold"] = self.times()[:1]
        for cache in ("hot", "cold") if self.variant.kernel.on_gpu else ("hot",):
            for who in (name, *self.variant.kernel.product.rivals):
                point.times[who, "kernel", cache] = self.times()
            state = asdict(State(throttled="power_cap"))
            span = {"phase": "kernel", "cache": cache}
            point.rows.append(span | {"error": 0.25, "stopped": "maximum"} | state)
            point.states.append(span | {"when": "during", "readings": 3} | state)
        return point


@pytest.fixture
def make(tmp_path: Path) -> MakeSweep:
    def make(variant: Variant, identity: str = "this kernel, these settings") -> Sweep:
        return Sweep("mine", variant, SETTINGS, tmp_path / "journal", identity)

    return make


def rows_at(sweep: Sweep, case: Case) -> list[dict[str, Any]]:
    return [row for row in sweep.rows if row["m"] == case.shape.m]


def samples_at(sweep: Sweep, case: Case) -> list[dict[str, Any]]:
    return [sample for sample in sweep.samples if sample["m"] == case.shape.m]


@pytest.mark.parametrize("variant", [CPU, GPU], ids=["cpu", "gpu"])
def test_an_interrupted_sweep_measures_nothing_finished_again(
    make: MakeSweep, variant: Variant
) -> None:
    interrupted = FakeBench(variant, {CASES[2]: KeyboardInterrupt()})
    first = make(variant)
    with pytest.raises(KeyboardInterrupt):
        first.run(interrupted, CASES)

    again = FakeBench(variant, clock=1.0)
    second = make(variant)
    second.run(again, CASES)
    assert again.measured == CASES[2:]
    for case in CASES[:2]:
        assert rows_at(second, case) == rows_at(first, case)
        assert samples_at(second, case) == samples_at(first, case)
        assert samples_at(second, case)
    assert all(row["status"] == "ok" for row in second.rows)


def test_a_dispatch_says_what_it_ran(tmp_path: Path) -> None:
    for name, expected in (("sgemm", True), ("naive", False)):
        variant = CATALOGUE.variant(name)
        sweep = Sweep("gemm", variant, SETTINGS, tmp_path / name, "x")
        sweep.architecture = "sm_75"
        sweep.run(FakeBench(variant), CASES)
        chosen = [variant.part(case.shape, "sm_75").name for case in CASES]
        ran = list(dict.fromkeys((row["n"], row["ran"]) for row in sweep.rows))
        assert [name for _, name in ran] == (chosen if expected else [""] * len(CASES))


def test_a_span_that_was_left_out_is_a_row_that_says_why(make: MakeSweep) -> None:
    class HotOnly(FakeBench):
        def measure(self, case: Case) -> Point:
            point = super().measure(case)
            for who in (self.variant.name, *self.variant.kernel.product.rivals):
                del point.times[who, "kernel", "cold"]
            point.rows[-1] |= {"status": "skipped", "reason": "alike"}
            return point

    sweep = make(GPU)
    sweep.run(HotOnly(GPU), CASES[:1])
    found = {(row["phase"], row["cache"]): (row["status"], row["reason"]) for row in sweep.rows}
    assert found["kernel", "cold"] == ("skipped", "alike")
    assert found["kernel", "hot"] == ("ok", "")
    assert len(sweep.rows) == len(found) == 3
    assert {sample["cache"] for sample in sweep.samples if sample["phase"] == "kernel"} == {"hot"}


@pytest.mark.parametrize("left_out", [("hot",), ("hot", "cold")], ids=" and ".join)
def test_a_point_is_kept_although_its_first_cache_was_left_out(
    make: MakeSweep, left_out: tuple[str, ...]
) -> None:
    """As with `rotated` named first, of matrices that do not fit the L2."""

    class Without(FakeBench):
        def measure(self, case: Case) -> Point:
            point = super().measure(case)
            for cache in left_out:
                for who in (self.variant.name, *self.variant.kernel.product.rivals):
                    del point.times[who, "kernel", cache]
                [row] = (row for row in point.rows if row["cache"] == cache)
                row |= {"status": "skipped", "reason": "alike"}
            return point

    sweep = make(GPU)
    sweep.run(Without(GPU), CASES)
    found = {row["cache"]: row["status"] for row in sweep.rows if row["phase"] == "kernel"}
    assert found == {cache: "skipped" if cache in left_out else "ok" for cache in ("hot", "cold")}
    assert len(sweep.rows) == 3 * len(CASES)
    assert (sweep.pace is None) == (len(left_out) == 2)


def test_a_spared_shape_is_a_row_that_says_so_unless_it_is_in_the_journal(make: MakeSweep) -> None:
    make(CPU).run(FakeBench(CPU), CASES[:1])
    sweep = make(CPU)
    sweep.spared = {CASES[0].shape, CASES[2].shape}
    bench = FakeBench(CPU)
    sweep.run(bench, CASES)
    assert bench.measured == [CASES[1], CASES[3]]
    [row] = rows_at(sweep, CASES[2])
    assert row["status"] == "skipped"
    assert "cpu_without" in row["reason"]
    assert {row["status"] for row in rows_at(sweep, CASES[0])} == {"ok"}


def test_each_fill_and_mode_has_its_own_journal_and_rows(make: MakeSweep) -> None:
    cases = [Case(Gemm(8, 8, 8), fill, mode) for fill in ("uniform", "index") for mode in MODES]
    make(GPU).run(FakeBench(GPU, {cases[3]: Wrong("x")}), cases)
    bench = FakeBench(GPU)
    sweep = make(GPU)
    sweep.run(bench, cases)
    assert bench.measured == cases[3:]
    for table in (sweep.rows, sweep.samples, sweep.states):
        assert {(row["sweep"], row["fill"], row["mode"]) for row in table} == {
            ("mine", case.fill, case.mode) for case in cases
        }


def test_the_journal_of_another_identity_is_not_used(make: MakeSweep) -> None:
    make(CPU, "old kernel").run(FakeBench(CPU), CASES)
    bench = FakeBench(CPU)
    make(CPU, "new kernel").run(bench, CASES)
    assert bench.measured == CASES


def test_a_wrong_result_is_a_failed_row_without_times_and_is_tried_again(make: MakeSweep) -> None:
    failures = {CASES[1]: Wrong("wrong result: error 3 times the bound")}
    sweep = make(GPU)
    sweep.run(FakeBench(GPU, failures), CASES)
    rows = rows_at(sweep, CASES[1])
    assert [(row["cache"], row["status"], row["reason"]) for row in rows] == [
        ("hot", "failed", "wrong result: error 3 times the bound"),
        ("cold", "failed", "wrong result: error 3 times the bound"),
    ]
    assert not samples_at(sweep, CASES[1])
    assert samples_at(sweep, CASES[2])

    again = FakeBench(GPU)
    make(GPU).run(again, CASES)
    assert again.measured == [CASES[1]]


def test_a_lost_device_fails_the_rest_and_keeps_what_was_measured(make: MakeSweep) -> None:
    bench = FakeBench(GPU, {CASES[1]: LostDevice("the launch failed: illegal address")})
    sweep = make(GPU)
    sweep.run(bench, CASES)
    assert bench.measured == CASES[:2]
    assert {row["status"] for row in rows_at(sweep, CASES[0])} == {"ok"}
    for case in CASES[1:]:
        rows = rows_at(sweep, case)
        assert [row["cache"] for row in rows] == ["hot", "cold"]
        assert all(row["status"] == "failed" for row in rows)
        assert all("illegal address" in row["reason"] for row in rows)
        assert not samples_at(sweep, case)
    assert all(str(CASES[1].shape) in row["reason"] for row in rows_at(sweep, CASES[2]))


def test_a_lost_device_loses_no_point_of_the_journal(make: MakeSweep) -> None:
    """A point that was wrong before the interrupt takes the device with it on the second try."""
    first = FakeBench(GPU, {CASES[1]: Wrong("wrong result")})
    make(GPU).run(first, CASES[:3])
    sweep = make(GPU)
    sweep.run(FakeBench(GPU, {CASES[1]: LostDevice("the launch failed")}), CASES)
    kept, lost = [CASES[0], CASES[2]], [CASES[1], CASES[3]]
    for cases, status in ((kept, "ok"), (lost, "failed")):
        assert {row["status"] for case in cases for row in rows_at(sweep, case)} == {status}
    assert samples_at(sweep, CASES[2])


def test_a_point_predicted_over_the_budget_is_skipped_with_the_numbers(make: MakeSweep) -> None:
    """64³ at 200 ms predicts 12.8 s at 256³, 64 times the operations."""
    cases = [case(64), case(256)]
    bench = FakeBench(CPU, time_ms=200)
    sweep = make(CPU)
    sweep.run(bench, cases)
    [skipped] = rows_at(sweep, cases[1])
    assert bench.measured == cases[:1]
    assert skipped["status"] == "skipped"
    assert "12.8 s" in skipped["reason"]
    assert "1 s" in skipped["reason"].replace("12.8 s", "")


def test_a_prediction_within_the_budget_is_measured(make: MakeSweep) -> None:
    cases = [case(64), case(256)]
    bench = FakeBench(CPU, time_ms=15)
    make(CPU).run(bench, cases)
    assert bench.measured == cases


def test_a_resumed_point_still_predicts(make: MakeSweep) -> None:
    cases = [case(64), case(256)]
    make(CPU).run(FakeBench(CPU, time_ms=200), cases[:1])
    bench = FakeBench(CPU, time_ms=200)
    make(CPU).run(bench, cases)
    assert not bench.measured


def test_shapes_that_the_kernel_or_the_machine_cannot_take_are_skipped_rows(
    make: MakeSweep,
) -> None:
    cases = [CASES[0], case(9, 8, 7), CASES[3]]
    bench = FakeBench(GPU, refusals={CASES[3].shape: "needs 99 GB"})
    sweep = make(GPU)
    sweep.run(bench, cases)
    assert bench.measured == cases[:1]
    ragged, large = rows_at(sweep, cases[1]), rows_at(sweep, cases[2])
    assert {row["status"] for row in ragged + large} == {"skipped"}
    assert "square" in ragged[0]["reason"]
    assert large[0]["reason"] == "needs 99 GB"


def test_rows_and_samples_say_whose_they_are(make: MakeSweep) -> None:
    sweep = make(GPU)
    sweep.run(FakeBench(GPU), CASES[:1])
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
    assert timed["kernel"]["error"] == 0.25
    assert timed["kernel"]["throttled"] == "power_cap"
    assert timed["first"]["status"] == "ok"


def test_a_finished_point_is_kept_although_it_would_be_refused_today(make: MakeSweep) -> None:
    """Less memory is free than before the interrupt, or the first prediction came out slower."""
    make(CPU).run(FakeBench(CPU), CASES[:2])
    again = make(CPU)
    again.pace = 1.0  # a calibration that predicts days
    again.run(FakeBench(CPU, refusals={CASES[1].shape: "needs 99 GB"}), CASES[:2])
    assert {row["status"] for row in again.rows} == {"ok"}
