"""What all fault tests share: a record of each try's outcome, and jobs to disturb."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import reliability
import yaml
from jobs import SAMPLING, SHAPES, Job, Tried, build_kernels, c_kernels, counting
from project import Fresh, Project

OUTCOMES = pytest.StashKey[dict[str, list[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-faults", action="store_true",
        help="write docs/reliability.md's table from what a complete run of tests/faults saw",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OUTCOMES] = {}


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode, config: pytest.Config
) -> None:
    if not config.getoption("--write-faults"):
        return
    outcomes = config.stash[OUTCOMES]
    tries = {fault: len(seen) for fault, seen in outcomes.items()}
    if exitstatus == pytest.ExitCode.OK and tries == reliability.declared():
        reliability.write(outcomes)
        terminalreporter.write_line(f"written: the table of faults in {reliability.PAGE.name}")
    else:
        terminalreporter.write_line("the run was not complete: the table of faults stays")


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Iterator[Tried]:
    """Notes what came of a try of the test's fault, in words that are the same on any machine."""
    mark = request.node.get_closest_marker("fault")
    outcomes = request.config.stash[OUTCOMES].setdefault(mark.args[0], [])
    failed = request.session.testsfailed
    yield outcomes.append
    if outcomes and request.session.testsfailed == failed:
        assert len(outcomes) == mark.args[1], "the mark `fault` counts other tries than were made"


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C kernels of jobs.py, compiled."""
    return build_kernels(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="session")
def new_job(catalogue: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Job]:
    """Makes jobs, each with its own folder."""
    return lambda **changes: Job(catalogue, tmp_path_factory.mktemp("job"), **changes)


@pytest.fixture(scope="session")
def new_project(fresh: Fresh) -> Callable[..., Project]:
    """Makes projects of some of jobs.py's kernels, which are measured at SHAPES."""

    def make(*names: str, **changes: Any) -> Project:
        project = counting(fresh())
        entries = c_kernels(project.path("kernels"), *names)
        project.write_catalogue(added=yaml.safe_dump(entries))
        project.configure(SHAPES, (), sampling=SAMPLING, **changes)
        return project

    return make
