"""A recipe in CONTRIBUTING.md needs no files but those that it names."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from project import Fresh, Project
from support import ROOT

pytestmark = pytest.mark.long

# What the project asks of any catalogue.
TESTS = ("test_catalogue.py", "test_ladder.py", "test_operations.py",
         "test_readme.py::test_the_pages_say_what_was_published")  # fmt: skip


def named_files(recipe: str) -> set[str]:
    """The files of a recipe's table."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    [section] = re.findall(rf"^### {recipe}\n(.*?)^##", page, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def texts(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes()
            for file in folder.rglob("*") if file.is_file()}  # fmt: skip


def changed(project: Project) -> set[str]:
    """The files of a copy that are others than the project's."""
    old, new = (texts(folder / "kernels") for folder in (ROOT, project.folder))
    return {f"kernels/{name}" for name in new if old.get(name) != new[name]}


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


def test_a_kernel_is_a_source_and_an_entry(added: Project) -> None:
    assert changed(added) == named_files("A kernel")
    files = [f"tests/unit/{name}" for name in TESTS]
    run(added, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files)


def test_a_tiling_is_a_line_of_its_kernels_entry(added: Project) -> None:
    file = added.path("kernels/catalogue.yaml")
    head, found, tail = file.read_text().rpartition("    16: {TILE_WIDTH: 16}\n")
    file.write_text(head + found + "    8: {TILE_WIDTH: 8}\n" + tail)
    assert 8 in yaml.safe_load(file.read_text())["my_kernel"]["tilings"]
    assert named_files("A tiling") == {"kernels/catalogue.yaml"}
    run(added, "scripts/multiply.py", "my_kernel/8", "33")
