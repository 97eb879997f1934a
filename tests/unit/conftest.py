"""Fixtures of the tests of CUDA on the CPU."""

import pytest

from matmul.cpu import emulation
from matmul.cpu.emulation import WATCH


@pytest.fixture
def unoptimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """For kernels that take longer to compile than to run."""
    monkeypatch.setattr(emulation, "FLAGS", ["-O0", *emulation.FLAGS[1:]])
    compiling, linking = emulation.SANITIZERS[WATCH]
    flags = ["-O0" if flag == "-O1" else flag for flag in compiling]
    monkeypatch.setitem(emulation.SANITIZERS, WATCH, (flags, linking))
