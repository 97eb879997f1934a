"""Refuse, in one line, cluster settings that would lose results or make a run wait forever.

They are settings of snakemake-executor-plugin-slurm 2.8.0; test them again with another version.
"""

import shutil
import subprocess
from typing import Any

from matmul_sweep.process.errors import UserError


def check_slurm(settings: Any, folder: str) -> None:
    """Check the plugin's settings and the queue before the first job is submitted from `folder`.

    Raises UserError.
    """
    if settings.array_jobs:
        # Every task of an array takes itself for the first one, issues 447 and 473.
        raise UserError(
            f"slurm-array-jobs: '{settings.array_jobs}': a failed task of an array deletes the "
            "results of the first one, and --jobs makes tasks wait forever; leave it out"
        )
    if settings.status_command == "sacct" and (fault := accounting_fault()):
        raise UserError(
            f"slurm-status-command: 'sacct': {fault}, so the run would not see its jobs end; "
            "use squeue"
        )
    if left := jobs_of(folder):
        raise UserError(
            "jobs of a killed run would write the same files: wait until they have left "
            f"the queue, or scancel {' '.join(left)}"
        )


def accounting_fault() -> str | None:
    """Why sacct does not answer, or None if it does."""
    if not shutil.which("sacct"):
        return "there is no sacct"
    answer = subprocess.run(["sacct", "--allocations"], capture_output=True, text=True)
    return answer.stderr.strip() if answer.returncode else None


def jobs_of(folder: str) -> list[str]:
    """The numbers of this user's queued jobs that the plugin submitted from `folder`."""
    columns = "--format=%A|%Z|%k"  # number, folder, and the plugin's comment, which names the rule
    queue = subprocess.run(
        ["squeue", "--me", "--noheader", columns], capture_output=True, text=True
    )
    jobs = (line.split("|") for line in queue.stdout.splitlines())
    return [job for job, where, comment in jobs if where == folder and comment.startswith("rule_")]
