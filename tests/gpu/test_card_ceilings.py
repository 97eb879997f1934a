"""The ceilings on the device: a copy copies, and the rates agree with the card's data sheet."""

from pathlib import Path

import pytest

from matmul_sweep.build.binaries import compile_instruments
from matmul_sweep.experiment.measure.ceilings import COPY_BYTES, Ceilings
from matmul_sweep.experiment.verify.gpu import Gpu

pytestmark = pytest.mark.gpu

PEAKS = {
    "multiply_add_float32": "fp32",
    "multiply_add_float64": "fp64",
    "tensor_float64": "fp64_tensor",
}


@pytest.fixture(scope="module")
def bench(gpu: Gpu, build: Path) -> Ceilings:
    compile_instruments(gpu.architecture, build / gpu.architecture / "ceilings.cubin", "ceilings")
    return Ceilings(gpu, build)


@pytest.mark.parametrize("name", [*PEAKS, "copy"])
def test_a_rate_is_most_of_the_cards_and_no_more(gpu, bench, name):
    """Of a copy: slower than the L2, and faster than the bus."""
    row = bench.row(name)
    assert row["status"] == "ok", row
    peak = gpu.peak(PEAKS[name]) if name in PEAKS else None
    low, high = (0.85 * peak, 1.01 * peak) if peak else (100, 10_000)
    if name in PEAKS and peak is None:
        pytest.skip(f"no peak of {PEAKS[name]} is known of this card")
    assert low < row["value_low"] <= row["value"] <= row["value_high"] < high


def test_a_copy_copies_all(gpu, bench):
    """A count that no grid divides."""
    count = 1_000_003
    words = count * COPY_BYTES // 4
    source = bench.tools.filled("uniform", 1, 0, words, "float32")
    target = bench.tools.poisoned(words, "float32")
    bench.launcher("copy", "PPQ", 1)(source, target, count)
    bench.tools.stream.synchronize()
    found, wanted = (gpu.drv.from_device(a, words, "float32") for a in (target, source))
    assert found.tobytes() == wanted.tobytes()
