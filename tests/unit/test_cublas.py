"""The cuBLAS handle: the math mode of its calls."""

from typing import Any

import pytest

from matmul_sweep.experiment.verify import cublas

Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What is called of cuBLAS, by name and arguments, in the place of the library."""
    made: Calls = []
    monkeypatch.setattr(cublas, "call", lambda *call: made.append(call))
    return made


def modes(calls: Calls) -> list[int]:
    return [arguments[-1] for name, *arguments in calls if name == "cublasSetMathMode"]


def test_arithmetic_is_full_again_behind_its_calls(calls: Calls) -> None:
    handle = cublas.Cublas(stream=0, workspace=0)
    calls.clear()
    with handle.arithmetic("tf32"):
        handle.gemm("float32", 1, 1, 1, 0, 0, 0)
    assert [name for name, *_ in calls] == [
        "cublasSetMathMode", "cublasSgemm_v2", "cublasSetMathMode"
    ]  # fmt: skip
    assert modes(calls) == [cublas.MATH_MODES[name] for name in ("tf32", "full")]


def test_arithmetic_is_full_again_behind_a_call_that_fails(calls: Calls) -> None:
    handle = cublas.Cublas(stream=0, workspace=0)
    with pytest.raises(cublas.CublasError), handle.arithmetic("tf32"):
        raise cublas.CublasError("cublasSgemm_v2: out of memory")
    assert modes(calls)[-1] == cublas.MATH_MODES["full"]


def test_the_version_is_written_as_nvidia_does(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = cublas.Cublas.__new__(cublas.Cublas)
    handle.handle = None
    monkeypatch.setattr(
        cublas, "call", lambda name, _, number: setattr(number._obj, "value", 130100)
    )
    monkeypatch.setattr(cublas, "library", lambda: (None, "/x/libcublas.so.13"))
    facts = handle.facts()
    assert (facts["cublas"], facts["cublas_file"]) == ("13.1.0", "libcublas.so.13")
