"""matmul_sweep of JAX's arrays: objects that answer as JAX's do stand for them."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from host_card import SINGLE, Card, laid, whole_numbers

import matmul_sweep

GPU = SimpleNamespace(platform="gpu", local_hardware_id=0)
CPU = SimpleNamespace(platform="cpu", local_hardware_id=0)


class Array:
    """What the library asks of jax.Array, which is an array's class and that of jax.jit's too."""

    __module__ = "jaxlib"

    def __init__(self, array: np.ndarray, *devices: Any) -> None:
        self.array, self.own, self.waits = array, devices or (GPU,), 0
        self.shape, self.dtype = array.shape, array.dtype

    def devices(self) -> tuple[Any, ...]:
        return self.own

    def block_until_ready(self) -> "Array":
        self.waits += 1
        return self

    def unsafe_buffer_pointer(self) -> int:
        return self.array.ctypes.data


class Tracer(Array):
    pass


@pytest.fixture
def card(card: Card, monkeypatch: pytest.MonkeyPatch) -> Card:
    numpy = SimpleNamespace(
        empty=lambda shape, dtype, device: Array(laid(np.zeros(shape, dtype), "rows"), device)
    )
    core = SimpleNamespace(Tracer=Tracer)
    jax = SimpleNamespace(core=core, numpy=numpy, local_devices=lambda: [GPU])
    monkeypatch.setitem(sys.modules, "jax", jax)
    return card


def test_a_product_waits_for_its_inputs_and_for_c(card, monkeypatch):
    finished = list[int]()
    wait = lambda stream: finished.append(len(card.launched)) or 0  # noqa: E731
    monkeypatch.setattr(card, "cuStreamSynchronize", wait, raising=False)
    a, b = (Array(laid(whole_numbers(8, 8, seed=seed), "rows")) for seed in (0, 1))
    np.testing.assert_array_equal(matmul_sweep.gemm(a, b).array, a.array @ b.array)
    assert (a.waits, b.waits, finished) == (1, 1, [len(card.launched)])


ZEROS = np.zeros((4, 4), SINGLE)
MISTAKES = [
    ((Array(ZEROS, CPU), Array(ZEROS, CPU)), ValueError, r"not ones on the CPU$"),
    ((Array(ZEROS, GPU, GPU), Array(ZEROS)), ValueError, "an array on 2 devices"),
    ((Tracer(ZEROS), Array(ZEROS)), TypeError, r"within jax\.jit"),
    ((Array(ZEROS), Array(ZEROS), Array(ZEROS)), TypeError, "cannot be written to"),
]


@pytest.mark.parametrize(("arrays", "error", "words"), MISTAKES)
def test_a_mistake_is_a_sentence(card, arrays, error, words):
    with pytest.raises(error, match=words):
        matmul_sweep.gemm(*arrays)
    assert card.launched == []
