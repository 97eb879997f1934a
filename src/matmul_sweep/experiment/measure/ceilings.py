"""The highest rates of the card: multiply-adds on each kind of unit, and a memory copy.

Each ceiling is a kernel in ceilings.cu, timed like products in a burst. A row that could not be
measured has a status and a reason.
"""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.experiment.dataset.intervals import Rule, median_interval
from matmul_sweep.experiment.dataset.words import CEILINGS
from matmul_sweep.experiment.measure.launches import Action
from matmul_sweep.experiment.measure.sampling import collect, run_for
from matmul_sweep.experiment.measure.state import recording, state_of
from matmul_sweep.experiment.measure.timing import HeldStream
from matmul_sweep.experiment.verify.gpu import Gpu, opened
from matmul_sweep.experiment.verify.instruments import Instruments

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


class Ceilings:
    """The kernels of the ceilings on one GPU."""

    def __init__(self, gpu: Gpu, build: Path) -> None:
        self.gpu, self.tools = gpu, Instruments(gpu, build)
        self.stream = HeldStream(self.tools)
        self.module = gpu.drv.module_from_file(str(self.tools.binaries / "ceilings.cubin"))

    def row(self, name: str) -> dict[str, Any]:
        """A ceiling's row: skipped if the card lacks the unit, failed if a launch fails."""
        row = {"name": name, "unit": CEILINGS[name], "samples": 0}
        try:
            launch, work = self.copy() if name == "copy" else self.arithmetic(name)
            if work:
                return row | self.timed(launch, work / PER_MS[CEILINGS[name]]) | {"status": "ok"}
        except (*self.gpu.errors, TimeoutError) as failure:
            return row | {"status": "failed", "reason": f"the launch failed: {failure}"}
        dtype = name.rpartition("_")[2]
        reason = f"the tensor cores of {self.gpu.architecture} do not multiply in {dtype}"
        return row | {"status": "skipped", "reason": reason}

    def timed(self, launch: Action, work: float) -> dict[str, Any]:
        """The rate of launches in a burst, from the median of their times, and the card's state.

        `work` is the work of a launch, in units of the rate times ms.
        """
        run_for(WARM_SECONDS, lambda: self.stream.times([launch] * BATCH))
        with recording(self.gpu.nvml) as recorder:
            start = time.perf_counter()
            (times,), _ = collect(
                RULE, lambda count: [self.stream.times([launch] * min(count, BATCH))]
            )
            readings = recorder.span(start, time.perf_counter()) or recorder.now()
        low_ms, high_ms = median_interval(times)
        rates = {"value": statistics.median(times), "value_low": high_ms, "value_high": low_ms}
        rates = {column: work / time_ms for column, time_ms in rates.items()}
        return rates | {"samples": len(times)} | asdict(state_of(readings))

    def launcher(self, name: str, kinds: str, resident: int) -> Callable[..., None]:
        """A function that launches a kernel with so many blocks on each multiprocessor."""
        blocks = self.gpu.attribute("MULTIPROCESSOR_COUNT") * resident
        call = self.module.get_function(name).prepare(kinds).prepared_async_call
        return partial(call, (blocks, 1, 1), (THREADS, 1, 1), self.tools.stream)

    def arithmetic(self, name: str) -> tuple[Action, float]:
        """A launch of about LAUNCH_MS of multiply-adds, and its operations: two for each
        multiply-add that the threads count."""
        dtype = np.dtype(name.rpartition("_")[2])
        counted = np.empty(self.gpu.attribute("MULTIPROCESSOR_COUNT") * RESIDENT * THREADS, dtype)
        sums = self.tools.poisoned(counted.size, dtype.name)
        run = self.launcher(name, "Pi" + dtype.char, RESIDENT)
        first_ms = min(self.stream.times([partial(run, sums, FIRST_STEPS, 1.0)] * BATCH))
        launch = partial(run, sums, math.ceil(FIRST_STEPS * LAUNCH_MS / first_ms), 1.0)
        self.stream.times([launch])
        self.gpu.drv.memcpy_dtoh(counted, sums)
        return launch, 2 * counted.sum(dtype=np.float64)

    def copy(self) -> tuple[Action, float]:
        """A copy of memory to memory, and the bytes that it reads and writes."""
        count = L2_TIMES * self.gpu.l2_bytes // COPY_BYTES
        words = count * COPY_BYTES // 4
        source = self.tools.filled("uniform", SEED, 0, words, "float32")
        target = self.tools.poisoned(words, "float32")
        launch = partial(self.launcher("copy", "PPQ", COPY_BLOCKS), source, target, count)
        return launch, 2 * count * COPY_BYTES


def measured(build: Path) -> list[dict[str, Any]]:
    """A row per ceiling of the first free GPU. Raises NoDevice, UserError."""
    with opened() as gpu:
        bench, card = Ceilings(gpu, build), {"gpu": gpu.name, "uuid": gpu.uuid}
        return [bench.row(name) | card for name in CEILINGS]
