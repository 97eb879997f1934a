"""After runs and jobs are killed, the same command completes, and finished measurements stay."""

import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from jobs import (
    CALLS,
    PACE,
    SHAPES,
    WORKERS,
    Job,
    calls_of,
    counting,
    gone,
    journalled,
    kept,
    measured_again,
    wait_until,
)
from project import Copy, Project, Running

from matmul_sweep.experiment.dataset.tables import read_table

pytestmark = pytest.mark.long

Moment = Callable[[Any, Running], None]


def after(seconds: float) -> Moment:
    return lambda job, running: time.sleep(seconds)


def at_call(count: int, seconds: float = 0) -> Moment:
    """Some time after a number of the kernel's calls."""

    def wait(job: Job, running: Running) -> None:
        wait_until(lambda: job.calls().total() >= count, running)
        time.sleep(seconds)

    return wait


def when(name: str, count: int = 1) -> Moment:
    """As soon as so many files of this name are there."""
    return lambda job, running: wait_until(lambda: len([*job.folder.glob(name)]) >= count, running)


@pytest.fixture(scope="module")
def undisturbed(new_job: Callable[..., Job]) -> Job:
    job = new_job()
    job.done()
    assert job.calls() == PACE + Counter(dict.fromkeys(SHAPES, CALLS))
    return job


def disturb(job: Job, moment: Moment, number: int) -> bool:
    """Send a job the signal at the moment, then run it again; whether it was still running.

    Asserts that it ends as if it had not been disturbed.
    """
    running = job.start()
    moment(job, running)
    running.send_signal(number)
    running.communicate()
    finished, before = job.journal(), job.calls()
    job.done()
    assert kept(job.samples(), finished)
    assert all(job.calls()[m] == before[m] for m in finished)
    assert len(measured_again(job.calls())) <= 1
    return running.returncode == -number


JOB_MOMENTS = [
    after(0.05), at_call(1), at_call(6, 0.002), at_call(24, 0.003), when("journal/*/47x*.json"),
    when("measured/*/points.csv"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "moments"),
    [(signal.SIGKILL, JOB_MOMENTS), (signal.SIGTERM, JOB_MOMENTS[1:4:2])],
    ids=["killed", "terminated"],
)
def test_a_job(
    undisturbed: Job, new_job: Callable[..., Job], number: int, moments: list[Moment]
) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        jobs = [new_job() for _ in moments]
        hit = [*pool.map(disturb, jobs, moments, [number] * len(jobs))]
    assert sum(hit) >= len(jobs) - 1  # the last moment lies milliseconds before the end
    for job in jobs:
        assert job.file("points.csv") == undisturbed.file("points.csv")


# Snakemake itself.

MEASURED = "results/local/measured/gemm/counted"
FILES = f"{MEASURED}/counted"
SUMMARY = "results/local/summary.csv"
LOGS = "results/local/logs"
FROM_THE_START = [
    after(0.3), when("results/local/build/host/*/*.json"),
    when("results/local/journal/verified/*.json"),
]  # fmt: skip
MEASURING = [
    when("results/local/journal/*/*/4*.json", 4), when(f"{FILES}/facts.json"),
    when(f"{LOGS}/collect.log"),
]  # fmt: skip


@pytest.fixture(scope="module")
def verified(new_project: Callable[..., Project]) -> Project:
    """A project whose kernel is compiled and verified, and not measured."""
    project = new_project("counted")
    project.done("results/local/verified/gemm.csv")
    return project


def disturb_run(project: Project, moment: Moment, number: int) -> bool:
    """Send Snakemake, not its jobs, the signal at the moment, then run the same command again."""
    target = SUMMARY if moment is MEASURING[-1] else MEASURED
    running = project.start(target)
    moment(project, running)
    running.send_signal(number)
    running.wait(60)
    assert gone(running.pid)
    finished = journalled(project.path("results/local/journal/gemm/counted"))
    before = calls_of(project)
    project.done(target)
    calls = calls_of(project)
    assert kept(read_table("samples.csv.gz", project.path(f"{FILES}/samples.csv.gz")), finished)
    assert all(calls[m] == before[m] for m in finished)
    assert len(measured_again(calls)) <= (number == signal.SIGKILL)
    points = read_table("points.csv", project.path(f"{FILES}/points.csv"))
    assert [*points[points.phase == "kernel"].m] == [*SHAPES]
    assert set(points.status) == {"ok"}
    return running.returncode != 0


@pytest.mark.parametrize(
    ("number", "moments"), [(signal.SIGKILL, 3), (signal.SIGTERM, 1)], ids=["killed", "terminated"]
)
def test_a_run(
    new_project: Callable[..., Project], verified: Project, copy_of: Copy, number: int, moments: int
) -> None:
    """At so many moments before it measures, and as many from then on."""
    start, measuring = FROM_THE_START[:moments], MEASURING[:moments]
    projects = [
        *(new_project("counted") for _ in start),
        *(counting(copy_of(verified)) for _ in measuring),
    ]
    with ThreadPoolExecutor(WORKERS) as pool:
        hit = [*pool.map(disturb_run, projects, start + measuring, [number] * len(projects))]
    for was_hit in hit:
        assert was_hit or number == signal.SIGTERM  # which lets a job that runs end
