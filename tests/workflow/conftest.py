"""Two runs of the workflow that tests share, and a Slurm of one node."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence

import pytest
import slurm as one_node
from project import SNAKEMAKE, Fresh, Project
from slurm import Slurm
from support import RIGHT_KERNEL, UNBARRED_KERNEL


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm of one node with one GPU, for the session."""
    if reason := one_node.missing():
        pytest.skip(reason)
    with one_node.started(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture(scope="session")
def offline() -> Sequence[str]:
    """What to put before a command so that it finds no network, where that is permitted."""
    command = ("unshare", "--net")
    permitted = shutil.which("unshare") and not subprocess.run([*command, "true"]).returncode
    return command if permitted else ()


@pytest.fixture(scope="session")
def finished(fresh: Fresh, offline: Sequence[str]) -> Project:
    """A whole run without a network, in which one kernel, `mine`, was added as one source and one
    entry."""
    project = fresh()
    entry = project.add_kernel("mine", '#include "tile.h"\n' + RIGHT_KERNEL)
    project.path("kernels/tile.h").write_text("// A header.\n")
    kept = ("cpu_loop", "cpu_blas", "cublas_sgemm", "gram_cpu_loop", "gram_naive", "cublas_dgemm")
    project.write_catalogue(*kept, added=entry)
    project.done("all", program=(*offline, *SNAKEMAKE))
    return project


@pytest.fixture(scope="session")
def faulty(fresh: Fresh) -> Project:
    """A run with a kernel that does not compile and ones with wrong results, and what it `said`."""
    project = fresh()
    sources = {
        "broken": RIGHT_KERNEL.replace("col = ", "kol = "),
        "wrong": RIGHT_KERNEL.replace("p < k", "p < k - 1"),
        "unwritten": RIGHT_KERNEL.replace("col >= n)", "col >= n - 1)"),
        "unbarred": UNBARRED_KERNEL,
    }
    entries = [project.add_kernel(name, text) for name, text in sources.items()]
    project.write_catalogue("cpu_blas", "cublas_sgemm", added="".join(entries))
    run = project.snakemake("all")
    assert run.returncode == 1
    project.path("said").write_text(run.stdout)
    return project
