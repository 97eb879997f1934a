"""Collecting made-up jobs: medians, rates and ratios by hand, and nothing left out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support import Command, Outcome, experiment, the_catalogue

from matmul_sweep.build.binaries import binary_of
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.tables import COLUMNS, read_table, write_table
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.process.files import read_json, write_json

POINT = {"sweep": "gemm", "operation": "gemm", "dtype": "float32", "m": 64, "n": 32, "k": 16,
         "fill": "uniform", "mode": "burst"}  # fmt: skip
OPERATIONS = 2 * 64 * 32 * 16
GRAM = POINT | {"sweep": "gram", "operation": "gram", "dtype": "float64", "k": None}
NAIVE, CUBLAS = "naive_rect/32", "cublas_sgemm"
FACTS = {"version": "1.0.0", "date": "2026-01-02", "commit": "abc", "code": "c0de",
         "dirty": False, "cpu": "a CPU", "gpu": "a GPU",
         "uuid": "GPU-1", "compute_capability": "9.0",
         "occupancy": 0.75}  # fmt: skip
SPLIT = {
    "wall_s": 5.0,
    "start_s": 1.0,
    "inputs_s": 0.5,
    "verification_s": 0.5,
    "cooling_s": 0.0,
    "timed_s": 3.0,
}
OK = {"status": "ok", "reason": ""}
STATE = {"phase": "kernel", "cache": "hot", "when": "during", "readings": 9, "power_w": 300.5}

CEILING = {"name": "copy", "unit": "GB/s", "value": 2e3, "samples": 20, **OK,
           "gpu": "a GPU", "uuid": "GPU-1", "sha256": "d19e57"}  # fmt: skip

Row = dict[str, Any]
Times = dict[tuple[str, str, str], list[float]]


class Jobs:
    """A cluster's finished jobs, as compile.py, verify.py and measure.py leave them."""

    def __init__(self, folder: Path, command: Command) -> None:
        self.folder, self.command = folder, command
        self.names: list[str] = []
        self.device, self.architectures = "gpu", ("sm_90",)
        self.ceiling({})

    def add(
        self, name: str, times: Times, rows: list[Row], facts: Row | None = None,
        point: Row = POINT,
    ) -> Path:  # fmt: skip
        """`times`: by (variant, phase, cache), the variant's own or its baselines'."""
        variant = the_catalogue().variant(name)
        self.names.append(name)
        folder = self.folder / "measured" / point["sweep"] / variant.kernel.name / variant.slug
        points = [{"variant": name} | point | {"phase": "kernel", "cache": "hot"} | row
                  for row in rows]  # fmt: skip
        write_table(frame("points.csv", points), "points.csv", folder / "points.csv")
        samples = [
            {"variant": who, "baseline_of": "" if who == name else name} | point
            | {"phase": phase, "cache": cache, "sample": i, "time_ms": time_ms}
            for (who, phase, cache), taken in times.items()
            for i, time_ms in enumerate(taken)
        ]  # fmt: skip
        path = folder / "samples.csv.gz"
        write_table(frame("samples.csv.gz", samples), "samples.csv.gz", path)
        states = [{"variant": name} | point | STATE]
        write_table(frame("states.csv", states), "states.csv", folder / "states.csv")
        split = {"sweep": point["sweep"], "variant": name} | SPLIT
        job = FACTS | (facts or {}) | {"split": split, "settings": {}}
        write_json({k: v for k, v in job.items() if v is not None}, folder / "facts.json")
        return folder

    def compiled(self, variant: Variant, arch: str = "sm_90", **changes: Any) -> None:
        record = {
            "kernel": variant.kernel.name, "variant": variant.name, "sha256": "5ha",
            "compiler": "release 13.0", "compiler_path": "/x/nvcc", "flags": "-O3",
            "architecture": arch, **OK, "registers": 40, "shared_bytes": 8192, "spill_bytes": 0,
        }  # fmt: skip
        path = binary_of(variant, self.folder / "build" / arch).with_suffix(".json")
        write_json({k: v for k, v in (record | changes).items() if v is not None}, path)

    def ceiling(self, row: Row) -> None:
        """One of the card's ceilings."""
        path = self.folder / "measured" / "ceilings.csv"
        write_table(frame("ceilings.csv", [CEILING | row]), "ceilings.csv", path)

    def experiment(self) -> Experiment:
        gemm = {"operation": "gemm", "shapes": ["64x32x16"]}
        gram = {"operation": "gram", "shapes": ["64x32"]}
        run = experiment(*self.names, device=self.device, spread=True, caches=["hot"],
                         sweeps={"gemm": gemm, "gram": gram})  # fmt: skip
        return replace(run, architectures=self.architectures)

    def collect(self, output: str = "local", failed: Row | None = None) -> Outcome:
        """`failed`: the verifications that did, by variant with their reason."""
        run, failed = self.experiment(), failed or {}
        run.write(self.folder / "experiment.json")
        for (arch, _), own in run.binaries.items():
            for variant in own:
                if (
                    not binary_of(variant, self.folder / "build" / arch)
                    .with_suffix(".json")
                    .exists()
                ):
                    self.compiled(variant, arch)
        for operation, own in run.operations.items():
            rows = [{"kernel": v.kernel.name, "variant": v.name, "where": "gpu"} | POINT | OK
                    | ({"status": "failed", "reason": failed[v.name]} if v.name in failed else {})
                    for v in own]  # fmt: skip
            path = self.folder / "verified" / f"{operation}.csv"
            write_table(frame("verification.csv", rows), "verification.csv", path)
        return self.command(
            "collect", "--experiment", self.folder / "experiment.json", "--results", self.folder,
            "--output", self.folder / output, "--others", self.folder / "others",
            "--log", self.folder / "collect.log",
        )  # fmt: skip

    def table(self, name: str) -> pd.DataFrame:
        return read_table(name, self.folder / "local" / name)


def frame(kind: str, rows: list[Row]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS[kind])


@pytest.fixture
def jobs(tmp_path: Path, command: Command) -> Jobs:
    return Jobs(tmp_path, command)


def test_medians_intervals_and_rates_by_hand(jobs: Jobs) -> None:
    times = {(NAIVE, "kernel", "hot"): [7.0, 1.0, 3.0, 2.0, 6.0, 4.0, 5.0],
             (NAIVE, "first", "cold"): [20.0]}  # fmt: skip
    state = {"error": 0.25, "sm_clock_mhz": 1980, "power_w": 300.5, "throttled": "power_cap"}
    jobs.add(NAIVE, times, [OK | state, OK | {"phase": "first", "cache": "cold"}])
    assert jobs.collect().code == 0
    kernel, first = (row for _, row in jobs.table("summary.csv").iterrows())
    assert kernel.kernel == "naive_rect"
    assert (kernel.time_ms, kernel.time_low_ms, kernel.time_high_ms) == (4.0, 1.0, 7.0)
    assert kernel.samples == 7
    assert kernel.tflops == pytest.approx(OPERATIONS / 4e-3 / 1e12)
    assert (kernel.error, kernel.power_w, kernel.throttled) == (0.25, 300.5, "power_cap")
    assert (first.time_ms, first.samples) == (20.0, 1)
    assert pd.isna(first.tflops)
    assert pd.isna(first.time_low_ms)


def test_the_launches_of_a_sample_are_a_whole_number_or_none(jobs: Jobs) -> None:
    times = {(NAIVE, "kernel", "hot"): [1.0], (NAIVE, "first", "cold"): [2.0]}
    jobs.add(NAIVE, times, [OK | {"launches": 50}, OK | {"phase": "first", "cache": "cold"}])
    assert jobs.collect().code == 0
    launches = jobs.table("summary.csv").launches
    assert launches[0] == 50
    assert pd.isna(launches[1])
    assert ",1,50," in (jobs.folder / "local" / "summary.csv").read_text()


def test_a_variant_that_only_a_dispatch_uses_has_its_kernel(jobs: Jobs) -> None:
    catalogue = the_catalogue()
    [name, *_] = [v.name for v in catalogue.buildable.values() if not v.measured]
    jobs.add(name, {(name, "kernel", "hot"): [1.0]}, [OK])
    assert jobs.collect().code == 0
    assert jobs.table("summary.csv").kernel.to_list() == [catalogue.variant(name).kernel.name]


def test_gram_and_gemm_are_collected_together_and_gram_has_no_k(jobs: Jobs) -> None:
    """An empty k must neither drop a row from a group nor turn the others' k into 16.0."""
    jobs.add(NAIVE, {(NAIVE, "kernel", "hot"): [1.0]}, [OK])
    times = {("gram_naive/16", "kernel", "hot"): [4.0, 2.0, 6.0],
             ("cublas_dgemm", "kernel", "hot"): [2.0, 2.0, 2.0]}  # fmt: skip
    jobs.add("gram_naive/16", times, [OK | GRAM], point=GRAM)
    assert jobs.collect().code == 0
    gemm, gram = (row for _, row in jobs.table("summary.csv").iterrows())
    assert gemm.k == 16
    assert pd.isna(gram.k)
    assert gram.time_ms == 4.0
    assert gram.tflops == pytest.approx(64 * 32 * 33 / 4e-3 / 1e12)
    [ratio] = jobs.table("ratios.csv").itertuples()
    assert (ratio.baseline, ratio.ratio, ratio.pairs) == ("cublas_dgemm", 0.5, 3)
    assert ",64,32,16," in (jobs.folder / "local" / "summary.csv").read_text()
    assert ",64,32,," in (jobs.folder / "local" / "summary.csv").read_text()


def test_a_ratio_is_the_median_of_the_pairs(jobs: Jobs) -> None:
    """Pairs 4/1, 2/2, 12/4: median 3; the ratio of the medians would be 2."""
    times = {
        (NAIVE, "kernel", "hot"): [1.0, 2.0, 4.0],
        (CUBLAS, "kernel", "hot"): [4.0, 2.0, 12.0],
        (NAIVE, "kernel", "cold"): [2.0, 2.0, 2.0],
        (CUBLAS, "kernel", "cold"): [1.0, 1.0, 9.0],
        (NAIVE, "end_to_end", "cold"): [50.0, 50.0, 50.0],
    }
    rows = [OK, OK | {"cache": "cold"}, OK | {"phase": "end_to_end", "cache": "cold"}]
    jobs.add(NAIVE, times, rows)
    # The library's own job has another clock; it takes no part in the ratio.
    jobs.add(CUBLAS, {(CUBLAS, "kernel", "hot"): [100.0] * 3}, [OK])
    assert jobs.collect().code == 0
    ratios = jobs.table("ratios.csv").set_index("cache")
    assert ratios.ratio.to_dict() == {"hot": 3.0, "cold": 0.5}
    assert set(ratios.variant) == {NAIVE}
    assert set(ratios.kernel) == {"naive_rect"}
    assert set(ratios.baseline) == {CUBLAS}
    assert set(ratios.pairs) == {3}
    summary = jobs.table("summary.csv")
    assert summary[summary.variant == CUBLAS].time_ms.tolist() == [100.0]


def test_skipped_and_failed_points_stay_with_their_reason(jobs: Jobs) -> None:
    wrong = {"status": "failed", "reason": "wrong result, 3 times"}
    jobs.add(NAIVE, {}, [wrong, wrong | {"cache": "cold"}])
    jobs.add("cpu_loop", {}, [{"status": "skipped", "reason": "predicted 70 s"}])
    jobs.add("cpu_blas", {("cpu_blas", "kernel", "hot"): [1.0] * 6}, [OK])
    assert jobs.collect().code == 0
    rows = jobs.table("summary.csv")
    assert rows.status.tolist() == ["skipped", "ok", "failed", "failed"]
    assert rows.reason.tolist()[::2] == ["predicted 70 s", "wrong result, 3 times"]
    assert rows.time_ms.isna().tolist() == [True, False, True, True]
    assert rows["samples"].tolist() == [0, 6, 0, 0]
    assert jobs.table("ratios.csv").empty


def test_what_this_run_has_no_device_for_is_in_its_data_set_with_the_reason(jobs: Jobs) -> None:
    jobs.device = "cpu"
    jobs.add("cpu_blas", {("cpu_blas", "kernel", "hot"): [1.0]}, [OK], {"gpu": None})
    jobs.names += [NAIVE, "naive/16", CUBLAS]
    assert jobs.collect(failed={"naive/16": "wrong result at 3x4x5"}).code == 0
    rows = jobs.table("summary.csv").set_index("variant")
    nowhere = ("skipped", "there is no GPU on this machine")
    assert dict(zip(rows.index, zip(rows.status, rows.reason, strict=True), strict=True)) == {
        "cpu_blas": ("ok", ""), NAIVE: nowhere, CUBLAS: nowhere,
        "naive/16": ("failed", "verification: wrong result at 3x4x5"),
    }  # fmt: skip
    assert set(jobs.table("kernels.csv").variant) == set(rows.index)
    assert not (jobs.folder / "local" / "ceilings.csv").exists()


def test_a_run_that_can_measure_nothing_gives_a_data_set(jobs: Jobs) -> None:
    jobs.device, jobs.names = "cpu", [NAIVE]
    assert jobs.collect().code == 0
    assert jobs.table("summary.csv").status.tolist() == ["skipped"]
    assert jobs.table("samples.csv.gz").empty
    device = read_json(jobs.folder / "local" / "device.json")
    assert device["gpu"] is None and device["date"]


def test_every_sample_is_kept(jobs: Jobs) -> None:
    times = {(NAIVE, "kernel", "hot"): [1.1, 1.3], (CUBLAS, "kernel", "hot"): [0.7, 1 / 3]}
    jobs.add(NAIVE, times, [OK])
    jobs.collect()
    samples = jobs.table("samples.csv.gz")
    assert samples.time_ms.tolist() == [1.1, 1.3, 0.7, 1 / 3]
    assert samples.baseline_of.tolist() == ["", "", NAIVE, NAIVE]


def test_an_ok_point_without_samples_is_refused_by_name(jobs: Jobs) -> None:
    jobs.add(NAIVE, {}, [OK])
    error = jobs.collect().error()
    assert NAIVE in error
    assert "64x32x16" in error


@pytest.mark.parametrize(
    ("key", "values"),
    [("cpu", ("Xeon", "EPYC")), ("driver_cuda", ("12090", "13000")), ("cublas", ("12.9", "13.1")),
     ("power_limit_w", ("350.0", "700.0"))],
)  # fmt: skip
def test_points_under_unlike_conditions_are_refused_with_their_names(
    jobs: Jobs, key: str, values: tuple[str, str]
) -> None:
    for name, value in zip((NAIVE, CUBLAS), values, strict=True):
        jobs.add(name, {(name, "kernel", "hot"): [1.0]}, [OK], {key: value})
    error = jobs.collect().error()
    for fragment in (*values, "delete results/local"):
        assert fragment in error
    assert not (jobs.folder / "local" / "device.json").exists()


def test_cards_of_one_model_are_one_data_set_that_says_which_timed_what(jobs: Jobs) -> None:
    for name, card in ((NAIVE, "GPU-2"), (CUBLAS, "GPU-1")):
        jobs.add(name, {(name, "kernel", "hot"): [1.0]}, [OK], {"uuid": card})
    assert jobs.collect().code == 0
    assert jobs.table("jobs.csv").set_index("variant").uuid.to_dict() == {
        NAIVE: "GPU-2", CUBLAS: "GPU-1",
    }  # fmt: skip
    assert read_json(jobs.folder / "local" / "device.json")["uuid"] == "GPU-1+GPU-2"
    assert list((jobs.folder / "others").iterdir()) == []
    assert jobs.table("ceilings.csv").value.tolist() == [2e3]


def test_ceilings_of_another_model_are_no_ceilings_of_this_one(jobs: Jobs) -> None:
    jobs.ceiling({"gpu": "a T4", "uuid": "GPU-3"})
    jobs.add(NAIVE, {(NAIVE, "kernel", "hot"): [1.0]}, [OK])
    assert jobs.collect().code == 0
    (row,) = jobs.table("ceilings.csv").itertuples()
    assert (row.status, row.reason) == ("skipped", "measured on a T4 alone")
    assert pd.isna(row.value)


def test_models_of_gpu_have_a_data_set_each_and_the_cpus_points_go_with_their_host(
    jobs: Jobs,
) -> None:
    small, host = {"gpu": "a T4", "uuid": "GPU-3"}, {"gpu": None, "uuid": None}
    other = "naive/16"
    jobs.add(other, {(other, "kernel", "hot"): [1.0]}, [OK], small | {"cpu": "EPYC"})
    for name in (NAIVE, CUBLAS):
        jobs.add(name, {(name, "kernel", "hot"): [1.0]}, [OK], {"cpu": "Xeon"})
    jobs.add("cpu_blas", {("cpu_blas", "kernel", "hot"): [1.0]}, [OK], host | {"cpu": "Xeon"})
    jobs.add("cpu_loop", {("cpu_loop", "kernel", "hot"): [1.0]}, [OK], host | {"cpu": "ARM"})
    stale = jobs.folder / "others" / "gone" / "summary.csv"
    stale.parent.mkdir(parents=True)
    stale.write_text("of a run before this one")
    assert jobs.collect().code == 0
    found = {}
    for folder in (jobs.folder / "local", *(jobs.folder / "others").iterdir()):
        summary = read_table("summary.csv", folder / "summary.csv")
        device = read_json(folder / "device.json")
        found[folder.name] = (device["gpu"], device["cpu"], set(summary.variant))
    assert found == {
        "local": ("a GPU", "Xeon", {NAIVE, CUBLAS, "cpu_blas"}),
        "a-t4": ("a T4", "EPYC", {other}),
        "arm": (None, "ARM", {"cpu_loop"}),
    }


def test_a_job_without_gpu_beside_one_with_a_gpu_is_no_second_machine(jobs: Jobs) -> None:
    host = {"gpu": None, "uuid": None, "compute_capability": None, "occupancy": None}
    jobs.add(NAIVE, {(NAIVE, "kernel", "hot"): [1.0]}, [OK])
    jobs.add("cpu_blas", {("cpu_blas", "kernel", "hot"): [1.0]}, [OK], host)
    assert jobs.collect().code == 0
    found = read_json(jobs.folder / "local" / "device.json")
    assert (found["gpu"], found["uuid"]) == ("a GPU", "GPU-1")


def test_the_device_file_says_what_was_used(jobs: Jobs) -> None:
    jobs.add(NAIVE, {(NAIVE, "kernel", "hot"): [1.0]}, [OK], {"dirty": True})
    later = {"commit": "def", "code": "0ther", "date": "2026-02-01"}
    jobs.add(CUBLAS, {(CUBLAS, "kernel", "hot"): [1.0]}, [OK], later)
    assert jobs.collect().code == 0
    found = read_json(jobs.folder / "local" / "device.json")
    assert found["commit"] == "abc+def"
    assert found["code"] == "0ther+c0de"
    assert found["dirty"] is True
    assert found["date"] == "2026-02-01"
    assert found["configuration"] == jobs.experiment().configuration
    assert found["compilers"]["nvcc"] == {"compiler": "release 13.0", "architecture": "sm_90"}


def test_kernels_are_listed_as_compiled(jobs: Jobs) -> None:
    jobs.add(NAIVE, {(NAIVE, "kernel", "hot"): [1.0]}, [OK])
    jobs.add(CUBLAS, {(CUBLAS, "kernel", "hot"): [1.0]}, [OK], {"occupancy": None})
    broken = "shared/16"
    jobs.add(broken, {}, [{"status": "failed", "reason": "does not compile"}], {"occupancy": None})
    jobs.compiled(the_catalogue().variant(NAIVE), spill_bytes=24)
    reason = 'does not compile: expected a ";"'
    unknown = dict.fromkeys(["registers", "shared_bytes", "spill_bytes"])
    jobs.compiled(the_catalogue().variant(broken), status="failed", reason=reason, **unknown)
    assert jobs.collect().code == 0
    kernels = jobs.table("kernels.csv").set_index("variant")
    whole = ["registers", "shared_bytes", "spill_bytes", "occupancy"]
    assert kernels.loc[NAIVE, whole].tolist() == [40, 8192, 24, 0.75]
    assert kernels.loc[CUBLAS, "status"] == "ok"
    assert kernels.loc[CUBLAS, "sha256"] == ""
    assert kernels.loc[broken, "status"] == "failed"
    assert kernels.loc[broken, whole].isna().all()
    assert "40," in (jobs.folder / "local" / "kernels.csv").read_text()  # no 40.0


def test_a_failure_for_one_of_two_architectures_is_not_lost(jobs: Jobs) -> None:
    jobs.architectures = ("sm_80", "sm_90")
    jobs.add(NAIVE, {(NAIVE, "kernel", "hot"): [1.0]}, [OK])
    reason = "does not compile: x"
    jobs.compiled(the_catalogue().variant(NAIVE), "sm_80", status="failed", reason=reason)
    assert jobs.collect().code == 0
    assert jobs.table("kernels.csv").reason.tolist() == [reason]


def test_collecting_again_gives_the_same_bytes(jobs: Jobs) -> None:
    times = {(NAIVE, "kernel", "hot"): [1.1, 1.3, 0.9], (CUBLAS, "kernel", "hot"): [0.7, 0.6, 0.8]}
    jobs.add(NAIVE, times, [OK])
    jobs.collect("local")
    jobs.collect("again")
    for file in (jobs.folder / "local").iterdir():
        assert file.read_bytes() == (jobs.folder / "again" / file.name).read_bytes(), file.name
