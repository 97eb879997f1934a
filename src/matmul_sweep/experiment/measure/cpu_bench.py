"""Measuring on the CPU: verify, then time with the host's clock."""

from collections.abc import Callable, Sequence

import numpy as np
import psutil

from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.experiment.measure.bench import (
    LostDevice,
    Point,
    Split,
    Wrong,
    beyond,
    error_columns,
)
from matmul_sweep.experiment.measure.sampling import collect, repeated, run_for
from matmul_sweep.experiment.measure.timing import host_ms
from matmul_sweep.experiment.plan.settings import Case, Settings
from matmul_sweep.experiment.verify.products import CpuProduct
from matmul_sweep.experiment.verify.verification import PANEL_ROWS, accuracy
from matmul_sweep.operations import fills
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import Unfinished
from matmul_sweep.process.isolation import Crashed, result_of, shared_array

SPENT = 2  # times a point's seconds: if the first product takes longer, it is the only sample
CALIBRATION = 256  # n of the square product


class CpuBench:
    """Measures one CPU variant."""

    def __init__(
        self, variant: Variant, product: CpuProduct, settings: Settings, split: Split
    ) -> None:
        self.variant, self.product, self.settings, self.split = variant, product, settings, split
        self.dtype, self.output = variant.kernel.dtype, variant.kernel.product.output

    def pace(self) -> float:
        """Seconds per operation of a small product, to predict even the first large one.

        Raises Wrong, LostDevice.
        """
        shape = self.variant.kernel.product.parse(CALIBRATION)
        inputs = [np.ones(extent, self.dtype) for extent in shape.inputs]
        first_ms, c = self.first(shape, inputs)
        later_ms = (host_ms(lambda: self.product(shape, *inputs, c)) for _ in range(2))
        return min(first_ms, *later_ms) / 1e3 / shape.operations

    def first(self, shape: Shape, inputs: Sequence[np.ndarray]) -> tuple[float, np.ndarray]:
        """Milliseconds of the first product of a shape, and C. A C kernel may crash or never end,
        so its product runs in its own process. Raises Wrong, LostDevice."""
        if self.variant.kernel.kind is Kind.LIBRARY:
            c = np.full(shape.output, np.nan, self.output)
            return host_ms(lambda: self.product(shape, *inputs, c)), c
        c, taken = shared_array(shape.output, self.output), shared_array((1,), "float64")

        def run() -> None:
            taken[0] = host_ms(lambda: self.product(shape, *inputs, c))

        try:
            result_of(run, self.settings.limits.hang_seconds)
        except Crashed as failure:
            raise Wrong(f"the launch failed: {failure}") from None
        except Unfinished as failure:
            raise LostDevice(str(failure)) from None
        return float(taken[0]), np.array(c)  # in memory like the inputs'

    def refusal(self, shape: Shape) -> str | None:
        """Why the shape does not fit in this machine's memory."""
        return host_memory_refusal(shape, self.dtype, self.settings.limits.memory_share)

    def measure(self, case: Case) -> Point:
        """Verify and time one case. Raises Wrong, LostDevice."""
        point, name, shape = Point(), self.variant.name, case.shape
        try:
            with self.split.part("inputs"):
                inputs = fills.inputs(case.fill, self.settings.seed, shape, self.dtype)
            with self.split.part("timed"):
                first_ms, c = self.first(shape, inputs)
                point.add("first", "cold", {name: [first_ms]})
            with self.split.part("verification"):
                errors = error_columns(self.variant, accuracy(self.variant.kernel, c, *inputs))
            with self.split.part("timed"):
                times, stopped = self.samples(
                    first_ms, case.mode, lambda: host_ms(lambda: self.product(shape, *inputs, c))
                )
        except (MemoryError, OSError) as failure:  # OSError: of shared memory, or for a process
            raise Wrong(f"out of memory: {failure}") from None
        point.add("kernel", "hot", {name: times}, stopped=stopped, **errors)
        return point

    def samples(
        self, first_ms: float, mode: str, run: Callable[[], float]
    ) -> tuple[list[float], str]:
        """The samples of a point in ms, and what ended the sampling; a slow product has only its
        first sample."""
        rule = self.settings.sampling
        rest = rule.warming(mode) - first_ms / 1e3
        if rest <= 0 and first_ms / 1e3 > SPENT * rule.seconds:
            return [first_ms], "seconds"
        run_for(rest, run)
        [times], stopped = collect(rule, repeated(run))
        return times, stopped


def host_memory_refusal(shape: Shape, dtype: str, share: float) -> str | None:
    """Why the matrices and their float64 reference do not fit in `share` of the free memory, or
    None."""
    right, width = shape.elements[-2], shape.output[1]
    wide = 16 if dtype == "float32" else 32  # bytes: in float64, in parts, and its magnitude
    matrices = DTYPES[dtype].bytes * sum(shape.elements)
    needed = matrices + wide * right + 48 * PANEL_ROWS * (shape.terms + width)
    free = psutil.virtual_memory().available
    return beyond(needed, free, "memory with its reference", share)
