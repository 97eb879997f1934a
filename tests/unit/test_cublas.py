"""The cuBLAS handle: the math mode of its calls."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from matmul_sweep.experiment.verify import cublas


@pytest.mark.parametrize("fails", [False, True])
def test_arithmetic_is_full_again_behind_its_calls_or_a_failure(monkeypatch, fails):
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(cublas, "call", lambda *call: calls.append(call))
    handle = cublas.Cublas(stream=0, workspace=0)
    calls.clear()
    with contextlib.suppress(cublas.CublasError), handle.arithmetic("tf32"):
        handle.gemm("float32", 1, 1, 1, 0, 0, 0)
        if fails:
            raise cublas.CublasError("cublasSgemm_v2: out of memory")
    names, modes = [name for name, *_ in calls], [calls[0][-1], calls[-1][-1]]
    assert names == ["cublasSetMathMode", "cublasSgemm_v2", "cublasSetMathMode"]
    assert modes == [cublas.MATH_MODES[name] for name in ("tf32", "full")]


def test_the_version_is_written_as_nvidia_does(monkeypatch):
    parts = [13, 1, 0]  # by libraryPropertyType
    lib = SimpleNamespace(
        cublasGetProperty=lambda which, to: setattr(to._obj, "value", parts[which])
    )
    monkeypatch.setattr(cublas, "library", lambda: (lib, "/x/libcublas.so.13"))
    monkeypatch.setattr(cublas, "version", cublas.version.__wrapped__)
    facts = cublas.Cublas.__new__(cublas.Cublas).facts()
    assert (facts["cublas"], facts["cublas_file"]) == ("13.1.0", "libcublas.so.13")
