"""Errors of the file system are reported in one line, and nothing is lost."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jobs import CALLS, MEASURED, SHAPES, calls_of, measured_again, one_error
from made_up_data import publishable
from support import experiment

from matmul_sweep.build import cache
from matmul_sweep.build.packages import installed
from matmul_sweep.experiment.dataset.tables import read_table
from matmul_sweep.process.files import read_json

pytestmark = pytest.mark.long

PAGE = os.sysconf("SC_PAGESIZE")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")


def mount(folder: Path, *options: str) -> None:
    done = subprocess.run(["mount", *options, "tmpfs", str(folder)], capture_output=True, text=True)
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


@ROOT_ONLY
def test_a_full_disk_under_snakemake(new_project):
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
def test_a_full_folder_for_temporary_files(tmp_path, monkeypatch, command):
    """That is no kernel that does not compile, which would be a result and not tried again."""
    folder, build, run = tmp_path / "full", tmp_path / "build", tmp_path / "run.json"
    experiment("cpu_loop", "naive/16").write(run)
    monkeypatch.setenv(cache.PLACE, "")
    common = ["--experiment", run, "--build", build]
    compiling = ["compile", *common, "--arch", "host", "cpu_loop"]
    for_gpu = ["compile", *common, "--arch", "sm_90", "naive"]
    verified = tmp_path / "verified.csv"
    verifying = ["verify", "gemm", *common, "--records", tmp_path / "records", "--output", verified]
    for arguments, made in (
        (compiling, build / "host/cpu_loop/cpu_loop.json"),
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
def test_a_folder_that_is_read_only(new_project):
    """Permissions do not bind root; a file system that is read-only does."""
    project = new_project("counted")
    results = project.path("results")
    results.mkdir()
    with small_disk(results, 200):
        mount(results, "-o", "remount,ro")
        run = project.snakemake(MEASURED)
        assert run.returncode == 1
        assert "results/.lock: Read-only file system" in one_error(run.stdout)
        mount(results, "-o", "remount,rw")
        project.done(MEASURED)
        assert measured_again(calls_of(project)) == []


def test_an_interrupted_publishing(tmp_path, monkeypatch, command):
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


def test_parallel_runs(new_project):
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
