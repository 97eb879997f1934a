"""How long Snakemake takes to start, and how long the commands are that it gives to a shell.

What is timed is the processor's time of a dry run, all of it one thread's: on an idle machine that
is the time which passes, and beside other work it changes less. The unit is the start of an empty
workflow just before it (1.3 s on an idle server), so neither a slow machine nor a busy one
matters.
"""

import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from project import SNAKEMAKE, Fresh, Project
from support import CUDA_ENTRY, RIGHT_KERNEL

pytestmark = pytest.mark.long

KERNELS, SHAPES = 500, 40
NAME = "as_long_as_the_schema_lets_a_kernel_s_name_be"  # and a number of three digits

Start = Callable[[], object]


def seconds(start: Start) -> float:
    """The processor's seconds of the processes that start() starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture
def empty(tmp_path: Path) -> Start:
    """Starts an empty workflow."""
    (tmp_path / "Snakefile").write_text("rule all:\n    shell: 'true'\n")
    command = [*SNAKEMAKE, "--cores", "1", "--dry-run"]
    return lambda: subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


@pytest.fixture(scope="module")
def large(fresh: Fresh) -> Project:
    """A catalogue of 500 kernels, each with a source of its own, to be measured at 40 shapes by
    the jobs of a cluster."""
    project, entries = fresh(), {}
    for number in range(KERNELS):
        name = f"{NAME}{number:03}"
        source = project.path(f"kernels/{name}.cu")
        source.write_text(RIGHT_KERNEL.replace("void mine", f"void {name}"))
        own = {"source": source.name, "function": name}
        entries[name] = CUDA_ENTRY | own
    project.write_catalogue("cublas_sgemm", added=yaml.safe_dump(entries))
    project.configure(gemm=[32 * (i + 1) for i in range(SHAPES)], gram=[], device="gpu")
    return project


def test_500_kernels_at_40_shapes_start_in_the_time_of_ten_empty_ones_and_with_short_commands(
    large: Project, empty: Start
) -> None:
    """A shell takes no command of more than 128 KiB, so none may grow with the catalogue."""
    said = []

    def start() -> None:
        spread = ("--set-resource-scopes", "gpu=local", "timing=local")
        said.append(large.done("all", "--dry-run", "--printshellcmds", *spread, program=SNAKEMAKE))

    least, full = seconds(empty), seconds(start)
    commands = re.findall(r"^Shell command: (python .*)$", said[0], re.M)
    assert len(commands) > 2 * KERNELS
    assert max(map(len, commands)) < 4096
    assert full < 10 * least
