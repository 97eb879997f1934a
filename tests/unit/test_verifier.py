"""Which verifications a run does, which it takes over, and how one that fails leaves the rest."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import RIGHT_KERNEL, experiment, step, the_catalogue

from matmul_sweep.build.binaries import binary_of
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.tables import read_table
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.experiment.verify import verifier as program
from matmul_sweep.experiment.verify.runner import WrongAccess
from matmul_sweep.experiment.verify.tasks import Task, needed, planned, tasks_of, unchosen
from matmul_sweep.experiment.verify.verification import verification_shapes
from matmul_sweep.experiment.verify.verifier import Verifier, refused, verify
from matmul_sweep.operations import shape_of
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import Unfinished
from matmul_sweep.process.files import write_json

# Shapes at which sgemm chooses another variant of direct, and the one that is measured itself.
DISPATCHED = {"gemm": {"operation": "gemm", "shapes": [8, 64]}}


def verifier(run: Experiment, folder: Path, machine: str = "") -> Verifier:
    return Verifier(run, folder, folder, machine)


# ---- What is verified ----


def test_a_dispatch_is_verified_in_what_it_chooses(tmp_path):
    """New variants at their own shapes too, and all where they are chosen; rows say what is left
    out."""
    run = experiment("sgemm", "direct", "streamed", device="gpu", sweeps=DISPATCHED)
    dispatch, tasks = run.variants["sgemm"], tasks_of(run, "gemm")
    own = [task.variant for task in tasks if task.owner == task.variant]
    parts = {task.variant: set(task.shapes) for task in tasks if task.owner == dispatch}
    assert [*own, dispatch] == list(run.variants.values())
    new, known = parts.keys() - {*own}, parts.keys() & {*own}
    assert new and known
    built_in = set(verification_shapes(dispatch, []))
    at = {part: {s for s in built_in if dispatch.part(s, "sm_90") == part} for part in parts}
    for part, shapes in parts.items():
        assert shapes == (set() if part in known else set(verification_shapes(part, []))) | at[part]
    shapes_left_out = unchosen(run, tasks, dispatch)
    assert shapes_left_out and {*shapes_left_out} == built_in.difference(*parts.values())
    rows = verifier(run, tmp_path).left_out(dispatch, shapes_left_out)
    assert all("but at no shape that is measured" in row["reason"] for row in rows)


def test_without_a_gpu_rows_say_why_a_library_or_a_dispatch_was_not_run(command, tmp_path):
    run = experiment("sgemm", "cublas_sgemm")
    output = step(command, "verify", run, tmp_path, "verification.csv", "gemm", "--build", tmp_path,
                  "--records", tmp_path)  # fmt: skip
    rows = read_table("verification.csv", output)
    assert set(rows.status) == {"skipped"}
    assert set(rows.reason[rows.variant == "cublas_sgemm"]) == {"there is no GPU here"}
    named = [(row.variant, shape_of(row)) for row in rows.itertuples()]
    assert named == [(variant.name, shape) for variant, shape in planned(run, "gemm")]
    chosen = rows.reason[rows.variant == "sgemm"]
    assert len(chosen) and chosen.str.endswith(": --config verify=all").all()


def test_a_wrong_product_fails_and_after_one_without_an_end_none_is_tried():
    class Run:
        place, architecture = "cpu", "host"

        def multiply(self, variant: Variant, shape: Shape, *inputs: np.ndarray) -> np.ndarray:
            if shape.m == 4:
                raise WrongAccess("it writes past the end of C")
            if shape.m == 5:
                raise Unfinished(3)
            return inputs[0] @ inputs[1] + (shape.m == 3)

    shapes = [Gemm(m, 2, 2) for m in (2, 3, 4, 5, 6)]
    rows = verify(Run(), the_catalogue().variant("cpu_blas"), shapes, "uniform", 1)
    assert [row["status"] for row in rows] == ["ok", *["failed"] * 4]
    late = "the launch did not finish within 3 s"
    assert [row["reason"] for row in rows[1:]] == [
        "wrong result at 3x2x2", "it writes past the end of C", late, f"not run: at 5x2x2 {late}",
    ]  # fmt: skip


# ---- Records ----


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"source": RIGHT_KERNEL + "// a comment\n"}, True),
        ({"source": RIGHT_KERNEL.replace("p < k", "p <= k - 1")}, False),
        ({"threads": [32, 16]}, False),
        ({"machine": "another driver"}, False),
        ({"device": "gpu"}, False),
        ({"seed": 1}, False),
        ({"fills": ["digits"]}, False),
        ({"limits__hang_seconds": 7}, False),
        ({"sweeps__gemm__shapes": [64]}, True),
        ({"sweeps__gemm__verify_shapes": [65]}, False),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_a_record_holds_until_its_causes_change(entry, write_catalogue, tmp_path, changes, same):
    def made(
        source: str = RIGHT_KERNEL, machine: str = "", threads: Sequence[int] = (16, 16), **own: Any
    ) -> tuple[Verifier, list[Task]]:
        path = write_catalogue({"mine": entry(threads=[*threads])}, mine=source)
        found = verifier(experiment(catalogue=path, **own), tmp_path, machine)
        return found, tasks_of(found.experiment, "gemm")

    before, [task] = made()
    assert before.pending([task]) == [task]
    rows = refused(task.variant, "emulation", task.shapes[:1], "failed", "made up")
    rows[0]["error"] = str(math.inf)
    before.keep(task, rows)
    assert before.record(task) == rows
    after, again = made(**changes)
    assert after.pending(again) == ([] if same else again)


def test_what_another_compiler_card_or_cublas_made_is_verified_again(tmp_path, monkeypatch):
    """Jobs of a cluster find their card where they run."""
    run = experiment("naive", "cublas_sgemm", device="gpu")
    tasks, known = tasks_of(run, "gemm"), {"cards": "H100 580", "cublas": "13.1.0"}
    monkeypatch.setattr(program, "cards_here", lambda: known["cards"])
    monkeypatch.setattr(program.cublas, "version", lambda: known["cublas"])
    report = binary_of(tasks[0].variant, tmp_path / "sm_90").with_suffix(".json")
    compiled = {"compiler": "release 13.0", "status": "failed"}
    every = [*map(str, tasks)]
    for changed, again in (
        ({}, every),
        ({}, []),
        ({"compiler": "release 13.1"}, ["naive/32"]),
        ({"status": "ok"}, ["naive/32"]),
        ({"cards": "H200 580"}, every),
        ({"cublas": "13.2.0"}, ["cublas_sgemm"]),
    ):
        known |= changed
        write_json({key: (compiled | known)[key] for key in compiled}, report)
        found = verifier(run, tmp_path)
        assert [*map(str, found.pending(tasks))] == again
        for task in tasks:
            found.keep(task, [])


def test_a_dispatch_is_not_timed_if_what_it_chooses_is_wrong(tmp_path):
    run = experiment("sgemm", "direct", device="gpu", sweeps=DISPATCHED)
    found, dispatch = verifier(run, tmp_path), run.variants["sgemm"]
    tasks = needed(run, tasks_of(run, "gemm"), dispatch)
    for wrong in tasks:
        for task in tasks:
            status = "failed" if task == wrong else "ok"
            found.keep(task, refused(task.variant, "gpu", task.shapes[:1], status, str(wrong)))
        assert found.failure(tasks) == f"verification: {wrong}"


@pytest.mark.usefixtures("no_gpu")
def test_a_job_without_its_gpu_says_so_in_one_line(tmp_path, capfd):
    run = experiment("cublas_sgemm", device="gpu")
    with pytest.raises(SystemExit):
        verifier(run, tmp_path).run(tasks_of(run, "gemm"), processes=1)
    said = capfd.readouterr().err
    assert said == "error: device: gpu: there is no NVIDIA driver on this machine\n"
