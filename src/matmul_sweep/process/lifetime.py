"""Processes that die with their parent."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1  # linux/prctl.h
SNAKEMAKE = "MATMUL_SWEEP_SNAKEMAKE"  # set by the rules: the process id of their Snakemake


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, in whatever way."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def die_with_snakemake() -> None:
    """The same if Snakemake started this process as a job.

    Otherwise, if Snakemake is killed, the job would keep running beside the next run and overwrite
    its files.
    """
    if snakemake := os.environ.get(SNAKEMAKE):
        die_with_parent()
        try:
            os.kill(int(snakemake), 0)
        except ProcessLookupError:  # killed before the kernel was told
            os._exit(1)
