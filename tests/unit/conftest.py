"""Fixtures of the tests of CUDA on the CPU."""

import pytest

from matmul.cpu import emulation, watched
from matmul.cpu.emulation import WATCH
from matmul.trial import verdict


@pytest.fixture
def unoptimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """For kernels that take longer to compile than to run."""
    monkeypatch.setattr(emulation, "FLAGS", ["-O0", *emulation.FLAGS[1:]])
    compiling, linking = emulation.SANITIZERS[WATCH]
    flags = ["-O0" if flag == "-O1" else flag for flag in compiling]
    monkeypatch.setitem(emulation.SANITIZERS, WATCH, (flags, linking))


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless launch, and what is done at many shapes, is given up after a second or so."""
    monkeypatch.setattr(verdict, "SHRINK_SECONDS", 0.5)
    monkeypatch.setattr(verdict, "RUN_SECONDS", 3.0)
    launch = watched.launch
    monkeypatch.setattr(watched, "launch", lambda *given: launch(*given[:-1], 1.0))
