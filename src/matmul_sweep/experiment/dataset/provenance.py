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
    model = re.search(r"(?m)^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text())
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "cpu": model[1] if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "host_memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": f"{blas[0]['internal_api']} {blas[0]['version']}" if blas else "unknown",
    }


def named_commit() -> dict[str, Any] | None:
    """The commit, and whether files differ from it, by the variable MATMUL_SWEEP_COMMIT: a commit,
    followed by -dirty if files differ. None without it. Raises UserError."""
    given = os.environ.get(COMMIT_VARIABLE, "")
    if given and not re.fullmatch(f"{COMMIT}(-dirty)?", given):
        raise UserError(
            f"{COMMIT_VARIABLE} is '{shown(given)}', no whole commit: set it to what `git "
            "rev-parse HEAD` says where the sources come from, or unset it"
        )
    named = {"commit": given.removesuffix("-dirty"), "dirty": given.endswith("-dirty")}
    return named if given else None


def commit() -> dict[str, Any]:
    """The same by the variable, or else by git. Raises UserError."""
    if named := named_commit():
        return named
    if (ROOT / ".git").exists() and shutil.which("git"):
        asked = ["git", "-C", str(ROOT), "status", "--porcelain=v2", "--branch"]
        said = subprocess.run(asked, capture_output=True, text=True).stdout
        if found := re.match(f"# branch.oid ({COMMIT})\n", said):
            return {"commit": found[1], "dirty": bool(re.search("(?m)^[^#]", said))}
    return {"commit": "unknown", "dirty": True}
