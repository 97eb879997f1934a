"""What all fault tests share: projects to disturb."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from jobs import SAMPLING, SHAPES, c_kernels, counting
from project import Fresh, Project


@pytest.fixture(scope="session")
def new_project(fresh: Fresh) -> Callable[..., Project]:
    """Makes projects of some of jobs.py's kernels, which are measured at SHAPES."""

    def make(*names: str, **changes: Any) -> Project:
        project = counting(fresh())
        project.write_catalogue(added=yaml.safe_dump(c_kernels(project.path("kernels"), *names)))
        project.configure(SHAPES, (), **{"sampling": SAMPLING} | changes)
        return project

    return make
