"""Measuring on the GPU: verify, then time a kernel and its rivals in turn on the same inputs."""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.intervals import Rule
from matmul_sweep.experiment.measure.alone import Alone
from matmul_sweep.experiment.measure.bench import (
    LostDevice,
    Point,
    Split,
    Wrong,
    beyond,
    error_columns,
)
from matmul_sweep.experiment.measure.contest import Contender, Contest
from matmul_sweep.experiment.measure.copies import Copied
from matmul_sweep.experiment.measure.launches import Action, Launches, in_a_row, launches_of
from matmul_sweep.experiment.measure.sampling import collect, repeated, run_for
from matmul_sweep.experiment.measure.state import Recorder, cool, state_of
from matmul_sweep.experiment.measure.timing import HeldStream, host_ms
from matmul_sweep.experiment.plan.settings import Case, Settings
from matmul_sweep.experiment.verify.cublaslt import CublasError
from matmul_sweep.experiment.verify.gpu import Gpu
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.products import GpuProduct, gpu_product
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
ALIGNMENT = 256  # bytes, as the driver allocates


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
        except (TimeoutError, CublasError) as failure:
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
            firsts = [host_ms(partial(self.tools.finished, launch)) for launch in launches]
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
        contenders = [
            Contender(variant, own) for variant, own in zip(self.contenders, launches, strict=True)
        ]
        contest = Contest(self.tools, contenders, wanted, self.random)
        for cache in self.settings.caches:
            with self.split.part("timed"):
                self.time_cache(point, case, cache, contest, errors)

    def time_cache(
        self, point: Point, case: Case, cache: str, contest: Contest, errors: Mapping[str, float]
    ) -> None:
        """Time the contenders in a cache state. One that is left out has a row that says why."""
        if reason := self.left_out(point, case.shape, cache):
            point.add("kernel", cache, {}, status="skipped", reason=reason, **errors)
        elif cache == "alone":
            self.time_alone(point, contest, errors)
        else:
            self.time_in_turn(point, case, cache, contest, errors)

    def let_cool(self) -> None:
        """Wait while the card is too hot, until the job's budget for waiting is used up."""
        limits = self.settings.limits
        end = time.perf_counter() + limits.cool_seconds - self.split.seconds.get("cooling", 0.0)
        with self.split.part("cooling"):
            while not all(cool(now, limits.cool_celsius) for now in self.recorder.now()):
                if time.perf_counter() >= end:
                    return
                time.sleep(COOLING_STEP_S)

    def verify(self, wanted: Reference, cs: Sequence[int]) -> dict[str, float]:
        """The columns of the kernel's errors. Raises Wrong if an error of the kernel or a rival
        exceeds the bound."""
        errors = wanted.errors(cs, [variant.kernel for variant in self.contenders])
        own, *_ = map(error_columns, self.contenders, errors)
        return own

    def time_in_turn(
        self, point: Point, case: Case, cache: str, contest: Contest, errors: Mapping[str, float]
    ) -> None:
        """Kernel times of all contenders, interleaved at random: back to back, on buffers in
        rotation, or with the L2 cleared before each. A sample of short launches is the mean of
        several in a row.
        """
        contenders = [own for own in contest.contenders if not own.variant.kernel.tuned]
        if cache == "rotated":
            contenders = self.rotating(contenders)
        clear = self.tools.clear_l2 if cache == "cold" else None
        counts = [1] * len(contenders)  # launches in a row per sample of each

        def batch(count: int) -> list[list[float]]:
            pairs = min(count, MOST_LAUNCHES // sum(counts))
            order = [i for _ in range(pairs) for i in self.random.permutation(len(contenders))]
            times: list[list[float]] = [[] for _ in contenders]
            rows = [in_a_row(contenders[i].launches, counts[i]) for i in order]
            for who, time_ms in zip(order, self.stream.times(rows, clear), strict=True):
                times[who].append(time_ms / counts[who])
            return times

        def last(count: int, launch: Action, behind: Action) -> float:
            [taken] = self.stream.times([in_a_row(launch, count)], clear, behind)
            return taken / count

        sampling = self.settings.sampling
        before, begun = self.recorder.now(), time.perf_counter()
        run_for(sampling.warming(case.mode) - self.loaded_s, lambda: batch(1))
        if sampling.sample_seconds and not clear:
            most = MOST_LAUNCHES // len(contenders)
            counts = [launches_of(sampling.sample_seconds, taken, most) for [taken] in batch(1)]
        start = time.perf_counter()
        times, stopped = collect(sampling, batch)
        for own, contender, count in zip(times, contenders, counts, strict=True):
            own.append(contest.looked_at(contender, partial(last, count)))
        end, after = time.perf_counter(), self.recorder.now()
        self.loaded_s += end - begun
        # The span was shorter than the recorder's period: read the state just after it.
        during = self.recorder.span(start, end) or after
        point.add(
            "kernel", cache, dict(zip([c.variant.name for c in contenders], times, strict=True)),
            stopped=stopped, launches=counts[0], **errors, **asdict(state_of(during)),
        )  # fmt: skip
        for when, readings in (("before", before), ("during", during), ("after", after)):
            read = {"phase": "kernel", "cache": cache, "when": when, "readings": len(readings)}
            point.states.append(read | asdict(state_of(readings)))

    def time_alone(self, point: Point, contest: Contest, errors: Mapping[str, float]) -> None:
        """Blocks of each contender alone; a failed row where the host cannot keep up."""
        try:
            blocks = self.alone.blocks(contest)
        except TimeoutError as failure:
            point.add("kernel", "alone", {}, status="failed", reason=str(failure), **errors)
            return
        point.ran = next(iter(blocks)).algorithm
        point.add_blocks({own.variant.name: blocks[own] for own in blocks}, errors)

    def left_out(self, point: Point, shape: Shape, cache: str) -> str | None:
        """Why times in this cache state would equal hot ones, or None if they may differ."""
        hot = point.times.get((self.contenders[0].name, "kernel", "hot"))
        if cache == "cold" and hot and median(hot) > LONG_MS:
            return f"cold and hot are alike: a launch takes over {LONG_MS} ms"
        if cache == "rotated" and sum(self.operation.sizes(shape)) > self.gpu.l2_bytes:
            return "rotated and hot are alike: the matrices do not fit the L2"
        return None

    def rotating(self, contenders: Sequence[Contender]) -> list[Contender]:
        """Launches on copies of the matrices in turn, so many that the L2 no longer holds a copy
        when its turn comes again."""
        one = contenders[0].launches
        sizes = self.operation.sizes(one.shape)
        starts = [ALIGNMENT * ceil_div(size, ALIGNMENT) for size in sizes]
        *offsets, stride = itertools.accumulate(starts, initial=0)
        copies = ceil_div(2 * self.gpu.l2_bytes, stride)
        arena, (*inputs, _) = self.gpu.drv.mem_alloc(copies * stride), next(one.turns)
        places = [[int(arena) + i * stride + start for start in offsets] for i in range(copies)]
        for place in places:
            for to, source, size in zip(place, inputs, sizes, strict=False):
                self.gpu.drv.memcpy_dtod(to, source, size)
        turns = itertools.cycle(places)
        return [
            replace(
                own, launches=Launches(partial(kept, arena, own.launches.product), one.shape, turns)
            )
            for own in contenders
        ]

    def time_copies(self, point: Point, shape: Shape, arrays: Sequence[int], rule: Rule) -> None:
        """Copies, end to end, unified memory and the handing over of a launch; `arrays` are device
        pointers to the inputs and to C."""
        with self.split.part("inputs"):
            copied = Copied(self.tools, self.products[0], shape, arrays)
        with self.split.part("timed"):
            for phase, take in copied.phases().items():
                [times], _ = collect(rule, repeated(take))
                point.add(phase, "cold", {self.contenders[0].name: times})


def kept(arena: Any, product: GpuProduct, *arguments: Any) -> None:
    """A product on arrays in an arena, which lives as long as this can be called."""
    product(*arguments)
