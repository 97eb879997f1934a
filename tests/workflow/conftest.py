"""Copies of the project in which Snakemake runs, and two runs that tests share."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator

import pytest
import slurm as one_node
from project import Faulty, Project
from slurm import Slurm
from support import RIGHT_KERNEL, ROOT

LEFT_BEHIND = {
    ".git", ".venv", ".whl", ".scratch", ".snakemake", "results", "published", "tests", "uv.lock",
}  # fmt: skip

Copy = Callable[[Project], Project]


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    """Makes copies of the project without anything that was built or measured."""
    shims = tmp_path_factory.mktemp("bin")
    python = shims / "python"  # the rules' `python` is the one that runs the tests
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    home = tmp_path_factory.mktemp("cache")
    environment = os.environ | {
        "PATH": f"{shims}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(home),
        "MATMUL_SWEEP_COMMIT": "test-dirty",
    }

    def copy() -> Project:
        folder = tmp_path_factory.mktemp("project") / "matmul-sweep"
        shutil.copytree(ROOT, folder, ignore=lambda at, names: LEFT_BEHIND & {*names})
        project = Project(folder, environment)
        project.configure()
        return project

    return copy


@pytest.fixture(scope="session")
def copy_of(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Copies a project with what it has built and measured, to be changed by one test."""

    def copy(project: Project) -> Project:
        folder = tmp_path_factory.mktemp("project") / "matmul-sweep"
        shutil.copytree(project.folder, folder)
        return Project(folder, project.environment)

    return copy


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm of one node with one GPU, for the session."""
    if reason := one_node.missing():
        pytest.skip(reason)
    with one_node.started(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture(scope="session")
def finished(fresh: Callable[[], Project]) -> Project:
    """A whole run in which one kernel, `mine`, was added as one source and one entry."""
    project = fresh()
    entry = project.add_kernel("mine", '#include "tile.h"\n' + RIGHT_KERNEL)
    project.path("kernels/tile.h").write_text("// A header.\n")
    kept = ("cpu_loop", "cpu_blas", "cublas_sgemm", "gram_cpu_loop", "gram_naive",
            "cublas_dgemm", "cublas_dsyrk", "cublas_dsyrk_triangle")  # fmt: skip
    project.write_catalogue(*kept, added=entry)
    project.done("all")
    return project


@pytest.fixture(scope="session")
def faulty(fresh: Callable[[], Project]) -> Faulty:
    project = fresh()
    sources = {
        "broken": RIGHT_KERNEL.replace("col = ", "kol = "),
        "wrong": RIGHT_KERNEL.replace("p < k", "p < k - 1"),
    }
    entries = [project.add_kernel(name, text.replace("void mine", f"void {name}"))
               .replace("function: mine", f"function: {name}")
               for name, text in sources.items()]  # fmt: skip
    project.write_catalogue("cpu_blas", "cublas_sgemm", added="".join(entries))
    run = project.snakemake("all")
    return Faulty(project, run.returncode, run.stdout)
