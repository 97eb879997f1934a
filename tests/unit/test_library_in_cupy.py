"""matmul_sweep of CuPy's arrays: a module that allocates as CuPy does stands for it."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from host_card import SINGLE, Card, laid, whole_numbers

import matmul_sweep

pytestmark = pytest.mark.filterwarnings("ignore:matmul_sweep copies")
STREAM = 5


class Array:
    """What the library asks of cupy.ndarray."""

    __module__ = "cupy"

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.dtype = array, array.dtype
        self.shape, self.strides = array.shape, array.strides
        self.data = SimpleNamespace(ptr=array.ctypes.data, device_id=0)

    def swapaxes(self, one: int, other: int) -> "Array":
        return Array(self.array.swapaxes(one, other))


@pytest.fixture
def card(card: Card, monkeypatch: pytest.MonkeyPatch) -> Card:
    """Of which CuPy has a pool: `pooled` are the pieces that it gave."""
    pooled = list[np.ndarray]()

    def alloc(size: int) -> Any:
        pooled.append(laid(np.full((1, size), 0xFF, np.uint8), "rows"))
        return SimpleNamespace(ptr=pooled[-1].ctypes.data)

    cuda = SimpleNamespace(
        Device=lambda _: nullcontext(),
        alloc=alloc,
        get_current_stream=lambda _: SimpleNamespace(ptr=STREAM),
    )
    empty = lambda shape, dtype: Array(laid(np.empty(shape, dtype), "rows"))  # noqa: E731
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, empty=empty))
    card.pooled = pooled
    return card


@pytest.mark.parametrize("capturing", [False, True])
def test_memory_for_the_time_of_a_call_is_the_pools_or_the_graphs(card, monkeypatch, capturing):
    """What the pool has back it gives to the next array, into which a graph that is launched later
    would write. Memory that is taken while a stream is captured is the graph's."""

    def status(stream: Any, found: Any) -> int:
        found._obj.value = capturing and stream.value == STREAM
        return 0

    taken = list[int]()

    def take(address: Any, size: Any, stream: Any) -> int:
        taken.append(stream.value)
        return card.cuMemAlloc_v2(address, size)

    monkeypatch.setattr(card, "cuStreamIsCapturing", status, raising=False)
    monkeypatch.setattr(card, "cuMemAllocAsync", take, raising=False)
    a, b = whole_numbers(8, 8), whole_numbers(8, 8, seed=1)
    made = matmul_sweep.gemm(Array(laid(a, "gaps")), Array(laid(b, "rows")))
    np.testing.assert_array_equal(made.array, a @ b)
    assert (len(card.pooled), taken) == ((0, [STREAM]) if capturing else (1, []))
    assert card.stream == STREAM


def test_a_product_without_copies_and_workspace_asks_for_no_memory(card):
    a, b = (Array(laid(whole_numbers(8, 8, seed=seed), "columns")) for seed in (0, 1))
    made = matmul_sweep.gemm(a, b)
    np.testing.assert_array_equal(made.array, a.array @ b.array)
    assert made.array.strides == (4, 32) and made.dtype == SINGLE
    assert card.pooled == []
