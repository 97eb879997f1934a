"""What a measuring job leaves, takes over, and does after a failure."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from support import Command, experiment, step

from matmul_sweep.experiment.dataset.tables import read_table
from matmul_sweep.experiment.measure import measuring as program
from matmul_sweep.experiment.measure.sweep import Sweep
from matmul_sweep.experiment.verify.tasks import tasks_of
from matmul_sweep.experiment.verify.verifier import Verifier, refused
from matmul_sweep.process.children import until_done
from matmul_sweep.process.files import read_json


def measure(command: Command, folder: Path, **changes: Any) -> Path:
    """The folder that measure.py leaves of NumPy's product at two shapes."""
    run = experiment("cpu_blas", sampling__minimum=6, sampling__maximum=6, **changes)
    found = step(
        command, "measure", run, folder, "measured", "cpu_blas", "--sweep", "gemm",
        "--build", folder, "--records", folder / "records", "--journal", folder / "journal",
    )  # fmt: skip
    return found / "cpu_blas"


def test_what_was_measured_is_taken_over_by_the_same_settings_alone(command, tmp_path):
    found = measure(command, tmp_path)
    points = read_table("points.csv", found / "points.csv")
    assert set(points.m) == {8, 9} and set(points.status) == {"ok"}
    samples = read_table("samples.csv.gz", found / "samples.csv.gz")
    assert (samples[samples.phase == "kernel"].groupby("m").size() == 6).all()
    split = read_json(found / "facts.json")["split"]
    assert split["variant"] == "cpu_blas"
    assert split["wall_s"] >= split["timed_s"] + split["verification_s"]
    for seed, same in ((2026, True), (2027, False)):
        measure(command, tmp_path, seed=seed)
        assert samples.equals(read_table("samples.csv.gz", found / "samples.csv.gz")) == same


def test_what_failed_its_verification_is_not_timed(command, tmp_path):
    run = experiment("cpu_blas")
    [task] = tasks_of(run, "gemm")
    rows = refused(task.variant, "cpu", task.shapes[:1], "failed", "wrong result at 3x4x5")
    Verifier(run, tmp_path, tmp_path / "records", "").keep(task, rows)
    points = read_table("points.csv", measure(command, tmp_path) / "points.csv")
    assert set(points.m) == {8, 9}
    assert set(points.reason) == {"verification: wrong result at 3x4x5"}
    assert not (tmp_path / "journal").exists()


def job_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> program.Measuring:
    """A job of naive and vectors, on a card that is not there."""
    monkeypatch.setattr(program, "opened", lambda begun: nullcontext("a card"))
    run = experiment("naive", "vectors", device="gpu", **changes)
    return program.Measuring(run, "gemm", folder, folder / "journal", folder)


def test_alone_those_that_are_through_share_the_job_and_wrong_ones_do_not(tmp_path, monkeypatch):
    def timed(sweeps: list[Sweep], *_: object) -> Any:
        asked.extend(sweep.variant.name for sweep in sweeps)
        return sweeps[:1], {sweep.variant.name: {"uuid": "mine"} for sweep in sweeps}

    asked: list[str] = []
    monkeypatch.setattr(program, "timed_together", timed)
    job = job_of(tmp_path, monkeypatch, caches=["alone"])
    reasons = {"naive/32": None, "naive/16": None, "vectors/128": "wrong result"}
    variants = job.experiment.measured["gemm", "gpu"]
    job.on_gpu(variants, reasons)
    assert asked == ["naive/32", "naive/16"]
    assert [v.name for v in job.pending(variants)] == ["naive/16"]  # it lost the card
    points = read_table("points.csv", tmp_path / "vectors-128" / "points.csv")
    said = zip(points.cache, points.status, points.reason, strict=True)
    assert {*said} == {("alone", "failed", "wrong result")}
    splits = [read_json(tmp_path / name / "facts.json")["split"] for name in
              ("naive-32", "vectors-128")]  # fmt: skip
    assert splits[0]["wall_s"] == splits[1]["wall_s"]


def test_after_a_lost_gpu_another_process_measures_the_rest(tmp_path, monkeypatch):
    """Each folder says which process left it."""

    def timed(sweep: Sweep, *_: object) -> dict[str, Any]:
        sweep.lost = "it hangs" if sweep.variant.name == "naive/32" else ""
        return {"uuid": str(os.getpid())}

    monkeypatch.setattr(program, "timed_on_gpu", timed)
    job = job_of(tmp_path, monkeypatch)
    variants = job.experiment.measured["gemm", "gpu"]
    reasons = dict.fromkeys(["naive/32", "naive/16", "vectors/128"])
    until_done(lambda: job.pending(variants), lambda left: job.on_gpu(left, reasons))
    by = [read_json(tmp_path / v.slug / program.FACTS)["uuid"] for v in variants]
    assert len(by) == 3 and by[0] != by[1] == by[2]
