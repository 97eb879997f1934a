"""Fixtures of the tests of CUDA on the CPU."""

import pytest

from matmul.cpu import emulation


@pytest.fixture
def unoptimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """For kernels that take longer to compile than to run."""
    monkeypatch.setattr(emulation, "FLAGS", ["-O0", *emulation.FLAGS[1:]])
