"""What all fault tests share: jobs to disturb."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jobs import SAMPLING, SHAPES, Job, build_kernels, c_kernels, counting
from project import Fresh, Project


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
