"""The workflow on a real Slurm of one node: submitted through the profile, interrupted, resumed.

Without CUDA hardware the jobs measure CPU variants, and are told to ask for the GPU that Slurm has.
"""

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from project import Copy, Fresh, Project
from slurm import Job, Run, Slurm
from support import Toolkit

from matmul_sweep.build import cache
from matmul_sweep.experiment.dataset.tables import DATA_SET, read_table
from matmul_sweep.process.files import read_json

pytestmark = [pytest.mark.slurm, pytest.mark.long]

IMPATIENT = str(Path(__file__).with_name("impatient.py"))
# The profile's first look at the queue comes after 20 s, longer than most jobs of a test take.
SOON = ("--slurm-init-seconds-before-status-checks", "2")
SUBMIT = {
    "where": ("--workflow-profile", "profiles/slurm", *SOON),
    "program": (sys.executable, IMPATIENT),
}
VERDICT = "results/local/verdict.txt"
LONG_S = 120  # of waiting for a queue
WITH_GPU = ("--set-resources", "measure_part:gpu=1")


@dataclass
class Submitted:
    """A run that was submitted: the project, what was said, and what Slurm had to do."""

    project: Project
    said: str
    jobs: list[Job]
    held_back: list[Job]  # as the queue was while the node took no jobs
    measured: list[Run]
    verified: list[Run]
    collected: list[Run]


def on(slurm: Slurm, project: Project) -> Project:
    """The same project, where Slurm is found."""
    return Project(project.folder, project.environment | slurm.environment)


def refused(project: Project, *arguments: str) -> str:
    """The error line of a run that is refused before it has touched a file."""
    run = project.snakemake("results/local/summary.csv", "--force", *arguments, **SUBMIT)
    assert run.returncode == 1
    last = run.stdout.rstrip().splitlines()[-1]
    assert last.startswith("error: ")
    assert project.path("results/local/summary.csv").exists()
    return last


def measuring(jobs: Sequence[Job], state: str) -> list[Job]:
    return [job for job in jobs if "rule_measure_part" in job.comment and job.state == state]


@pytest.fixture(scope="module")
def submitted(slurm: Slurm, fresh: Fresh) -> Submitted:
    """A run up to its verdict, submitted; between its two timing jobs the node is drained for a
    while."""
    project = on(slurm, fresh())
    project.write_catalogue("cpu_loop", "cpu_blas")
    project.configure(gram=[])
    running = project.start(VERDICT, *WITH_GPU, **SUBMIT)
    project.wait_for(lambda: measuring(slurm.jobs(), "RUNNING"), running, LONG_S)
    slurm.set_node("drain")
    project.wait_for(lambda: measuring(slurm.jobs(), "COMPLETED"), running, LONG_S)
    project.wait_for(lambda: measuring(slurm.jobs(), "PENDING"), running, LONG_S)
    time.sleep(2)
    held_back = slurm.jobs()
    slurm.set_node("resume")
    running.wait()
    said = project.path("said").read_text()
    assert running.returncode == 0, said
    runs = [slurm.runs(script) for script in ("measure", "verify", "collect")]
    return Submitted(project, said, slurm.jobs(), held_back, *runs)


def test_a_submitted_run_ends_in_the_verdict_and_the_tables_of_a_local_one(
    submitted: Submitted, fresh: Fresh
) -> None:
    local = fresh()
    local.write_catalogue("cpu_loop", "cpu_blas")
    local.configure(gram=[])
    local.done("results/local/summary.csv")
    for name in set(DATA_SET) - {"device.json", "samples.csv.gz"}:
        tables = [read_table(name, project.path(f"results/local/{name}"))
                  for project in (local, submitted.project)]  # fmt: skip
        assert list(tables[1].columns) == list(tables[0].columns)
        measured = tables[0].columns.intersection(["stopped"])
        here, there = (table.select_dtypes(exclude="float").drop(columns=measured)
                       for table in tables)  # fmt: skip
        assert there.equals(here), name
    assert "none failed" in submitted.project.path(VERDICT).read_text()


def test_timing_jobs_ask_for_a_gpu_and_get_one_and_no_other_job_does(submitted: Submitted) -> None:
    asked = {(job.comment.split("_wildcards")[0], job.gpus) for job in submitted.jobs}
    assert asked == {("rule_measure_part", "gres:gpu:1"), ("rule_verify_operation", "")}
    assert len(submitted.jobs) == 3
    numbers = [str(job.number) for job in submitted.jobs if job.gpus == "gres:gpu:1"]
    assert [(run.job, run.gpu) for run in submitted.measured] == [(n, "0") for n in numbers]
    assert {run.gpu for run in submitted.verified} == {"none"}


def test_what_is_no_measurement_runs_where_the_command_was_typed(submitted: Submitted) -> None:
    assert [run.job for run in submitted.collected] == ["none"]


def test_one_gpu_is_never_used_by_two_jobs_at_once(submitted: Submitted) -> None:
    assert len(submitted.measured) == 2
    for first, second in pairwise(sorted(submitted.measured, key=lambda run: run.begun)):
        assert first.ended <= second.begun


def test_a_drained_node_holds_jobs_back_and_the_run_goes_on_when_it_is_resumed(
    submitted: Submitted,
) -> None:
    states = [job.state for job in submitted.held_back if "measure" in job.comment]
    assert states == ["COMPLETED", "PENDING"]
    assert {job.state for job in submitted.jobs} == {"COMPLETED"}


def test_login_node_and_jobs_agree_so_that_nothing_is_run_again(submitted: Submitted) -> None:
    said = submitted.project.done(VERDICT, "--dry-run", **SUBMIT)
    assert "Nothing to be done" in said


def test_a_cancelled_job_is_taken_up_where_it_was_and_no_finished_point_is_measured_again(
    slurm: Slurm, submitted: Submitted, copy_of: Copy
) -> None:
    project = on(slurm, copy_of(submitted.project))
    # Each point takes its half second: no interval is that narrow.
    sampling = {"minimum": 6, "maximum": 10**6, "interval": 1e-12, "seconds": 0.5,
                "copy_seconds": 0.01}  # fmt: skip
    shapes = [*range(90, 170, 10)]
    project.write_catalogue("cpu_loop")
    project.configure(shapes, gram=[], sampling=sampling)
    target = "results/local/measured/gemm/cpu_loop"
    journal = project.path("results/local/journal/gemm/cpu_loop")
    shutil.rmtree(journal)

    running = project.start(target, **SUBMIT)
    project.wait_for(lambda: len([*journal.glob("[0-9]*.json")]) >= 2, running, LONG_S)
    slurm.ask("scancel", str(slurm.jobs()[-1].number))
    running.wait()
    said = project.path("said").read_text()
    assert running.returncode == 1, said
    assert "SLURM status is: 'CANCELLED'" in said
    kept = {path.stem: read_json(path)["times"] for path in journal.glob("[0-9]*.json")}
    assert 2 <= len(kept) < len(shapes)

    project.done(target, **SUBMIT)
    samples = read_table("samples.csv.gz", project.path(f"{target}/cpu_loop/samples.csv.gz"))
    assert set(samples.m) == set(shapes)
    for shape, times in kept.items():
        found = samples[samples.m == int(shape.split("x")[0])].time_ms
        assert sorted(found) == sorted(time for *_, taken in times for time in taken)


def test_grouped_timing_is_one_submission_that_times_one_kernel_after_the_other(
    slurm: Slurm, submitted: Submitted, copy_of: Copy
) -> None:
    project = on(slurm, copy_of(submitted.project))
    project.configure(gemm=[40], gram=[])
    before, begun = len(slurm.jobs()), time.time()
    group = ("--groups", "measure_part=timing", "--group-components", "timing=2")
    project.done("measure", *WITH_GPU, *group, **SUBMIT)
    [job] = slurm.jobs()[before:]
    assert job.gpus == "gres:gpu:1"
    first, second = (run for run in slurm.runs("measure") if run.begun > begun)
    assert first.job == second.job == str(job.number)
    assert first.ended <= second.begun
    for variant in ("cpu_loop", "cpu_blas"):
        points = project.path(f"results/local/measured/gemm/{variant}/{variant}/points.csv")
        assert set(read_table("points.csv", points).m) == {40}


def test_jobs_are_for_the_gpu_and_the_login_node_is_not_asked_for_one(
    slurm: Slurm, submitted: Submitted, copy_of: Copy, tmp_path: Path
) -> None:
    """The configuration comes from the command line; here a job finds no GPU, and says so."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, cuda.pathfinder as pathfinder\n"
        "load = pathfinder.load_nvidia_dynamic_lib\n"
        "def found(name):\n"
        "    asked = name == 'cuda' and 'SLURM_JOB_ID' not in os.environ\n"
        "    assert not asked, 'the login node was asked for its driver'\n"
        "    return load(name)\n"
        "pathfinder.load_nvidia_dynamic_lib = found\n"
    )
    project = on(slurm, copy_of(submitted.project))
    project.write_catalogue("cublas_sgemm")
    run = project.snakemake(
        "results/local/verified/gemm.csv", "--config", "device=auto",
        "architectures=[sm_80,sm_90]", **SUBMIT, environment={"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert run.returncode == 1, run.stdout
    assert slurm.jobs()[-1].gpus == "gres:gpu:1"
    for arch in ("sm_80", "sm_90"):
        assert project.path(f"results/local/build/{arch}/instruments.cubin").exists()
    log = project.path("results/local/logs/verify/gemm.log").read_text()
    [line] = [line for line in log.splitlines() if "error: " in line]
    assert "device: gpu: there is no NVIDIA driver" in line
    assert line in run.stdout


def test_a_module_s_toolkit_is_used_on_the_login_node_and_within_jobs(
    slurm: Slurm, fresh: Fresh, toolkit: Toolkit
) -> None:
    project = fresh()
    loaded = toolkit.environment("PATH", "LD_LIBRARY_PATH", "CUDA_HOME")
    loaded["PATH"] = f"{toolkit.folder}/bin:{toolkit.python.parent}:{slurm.environment['PATH']}"
    loaded[cache.PLACE] = ""
    project = Project(project.folder, project.environment | slurm.environment | loaded)
    project.write_catalogue("naive", "cpu_blas", "cublas_sgemm")
    binaries = "results/local/build/sm_90/naive"
    submit = SUBMIT | {"program": (str(toolkit.python), IMPATIENT)}
    project.done(binaries, "results/local/verified/gemm.csv", **submit)
    record = project.path(f"{binaries}/naive-32.json")
    assert read_json(record)["compiler_path"] == str(toolkit.nvcc)
    compiled = [call for call in toolkit.calls if call.startswith("none -cubin -arch=sm_90")]
    assert len(compiled) == 1
    assert f"{slurm.jobs()[-1].number} --version" in toolkit.calls


def test_a_run_waits_for_the_jobs_of_one_that_was_killed(
    slurm: Slurm, submitted: Submitted
) -> None:
    project = submitted.project
    left = slurm.ask(
        "sbatch", "--parsable", "--comment=rule_measure_part_wildcards_gemm_cpu_loop",
        f"--chdir={project.folder}", "--output=/dev/null", "--wrap=sleep 60",
    ).strip()  # fmt: skip
    line = refused(project)
    slurm.ask("scancel", left)
    assert f"scancel {left}" in line


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("--slurm-array-jobs=measure_part", ["'measure_part'", "leave it out"]),
        (
            "--slurm-status-command=sacct",
            ["accounting storage is disabled", "--slurm-status-command squeue"],
        ),
    ],
)
def test_a_run_that_would_lose_results_or_wait_for_ever_is_refused_in_one_line(
    slurm: Slurm, submitted: Submitted, setting: str, named: list[str]
) -> None:
    line = refused(submitted.project, setting)
    for fragment in named:
        assert fragment in line
