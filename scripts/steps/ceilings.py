"""Measure the highest rates of the card: multiply-adds on each kind of unit, and a memory copy.

Each ceiling is a kernel in ceilings.cu of matmul_sweep.experiment.measure, timed like products in a
burst. A row that could not be measured has a status and a reason.
"""

import logging
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.build.binaries import tool_source
from matmul_sweep.experiment.dataset.intervals import median_interval
from matmul_sweep.experiment.dataset.tables import write_rows
from matmul_sweep.experiment.measure.instruments import Instruments
from matmul_sweep.experiment.measure.sampling import Rule, collect, run_for
from matmul_sweep.experiment.measure.state import Recorder, state_of
from matmul_sweep.experiment.measure.timing import HeldStream
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.verify.gpu import Gpu, opened
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.programs import program_digest

UNITS = {
    "multiply_add_float32": "TFLOP/s",
    "multiply_add_float64": "TFLOP/s",
    "tensor_float64": "TFLOP/s",
    "copy": "GB/s",
}
PER_MS = {"TFLOP/s": 1e9, "GB/s": 1e6}  # operations or bytes in a ms
THREADS, RESIDENT = 256, 2  # as in ceilings.cu
COPY_BLOCKS = 8  # per multiprocessor: all that it holds
COPY_BYTES = 16  # of an access
L2_TIMES = 16  # size of an array of the copy, in sizes of the L2
FIRST_STEPS, LAUNCH_MS = 1000, 2.0  # a short launch shows how many steps take LAUNCH_MS
BATCH = 16  # launches per hold
WARM_SECONDS = 0.1
RULE = Rule(minimum=20, maximum=100, interval=0.005, seconds=0.25)
SEED = 2026

Launch = Callable[[], None]


class Absent(Exception):
    """The card cannot do what a ceiling measures; the message says why."""


class Bench:
    """The kernels of the ceilings on one GPU."""

    def __init__(self, gpu: Gpu, build: Path) -> None:
        self.gpu = gpu
        self.tools = Instruments(gpu, build)
        self.stream = HeldStream(self.tools)
        self.module = gpu.drv.module_from_file(str(self.tools.binaries / "ceilings.cubin"))
        self.recorder = Recorder(gpu.nvml)
        self.recorder.start()

    def row(self, name: str) -> dict[str, Any]:
        """A ceiling's row without its name: skipped if the card lacks the unit, failed if a launch
        fails."""
        try:
            launch, work = self.copy() if name == "copy" else self.arithmetic(name)
            return self.timed(launch, work / PER_MS[UNITS[name]]) | {"status": "ok"}
        except Absent as reason:
            return {"status": "skipped", "reason": str(reason)}
        except (self.gpu.drv.Error, TimeoutError) as failure:
            return {"status": "failed", "reason": f"the launch failed: {failure}"}

    def timed(self, launch: Launch, work: float) -> dict[str, Any]:
        """The rate of launches in a burst, from the median of their times, and the card's state.

        `work` is the work of a launch, in units of the rate times ms.
        """
        run_for(WARM_SECONDS, lambda: self.stream.times([launch] * BATCH))
        start = time.perf_counter()
        (times,), _ = collect(RULE, lambda count: [self.stream.times([launch] * min(count, BATCH))])
        readings = self.recorder.span(start, time.perf_counter()) or self.recorder.now()
        low_ms, high_ms = median_interval(times)
        rates = {"value": statistics.median(times), "value_low": high_ms, "value_high": low_ms}
        rates = {column: work / time_ms for column, time_ms in rates.items()}
        return rates | {"samples": len(times)} | asdict(state_of(readings))

    def arithmetic(self, name: str) -> tuple[Launch, float]:
        """A launch of about LAUNCH_MS of multiply-adds, and its operations: two for each
        multiply-add that the threads count. Raises Absent."""
        dtype = np.dtype(name.rpartition("_")[2])
        blocks = self.gpu.attribute("MULTIPROCESSOR_COUNT") * RESIDENT
        sums = self.tools.poisoned(blocks * THREADS, dtype.name)
        function = self.module.get_function(name).prepare("Pi" + dtype.char)

        def run(steps: int) -> None:
            function.prepared_async_call(
                (blocks, 1, 1), (THREADS, 1, 1), self.tools.stream, sums, steps, 1.0
            )

        first_ms = min(self.stream.times([partial(run, FIRST_STEPS)] * BATCH))
        launch = partial(run, math.ceil(FIRST_STEPS * LAUNCH_MS / first_ms))
        self.stream.times([launch])
        counted = np.empty(blocks * THREADS, dtype)
        self.gpu.drv.memcpy_dtoh(counted, sums)
        if not counted.any():
            raise Absent(
                f"the tensor cores of {self.gpu.architecture} do not multiply in {dtype.name}"
            )
        return launch, 2 * counted.sum(dtype=np.float64)

    def copy(self) -> tuple[Launch, float]:
        """A copy of memory to memory, and the bytes that it reads and writes."""
        count = L2_TIMES * self.gpu.l2_bytes // COPY_BYTES
        words = count * COPY_BYTES // 4
        source = self.tools.filled("uniform", SEED, 0, words, "float32")
        target = self.tools.poisoned(words, "float32")
        function = self.module.get_function("copy").prepare("PPQ")
        blocks = self.gpu.attribute("MULTIPROCESSOR_COUNT") * COPY_BLOCKS

        def launch() -> None:
            function.prepared_async_call(
                (blocks, 1, 1), (THREADS, 1, 1), self.tools.stream, source, target, count
            )

        return launch, 2 * count * COPY_BYTES

    def close(self) -> None:
        self.recorder.stop()


def measured(build: Path) -> list[dict[str, Any]]:
    """A row per ceiling of the first free GPU. Raises NoDevice, UserError."""
    with opened() as gpu:
        bench = Bench(gpu, build)
        card = {"gpu": gpu.name, "uuid": gpu.uuid}
        rows = [{"name": name} | bench.row(name) | card for name in UNITS]
        bench.close()
        return rows


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--output", type=Path, required=True, help="ceilings.csv")
    options = arguments.parsed(parser)

    try:
        rows = measured(options.build)
    except NoDevice as error:
        raise UserError(f"ceilings: {error}") from None
    digest = program_digest(Path(__file__), tool_source("ceilings"))
    for row in rows:
        row |= {"unit": UNITS[row["name"]], "samples": row.get("samples", 0), "sha256": digest}
        logging.info("%s", row)
    write_rows(rows, "ceilings.csv", options.output)


if __name__ == "__main__":
    main()
