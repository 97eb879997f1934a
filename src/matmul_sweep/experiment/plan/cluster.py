"""Refuse, in one line, cluster settings that would lose results or make a run wait forever.

They are settings of snakemake-executor-plugin-slurm 2.8.0; test them again with another version.
"""

import shutil
import subprocess
from typing import Any

from snakemake_executor_plugin_slurm.job_status_query import get_min_job_age

from matmul_sweep.process.errors import UserError

LONGEST_PAUSE_S = 180  # between two checks of its jobs by the plugin


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
    check_status_command(settings.status_command, settings.init_seconds_before_status_checks)
    if left := jobs_of(folder):
        raise UserError(
            "jobs of a killed run would write the same files: wait until they have left "
            f"the queue, or scancel {' '.join(left)}"
        )


def jobs_of(folder: str) -> list[str]:
    """The numbers of this user's queued jobs that the plugin submitted from `folder`."""
    columns = "--format=%A|%Z|%k"  # number, folder, and the plugin's comment, which names the rule
    queue = subprocess.run(
        ["squeue", "--me", "--noheader", columns], capture_output=True, text=True
    )
    jobs = (line.split("|") for line in queue.stdout.splitlines())
    return [job for job, where, comment in jobs if where == folder and comment.startswith("rule_")]


def check_status_command(command: str | None, pause: int) -> None:
    """Check that the plugin will see its jobs end if it first asks `command` (squeue or sacct)
    after `pause` seconds.

    squeue forgets a job MinJobAge after its end; sacct knows it if Slurm keeps accounts. If
    MinJobAge is below three pauses, the plugin asks sacct, whatever the setting.

    Raises UserError.
    """
    age, fault = get_min_job_age(), accounting_fault()
    if age is None and fault:
        raise UserError("neither scontrol nor sacct answers: is this a login node with Slurm?")
    age = age or 0
    if (command == "squeue" and age >= 3 * pause) or not shutil.which("sacct"):
        fault = f"squeue forgets them after {age} s (MinJobAge)"
        if age > max(pause, LONGEST_PAUSE_S):
            return
    if not fault:
        return
    if age > LONGEST_PAUSE_S:
        remedy = (
            "use --slurm-status-command squeue, and --slurm-init-seconds-before-status-checks of "
            f"{age // 3} at most"
        )
    else:
        remedy = "use --slurm-status-command sacct, which needs a cluster that keeps accounts"
    raise UserError(f"the run would not see its jobs end: {fault}; {remedy}")


def accounting_fault() -> str | None:
    """Why sacct does not answer, or None if it does."""
    if not shutil.which("sacct"):
        return "there is no sacct"
    answer = subprocess.run(["sacct", "--allocations"], capture_output=True, text=True)
    return f"sacct: {answer.stderr}" if answer.returncode else None
