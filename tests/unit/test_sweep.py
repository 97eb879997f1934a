"""A sweep: finished points are kept, and points that cannot be measured become rows that say
why."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support import the_catalogue

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.words import MODES
from matmul_sweep.experiment.measure.bench import LostDevice, Point, Wrong
from matmul_sweep.experiment.measure.state import State
from matmul_sweep.experiment.measure.sweep import Sweep, run_together
from matmul_sweep.experiment.plan.settings import Case, Limits, Sampling, Settings
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.shapes import Shape

CACHES = ("hot", "cold")
SETTINGS = Settings(1, CACHES, Sampling(3, 3, 1, 1), Limits(1.0, 2.0, 0.8, 75, 60))


def case(m: int, n: int | None = None, k: int | None = None) -> Case:
    return Case(Gemm(m, n or m, k or m), "uniform", "burst")


CASES = [case(n) for n in (8, 16, 32, 64)]
CATALOGUE = the_catalogue()
CPU, GPU = CATALOGUE.variant("cpu_loop"), CATALOGUE.variant("naive")


@dataclass
class FakeBench:
    """Gives times that no other call gives, or fails at a shape; leaves out some cache states."""

    variant: Variant
    failures: dict[Case, BaseException] = field(default_factory=dict)
    refusals: dict[Shape, str] = field(default_factory=dict)
    time_ms: float = 0.1
    left_out: str = ""
    measured: list[Case] = field(default_factory=list)

    def refusal(self, shape: Shape) -> str | None:
        return self.refusals.get(shape)

    def times(self) -> list[float]:
        self.time_ms += 1e-9 / 3
        return [self.time_ms] * 3

    def measure(self, case: Case) -> Point:
        self.measured.append(case)
        if case in self.failures:
            raise self.failures[case]
        point, name = Point(), self.variant.name
        point.add("first", "cold", {name: self.times()[:1]})
        for cache in CACHES if self.variant.kernel.on_gpu else ("hot",):
            if cache == self.left_out:
                point.add("kernel", cache, {}, status="skipped", reason="alike")
                continue
            state = asdict(State(throttled="power_cap"))
            times = {who: self.times() for who in (name, *self.variant.kernel.product.rivals)}
            point.add("kernel", cache, times, error=0.25, stopped="maximum", **state)
            point.states.append({"phase": "kernel", "cache": cache, "when": "during"} | state)
        return point


@pytest.fixture
def swept(tmp_path: Path) -> Callable[..., Sweep]:
    """Runs a sweep over cases, with some of its attributes set before."""

    def swept(bench: FakeBench, cases: list[Case] = CASES, **own: Any) -> Sweep:
        sweep = Sweep("mine", bench.variant, SETTINGS, tmp_path, "this kernel, these settings")
        vars(sweep).update(own)
        sweep.run(bench, cases)
        return sweep

    return swept


def at(table: list[dict[str, Any]], case: Case) -> list[dict[str, Any]]:
    """The rows of a case."""
    return [row for row in table if row["m"] == case.shape.m]


def said(sweep: Sweep, case: Case) -> dict[str, tuple[str, str]]:
    """Status and reason of the case's rows of kernel times, by cache."""
    rows = [row for row in at(sweep.rows, case) if row["phase"] == "kernel"]
    return {row["cache"]: (row["status"], row["reason"]) for row in rows}


OK = dict.fromkeys(CACHES, ("ok", ""))


MIXED = [Case(Gemm(8, 8, 8), fill, mode) for fill in ("uniform", "index") for mode in MODES]


@pytest.mark.parametrize(("variant", "cases"), [(CPU, CASES), (GPU, CASES), (GPU, MIXED)])
def test_an_interrupted_sweep_measures_nothing_finished_again(swept, variant, cases):
    first, again = swept(FakeBench(variant), cases[:2]), FakeBench(variant, time_ms=1.0)
    second = swept(again, cases)
    assert again.measured == cases[2:]
    for name in ("rows", "states", "samples"):
        old, new = getattr(first, name), getattr(second, name)
        assert new[: len(old)] == old and len(new) == 2 * len(old)
        axes = {(row["sweep"], row["fill"], row["mode"]) for row in new}
        assert axes == {("mine", case.fill, case.mode) for case in cases}
    another = FakeBench(variant)
    swept(another, cases, identity="another kernel")
    assert another.measured == cases


@pytest.mark.parametrize("left", [0, -9])
def test_a_point_of_which_the_journal_has_lost_a_part_is_measured_again(swept, left):
    first, again = swept(FakeBench(GPU)), FakeBench(GPU)
    entry = first.entry(CASES[1])
    entry.write_bytes(entry.read_bytes()[:left])
    swept(again)
    assert again.measured == [CASES[1]]


def test_samples_say_whose_they_are(swept):
    samples = [s for s in swept(FakeBench(GPU), CASES[:1]).samples if s["phase"] == "kernel"]
    whose = {(s["variant"], s["baseline_of"], s["sample"]) for s in samples}
    pairs = [(GPU.name, ""), ("cublas_sgemm", GPU.name)]
    assert whose == {(*pair, i) for pair in pairs for i in range(3)}


@pytest.mark.parametrize(("name", "chooses"), [("sgemm", True), ("naive", False)])
def test_a_dispatch_says_what_it_ran(swept, name, chooses):
    variant = CATALOGUE.variant(name)
    for row in swept(FakeBench(variant), architecture="sm_75").rows:
        shape = Gemm(row["m"], row["n"], row["k"])
        assert row["ran"] == (variant.part(shape, "sm_75").name if chooses else "")


def test_a_point_is_kept_with_its_reason_although_a_cache_state_was_left_out(swept):
    sweep = swept(FakeBench(GPU, left_out="cold"))
    assert said(sweep, CASES[0]) == OK | {"cold": ("skipped", "alike")}
    assert len(sweep.rows) == 3 * len(CASES)
    assert {sample["cache"] for sample in sweep.samples if sample["phase"] == "kernel"} == {"hot"}


def test_what_cannot_be_measured_is_a_row_without_times_that_says_why(swept):
    fine, wrong, spared, large = CASES
    oblong, why = case(9, 8, 7), "wrong result of naive: error 3 times the bound"
    bench = FakeBench(GPU, {wrong: Wrong(why)}, {large.shape: "needs 99 GB"})
    sweep = swept(bench, [*CASES, oblong], spared={spared.shape})
    assert bench.measured == [fine, wrong]
    for refused, *expected in (
        (wrong, "failed", why),
        (spared, "skipped", "not for the CPU: cpu_without in the configuration"),
        (large, "skipped", "needs 99 GB"),
        (oblong, "skipped", GPU.refusal(oblong.shape)),
    ):
        assert said(sweep, refused) == dict.fromkeys(CACHES, tuple(expected))
        assert not at(sweep.samples, refused)
    assert "square" in expected[1]


def test_a_lost_device_fails_the_rest_and_loses_no_point_of_the_journal(swept):
    """A point that was wrong before the interrupt takes the device with it on the second try."""
    swept(FakeBench(GPU, {CASES[1]: Wrong("wrong result")}), CASES[:3])
    reason = "the launch failed: illegal address"
    bench = FakeBench(GPU, {CASES[1]: LostDevice(reason)})
    sweep = swept(bench)
    assert bench.measured == [CASES[1]]
    rest = f"not run: at {CASES[1].shape} {reason}"
    lost, unrun = (dict.fromkeys(CACHES, ("failed", why)) for why in (reason, rest))
    assert [said(sweep, case) for case in CASES] == [OK, lost, OK, unrun]
    assert not at(sweep.samples, CASES[1]) and not at(sweep.samples, CASES[3])


@pytest.mark.parametrize(("time_ms", "skipped"), [(200, True), (15, False)])
def test_a_point_predicted_over_the_budget_is_skipped_with_the_numbers(swept, time_ms, skipped):
    """64³ at 200 ms predicts 12.8 s at 256³, 64 times the operations; also from the journal."""
    small, large = case(64), case(256)
    swept(FakeBench(CPU, time_ms=time_ms), [small])
    bench = FakeBench(CPU)
    why = "predicted 12.8 s per launch, over the budget of 1 s"
    expected = ("skipped", why) if skipped else ("ok", "")
    assert said(swept(bench, [small, large]), large) == {"hot": expected}
    assert bench.measured == [large] * (not skipped)


def test_a_finished_point_is_kept_although_it_would_be_refused_today(swept):
    """Less memory is free than before the interrupt, the first prediction came out slower, or the
    configuration spares the CPU the shape."""
    one, other = CASES[:2]
    swept(FakeBench(CPU), [one, other])
    today = FakeBench(CPU, refusals={other.shape: "needs 99 GB"})
    again = swept(today, [one, other], spared={one.shape}, pace=1.0)  # which predicts days
    assert {row["status"] for row in again.rows} == {"ok"}


@dataclass
class Contest:
    """Of each variant a point in each case, or why not; some cases take the device with them."""

    reasons: dict[str, str] = field(default_factory=dict)
    lost: dict[Case, LostDevice] = field(default_factory=dict)
    measured: list[tuple[Case, list[str]]] = field(default_factory=list)

    def refusal(self, shape: Shape) -> str | None:
        return None

    def measure(self, case: Case, variants: list[Variant]) -> dict[str, Point | str]:
        self.measured.append((case, [variant.name for variant in variants]))
        if case in self.lost:
            raise self.lost[case]
        found: dict[str, Point | str] = {}
        for name in (variant.name for variant in variants):
            point = Point()
            point.add("kernel", "alone", {name: [1.0, 2.0]})
            found[name] = self.reasons.get(name, point)
        return found


def contested(bench: Any, folder: Path, *names: str) -> tuple[list[str], dict[str, Sweep]]:
    """Which variants are through, and the sweeps of all."""
    alone = replace(SETTINGS, caches=("alone",))
    sweeps = {
        name: Sweep("mine", CATALOGUE.variant(name), alone, folder / name[:5], "these settings")
        for name in names
    }
    return [s.variant.name for s in run_together([*sweeps.values()], bench, CASES)], sweeps


def statuses(sweep: Sweep) -> list[str]:
    return [row["status"] for row in sweep.rows]


def test_one_that_fails_in_a_contest_has_rows_that_say_why_beside_the_others(tmp_path):
    through, sweeps = contested(Contest({"shared/32": "wrong"}), tmp_path, "naive/32", "shared/32")
    assert through == ["naive/32", "shared/32"]
    assert statuses(sweeps["naive/32"]) == ["ok"] * 4
    assert [row["reason"] for row in sweeps["shared/32"].rows] == ["wrong"] * 4


def test_who_lost_the_device_is_through_and_the_others_go_on_from_their_journal(tmp_path):
    names = ("naive/32", "shared/32")
    bench = Contest(lost={CASES[2]: LostDevice("it hangs", "shared/32")})
    through, sweeps = contested(bench, tmp_path, *names)
    assert through == ["shared/32"]
    assert statuses(sweeps["shared/32"]) == ["ok", "ok", "failed", "failed"]
    assert sweeps["shared/32"].rows[3]["reason"] == "not run: at 32x32x32 it hangs"
    again = Contest()
    through, sweeps = contested(again, tmp_path, "naive/32")
    assert through == ["naive/32"] and statuses(sweeps["naive/32"]) == ["ok"] * 4
    assert again.measured == [(case, ["naive/32"]) for case in CASES[2:]]


def test_where_nobody_knows_who_lost_the_device_all_that_were_left_are_through(tmp_path):
    bench = Contest(lost={CASES[3]: LostDevice("the GPU does not answer")})
    through, sweeps = contested(bench, tmp_path, "naive/32", "shared/32")
    assert through == ["naive/32", "shared/32"]
    assert [statuses(own)[3] for own in sweeps.values()] == ["failed", "failed"]
