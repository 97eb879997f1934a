"""A sweep: what is finished is kept, what cannot be measured becomes a row that says why."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from matmul.bench import LostDevice, Point, Settings, Wrong
from matmul.catalogue import Variant, load_catalogue
from matmul.sampling import Rule
from matmul.shapes import Gemm, Shape
from matmul.state import State
from matmul.sweep import Sweep

RULE = Rule(minimum=3, maximum=3, interval=1, seconds=1)
SETTINGS = Settings("uniform", 1, ("hot", "cold"), RULE, RULE, 1.0, 0.8, 1)
SHAPES = [Gemm(n, n, n) for n in (8, 16, 32, 64)]
CATALOGUE = load_catalogue()
CPU, GPU = CATALOGUE.variant("cpu_loop"), CATALOGUE.variant("naive")

MakeSweep = Callable[..., Sweep]


@dataclass
class FakeBench:
    """Gives times that no other call gives, or fails at a shape."""

    variant: Variant
    failures: dict[Shape, BaseException] = field(default_factory=dict)
    refusals: dict[Shape, str] = field(default_factory=dict)
    time_ms: float = 0.1
    measured: list[Shape] = field(default_factory=list)
    clock: float = 0.0

    def refusal(self, shape: Shape) -> str | None:
        return self.refusals.get(shape)

    def times(self) -> list[float]:
        self.clock += 1e-9 / 3
        return [self.time_ms + self.clock] * 3

    def measure(self, shape: Shape) -> Point:
        self.measured.append(shape)
        if shape in self.failures:
            raise self.failures[shape]
        point, name = Point(), self.variant.name
        point.times[name, "first", "cold"] = self.times()[:1]
        for cache in ("hot", "cold") if self.variant.kernel.on_gpu else ("hot",):
            for who in (name, *self.variant.kernel.baselines):
                point.times[who, "kernel", cache] = self.times()
            state = asdict(State(throttled="power_cap"))
            point.rows.append({"phase": "kernel", "cache": cache, "error": 0.25} | state)
        return point


@pytest.fixture
def make(tmp_path: Path) -> MakeSweep:
    def make(variant: Variant, identity: str = "this kernel, these settings") -> Sweep:
        return Sweep(variant, SETTINGS, tmp_path / "journal", identity)

    return make


def rows_at(sweep: Sweep, shape: Shape) -> list[dict[str, Any]]:
    return [row for row in sweep.rows if row["m"] == shape.m]


def samples_at(sweep: Sweep, shape: Shape) -> list[dict[str, Any]]:
    return [sample for sample in sweep.samples if sample["m"] == shape.m]


@pytest.mark.parametrize("variant", [CPU, GPU], ids=["cpu", "gpu"])
def test_an_interrupted_sweep_measures_nothing_finished_again(
    make: MakeSweep, variant: Variant
) -> None:
    interrupted = FakeBench(variant, {SHAPES[2]: KeyboardInterrupt()})
    first = make(variant)
    with pytest.raises(KeyboardInterrupt):
        first.run(interrupted, SHAPES)

    again = FakeBench(variant, clock=1.0)
    second = make(variant)
    second.run(again, SHAPES)
    assert again.measured == SHAPES[2:]
    for shape in SHAPES[:2]:
        assert rows_at(second, shape) == rows_at(first, shape)
        assert samples_at(second, shape) == samples_at(first, shape)
        assert samples_at(second, shape)
    assert all(row["status"] == "ok" for row in second.rows)


def test_a_span_that_was_left_out_is_a_row_that_says_why(make: MakeSweep) -> None:
    class HotOnly(FakeBench):
        def measure(self, shape: Shape) -> Point:
            point = super().measure(shape)
            for who in (self.variant.name, *self.variant.kernel.baselines):
                del point.times[who, "kernel", "cold"]
            point.rows[-1] |= {"status": "skipped", "reason": "alike"}
            return point

    sweep = make(GPU)
    sweep.run(HotOnly(GPU), SHAPES[:1])
    found = {(row["phase"], row["cache"]): (row["status"], row["reason"]) for row in sweep.rows}
    assert found["kernel", "cold"] == ("skipped", "alike")
    assert found["kernel", "hot"] == ("ok", "")
    assert len(sweep.rows) == len(found) == 3
    assert {sample["cache"] for sample in sweep.samples if sample["phase"] == "kernel"} == {"hot"}


def test_the_journal_of_another_identity_is_not_used(make: MakeSweep) -> None:
    make(CPU, "old kernel").run(FakeBench(CPU), SHAPES)
    bench = FakeBench(CPU)
    make(CPU, "new kernel").run(bench, SHAPES)
    assert bench.measured == SHAPES


def test_a_wrong_result_is_a_failed_row_without_times_and_is_tried_again(make: MakeSweep) -> None:
    failures = {SHAPES[1]: Wrong("wrong result: error 3 times the bound")}
    sweep = make(GPU)
    sweep.run(FakeBench(GPU, failures), SHAPES)
    rows = rows_at(sweep, SHAPES[1])
    assert [(row["cache"], row["status"], row["reason"]) for row in rows] == [
        ("hot", "failed", "wrong result: error 3 times the bound"),
        ("cold", "failed", "wrong result: error 3 times the bound"),
    ]
    assert not samples_at(sweep, SHAPES[1])
    assert samples_at(sweep, SHAPES[2])

    again = FakeBench(GPU)
    make(GPU).run(again, SHAPES)
    assert again.measured == [SHAPES[1]]


def test_a_lost_device_fails_the_rest_and_keeps_what_was_measured(make: MakeSweep) -> None:
    bench = FakeBench(GPU, {SHAPES[1]: LostDevice("the launch failed: illegal address")})
    sweep = make(GPU)
    sweep.run(bench, SHAPES)
    assert bench.measured == SHAPES[:2]
    assert {row["status"] for row in rows_at(sweep, SHAPES[0])} == {"ok"}
    for shape in SHAPES[1:]:
        rows = rows_at(sweep, shape)
        assert [row["cache"] for row in rows] == ["hot", "cold"]
        assert all(row["status"] == "failed" for row in rows)
        assert all("illegal address" in row["reason"] for row in rows)
        assert not samples_at(sweep, shape)
    assert all(str(SHAPES[1]) in row["reason"] for row in rows_at(sweep, SHAPES[2]))


def test_a_point_predicted_over_the_budget_is_skipped_with_the_numbers(make: MakeSweep) -> None:
    """64³ at 200 ms predicts 12.8 s at 256³, 64 times the operations."""
    shapes = [Gemm(64, 64, 64), Gemm(256, 256, 256)]
    bench = FakeBench(CPU, time_ms=200)
    sweep = make(CPU)
    sweep.run(bench, shapes)
    [skipped] = rows_at(sweep, shapes[1])
    assert bench.measured == shapes[:1]
    assert skipped["status"] == "skipped"
    assert "12.8 s" in skipped["reason"]
    assert "1 s" in skipped["reason"].replace("12.8 s", "")


def test_a_prediction_within_the_budget_is_measured(make: MakeSweep) -> None:
    shapes = [Gemm(64, 64, 64), Gemm(256, 256, 256)]
    bench = FakeBench(CPU, time_ms=15)
    make(CPU).run(bench, shapes)
    assert bench.measured == shapes


def test_a_resumed_point_still_predicts(make: MakeSweep) -> None:
    shapes = [Gemm(64, 64, 64), Gemm(256, 256, 256)]
    make(CPU).run(FakeBench(CPU, time_ms=200), shapes[:1])
    bench = FakeBench(CPU, time_ms=200)
    make(CPU).run(bench, shapes)
    assert not bench.measured


def test_shapes_that_the_kernel_or_the_machine_cannot_take_are_skipped_rows(
    make: MakeSweep,
) -> None:
    shapes = [SHAPES[0], Gemm(9, 8, 7), SHAPES[3]]
    bench = FakeBench(GPU, refusals={SHAPES[3]: "needs 99 GB"})
    sweep = make(GPU)
    sweep.run(bench, shapes)
    assert bench.measured == shapes[:1]
    ragged, large = rows_at(sweep, shapes[1]), rows_at(sweep, shapes[2])
    assert {row["status"] for row in ragged + large} == {"skipped"}
    assert "square" in ragged[0]["reason"]
    assert large[0]["reason"] == "needs 99 GB"


def test_rows_and_samples_say_whose_they_are(make: MakeSweep) -> None:
    sweep = make(GPU)
    sweep.run(FakeBench(GPU), SHAPES[:1])
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
    make(CPU).run(FakeBench(CPU), SHAPES[:2])
    again = make(CPU)
    again.pace = 1.0  # a calibration that predicts days
    again.run(FakeBench(CPU, refusals={SHAPES[1]: "needs 99 GB"}), SHAPES[:2])
    assert {row["status"] for row in again.rows} == {"ok"}
