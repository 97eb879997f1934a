"""A recipe in CONTRIBUTING.md needs no files but those that it names."""

import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch

import pytest
import yaml
from project import Fresh, Project
from support import ROOT

pytestmark = pytest.mark.long

# What the project asks of any catalogue.
TESTS = ("test_catalogue.py", "test_ladder.py", "test_operations.py",
         "test_readme.py::test_the_pages_say_what_was_published")  # fmt: skip


def named_files(recipe: str) -> set[str]:
    """The files of a recipe's table; a name may be a pattern."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    [section] = re.findall(rf"^### {recipe}\n(.*?)^##", page, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    return {file for row in rows for file in re.findall("`(.+?)`", row)}


def changed(project: Project) -> set[str]:
    """The files of kernels/ in a copy that are others than the project's."""
    files = [file for file in project.path("kernels").rglob("*") if file.is_file()]
    names = {str(file.relative_to(project.folder)): file.read_bytes() for file in files}
    return {name for name, text in names.items()
            if not (ROOT / name).exists() or (ROOT / name).read_bytes() != text}  # fmt: skip


def run(project: Project, *command: str) -> None:
    done = subprocess.run([sys.executable, *command], cwd=project.folder, text=True,
                          env=project.environment, capture_output=True)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def added(fresh: Fresh) -> Project:
    """A copy to which the kernel of docs/kernels.md was added."""
    project = fresh()
    for folder in ("tests", "reports/published"):
        shutil.copytree(ROOT / folder, project.path(folder))
    project.add_documented_kernel((ROOT / "kernels/gemm/naive_rect.cu").read_text())
    return project


def test_a_kernel_is_a_source_and_an_entry(added):
    assert changed(added) == named_files("A kernel")
    files = [f"tests/unit/{name}" for name in TESTS]
    run(added, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files)


def test_a_tiling_is_a_line_of_its_kernels_entry(added):
    file = added.path("kernels/catalogue.yaml")
    head, found, tail = file.read_text().rpartition("    16: {TILE_WIDTH: 16}\n")
    file.write_text(head + found + "    8: {TILE_WIDTH: 8}\n" + tail)
    assert 8 in yaml.safe_load(file.read_text())["my_kernel"]["tilings"]
    assert named_files("A tiling") == {"kernels/catalogue.yaml"}
    run(added, "scripts/multiply.py", "my_kernel/8", "33")


ROOMS = "src/matmul_sweep/"
DATASET, FIGURES, PLAN = (f"{ROOMS}experiment/{n}/" for n in ("dataset", "report/figures", "plan"))
FIGURE = """
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.figure_base import figure


@figure("Mine")
def my_figure(results):
    made, [[axes]] = style.panels()
    axes.plot(results.timed().n, results.timed().tflops)
    return made
"""
COLUMN = '    Column("mine", NUMBER, "V", 0, 9, since="9.0.0"),\n'
DTYPE = '        Dtype("float8_e4m3fn", 4, 1, ("__nv_fp8_e4m3",), 0, 28, (FLOAT16_TENSOR,)),\n'
INSTRUMENTS = """#include <cuda_fp8.h>
__device__ double wide(__nv_fp8_e4m3 x) { return (float)x; }
OF_TYPE(float8_e4m3fn, __nv_fp8_e4m3)
"""
COMPILED = """
from pathlib import Path
from matmul_sweep.build.binaries import compile_instruments
compile_instruments("sm_90", Path("instruments.cubin"))
assert b"fill_float8_e4m3fn" in Path("instruments.cubin").read_bytes()
"""
PUBLISHED = "reports/published/nvidia-h200"
RESULTS = PUBLISHED.replace("reports", "results")
REBUILT = f"--config published=rebuild device=cpu -- {RESULTS}/report.pdf"
# What is added under a recipe, before a mark in a file or at its end; what then runs, and leaves.
RECIPES: dict[str, tuple[str, list[tuple[str, str, str]], list[str], str]] = {
    "a figure in a new file": (
        "A figure",
        [(FIGURES + "mine.py", "", FIGURE), (FIGURES + "gallery.py", "    phases,", "    mine,\n"),
         ("reports/captions/my_figure.rst", "", "Mine.\n"),
         ("reports/chapters/sizes.typ", "", '#chart("my_figure")\n')],
        ["-m", "snakemake", "--cores", "2", *REBUILT.split()],
        RESULTS + "/figures/my_figure.svg",
    ),
    "a column": (
        "A column",
        [(DATASET + "tables.py", '    Column("temperature_c"', COLUMN),
         (DATASET + "tables.py", '"throttled"]', '"mine", ')],
        ["scripts/check_set.py", PUBLISHED, "--earlier"], "",
    ),
    "a key of the configuration": (
        "A key of the configuration",
        [("config/config.yaml", "seed:", "mine: 3\n"),
         (PLAN + "keys.py", "    seed:", "    mine: Count\n")],
        ["-m", "snakemake", "--dry-run", "--cores", "1", "all", "--config", "device=cpu", "mine=4"],
        "",
    ),
    "a number type": (
        "An operation",
        [(ROOMS + "operations/dtypes.py", '        Dtype("float16"', DTYPE),
         (ROOMS + "experiment/measure/instruments.cu", "OF_TYPE(float32", INSTRUMENTS)],
        ["-c", COMPILED], "instruments.cubin",
    ),
}  # fmt: skip


@pytest.mark.parametrize("added", RECIPES)
def test_a_recipe_names_all_that_is_needed(fresh, added):
    recipe, edits, command, left = RECIPES[added]
    project = fresh()
    shutil.copytree(ROOT / PUBLISHED, project.path(PUBLISHED))
    for name, mark, text in edits:
        assert any(fnmatch(name, pattern) for pattern in named_files(recipe)), name
        file = project.path(name)
        old = file.read_text() if file.exists() else ""
        before, found, after = old.rpartition(mark) if mark else (old, "", "")
        assert found == mark, f"{name} has no {mark}"
        file.write_text(before + text + found + after)
    run(project, *command)
    assert project.path(left).exists()
