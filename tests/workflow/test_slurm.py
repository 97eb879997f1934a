"""The workflow on a real Slurm of one node, submitted through the profile.

Without CUDA hardware the jobs measure CPU variants, and are told to ask for the GPU that Slurm has.
"""

import sys
from itertools import pairwise
from pathlib import Path

import pytest
from project import Fresh, Project
from slurm import Slurm

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.check.check_set import check_set

pytestmark = [pytest.mark.slurm, pytest.mark.long]

# The profile's first look at the queue comes after 20 s, longer than most jobs of a test take.
SOON = ("--slurm-init-seconds-before-status-checks", "2")
SUBMIT = {
    "where": ("--workflow-profile", "profiles/slurm", *SOON),
    "program": (sys.executable, str(Path(__file__).with_name("impatient.py"))),
}
VERDICT = "results/local/verdict.txt"


@pytest.fixture(scope="module")
def submitted(slurm: Slurm, fresh: Fresh) -> Project:
    """A run up to its verdict, submitted."""
    project = fresh()
    project.environment |= slurm.environment
    project.write_catalogue("cpu_loop", "cpu_blas")
    project.configure(gram=[])
    project.done(VERDICT, "--set-resources", "measure_part:gpu=1", **SUBMIT)
    return project


def test_a_submitted_run_ends_in_the_verdict_and_a_set_that_passes_its_check(submitted):
    check_set(submitted.path("results/local"), load_catalogue(submitted.path("kernels/test.yaml")))
    assert "none failed" in submitted.path(VERDICT).read_text()


def test_timing_jobs_have_a_gpu_for_themselves_and_the_rest_runs_at_the_command(slurm, submitted):
    measured, verified = slurm.runs("measure"), slurm.runs("verify")
    assert len(slurm.jobs("")) == len(measured) + len(verified) == 3
    assert {run.job for run in measured} == slurm.jobs("measure_part")
    assert {run.job for run in verified} == slurm.jobs("verify_operation")
    assert ({run.gpu for run in measured}, {run.gpu for run in verified}) == ({"0"}, {"none"})
    for first, second in pairwise(sorted(measured, key=lambda run: run.begun)):
        assert first.ended <= second.begun
    assert [run.job for run in slurm.runs("collect")] == ["none"]
    assert "Nothing to be done" in submitted.done(VERDICT, "--dry-run", **SUBMIT)
