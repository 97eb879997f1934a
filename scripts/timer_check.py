"""Check what the timer reads for an empty kernel, and whether recording the card's state disturbs
it.

This needs a GPU; run it on the card of the data set. The product is cuBLAS's for float32 squares.
At each size, blocks of launches are timed alternately with and without the thread that reads the
state.

    python scripts/timer_check.py --data results/local
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from matmul_sweep.build.binaries import compile_instruments
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.intervals import median_interval
from matmul_sweep.experiment.dataset.tables import write_table
from matmul_sweep.experiment.measure.instruments import Instruments
from matmul_sweep.experiment.measure.sampling import run_for
from matmul_sweep.experiment.measure.state import Recorder
from matmul_sweep.experiment.measure.timing import HeldStream
from matmul_sweep.experiment.report.facts.checks import EMPTY, TIMER, check_card
from matmul_sweep.launch.device import Gpu, NoDevice, opened
from matmul_sweep.launch.products import library_product
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.process import arguments
from matmul_sweep.process.errors import UserError, command_line

VARIANT, SEED = "cublas_sgemm", 2026
SIZES = [320, 1024, 4096]
LAUNCHES = 200  # of the empty kernel
BATCH = 40  # launches per hold
PAIRS = 16  # of blocks, one with the recorder and one without
BLOCK_SECONDS = 0.25  # a dozen readings of the recorder
TIME = ("time_ms", "time_low_ms", "time_high_ms")
RATIO = ("ratio", "ratio_low", "ratio_high")


def spread(columns: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """The median and the ends of its 95% interval, under these names."""
    return dict(zip(columns, (statistics.median(values), *median_interval(values)), strict=True))


def empty_row(tools: Instruments, stream: HeldStream) -> dict[str, Any]:
    """The row of the empty kernel; its samples are launches."""
    stream.times([tools.empty] * BATCH)
    times = [time for _ in range(LAUNCHES // BATCH) for time in stream.times([tools.empty] * BATCH)]
    row = {"variant": EMPTY, "recorder": "off", "readings": 0, "samples": len(times)}
    return row | spread(TIME, times)


@contextmanager
def recording(handle: Any) -> Iterator[Recorder]:
    """The recorder of a measuring job, for the duration of the block."""
    recorder = Recorder(handle)
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.stop()
        recorder.join()


def block_ms(stream: HeldStream, launch: Callable[[], None]) -> float:
    """The median of the launches of BLOCK_SECONDS, in ms."""
    times: list[float] = []
    run_for(BLOCK_SECONDS, lambda: times.extend(stream.times([launch] * BATCH)))
    return statistics.median(times)


def recorder_rows(
    stream: HeldStream, launch: Callable[[], None], handle: Any, n: int
) -> list[dict[str, Any]]:
    """Two rows for one size: without the recorder, and with it and the ratio of the two.

    A sample is the median of a block. A ratio is that of two neighbours in time; each kind comes
    first in half of the pairs, so a drifting clock favours neither.
    """
    blocks: dict[str, list[float]] = {"off": [], "on": []}
    readings = 0
    block_ms(stream, launch)
    for pair in range(PAIRS):
        for which in ("off", "on") if pair % 2 else ("on", "off"):
            # Without NVML's handle the thread ends at once.
            with recording(handle if which == "on" else None) as recorder:
                blocks[which].append(block_ms(stream, launch))
            readings += len(recorder.readings)
    ratios = [on / off for on, off in zip(blocks["on"], blocks["off"], strict=True)]
    off, on = (
        {"variant": VARIANT, "n": n, "recorder": which, "readings": 0, "samples": len(times)}
        | spread(TIME, times)
        for which, times in blocks.items()
    )
    return [off, on | {"readings": readings} | spread(RATIO, ratios)]


def checked(gpu: Gpu, build: Path) -> list[dict[str, Any]]:
    """All rows of the table. Raises UserError if NVML does not answer."""
    if not gpu.nvml:
        raise UserError(f"no recorder to check: NVML is {gpu.nvml_reason}")
    compile_instruments(gpu.architecture, build / gpu.architecture / "instruments.cubin")
    tools = Instruments(gpu, build)
    stream = HeldStream(tools)
    product = library_product(load_catalogue().variant(VARIANT), tools)
    rows = [empty_row(tools, stream)]
    for n in SIZES:
        shape = Gemm(n, n, n)
        a, b = (tools.filled("uniform", SEED, which, n * n, "float32") for which in (0, 1))
        c = tools.poisoned(n * n, "float32")
        rows += recorder_rows(stream, partial(product, shape, a, b, c), gpu.nvml, n)
    return [row | {"uuid": gpu.uuid} for row in rows]


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data", type=Path, default=Path("results/local"), help="a data set")
    options = parser.parse_args()
    try:
        with opened() as gpu, tempfile.TemporaryDirectory() as build:
            check_card(options.data, gpu.device.name())
            rows = checked(gpu, Path(build))
    except NoDevice as missing:
        raise UserError(f"checking the timer needs a GPU, and {missing}") from None
    table = pd.DataFrame(rows).astype({"n": "Int64"})
    write_table(table, TIMER, options.data / TIMER)
    print(table.drop(columns="uuid").to_string(index=False, float_format="{:.5g}".format))


if __name__ == "__main__":
    main()
