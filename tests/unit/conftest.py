"""Fixtures that spare seconds: the catalogue, and CUDA on the CPU."""

from collections.abc import Callable
from pathlib import Path

import pytest
from host_card import card  # noqa: F401
from made_up_data import made_up
from support import Entry, WriteCatalogue, the_catalogue

from matmul_sweep.catalogue.entries import Catalogue, Variant
from matmul_sweep.classroom import verdict
from matmul_sweep.classroom.cuda_on_cpu import emulation, watched
from matmul_sweep.dispatch import catalogue
from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.process.project import DEFAULT_CATALOGUE


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The project's catalogue is read once, whatever scripts are run."""
    load = catalogue.load_catalogue

    def loaded(path: Path = DEFAULT_CATALOGUE) -> Catalogue:
        return the_catalogue() if path == DEFAULT_CATALOGUE else load(path)

    monkeypatch.setattr(catalogue, "load_catalogue", loaded)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A data set of all operations, on a GPU, without holes."""
    return made_up(tmp_path_factory.mktemp("results"), checked=True)


@pytest.fixture
def mine(entry: Entry, write_catalogue: WriteCatalogue) -> Callable[..., Variant]:
    """Reads a catalogue of one entry with some keys changed; its first variant."""
    return lambda **changes: catalogue.load_catalogue(
        write_catalogue({"mine": entry(**changes)})
    ).variant("mine")


@pytest.fixture
def hand_in(tmp_path: Path) -> Path:
    return tmp_path / "hand_in.cu"


@pytest.fixture
def unoptimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """For kernels that take longer to compile than to run."""
    monkeypatch.setattr(emulation, "FLAGS", ["-O0", *emulation.FLAGS[1:]])
    flags = ["-O0" if flag == "-O1" else flag for flag in emulation.WATCH_FLAGS]
    monkeypatch.setattr(emulation, "WATCH_FLAGS", flags)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless launch, and what is done at many shapes, is given up after a second or so."""
    monkeypatch.setattr(verdict, "SHRINK_SECONDS", 0.5)
    monkeypatch.setattr(verdict, "RUN_SECONDS", 8.0)
    launch = watched.launch
    monkeypatch.setattr(
        watched, "launch", lambda *given, **more: launch(*given[:-1], given[-1] - 2, **more)
    )
