"""A kernel and its rivals in turn: verified, then timed on the same inputs at one clock."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.measure.bench import Point, Split, error_columns
from matmul_sweep.experiment.measure.contest import Contender, Contest
from matmul_sweep.experiment.measure.copies import phases
from matmul_sweep.experiment.measure.gpu_bench import GpuBench
from matmul_sweep.experiment.measure.launches import Action, in_a_row, launches_of
from matmul_sweep.experiment.measure.sampling import collect, repeated, run_for
from matmul_sweep.experiment.measure.state import Recorder, state_of
from matmul_sweep.experiment.measure.timing import host_ms
from matmul_sweep.experiment.plan.settings import Case, Settings
from matmul_sweep.experiment.verify.gpu import Gpu
from matmul_sweep.experiment.verify.products import gpu_product
from matmul_sweep.experiment.verify.reference import reference
from matmul_sweep.operations.shapes import Shape

# Per hold. The driver's queue takes about a thousand commands; a launch may be several, and has two
# events around it.
MOST_LAUNCHES = 128
# Filling an L2 of 50 MB at 3.35 TB/s takes 15 µs, and writing back its contents as long again. This
# is under a thousandth of a launch of this length, so cold and hot times cannot be told apart.
LONG_MS = 50


class InTurnBench(GpuBench):
    """Measures one GPU variant in turn with its rivals."""

    def __init__(
        self, gpu: Gpu, variant: Variant, rivals: Sequence[Variant], build: Path,
        settings: Settings, split: Split, shapes: Sequence[Shape], recorder: Recorder,
    ) -> None:  # fmt: skip
        super().__init__(gpu, [variant, *rivals], build, settings, split, recorder)
        self.cs = len(self.variants)
        self.products = [gpu_product(v, self.tools, shapes) for v in self.variants]
        self.loaded_s = 0.0  # seconds of launches at this point so far, which warm up the card

    def measure(self, case: Case) -> Point:
        """Verify and time one case. Raises Wrong, LostDevice."""
        point, shape, kind = Point(), case.shape, self.operation
        self.let_cool()
        with self.failures():
            with self.split.part("inputs"):
                inputs = self.tools.inputs(case.fill, self.settings.seed, shape, kind.dtype)
                cs = [self.tools.poisoned(shape.elements[-1], kind.output) for _ in self.variants]
                self.tools.stream.synchronize()
            self.time_kernels(point, case, inputs, cs)
            if rule := self.settings.sampling.copies:
                with self.split.part("inputs"):
                    taking = phases(self.tools, self.products[0], shape, [*inputs, cs[0]])
                with self.split.part("timed"):
                    for phase, take in taking.items():
                        [times], _ = collect(rule, repeated(take))
                        point.add(phase, "cold", {self.variants[0].name: times})
        return point

    def time_kernels(
        self, point: Point, case: Case, inputs: Sequence[Any], cs: Sequence[Any]
    ) -> None:
        """Verify the contenders' first launches, and time them in each cache state where that may
        matter. The reference, which takes memory, is there no longer than that. Raises Wrong, also
        of a rival."""
        wanted = reference(self.tools, case.shape, case.fill, inputs)
        contest = Contest(self.tools, wanted, inputs)
        contenders = [*map(contest.contender, self.variants, self.products, cs)]
        with self.split.part("timed"):
            firsts = [host_ms(partial(self.tools.finished, own.launch)) for own in contenders]
        point.add("first", "cold", {self.variants[0].name: firsts[:1]})
        self.loaded_s = sum(firsts) / 1e3
        with self.split.part("verification"):
            found = wanted.errors(cs, [variant.kernel for variant in self.variants])
            errors, *_ = map(error_columns, self.variants, found)
            wanted.spot_check(case.fill, self.settings.seed)
        for cache in self.settings.caches:
            hot = point.times.get((self.variants[0].name, "kernel", "hot"))
            if cache == "cold" and hot and median(hot) > LONG_MS:
                reason = f"cold and hot are alike: a launch takes over {LONG_MS} ms"
                point.add("kernel", cache, {}, status="skipped", reason=reason, **errors)
                continue
            with self.split.part("timed"):
                self.time_in_turn(point, case, cache, contest, contenders, errors)

    def time_in_turn(
        self, point: Point, case: Case, cache: str, contest: Contest,
        contenders: Sequence[Contender], errors: Mapping[str, float],
    ) -> None:  # fmt: skip
        """Kernel times of all contenders, interleaved at random: back to back, or with the L2
        cleared before each. A sample of short launches is the mean of several in a row."""
        clear = self.tools.clear_l2 if cache == "cold" else None
        counts = [1] * len(contenders)  # launches in a row per sample of each

        def batch(count: int) -> list[list[float]]:
            pairs = min(count, MOST_LAUNCHES // sum(counts))
            order = [i for _ in range(pairs) for i in self.random.permutation(len(contenders))]
            times: list[list[float]] = [[] for _ in contenders]
            rows = [in_a_row(contenders[i].launch, counts[i]) for i in order]
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
            own.append(contest.looked_at(contender, partial(last, count))[0])
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
