"""Kernels that never end or reach outside their matrices, a GPU that goes: failed points that name
the kernel, and the rest goes on."""

import re

import pytest
from jobs import CALLS, SAMPLING, SHAPES, calls_of, gone, remaining
from project import Project, wait_until
from support import RIGHT_KERNEL

from matmul_sweep.experiment.dataset.tables import read_table

pytestmark = pytest.mark.long

CUDA = {
    "endless_cu": ("float sum", "while (k) *(volatile float*)C = k;\n    float sum"),
    "stray_cu": ("= sum;", "= sum;\n    C[1u << 20] = sum;"),
}
LIMITS = {"gpu_seconds": 1, "cpu_seconds": 1, "hang_seconds": 3}
LATE = (40, 300, 320)  # at 300 a late mistake shows; nothing is verified there


def cuda_kernels(project: Project, *names: str) -> str:
    """RIGHT_KERNEL, spoilt, as sources of the project; their entries."""
    spoilt = {name: RIGHT_KERNEL.replace(*CUDA[name]) for name in names}
    return "".join(project.add_kernel(name, source) for name, source in spoilt.items())


def test_bad_kernels_under_snakemake(new_project):
    project = new_project("counted", "endless", "stray", "behind", limits=LIMITS)
    project.edit("kernels/test.yaml", cuda_kernels(project, *CUDA))
    project.done("results/local/summary.csv")
    summary = read_table("summary.csv", project.path("results/local/summary.csv"))
    for name, reason in {
        "endless": "the launch did not finish within 3 s",
        "stray": "the launch failed: it died of SIGSEGV",
        "behind": "it writes past the end of C",
        "endless_cu": "the launch did not finish within 3 s",
        "stray_cu": "invalid access in block",
    }.items():
        rows = summary[summary.variant == name]
        assert set(rows.m) == set(SHAPES) and set(rows.status) == {"failed"}
        assert rows.reason.str.startswith(f"verification: {reason}").all()
    good = summary[(summary.variant == "counted") & (summary.phase == "kernel")]
    assert [*good.m] == [*SHAPES]
    assert set(good.status) == {"ok"}
    assert [calls_of(project)[m] for m in SHAPES] == [CALLS] * len(SHAPES)


def test_a_late_mistake(new_project):
    project = new_project("late_endless", "late_stray")
    limits = LIMITS | {"cpu_seconds": 9, "hang_seconds": 9}
    project.configure(LATE, (), sampling=SAMPLING, limits=limits)
    project.done("results/local/summary.csv")
    summary = read_table("summary.csv", project.path("results/local/summary.csv"))
    late = "the launch did not finish within 9 s"
    for kernel, reasons in {
        "late_endless": {300: late, 320: f"not run: at 300x300x300 {late}"},
        "late_stray": {300: "the launch failed: it died of SIGSEGV"},
    }.items():
        points = summary[(summary.variant == kernel) & (summary.phase == "kernel")].set_index("m")
        assert points.reason.to_dict() == dict.fromkeys(LATE, "") | reasons
        assert set(points.index[points.status == "failed"]) == {*reasons}


def test_an_endless_kernel_does_not_outlive_its_job(new_project):
    project = new_project("endless")
    running = project.start("results/local/verified/gemm.csv")
    wait_until(lambda: calls_of(project), running)
    assert len(remaining(running.pid)) >= 2
    running.kill()
    running.wait()
    assert gone(running.pid)


def test_a_gpu_that_disappears(new_project):
    """As if it had still been there when Snakemake looked for it."""
    project = new_project("counted", device="gpu")
    rules = project.path("src/matmul_sweep/experiment/plan/workflow.py")
    checked, found, rest = rules.read_text().partition("configuration.check_gpu()")
    assert found
    rules.write_text(checked + "pass" + rest)
    project.edit("kernels/test.yaml", cuda_kernels(project, "stray_cu"))
    run = project.snakemake("results/local/summary.csv", environment={"CUDA_VISIBLE_DEVICES": ""})
    assert run.returncode == 1
    assert "Traceback" not in run.stdout
    lines = {line for line in run.stdout.splitlines() if line.startswith("error: ")}
    assert lines
    assert all(re.match("error: (device: gpu: )?the", line) for line in lines), lines
    measured = project.path("results/local/measured/gemm/counted/counted/points.csv")
    assert set(read_table("points.csv", measured).status) == {"ok"}
    # On without it: what was measured stays.
    project.configure(SHAPES, (), sampling=SAMPLING)
    project.done("results/local/summary.csv")
    assert [calls_of(project)[m] for m in SHAPES] == [CALLS] * len(SHAPES)
