"""The instruments on the device agree with their definitions on the host."""

from dataclasses import astuple, dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pytest

from matmul_sweep.build import toolchain
from matmul_sweep.catalogue.entries import Kernel
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.measure import check_timer
from matmul_sweep.experiment.measure.timing import HeldStream
from matmul_sweep.experiment.verify import instruments, reference
from matmul_sweep.experiment.verify.cublas import CublasError
from matmul_sweep.experiment.verify.instruments import Instruments, as_bytes
from matmul_sweep.experiment.verify.products import gpu_product
from matmul_sweep.experiment.verify.reference import panel_rows, row_bytes
from matmul_sweep.experiment.verify.verification import Accuracy, accuracy
from matmul_sweep.operations import OPERATIONS, fills
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gemm_bf16 import GemmBf16
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.files import write_json

pytestmark = pytest.mark.gpu

SEED = 2026
SHAPES = {"gemm": Gemm(301, 203, 105), "gram": Gram(105, 301), "gemm_bf16": GemmBf16(301, 203, 105)}


def host_copy(tools: Instruments, pointer: Any, count: int, dtype: Any = np.float32) -> np.ndarray:
    """`count` elements from a device pointer on, once the stream has finished."""
    tools.stream.synchronize()
    found = np.empty(count, dtype)
    tools.drv.memcpy_dtoh(as_bytes(found), int(pointer))
    return found


@pytest.mark.parametrize("dtype", instruments.FILLED)
@pytest.mark.parametrize("fill", fills.FILLS)
def test_device_fill_is_the_hosts_bit_for_bit(tools, fill, dtype):
    """More elements than the fill has threads, so that each thread takes several."""
    for which in (0, 1):
        expected = fills.matrix(fill, SEED, which, 811, 701, dtype)
        assert expected.size > 2 * instruments.BLOCKS[0] * instruments.THREADS[0]
        array = tools.filled(fill, SEED, which, expected.size, dtype)
        assert host_copy(tools, array, expected.size, dtype).tobytes() == expected.tobytes()


@pytest.mark.parametrize("fill", ["uniform", "index"])
def test_device_fill_counts_beyond_32_bits(gpu, tools, fill):
    count = 2**32 + 1000
    free, _ = gpu.drv.mem_get_info()
    if free < 4 * count * 1.1:
        pytest.skip("a matrix of 2³² elements takes 17 GB, which are not free")
    array = tools.filled(fill, SEED, 0, count, "float32")
    index = np.arange(2**32 - 1000, count, dtype=np.uint64)
    found = host_copy(tools, int(array) + 4 * int(index[0]), index.size)
    assert (found == fills.values(fill, SEED, 0, index)).all()


@dataclass
class Product:
    """Inputs and the library's C on the device, and the same on the host."""

    tools: Instruments
    kernel: Kernel
    shape: Shape
    on_device: list[Any]
    on_host: list[np.ndarray]

    def reference(self) -> reference.Reference:
        return reference.reference(self.tools, self.shape, "uniform", self.on_device[:-1])

    def errors(self, writes: str = "full") -> Accuracy:
        """On the device, where they are those that the host computes."""
        kernel = replace(self.kernel, writes=writes)
        [found] = self.reference().errors([self.on_device[-1]], [kernel])
        *inputs, c = self.on_host
        expected = accuracy(kernel, c, *inputs)
        known = slice(3 if np.isfinite(c).all() else 2)  # no mean of what is not finite
        assert astuple(found)[known] == pytest.approx(astuple(expected)[known], rel=1e-3)
        return found

    def plant(self, row: int, column: int, value: float) -> None:
        """Overwrite one element of C, on the device and on the host."""
        c = self.on_host[-1]
        c[row, column] = value
        pointer = int(self.on_device[-1]) + c.itemsize * (row * c.shape[1] + column)
        self.tools.drv.memcpy_htod(pointer, as_bytes(c[row, column : column + 1].copy()))


@pytest.fixture(params=[*SHAPES])
def product(request: pytest.FixtureRequest, tools: Instruments) -> Product:
    shape, dtype = SHAPES[request.param], OPERATIONS[request.param].dtype
    inputs = tools.inputs("uniform", SEED, shape, dtype)
    c = tools.poisoned(shape.elements[-1], dtype)
    variant = load_catalogue().variant(OPERATIONS[request.param].rivals[0])
    gpu_product(variant, tools)(shape, *inputs, c)
    found = host_copy(tools, c, shape.elements[-1], dtype).reshape(shape.output)
    on_host = [*fills.inputs("uniform", SEED, shape, dtype), found]
    return Product(tools, variant.kernel, shape, [*inputs, c], on_host)


@pytest.fixture(params=[None, 8], ids=["one panel", "panels of 8 rows"])
def panels(
    request: pytest.FixtureRequest, product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.param:
        monkeypatch.setattr(reference, "PANEL_BYTES", row_bytes(product.shape) * request.param)
        assert panel_rows(product.shape) == request.param
        assert product.shape.output[0] % request.param  # the last panel is a shorter one
    else:
        assert panel_rows(product.shape) == product.shape.output[0]


@pytest.mark.usefixtures("panels")
def test_the_library_passes_with_the_errors_that_the_host_computes(product):
    found = product.errors()
    assert 0 < found.share <= 1
    assert 0 < found.mean < found.largest


def test_tf32_is_what_the_entry_asks_for_and_no_other_has(runner):
    """The full product right after the TF32 one: the handle's mode is put back."""
    shape, errors = Gemm(256, 256, 256), {}
    inputs = fills.inputs("uniform", SEED, shape, "float32")
    for name in ("cublas_sgemm_tf32", "cublas_sgemm"):
        variant = load_catalogue().variant(name)
        errors[name] = accuracy(variant.kernel, runner.multiply(variant, shape, *inputs), *inputs)
        assert errors[name].share <= 1
    assert errors["cublas_sgemm_tf32"].mean > 50 * errors["cublas_sgemm"].mean


@pytest.mark.usefixtures("panels")
@pytest.mark.parametrize(
    "place", [(0, 0), (7, 202), (8, 0), (1, 0), (9, 8), (150, 101), (300, 0), (300, 202)]
)
def test_one_wrong_element_is_flagged_where_it_counts(product, place):
    """Below the diagonal only where the full matrix is written."""
    off = {"gemm": 1e-3, "gram": 1e-12, "gemm_bf16": 0.5}[product.shape.operation]
    row, column = place
    for value in (float(product.on_host[-1][place]) + off, np.nan, np.inf, -np.inf):
        product.plant(row, column, value)
        share = product.errors().share
        assert share > 1 if np.isfinite(value) else share == np.inf
        assert (product.errors("upper").share > 1) == (row <= column)


def test_each_of_several_products_has_its_own_error(product):
    c = product.on_device[-1]
    left_out = product.tools.poisoned(product.shape.elements[-1], product.kernel.product.output)
    first, second, third = product.reference().errors([c, left_out, c], [product.kernel] * 3)
    assert first.share == third.share <= 1
    assert second.share == np.inf


@pytest.mark.usefixtures("panels")
def test_a_wrong_reference_passes_nothing(product):
    """NaN compares false with everything, and must not count as small; the spot check knows the
    formula of the inputs."""
    wanted = product.reference()
    wanted.errors(product.on_device[-1:], [product.kernel])
    wanted.spot_check("uniform", SEED)
    with pytest.raises(RuntimeError, match="reference differs"):
        wanted.spot_check("uniform", SEED + 1)
    wanted.compute_panel(0, wanted.rows)
    product.tools.drv.memcpy_htod(int(wanted.product) + 8 * 5, np.array([np.nan]))
    found = wanted.panel_errors(int(product.on_device[-1]), 0, wanted.rows, product.kernel)
    assert (found[:2] == np.inf).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_poison_is_nan_and_a_call_that_cublas_refuses_is_raised(tools, dtype):
    assert np.isnan(host_copy(tools, tools.poisoned(7, dtype), 7, dtype)).all()
    with pytest.raises(CublasError, match=r"cublas[SD]gemm_v2: .+"):
        tools.cublas.gemm(dtype, -1, 1, 1, 0, 0, 0)


def test_the_timer_reads_little_for_nothing(gpu, tmp_path):
    """Events around a launch from Python read three times as much: the stream has to be held."""
    write_json({"gpu": gpu.name}, tmp_path / "device.json")
    [empty] = check_timer.against_itself(tmp_path).to_dict("records")
    assert empty["samples"] == check_timer.LAUNCHES
    assert 0 < empty["time_low_ms"] <= empty["time_ms"] < 0.006


def test_a_wait_takes_its_time_and_what_runs_before_a_launch_none(gpu, tools, tmp_path):
    read = 'asm volatile("mov.u64 %0, %%globaltimer;" : "=l"({}));'
    start, now = read.format("start"), read.format("now")
    body = f"unsigned long long start, now; {start} do {now} while (now - start < n);"
    source, cubin = tmp_path / "probe.cu", tmp_path / "probe.cubin"
    source.write_text(f'extern "C" __global__ void probe(int n) {{ {body} }}\n')
    toolchain.build_cubin(source, ["probe"], [], gpu.architecture, cubin)
    probe = tools.drv.module_from_file(str(cubin)).get_function("probe").prepare("i")

    launch = partial(probe.prepared_async_call, (1, 1, 1), (32, 1, 1), tools.stream, 2_000_000)
    stream = HeldStream(tools)
    assert stream.times([launch] * 5) == pytest.approx([2.0] * 5, abs=0.05)
    times = stream.times([tools.empty] * 20, before=tools.clear_l2)
    assert median(times) < 0.010  # clearing takes some 40 µs itself
