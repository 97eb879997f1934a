"""The ceilings on the device: a copy copies, and the rates agree with the card's data sheet."""

from collections.abc import Iterator

import pytest

import ceilings
from matmul_sweep.build.binaries import compile_instruments
from matmul_sweep.experiment.measure.instruments import Instruments
from matmul_sweep.experiment.verify.gpu import Gpu

pytestmark = pytest.mark.gpu

PEAKS = {
    "multiply_add_float32": "fp32",
    "multiply_add_float64": "fp64",
    "tensor_float64": "fp64_tensor",
}


@pytest.fixture(scope="module")
def bench(gpu: Gpu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ceilings.Bench]:
    build = tmp_path_factory.mktemp("build")
    for tool in ("instruments", "ceilings"):
        compile_instruments(gpu.architecture, build / gpu.architecture / f"{tool}.cubin", tool)
    made = ceilings.Bench(gpu, build)
    yield made
    made.close()


@pytest.mark.parametrize(("name", "units"), PEAKS.items())
def test_units_reach_most_of_their_peak_and_no_more(
    gpu: Gpu, bench: ceilings.Bench, name: str, units: str
) -> None:
    peak, row = gpu.peak(units), bench.row(name)
    if peak is None:
        pytest.skip(f"no peak of {units} is known of this card")
    assert row["status"] == "ok", row
    assert 0.85 * peak < row["value_low"] <= row["value"] <= row["value_high"] < 1.01 * peak


def test_a_copy_is_slower_than_the_l2_and_faster_than_the_bus(bench: ceilings.Bench) -> None:
    row = bench.row("copy")
    assert row["status"] == "ok", row
    assert 100 < row["value"] < 10_000


def test_a_copy_copies_all(gpu: Gpu, bench: ceilings.Bench, tools: Instruments) -> None:
    """A count that no grid divides."""
    count = 1_000_003
    words = count * ceilings.COPY_BYTES // 4
    source = tools.filled("uniform", 1, 0, words, "float32")
    target = tools.poisoned(words, "float32")
    function = bench.module.get_function("copy").prepare("PPQ")
    function.prepared_async_call((99, 1, 1), (256, 1, 1), tools.stream, source, target, count)
    tools.stream.synchronize()
    found, wanted = (gpu.drv.from_device(a, words, "float32") for a in (target, source))
    assert found.tobytes() == wanted.tobytes()
