"""What all benches on the GPU share: the card, what fits into its memory, and its failures."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.measure.bench import LostDevice, Split, Wrong, beyond
from matmul_sweep.experiment.measure.state import Recorder, cool
from matmul_sweep.experiment.measure.timing import HeldStream
from matmul_sweep.experiment.plan.settings import Settings
from matmul_sweep.experiment.verify.cublaslt import CublasError
from matmul_sweep.experiment.verify.gpu import Gpu
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.reference import reference_bytes
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import Unfinished

COOLING_STEP_S = 0.5


class GpuBench:
    """Measures variants on a GPU."""

    cs = 1  # arrays of C on the device

    def __init__(
        self, gpu: Gpu, variants: Sequence[Variant], build: Path, settings: Settings, split: Split,
        recorder: Recorder,
    ) -> None:  # fmt: skip
        """variants: all that it times."""
        self.gpu, self.settings, self.split, self.recorder = gpu, settings, split, recorder
        self.tools = Instruments(gpu, build, settings.limits.hang_seconds)
        self.stream = HeldStream(self.tools)
        self.variants = variants
        self.operation = variants[0].kernel.product
        self.random = np.random.default_rng(settings.seed)

    def machine(self) -> dict[str, Any]:
        """The facts of the card and of its library."""
        return self.gpu.facts() | self.tools.cublas.facts()

    def memory_needed(self, shape: Shape) -> int:
        """Bytes on the device; the reference is gone before managed copies are made."""
        *inputs, c = self.operation.sizes(shape)
        managed = sum(inputs) + c if self.settings.sampling.copies else 0
        own = sum(v.workspace_bytes(shape, self.gpu.architecture) for v in self.variants)
        return sum(inputs) + c * self.cs + own + max(reference_bytes(shape), managed)

    def refusal(self, shape: Shape) -> str | None:
        """Why the shape does not fit in the memory of the card or, with its copies, pageable and
        managed, in the host's.

        Raises LostDevice.
        """
        try:
            needed, (free, _) = self.memory_needed(shape), self.gpu.drv.mem_get_info()
        except self.gpu.drv.Error as failure:
            raise LostDevice(f"the GPU does not answer: {failure}") from None
        share = self.settings.limits.memory_share
        copied = 2 * sum(self.operation.sizes(shape)) if self.settings.sampling.copies else 0
        on_host = psutil.virtual_memory().available
        return beyond(needed, free, "GPU memory with its reference", share) or beyond(
            copied, on_host, "host memory for its copies", share
        )

    @contextmanager
    def failures(self, who: str = "") -> Iterator[None]:
        """Raise what ends a point as Wrong, and as LostDevice, which names `who` was launched, what
        ends all."""
        try:
            yield
        except (self.gpu.drv.MemoryError, MemoryError) as failure:
            raise Wrong(f"out of memory: {failure}") from None
        except (TimeoutError, CublasError) as failure:
            raise Wrong(str(failure)) from None
        except Unfinished as failure:
            raise LostDevice(str(failure), who) from None
        except self.gpu.errors as failure:
            raise LostDevice(f"the launch failed: {failure}", who) from None

    def let_cool(self) -> None:
        """Wait while the card is too hot, until the job's budget for waiting is used up."""
        limits = self.settings.limits
        end = time.perf_counter() + limits.cool_seconds - self.split.seconds.get("cooling", 0.0)
        with self.split.part("cooling"):
            while not all(cool(now, limits.cool_celsius) for now in self.recorder.now()):
                if time.perf_counter() >= end:
                    return
                time.sleep(COOLING_STEP_S)
