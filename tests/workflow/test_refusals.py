"""Work that cannot succeed is refused in one line, before anything is compiled."""

import pytest
from project import Fresh, Project

from matmul_sweep.build.toolchain import check_architectures
from matmul_sweep.process.errors import UserError


@pytest.fixture(scope="module")
def project(fresh: Fresh) -> Project:
    made = fresh()
    made.write_catalogue("cpu_loop", "naive", "cublas_sgemm")
    return made


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("all", "--config", "device=gpu"), "device: gpu: there is no NVIDIA driver"),
        (("all", "--config", "architectures=[sm_42]"), "architectures: 'sm_42' is not one that"),
        (("compare",), "compare: there is no GPU here"),
    ],
)
def test_a_run_that_cannot_succeed_compiles_nothing(
    project: Project, no_gpu: None, arguments: tuple[str, ...], named: str
) -> None:
    run = project.snakemake(*arguments)
    assert run.returncode == 1
    last = run.stdout.strip().splitlines()[-1]
    assert last.startswith(f"error: {named}")
    assert not project.path("results/local/build").exists()


def test_a_login_node_may_plan_for_gpus_that_it_lacks(project: Project) -> None:
    assert project.job_counts("all", "--config", "device=gpu")["measure_part"] == 2


def test_an_architecture_with_a_letter_is_known() -> None:
    check_architectures(["sm_90", "sm_90a"])
    with pytest.raises(UserError, match="'sm_90x' is not one"):
        check_architectures(["sm_90x"])
