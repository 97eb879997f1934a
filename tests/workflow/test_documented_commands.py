"""Every command of the README, CONTRIBUTING.md and docs/ works as it is typed.

The commands run in a copy of the project, without a network: Snakemake plans its jobs, what is
quick runs, and of what needs a GPU, Slurm or conda the pieces are checked that are here.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from forked import forked
from project import Copy, Fresh, Project
from support import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# A block of commands has no language.
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NO_COMMANDS = {"text", "yaml", "python", "cuda"}
INLINE = re.compile(r"`(uv run [^`]+)`")
GPU_PROGRAMS = {"search", "check_timer", "beside_torch", "mlp", "muon"}


def commands_of(page: str) -> list[str]:
    """The commands of a page, in blocks and as `uv run …` between backticks; without that, which
    would look for the packages in the network."""
    found = []
    for block in BLOCK.finditer(page):
        if block["language"] in NO_COMMANDS:
            continue
        assert not block["language"], f"{block['language']}: commands, or something else?"
        lines = block["text"].replace("\\\n", " ").splitlines()
        found += [one for line in lines for one in split(line)]
    for line in INLINE.findall(BLOCK.sub("", page)):
        found += split(line.replace("\n", " "))
    return found


def split(line: str) -> list[str]:
    """The commands of a line, which `&&` joins."""
    found, words = [], [*shlex.split(line, comments=True), "&&"]
    while "&&" in words:
        end = words.index("&&")
        own, words = words[:end], words[end + 1 :]
        if own[:2] == ["uv", "run"]:
            own = own[2:]
            while own[0] in ("--offline", "--no-sync"):
                own = own[1:]
        if own and own[0].startswith("scripts/"):  # its first line is `uv run` and a group
            assert os.access(ROOT / own[0], os.X_OK)
            check_groups((ROOT / own[0]).read_text().splitlines()[0].split()[-2:])
            own = ["python", *own]
        found += [shlex.join(own)] if own else []
    return found


def documented() -> list[str]:
    """Each command of all pages once."""
    return list(dict.fromkeys(one for page in PAGES for one in commands_of(page.read_text())))


@pytest.fixture(scope="module")
def planned(fresh: Fresh) -> Project:
    """A copy in which nothing has run, with the published data and the kernel of the docs. Of the
    exercises it has those that a command names: test_exercises.py tries them all."""
    project = fresh()
    named = {word for command in documented() for word in command.split()}
    for exercise in project.path("exercises").glob("*.cu"):
        if f"exercises/{exercise.name}" not in named:
            exercise.unlink()
    shutil.copytree(ROOT / "reports/published", project.path("reports/published"))
    project.add_documented_kernel(project.path("kernels/gemm/naive_rect.cu").read_text())
    searches = project.path("config/search")  # CONTRIBUTING.md adds a dispatch
    shutil.copyfile(searches / "sgemm.yaml", searches / "my_dispatch.yaml")
    return project


@pytest.fixture(scope="module")
def measured(planned: Project, copy_of: Copy) -> Project:
    """The same with a data set in results/local: a published one."""
    project = copy_of(planned)
    [first, *_] = sorted(project.path("reports/published").glob("*/device.json"))
    shutil.copytree(first.parent, project.path("results/local"))
    project.show_one_mistake()  # of a gallery that takes a minute
    return project


def plan(words: list[str], project: Project) -> None:
    """Snakemake says what it would do; of `--report`, which has no plan, the options are read."""
    if "--report" in words:
        from snakemake.cli import parse_args

        parse_args(words)
        return
    done = forked([*words, "--dry-run", "--nocolor"], project.folder, project.environment)
    assert done.returncode == 0 and "This was a dry-run" in done.stdout, done.stdout


def run(words: list[str], project: Project) -> None:
    """A program runs; one that needs a GPU says that there is none, and not that it misread."""
    done = subprocess.run(
        [sys.executable, *words], cwd=project.folder, text=True, capture_output=True,
        env=project.environment | {"CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    if Path(words[0]).stem in GPU_PROGRAMS:
        assert done.returncode in (0, 1), done.stderr
        assert re.search("GPU|NVIDIA driver|PyTorch|'torch'", done.stderr), done.stderr
    elif Path(words[0]).stem == "try":  # 1 says that a kernel is wrong
        assert done.returncode in (0, 1) and "error" not in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stdout + done.stderr


def choose_tests(words: list[str], project: Project) -> None:
    """pytest knows the options, and finds tests with the files and the marks."""
    collect = [sys.executable, "-m", "pytest", *words, "-n", "0", "--collect-only"]
    done = subprocess.run(collect, cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def check_uv(words: list[str], project: Project) -> None:
    """`uv sync` takes or leaves out groups that the project has."""
    assert words[0] == "sync"
    check_groups(words[1:])


def check_groups(words: Sequence[str]) -> None:
    """Options of `uv sync` or `uv run`, each with a group that the project has."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    for option, group in zip(words[::2], words[1::2], strict=True):
        assert option in ("--group", "--no-group", "--only-group")
        assert group in groups, group


CLASSES: dict[str, Callable[[list[str], Project], None]] = {
    "snakemake": plan,
    "python": run,
    "pytest": choose_tests,
    "uv": check_uv,
}
# What only a network or a cluster could show, or CI runs.
AS_THEY_STAND = {
    "pip install uv", "pip install .", "pip install '.[compiler]'", "module load cuda",
    "export UV_NO_SYNC=1", "conda env create -f environment.yml", "conda activate matmul-sweep",
    ".ci/run", "ruff check .", "ruff format --check .", "snakefmt --check Snakefile workflow",
    "mypy",
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("command", [x for x in documented() if x not in AS_THEY_STAND], ids=str)
def test_a_command_works_as_it_is_typed(command, request):
    program, *words = shlex.split(command)
    check = CLASSES[program]  # a new command of no class fails: say here how it is checked
    check(words, request.getfixturevalue("measured" if check is run else "planned"))


def test_the_commands_of_a_page_are_all_found():
    page = "Run `uv run snakemake\n--cores 1 all`.\n\n```\na b &&  c # why\nd \\\n  e\n```\n" \
           "```yaml\nno: command\n```\n"  # fmt: skip
    assert commands_of(page) == ["a b", "c", "d e", "snakemake --cores 1 all"]
