"""What Snakemake makes of a command line: refused before anything is compiled, or planned."""

import pytest
from project import Fresh, Project


@pytest.fixture(scope="module")
def project(fresh: Fresh) -> Project:
    made = fresh()
    made.write_catalogue("cpu_loop", "naive", "cublas_sgemm")
    return made


def test_a_run_that_cannot_succeed_compiles_nothing(project: Project, no_gpu: None) -> None:
    run = project.snakemake("all", "--config", "device=gpu")
    assert run.returncode == 1
    last = run.stdout.strip().splitlines()[-1]
    assert last.startswith("error: device: gpu: there is no NVIDIA driver")
    assert not project.path("results/local/build").exists()


def test_a_login_node_may_plan_for_gpus_that_it_lacks(project: Project) -> None:
    counts = project.job_counts("all", "--config", "device=gpu", "sampling={maximum: 20}")
    assert counts["measure_part"] == 2
