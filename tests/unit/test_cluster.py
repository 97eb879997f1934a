"""Settings of the Slurm plugin with which a run loses results or waits forever."""

from types import SimpleNamespace

import pytest

from matmul_sweep.experiment.plan.cluster import check_slurm
from matmul_sweep.process.errors import UserError


@pytest.mark.parametrize(
    ("settings", "sacct", "refused"),
    [
        ({}, 1, ""),
        ({"status_command": "sacct"}, 0, ""),
        ({"status_command": "sacct"}, 1, "'sacct': accounting is disabled.*use squeue"),
        ({"status_command": "sacct"}, None, "'sacct': there is no sacct.*use squeue"),
        ({"array_jobs": "measure_part"}, 0, "slurm-array-jobs: 'measure_part'.*leave it out"),
        ({"queue": "7|/project|rule_verify_operation"}, 1, "jobs of a killed run.*scancel 7$"),
        ({"queue": "7|/project|mine"}, 1, ""),
        ({"queue": "7|/other|rule_verify_operation"}, 1, ""),
    ],
)
def test_what_loses_results_or_waits_is_refused(monkeypatch, tmp_path, settings, sacct, refused):
    """`sacct`: the exit code of a cluster's, or None without one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    answers = {"squeue": f"printf '{settings.get('queue', '')}'"}
    if sacct is not None:
        answers["sacct"] = f"echo accounting is disabled >&2\nexit {sacct}"
    for name, answer in answers.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
        (tmp_path / name).chmod(0o755)
    own = SimpleNamespace(**{"array_jobs": None, "status_command": "squeue"} | settings)
    if refused:
        with pytest.raises(UserError, match=refused):
            check_slurm(own, "/project")
    else:
        check_slurm(own, "/project")
