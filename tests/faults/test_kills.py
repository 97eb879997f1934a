"""After runs and jobs are killed or interrupted, the same command completes, and what was measured
stays."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import repeat
from subprocess import Popen

import psutil
import pytest
from jobs import MEASURED, SHAPES, calls_of, counting, gone, measured_again
from project import Project, wait_until

from matmul_sweep.experiment.dataset.tables import read_table

pytestmark = pytest.mark.long

Moment = Callable[[Project, Popen[str]], None]


def at_call(count: int, seconds: float = 0) -> Moment:
    """Some time after a number of the kernel's calls while it is measured."""

    def wait(project: Project, running: Popen[str]) -> None:
        wait_until(lambda: sum(calls_of(project)[m] for m in SHAPES) >= count, running)
        time.sleep(seconds)

    return wait


def when(name: str, count: int = 1) -> Moment:
    """As soon as so many files of this name are there."""
    return lambda project, running: wait_until(
        lambda: len([*project.folder.glob(name)]) >= count, running
    )


FILES = f"{MEASURED}/counted"
SUMMARY = "results/local/summary.csv"
FROM_THE_START = [
    when("results/.lock"), when("results/local/build/host/*/*.json"),
    when("results/local/journal/verified/*.json"),
]  # fmt: skip
MEASURING = [
    when("results/local/journal/*/*/4*.json", 4), when(f"{FILES}/facts.json"),
    when("results/local/logs/collect.log"),
]  # fmt: skip
INTERRUPTED = "\ninterrupted: the same command continues where this one stopped\n"
IN_THE_JOB = [at_call(1), at_call(6, 0.002), at_call(24, 0.003)]


@pytest.fixture(scope="module")
def verified(new_project: Callable[..., Project]) -> Project:
    """A project whose kernel is compiled and verified, and not measured."""
    project = new_project("counted")
    project.done("results/local/verified/gemm.csv")
    return project


def disturb(project: Project, moment: Moment, number: int, job: str) -> bool:
    """Send the signal at the moment to Snakemake, not its jobs, or to the job of a program, or as
    Ctrl-C does to all, then run the same command again; whether the run was hit."""
    target = SUMMARY if moment is MEASURING[-1] else MEASURED
    running = project.start(target)
    moment(project, running)
    if number == signal.SIGINT:
        os.killpg(running.pid, number)
    for process in psutil.Process(running.pid).children(recursive=True) if job else [running]:
        with suppress(psutil.NoSuchProcess):  # one that has ended meanwhile
            if not job or process.cmdline()[1:2] == [job]:
                process.send_signal(number)
    running.wait(60)
    assert gone(running.pid)
    assert (number == signal.SIGINT) == (INTERRUPTED in project.path("said").read_text())
    journal = project.path("results/local/journal/gemm/counted")
    finished = {entry: entry.read_bytes() for entry in journal.glob("[0-9]*.json")}
    before = calls_of(project)
    project.done(target)
    calls = calls_of(project)
    assert all(entry.read_bytes() == content for entry, content in finished.items())
    assert all(calls[m] == before[m] for m in (int(entry.name.split("x")[0]) for entry in finished))
    assert len(measured_again(calls)) <= (number != signal.SIGTERM or bool(job))
    points = read_table("points.csv", project.path(f"{FILES}/points.csv"))
    assert [*points[points.phase == "kernel"].m] == [*SHAPES]
    assert set(points.status) == {"ok"}
    return running.returncode != 0


@pytest.mark.parametrize(
    ("number", "start", "measuring", "job"),
    [
        (signal.SIGKILL, FROM_THE_START, MEASURING, ""),
        (signal.SIGTERM, FROM_THE_START[:1], MEASURING[:1], ""),
        (signal.SIGKILL, [], IN_THE_JOB, "scripts/steps/measure.py"),
        (signal.SIGTERM, [], IN_THE_JOB[1:2], "scripts/steps/measure.py"),
        (signal.SIGINT, [], IN_THE_JOB[1:2], ""),
    ],
    ids=["killed", "terminated", "job killed", "job terminated", "interrupted"],
)
def test_a_run(new_project, verified, copy_of, number, start, measuring, job):
    """At some moments before it measures, and at some from then on."""
    projects = [new_project("counted") for _ in start]
    projects += [counting(copy_of(verified)) for _ in measuring]
    moments = [*start, *measuring]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        hit = [*pool.map(disturb, projects, moments, repeat(number), repeat(job))]
    assert all(hit) or number == signal.SIGTERM  # which lets a job that runs end
