"""environment.yml names the same packages as pyproject.toml, and pins the same versions."""

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from matmul_sweep import __version__
from matmul_sweep.process.project import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["dependency-groups"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
# conda-forge's names of what PyPI calls otherwise.
CONDA_NAMES = {
    "matplotlib": "matplotlib-base",
    "seaborn": "seaborn-base",
    "snakemake": "snakemake-minimal",
    "ml-dtypes": "ml_dtypes",
    "nvidia-cuda-nvdisasm": "cuda-nvdisasm",
    "typst": "typst-py",
}
# What conda brings as packages of its own, PyPI as the toolkit's wheels or the system's compiler.
CONDA_ONLY = {
    "python",
    "pip",
    "cuda-version",
    "cuda-nvcc",
    "libcublas",
    "c-compiler",
    "cxx-compiler",
}
OTHER_VERSION = {"pycuda"}  # conda-forge has an older one


def split(requirement: str) -> tuple[str, str]:
    """Name without extras, and the exact version or nothing."""
    name, version = re.fullmatch(r"([A-Za-z0-9_-]+)(?:\[.*?\])?(?:==?([\d.]+)|>=.*)?",
                                 requirement).groups()  # fmt: skip
    return name, version or ""


def packages_of(*lists: list[str]) -> list[str]:
    """What the library and these lists require, without the project itself."""
    names = [name for names in (PROJECT["project"]["dependencies"], *lists) for name in names]
    return [name for name in names if not name.startswith("matmul-sweep")]


def pypi() -> dict[str, str]:
    lists = EXTRAS["classroom"], EXTRAS["experiment"], GROUPS["dev"]
    packages = dict(map(split, packages_of(*lists)))
    return {CONDA_NAMES.get(name, name): version for name, version in packages.items()}


def conda() -> dict[str, str]:
    *packages, by_pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    return dict(map(split, [*packages, *by_pip["pip"]]))


def test_conda_installs_what_pypi_installs():
    assert set(conda()) - CONDA_ONLY == set(pypi())


def test_versions_pinned_by_both_are_the_same():
    ours, theirs = pypi(), conda()
    pinned = {name for name, version in ours.items() if version} - OTHER_VERSION
    assert pinned
    assert {name: theirs[name] for name in pinned} == {name: ours[name] for name in pinned}


@pytest.mark.parametrize("requirement", [*PROJECT["project"]["dependencies"], *EXTRAS["compiler"]])
def test_the_library_changes_no_package_of_a_program_that_it_joins(requirement):
    """It says which versions are too old, and no more; .ci/run tries the oldest that it takes."""
    assert [bound.operator for bound in Requirement(requirement).specifier] == [">="]


@pytest.mark.long
def test_a_verdict_needs_no_package_beyond_those_of_a_class(tmp_path):
    lists = [EXTRAS["classroom"], GROUPS["classroom"]]
    known, everything = packages_of(*lists), packages_of(*EXTRAS.values(), *GROUPS.values())
    missing = {split(name)[0] for name in everything} - {split(name)[0] for name in known}
    others = [
        module for module, [name, *_] in metadata.packages_distributions().items()
        if canonicalize_name(name) in missing
    ]  # fmt: skip
    assert {"pandas", "scipy", "pycuda"} <= set(others)
    program = (
        f"import sys, runpy; sys.modules |= dict.fromkeys({others}); sys.argv.pop(0); "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    page, picture = tmp_path / "page.html", tmp_path / "wrong.png"
    done = subprocess.run(
        [sys.executable, "-c", program, "scripts/try.py", "exercises/5-barriers.cu", "--no-gpu",
         "--html", page, "--png", picture],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": "src:scripts"}, capture_output=True, text=True,
    )  # fmt: skip
    assert "missing barrier" in done.stdout, done.stderr
    assert page.exists() and picture.exists()


def test_the_version_is_the_same_wherever_it_stands():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    log = (ROOT / "CHANGELOG.md").read_text()
    latest = re.search(r"^## \[([\d.]+)\] - \d{4}-\d\d-\d\d$", log, re.M)
    assert latest[1] == __version__
