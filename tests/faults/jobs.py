"""Projects of C kernels that record how often they are called, and what becomes of their runs."""

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
from project import Project

COUNTED = Path(__file__).with_name("counted.c").read_text()
# In the place of `// mistake`; what is late shows only where nothing was verified before.
MISTAKES = {
    "counted": "",
    "endless": "for (volatile int i = 0;;) i++;",
    "stray": "raise(SIGSEGV);",
    "behind": "C[(size_t)m * n] = 0;",
    "late_endless": "if (m == 300) for (volatile int i = 0;;) i++;",
    "late_stray": "if (m == 300) *(volatile float*)8 = 0;",
}
# Six samples of a point, however they lie.
SAMPLING = {"minimum": 6, "maximum": 6, "interval": 1e-12, "seconds": 60, "copy_seconds": 0.01,
            "warm_seconds": 0}  # fmt: skip
SHAPES = (40, 41, 42, 43, 44, 45, 46, 47)
CALLS = 7  # of a point: the first, and six samples
MEASURED = "results/local/measured/gemm/counted"


def c_kernels(folder: Path, *names: str) -> dict[str, dict[str, object]]:
    """Write the sources of some of MISTAKES; their catalogue's entries."""
    for name in names:
        source = COUNTED.replace("counted(", f"{name}(").replace("// mistake", MISTAKES[name])
        (folder / f"{name}.c").write_text(source)
    entry = {"operation": "gemm"}
    return {n: entry | {"title": n, "source": f"{n}.c", "function": n} for n in names}


def counting(project: Project) -> Project:
    """The project, its kernels' calls noted in a file of its own."""
    return Project(project.folder, project.environment | {"CALLS": str(project.path("calls"))})


def calls_of(project: Project) -> Counter[int]:
    """The calls that COUNTED wrote down, by m."""
    calls = project.path("calls")
    return Counter(map(int, calls.read_text().split())) if calls.exists() else Counter()


def measured_again(calls: Counter[int]) -> list[int]:
    """Those of SHAPES whose kernel was called more often than one measurement takes.

    Asserts that none was called less often, or more often than an interrupted and a whole one take.
    """
    assert all(CALLS <= calls[m] <= 2 * CALLS for m in SHAPES), calls
    return [m for m in SHAPES if calls[m] > CALLS]


def remaining(session: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def gone(session: int) -> bool:
    """Whether no process of a session is left within ten seconds; what is left is killed then."""
    deadline = time.monotonic() + 10
    while remaining(session) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = remaining(session)
    for process in left:
        os.kill(process, signal.SIGKILL)
    return not left


def one_error(said: str) -> str:
    """The only line of an output that is an error's; there is no traceback."""
    assert "Traceback" not in said, said
    [line] = [line for line in said.splitlines() if line.startswith("error: ")]
    return line
