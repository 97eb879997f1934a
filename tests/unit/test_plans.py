"""What a product takes on the device: launches, a workspace and tensor maps, for each shape."""

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import Entry, WriteCatalogue, the_catalogue

from matmul_sweep.build.binaries import compile_variant
from matmul_sweep.catalogue.architectures import has_instructions, target
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.plans import Launch, TensorMap
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.launch import direct, products, tensor_maps
from matmul_sweep.launch.products import NoRoom, Preparation, parameter_format
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gemm_bf16 import GemmBf16

HOPPER = load_catalogue(Path(__file__).parent / "hopper" / "catalogue.yaml")
MAP = {"of": "A", "extents": ["m", "k"], "box": [64, 32]}
FOURS = {"n": 4, "k": 4}


def mine(entry: Entry, write_catalogue: WriteCatalogue, **keys: Any) -> Variant:
    return load_catalogue(write_catalogue({"mine": entry(**keys)})).variant("mine")


def test_a_simple_entry_is_one_launch(entry: Entry, write_catalogue: WriteCatalogue) -> None:
    plan = mine(entry, write_catalogue, dynamic_shared_bytes=64).plan(Gemm(17, 40, 5))
    assert plan.launches == (Launch((3, 2, 1), (16, 16, 1), 64),)
    assert plan.workspace == plan.maps == ()


def test_launches_workspace_and_maps_follow_the_shape() -> None:
    variant = HOPPER.variant("split")
    plan = variant.plan(Gemm(37, 41, 70))
    assert variant.kernel.functions == ("split_a", "split_b", "split", "negate")
    assert [launch.grid for launch in plan.launches] == [
        (11, 1, 1), (12, 1, 1), (1, 1, 1), (6, 1, 1)
    ]  # fmt: skip
    assert [launch.shared_bytes for launch in plan.launches] == [0, 0, 32768, 0]
    assert plan.workspace == (2 * 2 * 37 * 72, 2 * 2 * 70 * 48)
    in_a, in_b = plan.maps
    assert in_a == TensorMap(3, "float16", (2, 37, 70), (2 * 37 * 72, 2 * 72), (1, 64, 64), 128)
    assert in_b.pointer == 4 and in_b.strides == (2 * 70 * 48, 2 * 48)
    assert variant.workspace_bytes(Gemm(37, 41, 70)) == sum(plan.workspace)


def test_strides_are_those_of_a_dense_matrix_by_default() -> None:
    in_a, in_b, out = HOPPER.variant("exchange").plan(GemmBf16(5, 16, 24)).maps
    assert (in_a.pointer, in_b.pointer, out.pointer) == (0, 1, 2)
    assert (in_a.strides, in_b.strides, out.strides) == ((48,), (32,), (32,))


@pytest.mark.parametrize(
    ("keys", "shape", "grid"),
    [
        ({"cluster": 2}, Gemm(17, 40, 1), (4, 2, 1)),
        ({"cluster": 2}, Gemm(17, 33, 1), (4, 2, 1)),
        ({"cluster": 4, "blocks": "MULTIPROCESSORS"}, Gemm(1, 1, 1), (132, 1, 1)),
        ({"cluster": 8, "blocks": "MULTIPROCESSORS"}, Gemm(1, 1, 1), (128, 1, 1)),
        ({"cluster": 2, "blocks": 1}, Gemm(1, 1, 1), (2, 1, 1)),
    ],
    ids=str,
)
def test_a_grid_has_whole_clusters(
    entry: Entry, write_catalogue: WriteCatalogue, keys: dict[str, Any], shape: Gemm,
    grid: tuple[int, int, int],
) -> None:  # fmt: skip
    launch = mine(entry, write_catalogue, **keys).plan(shape, "sm_90").launches[0]
    assert launch.grid == grid and launch.cluster == keys["cluster"]


def test_dimensions_may_have_to_be_multiples(entry: Entry, write_catalogue: WriteCatalogue) -> None:
    variant = mine(entry, write_catalogue, accepts=FOURS, tensor_maps={"a": MAP})
    assert variant.refusal(Gemm(3, 8, 12)) is None
    assert variant.refusal(Gemm(4, 8, 9)) == "mine takes multiples of 4 for k only, not 4x8x9"
    assert variant.fitted(Gemm(3, 5, 9)) == Gemm(3, 8, 12)


@pytest.mark.parametrize(
    ("arch", "since", "runs", "compiled_for"),
    [
        ("sm_90", "9.0", True, "sm_90"),
        ("sm_90", "9.0a", True, "sm_90a"),
        ("sm_90a", "9.0a", True, "sm_90a"),
        ("sm_90a", "8.0", True, "sm_90a"),
        ("sm_80", "9.0a", False, "sm_80"),
        ("sm_100", "9.0a", False, "sm_100"),
        ("sm_100", "9.0", True, "sm_100"),
        ("sm_80", "9.0", False, "sm_80"),
    ],
)
def test_instructions_of_one_architecture_are_compiled_for_it_alone(
    arch: str, since: str, runs: bool, compiled_for: str
) -> None:
    assert has_instructions(arch, since) == runs
    assert target(arch, since) == compiled_for


def test_a_card_without_the_instructions_is_a_row_that_says_so(tmp_path: Path) -> None:
    record = compile_variant(HOPPER.variant("exchange"), "sm_80", tmp_path / "cubin")
    assert record["status"] == "failed"
    assert "needs compute capability 9.0a, not sm_80" in str(record["reason"])


def test_a_function_s_parameters_are_a_letter_each() -> None:
    assert parameter_format(HOPPER["split"]) == "PPPiiiPPMM"
    assert parameter_format(the_catalogue()["naive"]) == "PPPiii"


class Driver:
    """A driver that keeps what it is called with, and answers `error`."""

    class LaunchError(Exception):
        pass

    def __init__(self) -> None:
        self.calls, self.error = list[tuple[str, list[Any]]](), 0

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, list(arguments)))
            return 0 if name == "cuGetErrorString" else self.error

        return call


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(direct, "driver_library", lambda: made)
    return made


def launched(driver: Any, *arguments: Any) -> None:
    function = direct.Module(driver, Path("mine.cubin")).get_function("mine").prepare("PiM")
    function.set_attribute(8, 65536)
    stream = SimpleNamespace(handle=7)
    function.prepared_async_call((2, 1, 1), (128, 1, 1), stream, *arguments, shared_size=65536)


def test_a_kernel_with_tensor_maps_gets_a_pointer_to_each_parameter(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []

    def launch(wanted: Any, function: Any, parameters: Any, extra: None) -> int:
        asked = wanted._obj
        assert [*asked.grid, *asked.block, asked.shared_bytes] == [2, 1, 1, 128, 1, 1, 65536]
        assert asked.stream == 7 and asked.count == 0
        seen.extend(ctypes.string_at(p, n) for p, n in zip(parameters, (8, 4, 128), strict=True))
        return 0

    monkeypatch.setattr(driver, "cuLaunchKernelEx", launch, raising=False)
    launched(driver, 1 << 40, 5, b"a" * 128)
    assert seen == [(1 << 40).to_bytes(8, "little"), (5).to_bytes(4, "little"), b"a" * 128]
    assert [name for name, _ in driver.calls] == [
        "cuModuleLoad", "cuModuleGetFunction", "cuFuncSetAttribute"
    ]  # fmt: skip


def test_the_driver_hears_that_a_launch_may_overlap(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes are those of cuda.h: an attribute of 72, its value 8 behind its beginning."""
    seen: list[bytes] = []

    def launch(wanted: Any, *_: Any) -> int:
        attributes = ctypes.cast(wanted._obj.attributes, ctypes.c_void_p).value
        seen.append(ctypes.string_at(attributes, 72 * wanted._obj.count))
        return 0

    monkeypatch.setattr(driver, "cuLaunchKernelEx", launch, raising=False)
    function = direct.Module(driver, Path("mine.cubin")).get_function("mine").prepare("i")
    function.overlap()
    function.prepared_async_call((1, 1, 1), (1, 1, 1), SimpleNamespace(handle=7), 5)
    (found,) = seen
    assert found == bytes([6, *[0] * 7, 1, *[0] * 63])
    assert ctypes.sizeof(direct.Configuration) == 56


def test_what_the_driver_refuses_is_its_error(driver: Driver) -> None:
    driver.error = 1
    with pytest.raises(Driver.LaunchError, match="cuModuleLoad failed: unknown error"):
        launched(driver, 1, 2, b"a" * 128)


class Memory:
    """A driver with so many bytes."""

    class MemoryError(Exception):
        pass

    def __init__(self, room: int) -> None:
        self.room, self.taken = room, list[int]()

    def mem_alloc(self, size: int) -> int:
        if size > self.room:
            raise self.MemoryError
        self.taken.append(size)
        return 1 << 20


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[int, ...]]]:
    """The addresses and extents of the maps that are made."""
    made: list[tuple[int, tuple[int, ...]]] = []

    def encode(wanted: TensorMap, address: int) -> bytes:
        made.append((address, wanted.extents))
        return bytes(128)

    monkeypatch.setattr(tensor_maps, "encoded", encode)
    return made


def prepared(room: int) -> tuple[Preparation, Memory]:
    memory = Memory(room)
    tools: Any = SimpleNamespace(drv=memory, binaries=Path("sm_90"))
    return Preparation(HOPPER.variant("split"), tools), memory


def test_what_a_caller_prepares_is_kept(encoded: list[tuple[int, tuple[int, ...]]]) -> None:
    prepare, memory = prepared(1 << 30)
    pointers = (256, 512, 768)
    _, parts, _ = prepare(Gemm(64, 64, 64), pointers)
    assert parts == (1 << 20, (1 << 20) + 16384)
    assert encoded == [(parts[0], (2, 64, 64)), (parts[1], (2, 64, 64))]
    prepare(Gemm(64, 64, 64), pointers)
    assert len(encoded) == 2 and memory.taken == [32768]
    prepare(Gemm(64, 64, 64), (256, 512, 1024))
    assert len(encoded) == 4 and memory.taken == [32768]
    prepare(Gemm(64, 64, 32), pointers)
    assert len(encoded) == 6 and memory.taken == [32768, 16384]


def test_a_workspace_that_does_not_fit_is_a_line_with_its_bytes() -> None:
    prepare, _ = prepared(1000)
    with pytest.raises(NoRoom, match="split at 64x64x64 needs a workspace of 32768 bytes"):
        prepare(Gemm(64, 64, 64), (256, 512, 768))


def test_the_launches_of_a_product_run_in_their_order(
    monkeypatch: pytest.MonkeyPatch, encoded: list[tuple[int, tuple[int, ...]]]
) -> None:
    variant, calls = HOPPER.variant("split"), list[tuple[Any, ...]]()

    class Function:
        def __init__(self, name: str) -> None:
            self.name = name

        def prepared_async_call(self, *arguments: Any, shared_size: int) -> None:
            calls.append((self.name, shared_size, *arguments))

    monkeypatch.setattr(
        products, "load", lambda variant, tools: [*map(Function, variant.kernel.functions)]
    )
    tools: Any = SimpleNamespace(drv=Memory(1 << 30), binaries=Path("sm_90"), stream="stream")
    products.gpu_product(variant, tools)(Gemm(64, 64, 64), 256, 512, 768)
    assert [call[:4] for call in calls] == [
        ("split_a", 0, (16, 1, 1), (256, 1, 1)),
        ("split_b", 0, (16, 1, 1), (256, 1, 1)),
        ("split", 32768, (1, 1, 1), (128, 1, 1)),
        ("negate", 0, (16, 1, 1), (256, 1, 1)),
    ]
    base = 1 << 20
    same = ("stream", 256, 512, 768, 64, 64, 64, base, base + 16384, bytes(128), bytes(128))
    assert all(call[4:] == same for call in calls)
