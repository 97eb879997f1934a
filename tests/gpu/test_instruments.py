"""The instruments on the device agree with their definitions on the host."""

import fcntl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from matmul import fills, instruments, toolchain
from matmul.cublas import CublasError
from matmul.device import Gpu, architecture
from matmul.instruments import Instruments, Reference
from matmul.shapes import Shape
from matmul.timing import HeldStream
from matmul.verification import error_share

pytestmark = pytest.mark.gpu

SEED = 2026
SHAPE = Shape(301, 203, 105)


def host_copy(tools: Instruments, pointer: Any, count: int, dtype: Any = np.float32) -> np.ndarray:
    """`count` elements from a device pointer on, once the stream has finished."""
    tools.stream.synchronize()
    found = np.empty(count, dtype)
    tools.drv.memcpy_dtoh(found, int(pointer))
    return found


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("fill", fills.FILLS)
def test_device_fill_is_the_hosts_bit_for_bit(tools: Instruments, fill: str, which: int) -> None:
    """More elements than the fill has threads, so that each thread takes several."""
    expected = fills.matrix(fill, SEED, which, 811, 701)
    threads = instruments.BLOCKS[0] * instruments.THREADS[0]
    assert expected.size > 2 * threads
    array = tools.filled(fill, SEED, which, expected.size)
    found = host_copy(tools, array, expected.size).reshape(expected.shape)
    assert (found.view(np.uint32) == expected.view(np.uint32)).all()


@pytest.mark.parametrize("fill", ["uniform", "index"])
def test_device_fill_counts_beyond_32_bits(gpu: Gpu, tools: Instruments, fill: str) -> None:
    count = 2**32 + 1000
    free, _ = gpu.drv.mem_get_info()
    if free < 4 * count * 1.1:
        pytest.skip("a matrix of 2³² elements takes 17 GB, which are not free")
    array = tools.filled(fill, SEED, 0, count)
    index = np.arange(2**32 - 1000, count, dtype=np.uint64)
    found = host_copy(tools, int(array) + 4 * int(index[0]), index.size)
    assert (found == fills.values(fill, SEED, 0, index)).all()


@dataclass
class Product:
    """A, B and cuBLAS's C on the device, and all three on the host."""

    tools: Instruments
    on_device: tuple[Any, Any, Any]
    on_host: tuple[np.ndarray, np.ndarray, np.ndarray]

    def errors(self) -> list[float]:
        a, b, c = self.on_device
        return Reference(self.tools, SHAPE, a, b).errors([c])

    def plant(self, row: int, column: int, value: float) -> None:
        """Overwrite one element of C, on the device and on the host."""
        self.on_host[2][row, column] = value
        pointer = int(self.on_device[2]) + 4 * (row * SHAPE.n + column)
        self.tools.drv.memcpy_htod(pointer, np.array([value], np.float32))


@pytest.fixture
def product(tools: Instruments) -> Product:
    m, n, k = SHAPE.m, SHAPE.n, SHAPE.k
    a, b = (tools.filled("uniform", SEED, which, SHAPE.elements[which]) for which in (0, 1))
    c = tools.drv.mem_alloc(4 * m * n)
    tools.poison(c, m * n)
    tools.cublas.gemm("float32", m, n, k, int(a), int(b), int(c))
    on_host = (
        fills.matrix("uniform", SEED, 0, m, k),
        fills.matrix("uniform", SEED, 1, k, n),
        host_copy(tools, c, m * n).reshape(m, n),
    )
    return Product(tools, (a, b, c), on_host)


@pytest.fixture(params=[None, 8], ids=["one panel", "panels of 8 rows"])
def panels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        size = 12 * (SHAPE.k + SHAPE.n) * request.param
        monkeypatch.setattr(instruments, "PANEL_BYTES", size)
        assert instruments.panel_rows(SHAPE) == request.param
        assert SHAPE.m % request.param  # the last panel is a shorter one
    else:
        assert instruments.panel_rows(SHAPE) == SHAPE.m


@pytest.mark.usefixtures("panels")
def test_cublas_passes_with_the_share_that_the_host_computes(product: Product) -> None:
    a, b, c = product.on_host
    [found] = product.errors()
    assert 0 < found <= 1
    assert found == pytest.approx(error_share(c, a, b), rel=1e-3)


@pytest.mark.usefixtures("panels")
@pytest.mark.parametrize("place", [(0, 0), (7, 202), (8, 0), (150, 101), (300, 0), (300, 202)])
def test_one_wrong_element_is_flagged(product: Product, place: tuple[int, int]) -> None:
    a, b, c = product.on_host
    product.plant(*place, float(c[place]) + 1e-3)
    [found] = product.errors()
    assert found > 1
    assert found == pytest.approx(error_share(c, a, b), rel=1e-3)


@pytest.mark.usefixtures("panels")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (300, 202)])
def test_one_element_that_is_not_finite_is_flagged(
    product: Product, bad: float, place: tuple[int, int]
) -> None:
    product.plant(*place, bad)
    assert product.errors() == [np.inf]


def test_each_of_several_products_has_its_own_error(tools: Instruments, product: Product) -> None:
    a, b, c = product.on_device
    left_out = tools.drv.mem_alloc(4 * SHAPE.m * SHAPE.n)
    tools.poison(left_out, SHAPE.m * SHAPE.n)
    first, second, third = Reference(tools, SHAPE, a, b).errors([c, left_out, c])
    assert first == third <= 1
    assert second == np.inf


@pytest.mark.usefixtures("panels")
def test_the_spot_check_knows_the_formula_of_the_inputs(
    tools: Instruments, product: Product
) -> None:
    a, b, c = product.on_device
    reference = Reference(tools, SHAPE, a, b)
    reference.errors([c])
    reference.spot_check("uniform", SEED)
    with pytest.raises(RuntimeError, match="float64 reference"):
        reference.spot_check("uniform", SEED + 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(37, 53, 71), (1, 5, 3), (64, 1, 2)])
def test_cublas_gemm_is_row_major(
    tools: Instruments, dtype: str, shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    random = np.random.default_rng(0)
    a, b = (random.uniform(-1, 1, size).astype(dtype) for size in ((m, k), (k, n)))
    on_device = [tools.drv.to_device(x) for x in (a, b, np.full((m, n), np.nan, dtype))]
    tools.cublas.gemm(dtype, m, n, k, *map(int, on_device))
    found = host_copy(tools, on_device[2], m * n, dtype).reshape(m, n)
    np.testing.assert_allclose(found, a @ b, atol=1e-5 if dtype == "float32" else 1e-13)


def test_a_refused_cublas_call_is_raised_with_its_status(tools: Instruments) -> None:
    with pytest.raises(CublasError, match=r"cublasSgemm_v2: .+"):
        tools.cublas.gemm("float32", -1, 1, 1, 0, 0, 0)


def test_poison_is_nan_everywhere_and_nowhere_else(tools: Instruments) -> None:
    array = tools.drv.to_device(np.zeros(1000, np.float32))
    tools.poison(array, 900)
    found = host_copy(tools, array, 1000)
    assert np.isnan(found[:900]).all()
    assert (found[900:] == 0).all()


@pytest.fixture
def launch_of(tools: Instruments, tmp_path: Path) -> Callable[[str, str], Callable[[], None]]:
    """Compiles the body of a kernel with one parameter, n, and makes a launch of one warp."""

    def make(body: str, value: int) -> Callable[[], None]:
        source, cubin = tmp_path / "probe.cu", tmp_path / "probe.cubin"
        source.write_text(f'extern "C" __global__ void probe(int n) {{ {body} }}\n')
        toolchain.build_cubin(source, "probe", [], architecture(), cubin)
        function = tools.drv.module_from_file(str(cubin)).get_function("probe").prepare("i")
        return lambda: function.prepared_async_call((1, 1, 1), (32, 1, 1), tools.stream, value)

    return make


def test_an_empty_kernel_takes_under_four_microseconds(
    tools: Instruments, launch_of: Callable[..., Callable[[], None]]
) -> None:
    """Events around a launch from Python read three times as much: the stream has to be held."""
    launch = launch_of("", 0)
    stream = HeldStream(tools)
    stream.times([launch] * 5)
    assert 0 < median(stream.times([launch] * 50)) < 0.004


def test_a_kernel_that_waits_a_while_takes_that_while(
    tools: Instruments, launch_of: Callable[..., Callable[[], None]]
) -> None:
    read = 'asm volatile("mov.u64 %0, %%globaltimer;" : "=l"({}));'
    start, now = read.format("start"), read.format("now")
    body = f"unsigned long long start, now; {start} do {now} while (now - start < n);"
    times = HeldStream(tools).times([launch_of(body, 2_000_000)] * 5)
    assert times == pytest.approx([2.0] * 5, abs=0.05)


def test_what_runs_before_a_launch_is_not_timed(
    tools: Instruments, launch_of: Callable[..., Callable[[], None]]
) -> None:
    launch = launch_of("", 0)
    times = HeldStream(tools).times([launch] * 20, before=tools.clear_l2)
    assert median(times) < 0.010  # clearing takes some 40 µs itself


def test_a_held_card_is_held_for_all(gpu: Gpu) -> None:
    """A second process that wants to time waits; here, it does not get the lock at once."""
    path = Path(tempfile.gettempdir()) / f"matmul-sweep-{gpu.uuid.replace(':', '-')}.lock"
    with gpu.held(), path.open("a") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_cards_facts_are_there(gpu: Gpu) -> None:
    facts = gpu.facts()
    assert facts["gpu"]
    assert facts["compute_capability"].replace(".", "") in architecture()
    assert facts["memory_bytes"] > 10**9
    assert facts["fp32_peak_tflops"] is None or 1 < facts["fp32_peak_tflops"] < 500
