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
from matmul.instruments import Instruments, Reference, reference_bytes
from matmul.products import gpu_product
from matmul.sampling import collect
from matmul.shapes import Shape
from matmul.state import Recorder
from matmul.timing import HeldStream, host_ms

MOST_LAUNCHES = 128  # per hold: the driver's queue takes about a thousand commands


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
        self.products = [gpu_product(v, self.tools, build) for v in self.contenders]
        self.recorder = Recorder(gpu.nvml)
        self.recorder.start()
        self.random = np.random.default_rng(settings.seed)

    def memory_needed(self, shape: Shape) -> int:
        """Bytes on the device; the reference is gone before managed copies are made."""
        a, b, c = shape.elements
        managed = 4 * (a + b + c)
        return 4 * (a + b + c * len(self.contenders)) + max(reference_bytes(shape), managed)

    def refusal(self, shape: Shape) -> str | None:
        """Why the shape does not fit the card's or the host's memory, with the numbers."""
        if reason := host_copies_refusal(shape, self.settings.memory_share):
            return reason
        needed, (free, _) = self.memory_needed(shape), self.gpu.drv.mem_get_info()
        allowed = self.settings.memory_share * free
        if needed > allowed:
            return (
                f"needs {needed / 1e9:.2f} GB of GPU memory with its reference; "
                f"{self.settings.memory_share:.0%} of the {free / 1e9:.2f} GB free "
                f"is {allowed / 1e9:.2f} GB"
            )
        return None

    def measure(self, shape: Shape) -> Point:
        """Verify and time one shape. Raises Wrong, LostDevice."""
        point = Point()
        try:
            with self.split.part("inputs"):
                a, b = self.inputs(shape)
                cs = [self.gpu.drv.mem_alloc(4 * shape.m * shape.n) for _ in self.contenders]
                for c in cs:
                    self.tools.poison(c, shape.m * shape.n)
                self.tools.stream.synchronize()
            launches = [
                (lambda product=product, c=c: product(shape, a, b, c))
                for product, c in zip(self.products, cs, strict=True)
            ]
            with self.split.part("timed"):
                firsts = [host_ms(lambda run=run: self.finished(run)) for run in launches]
            point.times[self.contenders[0].name, "first", "cold"] = firsts[:1]
            with self.split.part("verification"):
                error = self.verify(shape, a, b, cs)
            with self.split.part("timed"):
                for cache in self.settings.caches:
                    self.time_kernel(point, cache, launches, error)
            self.time_copies(point, shape, a, b, cs[0])
        except (self.gpu.drv.MemoryError, MemoryError) as failure:
            raise Wrong(f"out of memory: {failure}") from None
        except TimeoutError as failure:
            raise Wrong(str(failure)) from None
        except self.gpu.drv.Error as failure:
            raise LostDevice(f"the launch failed: {failure}") from None
        return point

    def inputs(self, shape: Shape) -> tuple[Any, Any]:
        """A and B on the device."""
        counts = shape.elements[:2]
        return tuple(
            self.tools.filled(self.settings.fill, self.settings.seed, which, count)
            for which, count in enumerate(counts)
        )

    def finished(self, launch: Callable[[], None]) -> None:
        launch()
        self.tools.stream.synchronize()

    def verify(self, shape: Shape, a: int, b: int, cs: Sequence[int]) -> float:
        """The kernel's largest error as a share of the bound. Raises Wrong above 1."""
        reference = Reference(self.tools, shape, a, b)
        errors = reference.errors(cs)
        reference.spot_check(self.settings.fill, self.settings.seed)
        for variant, error in zip(self.contenders, errors, strict=True):
            if not error <= 1:
                raise Wrong(f"wrong result of {variant.name}: error {error:.3g} times the bound")
        return errors[0]

    def time_kernel(
        self, point: Point, cache: str, launches: Sequence[Callable[[], None]], error: float
    ) -> None:
        """Kernel times of all contenders, interleaved at random, with or without the L2 cleared."""
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
        point.rows.append({"phase": "kernel", "cache": cache, "error": error} | asdict(state))

    def time_copies(self, point: Point, shape: Shape, a: int, b: int, c: int) -> None:
        """Copies, end to end and unified memory, by the host's clock, from pageable memory."""
        drv, name = self.gpu.drv, self.contenders[0].name
        with self.split.part("inputs"):
            host = [np.empty(count, np.float32) for count in shape.elements]
            for array, source in zip(host, (a, b, c), strict=True):
                drv.memcpy_dtoh(array, source)

        def upload() -> None:
            drv.memcpy_htod(a, host[0])
            drv.memcpy_htod(b, host[1])

        def whole() -> None:
            upload()
            self.finished(lambda: self.products[0](shape, a, b, c))
            drv.memcpy_dtoh(host[2], c)

        def batch(action: Callable[[], None]) -> Callable[[int], list[list[float]]]:
            return lambda count: [[host_ms(action) for _ in range(count)]]

        phases = {
            "h2d": batch(upload),
            "d2h": batch(lambda: drv.memcpy_dtoh(host[2], c)),
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
            drv.managed_empty(count, np.float32, mem_flags=drv.mem_attach_flags.GLOBAL)
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


def host_copies_refusal(shape: Shape, share: float) -> str | None:
    """Why the host has no room for the matrices, twice: once pageable, once in managed memory."""
    return beyond_host_memory(2 * 4 * sum(shape.elements), "host memory for its copies", share)
