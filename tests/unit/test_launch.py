"""A product on the device, through a driver that keeps what it is called with."""

import ctypes
from pathlib import Path
from typing import Any

import pytest

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.plans import TensorMap
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.launch import driver, products, tensor_maps
from matmul_sweep.launch.driver import DriverError, Launch, Module
from matmul_sweep.launch.products import NoRoom, Product
from matmul_sweep.operations.gemm import Gemm

HOPPER = Path(__file__).parent / "hopper" / "catalogue.yaml"
STREAM = 7
ADDRESS = 1 << 20  # of what is allocated


class Driver:
    """Answers `error`, and OUT_OF_MEMORY to what is larger than `room`."""

    def __init__(self) -> None:
        self.calls, self.taken, self.launched = list[str](), list[int](), list[Any]()
        self.error, self.room = 0, 1 << 30

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            return 0 if name == "cuGetErrorString" else self.error

        return call

    def cuMemAlloc_v2(self, address: Any, size: Any) -> int:
        if size.value > self.room:
            return driver.OUT_OF_MEMORY
        self.taken.append(size.value)
        address._obj.value = ADDRESS
        return 0

    def cuLaunchKernelEx(self, wanted: Any, _: Any, parameters: Any, extra: None) -> int:
        """Keeps the configuration, its attributes' bytes, and the pointers to the parameters."""
        asked = wanted._obj
        attributes = ctypes.cast(asked.attributes, ctypes.c_void_p).value
        shape = [*asked.grid, *asked.block, asked.shared_bytes, asked.stream]
        values = [ctypes.string_at(p, 4) for p in parameters]
        self.launched.append((shape, ctypes.string_at(attributes, 72 * asked.count), values))
        return self.error


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(driver, "library", lambda: made)
    return made


def test_a_launch_hands_over_its_shape_and_a_pointer_to_each_parameter(calls):
    function = Module(Path("mine.cubin")).function("mine")
    function.allow_shared(65536)
    arguments = [ctypes.c_uint64(1 << 20), ctypes.c_int(5)]
    launch = Launch(function, (2, 1, 1), (128, 1, 1), arguments, 65536)
    launch(STREAM)
    arguments[1].value = 6
    launch(STREAM)
    (shape, attributes, values), (_, _, later) = calls.launched
    assert shape == [2, 1, 1, 128, 1, 1, 65536, 7]
    assert attributes == b""
    assert values == [(1 << 20).to_bytes(4, "little"), (5).to_bytes(4, "little")]
    assert later == [values[0], (6).to_bytes(4, "little")]
    assert calls.calls == ["cuModuleLoad", "cuModuleGetFunction", "cuFuncSetAttribute"]


def test_the_driver_hears_that_a_launch_may_overlap(calls):
    """The bytes are those of cuda.h: an attribute of 72, its value 8 behind its beginning."""
    function = Module(Path("mine.cubin")).function("mine")
    Launch(function, (1, 1, 1), (1, 1, 1), [ctypes.c_int(5)], overlaps=True)(STREAM)
    [(_, attributes, _)] = calls.launched
    assert attributes == bytes([6, *[0] * 7, 1, *[0] * 63])
    assert ctypes.sizeof(driver.Configuration) == 56


def test_what_the_driver_refuses_is_its_error(calls):
    calls.error = 1
    with pytest.raises(DriverError, match="cuModuleLoad failed: unknown error"):
        Module(Path("mine.cubin"))


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> Variant:
    """A variant with a workspace and tensor maps, as if it was compiled."""
    monkeypatch.setattr(products, "compile_record", lambda variant, binaries: {})
    return load_catalogue(HOPPER).variant("split")


def test_what_a_product_prepares_is_kept(calls, split, monkeypatch):
    encoded: list[tuple[int, tuple[int, ...]]] = []  # addresses and extents of the maps

    def encode(wanted: TensorMap, address: int) -> bytes:
        encoded.append((address, wanted.extents))
        return bytes(128)

    monkeypatch.setattr(tensor_maps, "encoded", encode)
    product = Product(split, Path("sm_90"))
    pointers, parts = (256, 512, 768), (ADDRESS, ADDRESS + 16384)
    product(STREAM, Gemm(64, 64, 64), *pointers)
    assert encoded == [(parts[0], (2, 64, 64)), (parts[1], (2, 64, 64))]
    values = [int.from_bytes(value, "little") for value in calls.launched[-1][2]]
    assert values[:8] == [*pointers, 64, 64, 64, *parts]
    product(STREAM, Gemm(64, 64, 64), *pointers)
    assert len(encoded) == 2 and calls.taken == [32768]
    product(STREAM, Gemm(64, 64, 64), 256, 512, 1024)
    assert len(encoded) == 4 and calls.taken == [32768]
    product(STREAM, Gemm(64, 64, 32), *pointers)
    assert len(encoded) == 6 and calls.taken == [32768, 16384]
    assert calls.calls.count("cuMemFree_v2") == 1


def test_a_workspace_that_does_not_fit_is_a_line_with_its_bytes(calls, split):
    calls.room = 1000
    with pytest.raises(NoRoom, match="split at 64x64x64 needs a workspace of 32768 bytes"):
        Product(split, Path("sm_90"))(STREAM, Gemm(64, 64, 64), 256, 512, 768)
