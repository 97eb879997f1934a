"""Measuring on the GPU: verify, then time a kernel and its rivals in turn on the same inputs."""

import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np
import psutil

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.intervals import Rule
from matmul_sweep.experiment.measure.alone import BLOCKS, Alone
from matmul_sweep.experiment.measure.bench import (
    Block,
    LostDevice,
    Point,
    Split,
    Wrong,
    beyond,
    error_columns,
)
from matmul_sweep.experiment.measure.launches import Action, Launches, in_a_row, launches_of
from matmul_sweep.experiment.measure.sampling import collect, repeated, run_for
from matmul_sweep.experiment.measure.state import Recorder, cool, state_of
from matmul_sweep.experiment.measure.timing import HeldStream, host_ms
from matmul_sweep.experiment.plan.settings import Case, Settings
from matmul_sweep.experiment.verify.cublaslt import CublasError
from matmul_sweep.experiment.verify.gpu import Gpu
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.products import GpuProduct, gpu_product, offers
from matmul_sweep.experiment.verify.reference import Reference, reference, reference_bytes
from matmul_sweep.operations.shapes import Shape, ceil_div
from matmul_sweep.process.errors import Unfinished

# Per hold. The driver's queue takes about a thousand commands; a launch may be several, and has two
# events around it.
MOST_LAUNCHES = 128
# Filling an L2 of 50 MB at 3.35 TB/s takes 15 µs, and writing back its contents as long again. This
# is under a thousandth of a launch of this length, so cold and hot times cannot be told apart.
LONG_MS = 50
COOLING_STEP_S = 0.5
SCREEN_S = 0.05  # a block of each algorithm of the library
FINALISTS = 2  # of them
Timed = TypeVar("Timed", float, Block)
ALIGNMENT = 256  # bytes, as the driver allocates


@dataclass(frozen=True)
class Entrant:
    """A contender that is timed alone; algorithm: of those that the library offers."""

    variant: Variant
    launches: Launches
    algorithm: str = ""

    __hash__ = object.__hash__


class GpuBench:
    """Measures one GPU variant against its rivals."""

    def __init__(
        self, gpu: Gpu, variant: Variant, rivals: Sequence[Variant], build: Path,
        settings: Settings, split: Split, shapes: Sequence[Shape], recorder: Recorder,
    ) -> None:  # fmt: skip
        self.gpu, self.settings, self.split = gpu, settings, split
        self.tools = Instruments(gpu, build, settings.limits.hang_seconds)
        self.stream = HeldStream(self.tools)
        self.alone = Alone(self.stream, recorder)
        self.contenders = [variant, *rivals]
        self.dtype = variant.kernel.dtype
        self.operation = variant.kernel.product
        self.products = [gpu_product(v, self.tools, shapes) for v in self.contenders]
        self.recorder = recorder
        self.random = np.random.default_rng(settings.seed)
        self.loaded_s = 0.0  # seconds of launches at this point so far, which warm up the card

    def memory_needed(self, shape: Shape) -> int:
        """Bytes on the device; the reference is gone before managed copies are made."""
        *inputs, c = self.operation.sizes(shape)
        managed = sum(inputs) + c if self.settings.sampling.copies else 0
        own = sum(v.workspace_bytes(shape, self.gpu.architecture) for v in self.contenders)
        return sum(inputs) + c * len(self.contenders) + own + max(reference_bytes(shape), managed)

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

    def measure(self, case: Case) -> Point:
        """Verify and time one case. Raises Wrong, LostDevice."""
        self.let_cool()
        try:
            return self.verified_and_timed(case)
        except (self.gpu.drv.MemoryError, MemoryError) as failure:
            raise Wrong(f"out of memory: {failure}") from None
        except TimeoutError as failure:
            raise Wrong(str(failure)) from None
        except Unfinished as failure:
            raise LostDevice(str(failure)) from None
        except self.gpu.errors as failure:
            raise LostDevice(f"the launch failed: {failure}") from None

    def verified_and_timed(self, case: Case) -> Point:
        point, shape = Point(), case.shape
        with self.split.part("inputs"):
            inputs = self.tools.inputs(case.fill, self.settings.seed, shape, self.dtype)
            count, output = shape.elements[-1], self.operation.output
            cs = [self.tools.poisoned(count, output) for _ in self.contenders]
            self.tools.stream.synchronize()
        launches = [
            Launches(product, shape, itertools.repeat((*inputs, c)))
            for product, c in zip(self.products, cs, strict=True)
        ]
        with self.split.part("timed"):
            firsts = [host_ms(partial(self.finished, launch)) for launch in launches]
        point.add("first", "cold", {self.contenders[0].name: firsts[:1]})
        self.loaded_s = sum(firsts) / 1e3
        self.time_kernels(point, case, inputs, cs, launches)
        if rule := self.settings.sampling.copies:
            self.time_copies(point, shape, [*inputs, cs[0]], rule)
        return point

    def time_kernels(
        self, point: Point, case: Case, inputs: Sequence[Any], cs: Sequence[Any],
        launches: Sequence[Launches],
    ) -> None:  # fmt: skip
        """Verify the contenders, and time them in each cache state. The reference, which takes
        memory, is there no longer than that."""
        with self.split.part("verification"):
            wanted = reference(self.tools, case.shape, case.fill, inputs)
            errors = self.verify(wanted, cs)
            wanted.spot_check(case.fill, self.settings.seed)
        for cache in self.settings.caches:
            with self.split.part("timed"):
                self.time_cache(point, case, cache, launches, wanted, errors)

    def time_cache(
        self, point: Point, case: Case, cache: str, launches: Sequence[Launches],
        wanted: Reference, errors: Mapping[str, float],
    ) -> None:  # fmt: skip
        """Time the contenders in a cache state. One that is left out has a row that says why."""
        if reason := self.left_out(point, case.shape, cache):
            point.add("kernel", cache, {}, status="skipped", reason=reason, **errors)
        elif cache == "alone":
            self.time_alone(point, launches, wanted, errors)
        else:
            self.time_in_turn(point, case, cache, launches, wanted, errors)

    def let_cool(self) -> None:
        """Wait while the card is too hot, until the job's budget for waiting is used up."""
        limits = self.settings.limits
        end = time.perf_counter() + limits.cool_seconds - self.split.seconds.get("cooling", 0.0)
        with self.split.part("cooling"):
            while not all(cool(now, limits.cool_celsius) for now in self.recorder.now()):
                if time.perf_counter() >= end:
                    return
                time.sleep(COOLING_STEP_S)

    def finished(self, launch: Callable[[], None]) -> None:
        launch()
        self.tools.wait()

    def verify(self, wanted: Reference, cs: Sequence[int]) -> dict[str, float]:
        """The columns of the kernel's errors. Raises Wrong if an error of the kernel or a rival
        exceeds the bound."""
        errors = wanted.errors(cs, [variant.kernel for variant in self.contenders])
        own, *_ = map(error_columns, self.contenders, errors)
        return own

    def time_in_turn(
        self, point: Point, case: Case, cache: str, launches: Sequence[Launches],
        wanted: Reference, errors: Mapping[str, float],
    ) -> None:  # fmt: skip
        """Kernel times of all contenders, interleaved at random: back to back, on buffers in
        rotation, or with the L2 cleared before each. A sample of short launches is the mean of
        several in a row.
        """
        if cache == "rotated":
            launches = self.rotating(launches)
        clear = self.tools.clear_l2 if cache == "cold" else None
        counts = [1] * len(launches)  # launches in a row per sample of each contender

        def batch(count: int) -> list[list[float]]:
            pairs = min(count, MOST_LAUNCHES // sum(counts))
            order = [i for _ in range(pairs) for i in self.random.permutation(len(launches))]
            times: list[list[float]] = [[] for _ in launches]
            rows = [in_a_row(launches[i], counts[i]) for i in order]
            for who, time_ms in zip(order, self.stream.times(rows, clear), strict=True):
                times[who].append(time_ms / counts[who])
            return times

        sampling = self.settings.sampling
        before, begun = self.recorder.now(), time.perf_counter()
        run_for(sampling.warming(case.mode) - self.loaded_s, lambda: batch(1))
        if sampling.sample_seconds and not clear:
            most = MOST_LAUNCHES // len(launches)
            counts = [launches_of(sampling.sample_seconds, taken, most) for [taken] in batch(1)]
        start = time.perf_counter()
        times, stopped = collect(sampling, batch)
        for own, launch, count, who in zip(times, launches, counts, self.contenders, strict=True):

            def last(one: Action, behind: Action, count: int = count) -> float:
                [taken] = self.stream.times([in_a_row(one, count)], clear, behind)
                return taken / count

            own.append(self.looked_at(who, launch, wanted, last))
        end, after = time.perf_counter(), self.recorder.now()
        self.loaded_s += end - begun
        # The span was shorter than the recorder's period: read the state just after it.
        during = self.recorder.span(start, end) or after
        point.add(
            "kernel", cache, dict(zip([v.name for v in self.contenders], times, strict=True)),
            stopped=stopped, launches=counts[0], **errors, **asdict(state_of(during)),
        )  # fmt: skip
        for when, readings in (("before", before), ("during", during), ("after", after)):
            read = {"phase": "kernel", "cache": cache, "when": when, "readings": len(readings)}
            point.states.append(read | asdict(state_of(readings)))

    def time_alone(
        self, point: Point, launches: Sequence[Launches], wanted: Reference,
        errors: Mapping[str, float],
    ) -> None:  # fmt: skip
        """Blocks of each contender, which take turns; C of its last block is verified. A rival that
        fails is left out; of the library's algorithms the fastest stays."""
        operations = launches[0].shape.operations
        timed = partial(self.alone.block, operations)
        left = self.entrants(launches, wanted)
        blocks: dict[Entrant, list[Block]] = {entrant: [] for entrant in left}
        for turn in range(BLOCKS):
            for i in self.random.permutation(len(left)):
                entrant = left[i]
                try:
                    if turn < BLOCKS - 1:
                        blocks[entrant].append(timed(entrant.launches))
                    else:
                        own = self.looked_at(entrant.variant, entrant.launches, wanted, timed)
                        blocks[entrant].append(own)
                except (Wrong, TimeoutError) as failure:
                    if entrant.variant == self.contenders[0]:
                        raise
                    blocks.pop(entrant)
                    logging.warning("not compared: %s", failure)
            left = [*blocks]
        best: dict[str, Entrant] = {}
        for entrant in sorted(left, key=lambda own: median(b.time_ms for b in blocks[own])):
            best.setdefault(entrant.variant.name, entrant)
        first = best.pop(self.contenders[0].name)
        point.ran = first.algorithm
        point.add_blocks(
            [(own.variant.name, blocks[own]) for own in (first, *best.values())], errors
        )

    def entrants(self, launches: Sequence[Launches], wanted: Reference) -> list[Entrant]:
        """Who is timed alone: the contenders; in the place of one that stands for all that the
        library offers, its FINALISTS fastest in a brief block."""
        found = []
        for variant, own in zip(self.contenders, launches, strict=True):
            if variant.kernel.library and variant.kernel.routine.tuned:
                found += self.finalists(variant, own, wanted)
            else:
                found.append(Entrant(variant, own))
        return found

    def finalists(self, variant: Variant, own: Launches, wanted: Reference) -> list[Entrant]:
        timed = partial(self.alone.block, own.shape.operations, settle_s=0, block_s=SCREEN_S)
        taken: dict[Entrant, float] = {}
        for name, product in offers(self.operation, self.tools, own.shape).items():
            entrant = Entrant(variant, replace(own, product=product), name)
            try:
                taken[entrant] = self.looked_at(variant, entrant.launches, wanted, timed).time_ms
            except (Wrong, CublasError) as failure:
                logging.warning("%s is left out: %s", name, failure)
        return sorted(taken, key=taken.__getitem__)[:FINALISTS]

    def looked_at(
        self, variant: Variant, launches: Launches, wanted: Reference,
        timed: Callable[[Action, Action], Timed],
    ) -> Timed:  # fmt: skip
        """The last timed launches of a contender. C is NaN before them, and verified as they leave
        it. A is twice what it was before, so that no answer of an earlier launch is right.

        timed: times a launch, and enqueues an action directly behind the last. Raises Wrong.
        """
        arrays, launch = launches.here()
        (a, *_), c = arrays[:-1], arrays[-1]
        count, *_, output = launches.shape.elements
        scale, kind = self.tools.scale, self.operation
        times_c = 4 if kind.right == 0 else 2  # of C where A is both factors, and one
        scale(a, count, kind.dtype, 2)
        self.tools.poison(c, output, kind.output)
        found = timed(launch, partial(scale, c, output, kind.output, 1 / times_c))
        scale(a, count, kind.dtype, 1 / 2)
        [errors] = wanted.errors([c], [variant.kernel])
        error_columns(variant, errors, " in its last timed launch")
        return found

    def left_out(self, point: Point, shape: Shape, cache: str) -> str | None:
        """Why times in this cache state would equal hot ones, or None if they may differ."""
        hot = point.times.get((self.contenders[0].name, "kernel", "hot"))
        if cache == "cold" and hot and median(hot) > LONG_MS:
            return f"cold and hot are alike: a launch takes over {LONG_MS} ms"
        if cache == "rotated" and sum(self.operation.sizes(shape)) > self.gpu.l2_bytes:
            return "rotated and hot are alike: the matrices do not fit the L2"
        return None

    def rotating(self, launches: Sequence[Launches]) -> list[Launches]:
        """Launches on copies of the matrices in turn, so many that the L2 no longer holds a copy
        when its turn comes again."""
        sizes = self.operation.sizes(launches[0].shape)
        starts = [ALIGNMENT * ceil_div(size, ALIGNMENT) for size in sizes]
        *offsets, stride = itertools.accumulate(starts, initial=0)
        copies = ceil_div(2 * self.gpu.l2_bytes, stride)
        arena, inputs = self.gpu.drv.mem_alloc(copies * stride), launches[0].here()[0][:-1]
        places = [[int(arena) + i * stride + start for start in offsets] for i in range(copies)]
        for place in places:
            for to, source, size in zip(place, inputs, sizes, strict=False):
                self.gpu.drv.memcpy_dtod(to, source, size)
        turns = itertools.cycle(places)
        return [Launches(partial(kept, arena, one.product), one.shape, turns) for one in launches]

    def time_copies(self, point: Point, shape: Shape, arrays: Sequence[int], rule: Rule) -> None:
        """Copies, end to end, unified memory and the handing over of a launch, timed by the host's
        clock. Copies are from pageable memory.

        arrays: device pointers to the inputs and to C.
        """
        drv, product = self.gpu.drv, self.products[0]
        with self.split.part("inputs"):
            host = [np.empty(size, np.uint8) for size in self.operation.sizes(shape)]
            for array, source in zip(host, arrays, strict=True):
                drv.memcpy_dtoh(array, source)

        def upload() -> None:
            for array, values in zip(arrays[:-1], host[:-1], strict=True):
                drv.memcpy_htod(array, values)

        def download() -> None:
            drv.memcpy_dtoh(host[-1], arrays[-1])

        def whole() -> None:
            upload()
            self.finished(lambda: product(shape, *arrays))
            download()

        def submitted() -> float:
            milliseconds = host_ms(lambda: product(shape, *arrays))
            self.tools.wait()
            return milliseconds

        phases = {
            "h2d": lambda: host_ms(upload),
            "d2h": lambda: host_ms(download),
            "end_to_end": lambda: host_ms(whole),
            "unified": self.unified(shape, host),
            "submitted": submitted,
        }
        with self.split.part("timed"):
            for phase, take in phases.items():
                [times], _ = collect(rule, repeated(take))
                point.add(phase, "cold", {self.contenders[0].name: times})

    def unified(self, shape: Shape, host: Sequence[np.ndarray]) -> Callable[[], float]:
        """A launch on managed memory that the host has just written: the kernel and the migration,
        in ms.

        A host timer around the launch, as in documents 000 and 002, sees this time.
        """
        drv = self.gpu.drv
        managed = [
            drv.managed_empty(len(array), np.uint8, mem_flags=drv.mem_attach_flags.GLOBAL)
            for array in host
        ]
        pointers = [array.base.get_device_pointer() for array in managed]

        def one() -> float:
            for array, values in zip(managed, host, strict=True):
                array[:] = values
            return host_ms(lambda: self.finished(lambda: self.products[0](shape, *pointers)))

        return one


def kept(arena: Any, product: GpuProduct, *arguments: Any) -> None:
    """A product on arrays in an arena, which lives as long as this can be called."""
    product(*arguments)
