"""Fixtures that tests share: catalogues of a few entries, the scripts as commands, data sets, and
copies of the project in which Snakemake runs."""

import gc
import os
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from hypothesis import settings
from project import Copy, Fresh, Project
from support import CUDA_ENTRY, RIGHT_KERNEL, ROOT, Command, Entry, Outcome, WriteCatalogue

from matmul_sweep.build import cache
from matmul_sweep.launch import device, driver
from matmul_sweep.process import progress

LEFT_BEHIND = {
    ".git", ".venv", ".venv-cuda12", ".whl", ".scratch", ".snakemake", "results", "published",
    "tests", "uv.lock", ".hypothesis", ".pytest_cache",  # the last two change while tests run
}  # fmt: skip

# Hundreds of processes import the same modules, which nobody has compiled before.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Other work on the machine is no mistake of a property's. Where the variable CI is set, Hypothesis
# has no deadline either, and draws the same cases in every run.
settings.register_profile("default", settings.get_profile("default"), deadline=None)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=1000)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as slow what lies outside tests/unit (whole workflows, kills, thousands of cases) and
    what CI alone runs, and puts slow files first: pytest-xdist, with --no-loadscope-reorder, hands
    them out in this order, and one that starts last would run alone."""
    for item in items:
        if item.path.parent.name != "unit" or item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, item.path.parent.name == "unit"))


def pytest_collection_finish() -> None:
    """The modules of all tests stay to the end: searching them for garbage again and again would
    take a fifth of the time of tests with tables."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def entry() -> Entry:
    """A right catalogue entry of a CUDA kernel with some keys changed; None leaves a key out."""
    return lambda **changes: {
        key: value for key, value in (CUDA_ENTRY | changes).items() if value is not None
    }


@pytest.fixture
def write_catalogue(tmp_path: Path) -> WriteCatalogue:
    """Writes entries (a mapping, or YAML) beside their sources; the file's path."""

    def write(entries: Any, **sources: str) -> Path:
        for name, source in ({"mine": RIGHT_KERNEL} | sources).items():
            (tmp_path / f"{name}.cu").write_text(source)
        path = tmp_path / "catalogue.yaml"
        text = entries if isinstance(entries, str) else yaml.safe_dump(entries, sort_keys=False)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs scripts/NAME.py with arguments; an exception that leaves it fails the test."""
    monkeypatch.setattr(progress, "PATIENCE", 3600.0)  # on a busy machine much is slow

    def run(name: str, *arguments: object) -> Outcome:
        [script] = (ROOT / "scripts").rglob(f"{name}.py")
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        code = 0
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine looks as if it had no GPU."""
    missing = driver.NoDevice("there is no NVIDIA driver on this machine")
    monkeypatch.setattr(device, "count", Mock(side_effect=missing))


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Makes copies of the project without anything that was built or measured."""
    home = tmp_path_factory.mktemp("cache")
    environment = os.environ | {
        # The rules' `python` is the one that runs the tests.
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(home),
        cache.PLACE: str(cache.folder() or ""),  # each binary is compiled once
        "MATMUL_SWEEP_COMMIT": "0" * 40,  # there is no git in a copy
    }

    def copy() -> Project:
        folder = tmp_path_factory.mktemp("project") / "matmul-sweep"
        shutil.copytree(ROOT, folder, ignore=lambda at, names: LEFT_BEHIND & {*names})
        project = Project(folder, environment | {"PYTHONPATH": str(folder / "src")})
        project.configure()
        return project

    return copy


@pytest.fixture(scope="session")
def copy_of(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Copies a project with what it has built and measured, to be changed by one test."""

    def copy(project: Project) -> Project:
        folder = tmp_path_factory.mktemp("project") / "matmul-sweep"
        shutil.copytree(project.folder, folder)
        return Project(folder, project.environment | {"PYTHONPATH": str(folder / "src")})

    return copy
