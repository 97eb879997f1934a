"""Errors of the file system are reported in one line, and nothing is lost."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from jobs import CALLS, SHAPES, WORKERS, Job, calls_of, kept, measured_again, one_error
from made_up_data import publishable
from project import Project
from support import ROOT, Command, write_experiment

from matmul_sweep.build import cache
from matmul_sweep.build.packages import installed
from matmul_sweep.experiment.dataset.tables import read_table
from matmul_sweep.process.files import read_json

pytestmark = pytest.mark.long

MEASURED = "results/local/measured/gemm/counted"
PAGE = os.sysconf("SC_PAGESIZE")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")


def mount(folder: Path, *options: str) -> None:
    command = ["mount", *options, "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"file systems cannot be mounted here: {done.stderr.strip()}")


@contextmanager
def small_disk(folder: Path, pages: int) -> Iterator[Path]:
    """A file system with so many free pages; the file in it that, once removed, leaves more."""
    folder.mkdir(exist_ok=True)
    mount(folder, "-t", "tmpfs", "-o", f"size={256 * PAGE}")
    try:
        ballast = folder / "ballast"
        free = os.statvfs(folder)
        ballast.write_bytes(b"x" * (free.f_bavail * free.f_frsize - pages * PAGE))
        yield ballast
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def on_a_full_disk(job: Job, pages: int) -> str:
    """Run a job until the disk is full, make room, and run it again; what it said."""
    with small_disk(job.folder, pages) as ballast:
        code, said = job.run()
        assert code == 1, said
        finished, before = job.journal(), job.calls()
        ballast.unlink()
        job.done()
        assert kept(job.samples(), finished)
        assert all(job.calls()[m] == before[m] for m in finished)
        assert len(measured_again(job.calls())) <= 1
    return said


@ROOT_ONLY
def test_a_full_disk(new_job: Callable[..., Job]) -> None:
    """The log, the journal's folder and each of its 8 points take a page, then come 4 tables."""
    jobs = [new_job() for _ in range(10)]
    with ThreadPoolExecutor(WORKERS) as pool:
        for said in pool.map(on_a_full_disk, jobs, range(1, 11)):
            assert "No space left on device" in one_error(said)


@ROOT_ONLY
def test_a_full_disk_under_snakemake(new_project: Callable[..., Project]) -> None:
    project = new_project("counted")
    with small_disk(project.path("results"), 20) as ballast:
        run = project.snakemake(MEASURED)
        assert run.returncode == 1
        line = one_error(run.stdout)
        assert "No space left on device" in line
        assert "results/local/" in line
        ballast.unlink()
        project.done(MEASURED)
        assert len(measured_again(calls_of(project))) <= 1


@ROOT_ONLY
@pytest.mark.skipif(installed() == "cuda12", reason="NVRTC has no temporary files")
def test_a_full_folder_for_temporary_files(
    catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """That is no kernel that does not compile, which would be a result and not tried again."""
    folder, build = tmp_path / "full", tmp_path / "build"
    naive = tmp_path / "naive.json"
    write_experiment(naive, ROOT / "kernels" / "catalogue.yaml", "cpu", 64, kernels=["naive/16"])
    mine = tmp_path / "mine.json"
    write_experiment(mine, catalogue, "cpu", 64, kernels=["counted"])
    monkeypatch.setenv(cache.PLACE, "")
    compiling = ["compile", "--experiment", mine, "--arch", "host", "--build", build, "counted"]
    for_gpu = ["compile", "--experiment", naive, "--arch", "sm_90", "--build", build, "naive"]
    verified = tmp_path / "verified.csv"
    verifying = ["verify", "gemm", "--experiment", naive, "--build", build,
                 "--records", tmp_path / "records", "--output", verified]  # fmt: skip
    for arguments, made in (
        (compiling, build / "host/counted/counted.json"),
        (for_gpu, build / "sm_90/naive/naive-16.json"),
        (verifying, verified),
    ):
        with small_disk(folder, 1), monkeypatch.context() as patch:
            patch.setattr("tempfile.tempdir", str(folder))
            patch.setenv("TMPDIR", str(folder))
            assert "No space left on device" in command(*arguments).error()
        assert not made.exists()
        assert command(*arguments).code == 0
        if made != verified:
            assert read_json(made)["status"] == "ok"
    assert set(read_table("verification.csv", verified).status) == {"ok"}


@ROOT_ONLY
def test_a_folder_that_is_read_only(
    new_job: Callable[..., Job], new_project: Callable[..., Project]
) -> None:
    """Permissions do not bind root; a file system that is read-only does."""
    job, project = new_job(), new_project("counted")
    results = project.path("results")
    results.mkdir()
    with ExitStack() as mounted:
        for folder in (job.folder, results):
            mounted.enter_context(small_disk(folder, 200))
            mount(folder, "-o", "remount,ro")
        code, said = job.run()
        assert code == 1
        assert "Read-only file system" in one_error(said)
        run = project.snakemake(MEASURED)
        assert run.returncode == 1
        line = one_error(run.stdout)
        assert "results/.lock: Read-only file system" in line
        for folder in (job.folder, results):
            mount(folder, "-o", "remount,rw")
        job.done()
        assert measured_again(job.calls()) == []
        project.done(MEASURED)
        assert measured_again(calls_of(project)) == []


def test_an_interrupted_publishing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """Over an older data set, of which nothing may be left among the new one's files."""
    folder, published = publishable(tmp_path / "data"), tmp_path / "published"
    publish = ["publish", "--data", folder, "--report", folder / "report.pdf",
               "--published", published]  # fmt: skip
    copy = shutil.copyfile
    assert command(*publish).code == 0
    [there] = published.iterdir()
    for number in range(len(list(there.iterdir())) - 1):  # the crate is no copy
        assert command(*publish).code == 0
        before = {file.name: file.read_bytes() for file in there.iterdir()}
        copies = itertools.count()

        def interrupted(*files: Path, number: int = number, copies: Any = copies) -> None:
            if next(copies) == number:
                raise KeyboardInterrupt
            copy(*files)

        with monkeypatch.context() as patch:
            patch.setattr(shutil, "copyfile", interrupted)
            assert command(*publish).code == 130
        assert not (there / "device.json").exists()
        assert all(file.read_bytes() == before[file.name] for file in there.iterdir())
    assert command(*publish).code == 0


# Several at once.


def test_parallel_runs(new_project: Callable[..., Project]) -> None:
    project = new_project("counted")
    with ThreadPoolExecutor(16) as pool:
        runs = [*pool.map(lambda _: project.snakemake(MEASURED), range(16))]
    assert any(run.returncode == 0 for run in runs)
    for run in runs:
        if run.returncode:
            assert run.returncode == 1
            assert "another snakemake is running here; wait for it" in one_error(run.stdout)
    project.done(MEASURED)
    assert measured_again(calls_of(project)) == []
    assert {m: calls_of(project)[m] for m in SHAPES} == dict.fromkeys(SHAPES, CALLS)
