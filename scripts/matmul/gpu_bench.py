"""Measuring on the GPU: verify, then time a kernel and its baselines in turn on the same inputs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from matmul.bench import LostDevice, Point, Settings, Split, Wrong, beyond_host_memory
from matmul.catalogue import Variant
from matmul.device import Gpu
from matmul.instruments import Instruments
from matmul.products import gpu_product
from matmul.reference import reference, reference_bytes
from matmul.sampling import collect
from matmul.shapes import Shape
from matmul.state import Recorder, State
from matmul.timing import HeldStream, host_ms

MOST_LAUNCHES = 128  # per hold: the driver's queue takes about a thousand commands
# Filling an L2 of 50 MB at 3.35 TB/s takes 15 µs, writing back what it held as long again: under a
# thousandth of a launch of this length, so that cold and hot times cannot be told apart.
LONG_MS = 50


class GpuBench:
    """Measures one GPU variant against its baselines."""

    def __init__(
        self, gpu: Gpu, variant: Variant, baselines: Sequence[Variant], build: Path,
        settings: Settings, split: Split,
    ) -> None:  # fmt: skip
        self.gpu, self.settings, self.split = gpu, settings, split
        self.tools = Instruments(gpu, build)
        self.stream = HeldStream(self.tools)
        self.contenders = [variant, *baselines]
        self.dtype = variant.kernel.dtype
        self.element_bytes = np.dtype(self.dtype).itemsize
        self.products = [gpu_product(v, self.tools, build) for v in self.contenders]
        self.recorder = Recorder(gpu.nvml)
        self.recorder.start()
        self.random = np.random.default_rng(settings.seed)

    def memory_needed(self, shape: Shape) -> int:
        """Bytes on the device; the reference is gone before managed copies are made."""
        *inputs, c = (self.element_bytes * count for count in shape.elements)
        managed = sum(inputs) + c if self.settings.copies else 0
        return sum(inputs) + c * len(self.contenders) + max(reference_bytes(shape), managed)

    def refusal(self, shape: Shape) -> str | None:
        """Why the shape does not fit the card's or the host's memory, with the numbers."""
        needed, (free, _) = self.memory_needed(shape), self.gpu.drv.mem_get_info()
        allowed = self.settings.memory_share * free
        if needed > allowed:
            return (
                f"needs {needed / 1e9:.2f} GB of GPU memory with its reference; "
                f"{self.settings.memory_share:.0%} of the {free / 1e9:.2f} GB free "
                f"is {allowed / 1e9:.2f} GB"
            )
        copied = self.element_bytes * sum(shape.elements) if self.settings.copies else 0
        return host_copies_refusal(copied, self.settings.memory_share)

    def measure(self, shape: Shape) -> Point:
        """Verify and time one shape. Raises Wrong, LostDevice."""
        point = Point()
        try:
            with self.split.part("inputs"):
                inputs = self.inputs(shape)
                cs = [self.tools.poisoned(shape.elements[-1], self.dtype) for _ in self.contenders]
                self.tools.stream.synchronize()
            launches = [
                (lambda product=product, c=c: product(shape, *inputs, c))
                for product, c in zip(self.products, cs, strict=True)
            ]
            with self.split.part("timed"):
                firsts = [host_ms(lambda run=run: self.finished(run)) for run in launches]
            point.times[self.contenders[0].name, "first", "cold"] = firsts[:1]
            with self.split.part("verification"):
                error = self.verify(shape, inputs, cs)
            with self.split.part("timed"):
                for cache in self.settings.caches:
                    self.time_kernel(point, cache, launches, error)
            if self.settings.copies:
                self.time_copies(point, shape, [*inputs, cs[0]])
        except (self.gpu.drv.MemoryError, MemoryError) as failure:
            raise Wrong(f"out of memory: {failure}") from None
        except TimeoutError as failure:
            raise Wrong(str(failure)) from None
        except self.gpu.drv.Error as failure:
            raise LostDevice(f"the launch failed: {failure}") from None
        return point

    def inputs(self, shape: Shape) -> list[Any]:
        """The product's inputs on the device."""
        return [
            self.tools.filled(self.settings.fill, self.settings.seed, which, count, self.dtype)
            for which, count in enumerate(shape.elements[:-1])
        ]

    def finished(self, launch: Callable[[], None]) -> None:
        launch()
        self.tools.stream.synchronize()

    def verify(self, shape: Shape, inputs: Sequence[int], cs: Sequence[int]) -> float:
        """The kernel's largest error as a share of the bound. Raises Wrong above 1."""
        wanted = reference(self.tools, shape, self.settings.fill, inputs)
        errors = wanted.errors(cs, [variant.kernel.writes for variant in self.contenders])
        wanted.spot_check(self.settings.fill, self.settings.seed)
        for variant, error in zip(self.contenders, errors, strict=True):
            if not error <= 1:
                raise Wrong(f"wrong result of {variant.name}: error {error:.3g} times the bound")
        return errors[0]

    def time_kernel(
        self, point: Point, cache: str, launches: Sequence[Callable[[], None]], error: float
    ) -> None:
        """Kernel times of all contenders, interleaved at random, with or without the L2 cleared.

        Cold ones of launches that took over LONG_MS hot are not taken: the point's row says so.
        """
        row = {"phase": "kernel", "cache": cache, "error": error}
        hot = point.times.get((self.contenders[0].name, "kernel", "hot"))
        if cache == "cold" and hot and np.median(hot) > LONG_MS:
            reason = f"cold and hot are alike: a launch takes over {LONG_MS} ms"
            point.rows.append(row | {"status": "skipped", "reason": reason} | asdict(State()))
            return
        before = self.tools.clear_l2 if cache == "cold" else None

        def batch(count: int) -> list[list[float]]:
            pairs = min(count, MOST_LAUNCHES // len(launches))
            order = [i for _ in range(pairs) for i in self.random.permutation(len(launches))]
            times: list[list[float]] = [[] for _ in launches]
            measured = self.stream.times([launches[i] for i in order], before)
            for who, time_ms in zip(order, measured, strict=True):
                times[who].append(time_ms)
            return times

        start = time.perf_counter()
        times = collect(self.settings.rule, batch)
        state = self.recorder.between(start, time.perf_counter())
        for contender, taken in zip(self.contenders, times, strict=True):
            point.times[contender.name, "kernel", cache] = taken
        point.rows.append(row | asdict(state))

    def time_copies(self, point: Point, shape: Shape, arrays: Sequence[int]) -> None:
        """Copies, end to end and unified memory, by the host's clock, from pageable memory.

        arrays: device pointers to the inputs and to C.
        """
        drv, name = self.gpu.drv, self.contenders[0].name
        with self.split.part("inputs"):
            host = [np.empty(count, self.dtype) for count in shape.elements]
            for array, source in zip(host, arrays, strict=True):
                drv.memcpy_dtoh(array, source)

        def upload() -> None:
            for array, values in zip(arrays[:-1], host[:-1], strict=True):
                drv.memcpy_htod(array, values)

        def download() -> None:
            drv.memcpy_dtoh(host[-1], arrays[-1])

        def whole() -> None:
            upload()
            self.finished(lambda: self.products[0](shape, *arrays))
            download()

        def batch(action: Callable[[], None]) -> Callable[[int], list[list[float]]]:
            return lambda count: [[host_ms(action) for _ in range(count)]]

        phases = {
            "h2d": batch(upload),
            "d2h": batch(download),
            "end_to_end": batch(whole),
            "unified": self.unified_batch(shape, host),
        }
        with self.split.part("timed"):
            for phase, take in phases.items():
                point.times[name, phase, "cold"] = collect(self.settings.copies, take)[0]

    def unified_batch(
        self, shape: Shape, host: Sequence[np.ndarray]
    ) -> Callable[[int], list[list[float]]]:
        """Launches on managed memory that the host has just written: the kernel and the migration.

        This is what a host timer around the launch sees in documents 000 and 002.
        """
        drv = self.gpu.drv
        managed = [
            drv.managed_empty(count, self.dtype, mem_flags=drv.mem_attach_flags.GLOBAL)
            for count in shape.elements
        ]
        pointers = [array.base.get_device_pointer() for array in managed]

        def one() -> float:
            for array, values in zip(managed, host, strict=True):
                array[:] = values
            return host_ms(lambda: self.finished(lambda: self.products[0](shape, *pointers)))

        return lambda count: [[one() for _ in range(count)]]

    def close(self) -> None:
        self.recorder.stop()


def host_copies_refusal(matrices: int, share: float) -> str | None:
    """Why the host has no room for the matrices (bytes), twice: pageable, and in managed memory."""
    return beyond_host_memory(2 * matrices, "host memory for its copies", share)
