"""A driver whose card is the host: its memory is the host's, and its kernels are NumPy's."""

import ctypes
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support import the_catalogue

from matmul_sweep.api import cards, kinds, requests
from matmul_sweep.api.products import known
from matmul_sweep.launch import combine, device, driver, products, tensor_maps

CONTEXT = 77
SINGLE = np.float32
NAN = np.nan
TURNED = {"columns": (-1, -2), "interleaved": (0, 1)}  # axes
AROUND = 99  # in memory that is no array's


def put(place: Any, value: int) -> int:
    """Write what a function of the driver was asked for; its status."""
    place._obj.value = value
    return 0


class Card:
    """A driver that knows two cards, sm_90, each by its context. `allocated`: how often."""

    def __init__(self) -> None:
        self.compiled, self.launched, self.slow = list[str](), list[str](), 0.0
        self.major, self.allocated = 9, 0
        self.functions: list[tuple[str, str]] = []
        self.memory: dict[int, Any] = {}
        self.context = CONTEXT

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        return put(device, ordinal)

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        return put(context, CONTEXT + device.value)

    def cuCtxGetCurrent(self, context: Any) -> int:
        return put(context, self.context)

    def cuDeviceGetAttribute(self, value: Any, attribute: int, _: object) -> int:
        return put(value, self.major * (attribute == device.ATTRIBUTES["COMPUTE_CAPABILITY_MAJOR"]))

    def cuModuleLoad(self, handle: Any, path: bytes) -> int:
        self.functions.append((path.decode().rsplit("/")[-1].removesuffix(".cubin"), ""))
        return put(handle, len(self.functions))

    def cuModuleGetFunction(self, handle: Any, module: Any, name: bytes) -> int:
        self.functions.append((self.functions[module.value - 1][0], name.decode()))
        return put(handle, len(self.functions))

    def cuMemAlloc_v2(self, address: Any, size: Any, *_: object) -> int:
        room = np.full(size.value + 1024, 0xFF, np.uint8)  # NaN in every number type
        address._obj.value = -(-room.ctypes.data // 1024) * 1024
        self.memory[address._obj.value] = room
        self.allocated += 1
        return 0

    cuMemAllocAsync = cuMemAlloc_v2

    def cuMemFree_v2(self, address: Any, *_: object) -> int:
        self.memory.pop(address.value, None)  # that of a test before may be left
        return 0

    cuMemFreeAsync = cuMemFree_v2

    def cuMemcpyHtoD_v2(self, to: Any, source: Any, size: Any) -> int:
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    cuMemcpyDtoH_v2 = cuMemcpyHtoD_v2

    def cuLaunchKernelEx(self, wanted: Any, handle: Any, parameters: Any, extra: None) -> int:
        source, function = self.functions[handle.value - 1]
        self.launched.append(function)
        self.stream = wanted._obj.stream
        time.sleep(self.slow)

        def read(first: int, kind: Any, count: int) -> list[Any]:
            found = [kind.from_address(parameters[first + i]) for i in range(count)]
            return [getattr(each, "value", each) for each in found]

        if source == "combine":
            dtype, extent = function.removeprefix("combine_"), read(2, ctypes.c_int, 2)
            places = zip(read(0, ctypes.c_uint64, 2), read(4, combine.Strides, 2), strict=True)
            t, c = (matrix(at, dtype, extent, [s.down, s.right]) for at, s in places)
            alpha, beta = read(6, ctypes.c_double, 2)
            c[...] = (alpha * t if alpha else 0) + (beta * c if beta else 0)
            return 0
        kernel = the_catalogue().buildable[source.removesuffix("-adds")].kernel
        if function != kernel.functions[-1]:
            return 0
        matrices, dimensions = kernel.product.signature
        shape = kernel.product.shape(*read(matrices, ctypes.c_int, dimensions))
        addresses = read(0, ctypes.c_uint64, matrices)
        assert all(address % kinds.ALIGNMENT == 0 for address in addresses)
        lie = zip(addresses, kernel.product.dtypes, (*shape.inputs, shape.output), strict=True)
        *inputs, c = (matrix(at, dtype.name, extent, (extent[1], 1)) for at, dtype, extent in lie)
        left, right = kernel.product.factors(*inputs)
        made = left.astype(np.float64) @ right.astype(np.float64)
        if kernel.epilogue:
            alpha, beta = read(matrices + dimensions, ctypes.c_float, 2)
            [at] = read(matrices + dimensions + 2, ctypes.c_uint64, 1)
            assert source.endswith("-adds") or (alpha, beta) == (1, 0)
            d = matrix(at, c.dtype.name, c.shape, (c.shape[1], 1)) if beta else np.zeros(())
            made = alpha * made + beta * d.astype(np.float64)
        c[...] = made
        return 0


def matrix(address: int, dtype: str, extent: Any, strides: Any) -> np.ndarray:
    """The matrix at an address; strides are in elements."""
    memory = (ctypes.c_ubyte * (1 << 24)).from_address(address)
    return np.ndarray(extent, dtype, memory, 0, [np.dtype(dtype).itemsize * s for s in strides])


class Given:
    """An array on the card."""

    def __init__(self, array: np.ndarray, stream: int | None = None, device: int = 0) -> None:
        self.array, self.shape, self.stream, self.device = array, array.shape, stream, device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # The type itself, because NumPy's text for bfloat16 is that for any two bytes.
        return self.array.__array_interface__ | {"stream": self.stream, "typestr": self.array.dtype}

    @property
    def T(self) -> "Given":
        return self.swapaxes(-1, -2)

    def swapaxes(self, one: int, other: int) -> "Given":
        return Given(self.array.swapaxes(one, other))


class Views(kinds.Kind):
    """The kind of Given, like PyTorch's and CuPy's."""

    has_views = allocates = True

    def seen(self, array: Given) -> kinds.Look:
        dtype, _, *lies = super().seen(array)
        return dtype, array.device, *lies

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Given:
        return Given(laid(np.full(shape, NAN, dtype), "rows"), device=device)


def whole_numbers(*shape: int, dtype: Any = SINGLE, seed: int = 0) -> np.ndarray:
    """Whose sums are exact in every order."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def laid(array: np.ndarray, how: str) -> np.ndarray:
    """The same numbers, in memory of their own: row-major, column-major, with the rows of a stack's
    matrices in turn, with gaps between rows, or from an odd address on."""
    if how in TURNED:
        return laid(array.swapaxes(*TURNED[how]), "rows").swapaxes(*TURNED[how])
    *before, columns = array.shape
    room = (*before, columns + 4 * (how == "gaps"))
    memory = np.full(math.prod(room) + 64, AROUND, array.dtype)
    start = -memory.ctypes.data // memory.itemsize % 16 + (how == "odd")
    found = memory[start : start + math.prod(room)].reshape(room)[..., :columns]
    found[...] = array
    return found


def touched(array: np.ndarray) -> int:
    """How many elements were written of the memory of an array that was laid."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return np.count_nonzero(array != AROUND)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Card]:
    """The card, as long as a test takes."""
    made = Card()
    monkeypatch.setattr(driver, "library", lambda: made)
    monkeypatch.setattr(tensor_maps, "library", lambda: made)
    monkeypatch.setattr(device, "count", lambda: 2)
    monkeypatch.setattr(cards, "compile_into", lambda own, *_: made.compiled.append(own.name))
    monkeypatch.setattr(combine, "build_cubin", lambda *_: None)
    monkeypatch.setattr(products, "compile_record", lambda *_: {})
    monkeypatch.setitem(kinds.KINDS, __name__, Views)
    for kept in (cards.card, kinds.kind_of, kinds.one, requests.tell_of_copies):
        kept.cache_clear()  # type: ignore[attr-defined]
    known.requests.clear()
    yield made
    for kept in (cards.card, kinds.kind_of, kinds.one):
        kept.cache_clear()  # type: ignore[attr-defined]
    known.requests.clear()
