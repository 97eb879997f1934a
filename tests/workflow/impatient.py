"""Snakemake that looks at Slurm's queue every two seconds.

The plugin's looks grow ten seconds apart with each in which no job has ended, which suits jobs of
hours; a test of jobs of seconds would do little but wait.
"""

from snakemake.cli import main
from snakemake_executor_plugin_slurm import Executor

Executor.next_seconds_between_status_checks = property(lambda self: 2, lambda self, seconds: None)

if __name__ == "__main__":
    main()
