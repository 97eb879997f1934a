"""Where figures come from: the host, the date, and the commit of the measuring code."""

import datetime
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from matmul_sweep.process.errors import UserError, shown
from matmul_sweep.process.project import ROOT

COMMIT_VARIABLE = "MATMUL_SWEEP_COMMIT"
COMMIT = r"[0-9a-f]{40}([0-9a-f]{24})?"  # by SHA-1, or by SHA-256


def host_facts() -> dict[str, Any]:
    """Processor, cores of this process, memory, system, NumPy's BLAS, and the date (UTC)."""
    import numpy as np  # here, because compiling needs other parts of this module
    from threadpoolctl import threadpool_info

    blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "host_memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": f"{blas[0]['internal_api']} {blas[0]['version']}" if blas else "unknown",
    }


def cpu_model() -> str:
    """The processor's name according to Linux."""
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def commit() -> dict[str, Any]:
    """The commit and whether files differ from it: from the variable MATMUL_SWEEP_COMMIT (a commit,
    followed by -dirty if files differ), or else from git. Raises UserError."""
    if given := os.environ.get(COMMIT_VARIABLE):
        if not re.fullmatch(f"{COMMIT}(-dirty)?", given):
            raise UserError(
                f"{COMMIT_VARIABLE} is '{shown(given)}', no whole commit: set it to what `git "
                "rev-parse HEAD` says where the sources come from, or unset it"
            )
        return {"commit": given.removesuffix("-dirty"), "dirty": given.endswith("-dirty")}

    def git(*arguments: str) -> str | None:
        if not shutil.which("git"):
            return None
        done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    top = git("rev-parse", "--show-toplevel")
    if top and Path(top) == ROOT and (head := git("rev-parse", "HEAD")):
        return {"commit": head, "dirty": bool(git("status", "--porcelain"))}
    return {"commit": "unknown", "dirty": True}
