"""Settings of Snakemake's Slurm plugin that lose results or wait for ever, refused in one line.

They are those of snakemake-executor-plugin-slurm 2.8.0; try them again with another version.
"""

import subprocess
from typing import Any

from snakemake_executor_plugin_slurm.job_status_query import get_min_job_age

from matmul.errors import UserError, one_line

LONGEST_PAUSE_S = 180  # between two checks of the plugin on its jobs


def check_slurm(settings: Any) -> None:
    """Check the plugin's settings, before the first job is sent off. Raises UserError."""
    if settings.array_jobs:
        # Every task of an array but the first holds itself to be the first, issues 447 and 473.
        raise UserError(
            f"slurm-array-jobs: '{settings.array_jobs}': a task of an array that fails deletes "
            "what the first has measured, and --jobs makes tasks wait for ever; leave it out"
        )
    check_status_command(settings.status_command, settings.init_seconds_before_status_checks)


def check_status_command(command: str | None, pause: int) -> None:
    """Whether the plugin will see its jobs end, when it asks `command` (squeue or sacct) first
    after `pause` seconds.

    A job is forgotten by squeue MinJobAge after its end, and known to sacct where Slurm keeps
    accounts. The plugin takes sacct where MinJobAge is below three pauses, whatever it was told.

    Raises UserError.
    """
    age = get_min_job_age() or 0
    if command == "squeue" and age >= 3 * pause:
        if age > LONGEST_PAUSE_S:
            return
        reason = f"squeue forgets jobs after {age} s (MinJobAge)"
    else:
        answer = subprocess.run(["sacct", "--allocations"], capture_output=True, text=True)
        if answer.returncode == 0:
            return
        reason = f"sacct does not answer ({one_line(answer.stderr)})"
    if age > LONGEST_PAUSE_S:
        remedy = (
            "use --slurm-status-command squeue, and --slurm-init-seconds-before-status-checks "
            f"of {age // 3} at most"
        )
    else:
        remedy = "this cluster needs accounting, and --slurm-status-command sacct"
    raise UserError(f"the run would not see its jobs end: {reason}; {remedy}")
