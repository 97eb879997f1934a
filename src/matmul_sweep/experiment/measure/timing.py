"""Measure time: on the device by events behind a held stream, on the host by its clock."""

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.measure.launches import Action
from matmul_sweep.experiment.verify.instruments import Instruments, as_bytes
from matmul_sweep.experiment.verify.runner import CpuRunner, GpuRunner, Runner
from matmul_sweep.operations.shapes import Shape

PATIENCE_S = 1.0  # after which the hold kernel releases the stream by itself
TRIES = 5
LOT, LOTS_AHEAD = 64, 3  # launches, of several commands each; the queue takes about a thousand
LAUNCHES = 10  # whose median is the time of a product


def host_ms(action: Callable[[], object]) -> float:
    """Milliseconds that `action` takes, by the host's monotonic clock."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1e3


class HeldStream:
    """Times launches by events while a spinning kernel keeps the stream from starting them.

    Events around a launch from Python would time Python, because the GPU idles between the first
    event and the kernel while the host prepares the launch. nvbench holds its stream the same way.
    """

    def __init__(self, tools: Instruments) -> None:
        self.tools = tools
        drv = tools.drv
        self.flag = drv.pagelocked_zeros(1, np.int32, mem_flags=drv.host_alloc_flags.DEVICEMAP)
        self.flag_pointer = int(self.flag.base.get_device_pointer())
        self.events: list[tuple[Any, Any]] = []

    def times(
        self, launches: Sequence[Action], before: Action | None = None, behind: Action | None = None
    ) -> list[float]:
        """Milliseconds of each launch, in order; `before` runs ahead of each, untimed, and `behind`
        directly after the last.

        The launches are enqueued together, so they must not wait for the device. If the host takes
        longer than the hold lasts, the times are discarded and taken again. Raises TimeoutError if
        that happens repeatedly, or Unfinished.
        """
        self.have_events(len(launches))
        for _ in range(TRIES):
            enqueued_s = self.enqueue(launches, before, behind)
            self.tools.wait()
            if enqueued_s < PATIENCE_S / 2:
                used = self.events[: len(launches)]
                return [stop.time_since(start) for start, stop in used]
        raise TimeoutError(
            f"the host needed {enqueued_s:.2f} s to enqueue {len(launches)} launches"
        )

    def have_events(self, pairs: int) -> None:
        while len(self.events) < pairs:
            self.events.append((self.tools.drv.Event(), self.tools.drv.Event()))

    def enqueue(
        self, launches: Sequence[Action], before: Action | None, behind: Action | None
    ) -> float:
        """Hold the stream, enqueue everything, release it; return the seconds that it was held."""
        stream = self.tools.stream
        self.flag[0] = 0
        held = time.perf_counter()
        self.tools.hold(self.flag_pointer, int(PATIENCE_S * 1e9))
        try:
            for launch, (start, stop) in zip(launches, self.events, strict=False):
                if before:
                    before()
                start.record(stream)
                launch()
                stop.record(stream)
            if behind:
                behind()
        finally:
            self.flag[0] = 1
        return time.perf_counter() - held

    def running(self, launch: Action, first: int, count: int, behind: Action | None) -> float:
        """Milliseconds of `count` launches that follow `first` others without a pause, more than
        the driver's queue takes, so that nothing holds the stream; `behind` runs directly after
        them. If the host falls behind, they are taken again. Raises TimeoutError if that happens
        repeatedly, or Unfinished.
        """
        self.have_events(LOTS_AHEAD + 2)
        (start, stop), *marks = self.events[: LOTS_AHEAD + 2]
        for _ in range(TRIES):
            queue = Queue(self.tools, [mark for mark, _ in marks])
            queue.launch(launch, first)
            start.record(self.tools.stream)
            queue.launch(launch, count)
            stop.record(self.tools.stream)
            if behind:
                behind()
            late = queue.late or stop.query()
            self.tools.wait()
            if not late:
                return stop.time_since(start)
            time.sleep(PATIENCE_S)  # others use the host
        raise TimeoutError("the host enqueues launches more slowly than they run")


class Queue:
    """Enqueues launches in lots, few ahead of the device: an enqueuing that waits for room in the
    driver's queue would hold up the thread that reads the card's state.

    late: whether the device was through with a lot before the next one was there.
    """

    def __init__(self, tools: Instruments, marks: Sequence[Any]) -> None:
        """marks: LOTS_AHEAD + 1 events, because making one may wait for that thread."""
        self.tools, self.late = tools, False
        self.marks, self.ahead = cycle(marks), deque[Any]()

    def launch(self, launch: Action, count: int) -> None:
        """Raises Unfinished."""
        for left in range(count, 0, -LOT):
            if len(self.ahead) == LOTS_AHEAD:
                self.tools.wait(self.ahead.popleft().query)
            launch()
            self.late |= left < count and self.ahead[-1].query()
            for _ in range(min(left, LOT) - 1):
                launch()
            end = next(self.marks)
            end.record(self.tools.stream)
            self.ahead.append(end)


def product_ms(run: Runner, variant: Variant, shape: Shape, *inputs: np.ndarray) -> float | None:
    """Milliseconds of a product, without copies; None if threads ran one after another."""
    if isinstance(run, CpuRunner):
        product, c = run.product(variant), np.empty(shape.output, variant.kernel.product.output)
        return host_ms(lambda: product(shape, *inputs, c))
    if not isinstance(run, GpuRunner):
        return None
    launched = run.product(variant)
    c = run.tools.poisoned(shape.elements[-1], variant.kernel.product.output)
    arrays = [*(run.gpu.drv.to_device(as_bytes(matrix)) for matrix in inputs), c]
    launches = [lambda: launched(shape, *arrays)] * LAUNCHES
    return statistics.median(HeldStream(run.tools).times(launches))
