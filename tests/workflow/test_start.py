"""How long Snakemake takes to start, and how long the commands are that it gives to a shell.

What is timed is the processor's time of a dry run, all of it one thread's: on an idle machine that
is the time which passes, and beside other work it changes less.
"""

import re
import resource
import shutil
import subprocess
from collections.abc import Callable

import pytest
import yaml
from project import SNAKEMAKE, Fresh, Project
from support import CUDA_ENTRY, RIGHT_KERNEL, ROOT

# Seconds that an empty workflow takes to start on the machine for which the limits are given; where
# it takes longer, the limits are as much wider.
EMPTY_S = 2.5
KERNELS, SHAPES = 500, 40
NAME = "as_long_as_the_schema_lets_a_kernel_s_name_be"  # and a number of three digits


def spent() -> float:
    """The processor's seconds of all processes that were started and waited for until now."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def shortest(start: Callable[[], object]) -> float:
    """The processor's seconds of the shorter of two starts."""
    before = spent()
    start()
    between = spent()
    start()
    return min(between - before, spent() - between)


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> float:
    """How many times as long as EMPTY_S an empty workflow takes to start here; at least 1."""
    folder = tmp_path_factory.mktemp("empty")
    (folder / "Snakefile").write_text("rule all:\n    shell: 'true'\n")
    command = [*SNAKEMAKE, "--cores", "1", "--dry-run"]

    def start() -> None:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    return max(1.0, shortest(start) / EMPTY_S)


@pytest.fixture(scope="module")
def large(fresh: Fresh) -> Project:
    """A catalogue of 500 kernels, each with a source of its own, to be measured at 40 shapes."""
    project, entries = fresh(), {}
    for number in range(KERNELS):
        name = f"{NAME}{number:03}"
        source = project.path(f"kernels/{name}.cu")
        source.write_text(RIGHT_KERNEL.replace("void mine", f"void {name}"))
        own = {"source": source.name, "function": name}
        entries[name] = CUDA_ENTRY | own
    project.write_catalogue("cublas_sgemm", added=yaml.safe_dump(entries))
    project.configure(gemm=[32 * (i + 1) for i in range(SHAPES)], gram=[])
    return project


def test_the_default_workflow_starts_within_4_seconds(fresh: Fresh, slower: float) -> None:
    project = fresh()
    shutil.copytree(ROOT / "reports/published", project.path("reports/published"))

    def start() -> None:
        project.done("all", "--dry-run", configfile="config/config.yaml", program=SNAKEMAKE)

    assert shortest(start) < 4 * slower


def test_500_kernels_at_40_shapes_start_within_20_seconds_and_with_short_commands(
    large: Project, slower: float
) -> None:
    """A shell takes no command of more than 128 KiB, so none may grow with the catalogue."""
    before = spent()
    said = large.done("all", "--dry-run", "--printshellcmds", program=SNAKEMAKE)
    seconds = spent() - before
    commands = re.findall(r"^Shell command: (python .*)$", said, re.M)
    assert len(commands) > 3 * KERNELS
    assert sum(f" {32 * SHAPES} " in command for command in commands) > KERNELS
    assert max(map(len, commands)) < 4096
    assert seconds < 20 * slower
