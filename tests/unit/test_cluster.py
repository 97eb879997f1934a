"""Settings of the Slurm plugin with which a run loses results or waits forever."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from matmul_sweep.experiment.plan import cluster
from matmul_sweep.experiment.plan.cluster import check_slurm, check_status_command
from matmul_sweep.process.errors import UserError

Patch = pytest.MonkeyPatch


def cluster_with(patch: Patch, folder: Path, age: int | None, sacct: str) -> None:
    """A cluster of this MinJobAge (s), where sacct `answers`, `refuses` or is `absent`."""
    patch.setattr(cluster, "get_min_job_age", lambda: age)
    patch.setenv("PATH", str(folder))
    if sacct != "absent":
        code = {"answers": 0, "refuses": 1}[sacct]
        (folder / "sacct").write_text(f"#!/bin/sh\necho accounting is disabled >&2\nexit {code}\n")
        (folder / "sacct").chmod(0o755)


@pytest.mark.parametrize(
    ("command", "pause", "age", "sacct"),
    [
        ("squeue", 20, 300, "refuses"),
        ("squeue", 20, 300, "absent"),
        ("squeue", 100, 300, "refuses"),
        ("squeue", 101, 300, "answers"),  # the plugin asks sacct
        ("sacct", 20, 60, "answers"),
        ("sacct", 20, 300, "absent"),  # the plugin asks squeue
        (None, 20, None, "answers"),
    ],
)
def test_a_run_that_sees_its_jobs_end_is_let_through(
    monkeypatch: Patch, tmp_path: Path, command: str | None, pause: int, age: int, sacct: str
) -> None:
    cluster_with(monkeypatch, tmp_path, age, sacct)
    check_status_command(command, pause)


@pytest.mark.parametrize(
    ("command", "pause", "age", "sacct", "named"),
    [
        ("sacct", 20, 300, "refuses", ["accounting is disabled", "squeue", "100 at most"]),
        ("squeue", 101, 300, "refuses", ["accounting is disabled", "100 at most"]),
        ("squeue", 400, 300, "absent", ["300 s (MinJobAge)", "100 at most"]),
        ("squeue", 20, 180, "answers", ["180 s (MinJobAge)", "--slurm-status-command sacct"]),
        ("sacct", 20, 60, "refuses", ["accounting is disabled", "keeps accounts"]),
        (None, 20, None, "refuses", ["neither scontrol nor sacct", "login node"]),
        ("squeue", 20, None, "absent", ["neither scontrol nor sacct", "login node"]),
    ],
)
def test_a_run_that_would_wait_for_ever_is_refused_with_the_remedy(
    monkeypatch: Patch, tmp_path: Path, command: str | None, pause: int, age: int | None,
    sacct: str, named: list[str],
) -> None:  # fmt: skip
    cluster_with(monkeypatch, tmp_path, age, sacct)
    with pytest.raises(UserError) as refusal:
        check_status_command(command, pause)
    for fragment in named:
        assert fragment in str(refusal.value)


@pytest.mark.parametrize("rules", ["measure_part", "all"])
def test_arrays_are_refused_by_name(rules: str) -> None:
    with pytest.raises(UserError, match=f"slurm-array-jobs: '{rules}'.*leave it out"):
        check_slurm(SimpleNamespace(array_jobs=rules), "/project")
