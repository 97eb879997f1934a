"""Measuring jobs, started by hand, of C kernels that record how often they are called."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import psutil
import yaml
from project import Project, Running
from pytest import approx
from support import ROOT, write_experiment

from matmul_sweep.build.binaries import compile_into
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.tables import read_table

STEPS = ROOT / "scripts" / "steps"
C_ENTRY = {
    "title": "mine",
    "operation": "gemm",
}
# Each call writes a line with its m to the file that CALLS names, and takes some milliseconds.
COUNTED = """
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void counted(const float* A, const float* B, float* C, int m, int n, int k)
{
    const int calls = open(getenv("CALLS"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    dprintf(calls, "%d\\n", m);
    close(calls);
    nanosleep(&(struct timespec){0, 4000000}, NULL);
    // mistake
    for (size_t i = 0; i < (size_t)m; i++)
        for (size_t j = 0; j < (size_t)n; j++) {
            float sum = 0;
            for (size_t p = 0; p < (size_t)k; p++) sum += A[i * k + p] * B[p * n + j];
            C[i * n + j] = sum;
        }
}
"""
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
HANG_SECONDS = 1  # of jobs that are started by hand
SHAPES = (40, 41, 42, 43, 44, 45, 46, 47)
CALLS = 7  # of a point: the first, and six samples
WORKERS = os.cpu_count() or 1
PACE = Counter({256: 3})  # what a job's start calls, before its first point


def c_kernels(folder: Path, *names: str) -> dict[str, dict[str, object]]:
    """Write the sources of some of MISTAKES; their catalogue's entries."""
    for name in names:
        source = COUNTED.replace("counted(", f"{name}(").replace("// mistake", MISTAKES[name])
        (folder / f"{name}.c").write_text(source)
    return {n: C_ENTRY | {"title": n, "source": f"{n}.c", "function": n} for n in names}


def build_kernels(folder: Path) -> Path:
    """Compile all of MISTAKES into `folder`/build, and verify those that are only late, so that no
    job does; the catalogue."""
    catalogue = folder / "catalogue.yaml"
    catalogue.write_text(yaml.safe_dump(c_kernels(folder, *MISTAKES)))
    for variant in load_catalogue(catalogue).variants.values():
        assert compile_into(variant, "host", folder / "build")["status"] == "ok"
    kernels = ["counted", "late_endless", "late_stray"]
    limits = {"hang_seconds": HANG_SECONDS}
    write_experiment(folder / "all.json", catalogue, "cpu", 40, kernels=kernels, limits=limits)
    command = [
        sys.executable, STEPS / "verify.py", "gemm", "--experiment", folder / "all.json",
        "--build", folder / "build", "--records", folder / "records",
        "--output", folder / "verified.csv",
    ]  # fmt: skip
    subprocess.run([*map(str, command)], env=os.environ | {"CALLS": os.devnull}, check=True)
    return catalogue


@dataclass
class Job:
    """measure.py of one kernel at SHAPES; its journal and its files lie in `folder`."""

    catalogue: Path
    folder: Path
    kernel: str = "counted"
    shapes: tuple[int, ...] = SHAPES
    environment: dict[str, str] = field(default_factory=dict)
    hang_seconds: float = HANG_SECONDS

    def start(self) -> subprocess.Popen[str]:
        shared, folder = self.catalogue.parent, self.folder
        build, records = shared / "build", shared / "records"
        experiment = shared / f"experiment-{folder.name}.json"
        write_experiment(
            experiment, self.catalogue, "cpu", *self.shapes, sampling=SAMPLING,
            limits={"hang_seconds": self.hang_seconds},
        )  # fmt: skip
        command = [
            sys.executable, STEPS / "measure.py", self.kernel, "--sweep", "gemm",
            "--experiment", experiment, "--build", build, "--records", records,
            "--journal", folder / "journal", "--output", folder / "measured",
            "--log", folder / "log",
        ]  # fmt: skip
        return subprocess.Popen(
            [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"CALLS": str(self.calls_file)} | self.environment,
            start_new_session=True,
        )  # fmt: skip

    def run(self) -> tuple[int, str]:
        """Run it to its end; the exit code, and what it said on standard error."""
        job = self.start()
        return job.wait(), job.communicate()[1]

    def done(self) -> None:
        """Run it to success."""
        code, said = self.run()
        assert code == 0, said

    @property
    def calls_file(self) -> Path:
        return self.catalogue.parent / f"calls-{self.folder.name}"

    def calls(self) -> Counter[int]:
        """How often the kernel was called, by m."""
        return noted_calls(self.calls_file)

    def journal(self) -> dict[int, list[float]]:
        """The samples of the finished points, by m."""
        return journalled(self.folder / "journal" / self.kernel)

    @property
    def output(self) -> Path:
        return self.folder / "measured" / self.kernel

    def file(self, name: str) -> str:
        return (self.output / name).read_text()

    def points(self) -> pd.DataFrame:
        return read_table("points.csv", self.output / "points.csv")

    def samples(self) -> pd.DataFrame:
        return read_table("samples.csv.gz", self.output / "samples.csv.gz")


def counting(project: Project) -> Project:
    """The project, its kernels' calls noted in a file of its own."""
    calls = str(project.path("calls"))
    return Project(project.folder, project.environment | {"CALLS": calls})


def calls_of(project: Project) -> Counter[int]:
    return noted_calls(project.path("calls"))


def noted_calls(calls: Path) -> Counter[int]:
    """The calls that COUNTED wrote down, by m."""
    return Counter(map(int, calls.read_text().split())) if calls.exists() else Counter()


def journalled(journal: Path) -> dict[int, list[float]]:
    """The kernel's samples of each journalled point, by m."""
    entries = {int(path.name.split("x")[0]): path for path in journal.glob("[0-9]*.json")}
    return {
        m: next(times for _, phase, _, times in json.loads(path.read_text())["times"]
                if phase == "kernel")
        for m, path in entries.items()
    }  # fmt: skip


def kept(samples: pd.DataFrame, finished: dict[int, list[float]]) -> bool:
    """Whether the samples contain what the journal had."""
    timed = samples[samples.phase == "kernel"]
    return all(
        timed[timed.m == m].time_ms.tolist() == approx(times, rel=1e-12)
        for m, times in finished.items()
    )


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


def wait_until(condition: Callable[[], object], running: Running) -> None:
    """Until the condition holds or the process has ended; fails after a minute."""
    deadline = time.monotonic() + 60
    while not condition() and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
