"""A kernel and a tiling need no files but those that their recipes in CONTRIBUTING.md name."""

import re
import shutil
import subprocess
import sys

import pytest
import yaml
from project import Fresh, Project
from support import ROOT

pytestmark = pytest.mark.long

# What the project asks of any catalogue.
TESTS = ("test_catalogue.py", "test_ladder.py",
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
