"""Variants and their rivals alone, in one contest at each shape: their blocks take turns on one
card, so that neighbouring blocks, which give the speed-ups, met the same conditions."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain
from pathlib import Path
from statistics import median

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.measure.alone import BLOCKS, BRIEF_S, SETTLE_S, SWING_S, Alone
from matmul_sweep.experiment.measure.bench import Block, Point, Split, Wrong, typical
from matmul_sweep.experiment.measure.contest import Contender, Contest
from matmul_sweep.experiment.measure.gpu_bench import GpuBench
from matmul_sweep.experiment.measure.state import Recorder
from matmul_sweep.experiment.plan.settings import Case, Settings
from matmul_sweep.experiment.verify.gpu import Gpu
from matmul_sweep.experiment.verify.products import gpu_product, offers
from matmul_sweep.experiment.verify.reference import reference
from matmul_sweep.launch.products import NotCompiled
from matmul_sweep.operations.shapes import Shape

SCREEN_S = 0.05  # a block of each algorithm of the library
FINALISTS = 2  # of these algorithms, which are timed in full
FAR = 1.25  # times the time of the fastest rival
FEW = 5  # launches at least of a brief block


@dataclass(eq=False)
class Entrant:
    """A contender that was right at a first look, the columns of its errors, and its blocks."""

    contender: Contender
    look: Block
    errors: dict[str, float]
    blocks: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.contender.variant.name

    @property
    def time_ms(self) -> float:
        return median(block.time_ms for block in self.blocks)


class AloneBench(GpuBench):
    """Measures variants and their rivals alone."""

    def __init__(
        self, gpu: Gpu, variants: Sequence[Variant],
        rivals: Mapping[str, Sequence[Variant]], build: Path, settings: Settings, split: Split,
        shapes: Sequence[Shape], recorder: Recorder,
    ) -> None:  # fmt: skip
        """rivals: of each variant, by its name."""
        every = {own.name: own for own in (*variants, *chain(*rivals.values()))}
        super().__init__(gpu, [*every.values()], build, settings, split, recorder)
        self.rivals = rivals
        self.alone = Alone(self.stream, recorder, gpu.facts()["power_limit_w"])
        self.product = cache(lambda variant: gpu_product(variant, self.tools, shapes))

    def measure(self, case: Case, variants: Sequence[Variant]) -> dict[str, Point | str]:
        """Of each of the variants, by name, its point in this case or why it has none. Raises
        Wrong, of all of them, and LostDevice."""
        self.let_cool()
        with self.failures():
            with self.split.part("inputs"):
                contest, c = self.contest(case)
            with self.split.part("timed"):
                entrants, reasons = self.admitted(contest, c, variants)
                if entrants:
                    contest.wanted.spot_check(case.fill, self.settings.seed)
                self.take_turns(contest, entrants, reasons)
        for name, reason in reasons.items():
            logging.warning("%s %s: %s", name, case, reason)
        best: dict[str, Entrant] = {}
        for entrant in sorted(entrants, key=lambda own: own.time_ms):
            best.setdefault(entrant.name, entrant)
        return {
            v.name: self.point(v, best) if v.name in best else reasons[v.name] for v in variants
        }

    def contest(self, case: Case) -> tuple[Contest, int]:
        """The inputs and their product, and the C that all contenders write."""
        shape, kind = case.shape, self.operation
        inputs = self.tools.inputs(case.fill, self.settings.seed, shape, kind.dtype)
        c = self.tools.poisoned(shape.elements[-1], kind.output)
        wanted = reference(self.tools, shape, case.fill, inputs)
        return Contest(self.tools, wanted, inputs), c

    def admitted(
        self, contest: Contest, c: int, variants: Sequence[Variant]
    ) -> tuple[list[Entrant], dict[str, str]]:
        """The entrants of these variants and of their rivals; why others are none, by name. Rivals
        that are far slower than the fastest that fills C are left out."""
        rivals = {own.name for v in variants for own in self.rivals[v.name]}
        names = rivals | {own.name for own in variants}
        entrants: list[Entrant] = []
        reasons: dict[str, str] = {}
        for variant in (own for own in self.variants if own.name in names):
            own = self.screened if variant.kernel.tuned else self.right
            try:
                with self.failures(variant.name):
                    entrants += own(contest, c, variant)
            except (Wrong, NotCompiled) as failure:
                reasons[variant.name] = str(failure)
        beside = [e for e in entrants if e.name in rivals]
        full = [e for e in beside if e.contender.variant.kernel.writes == "full"]
        near = FAR * min((e.look.time_ms for e in full or beside), default=0)
        asked_for = {own.name for own in variants}
        return [e for e in entrants if e.name in asked_for or e.look.time_ms <= near], reasons

    def right(self, contest: Contest, c: int, variant: Variant) -> list[Entrant]:
        """The entrant of a variant. Raises Wrong, NotCompiled."""
        return [self.entrant(contest, contest.contender(variant, self.product(variant), c))]

    def screened(self, contest: Contest, c: int, variant: Variant) -> list[Entrant]:
        """Of a variant that stands for all that the library offers, the FINALISTS fastest of its
        algorithms that are right, by a brief block. Raises Wrong if none is; CublasError."""
        taken: dict[Contender, float] = {}
        shape = contest.wanted.shape
        timed = partial(self.alone.block, shape.operations, settle_s=0, block_s=SCREEN_S)
        for name, product in offers(self.operation, self.tools, shape).items():
            contender = contest.contender(variant, product, c, name)
            with suppress(Wrong), self.failures(variant.name):
                taken[contender] = contest.looked_at(contender, timed, factor=1)[0].time_ms
        if not taken:
            raise Wrong(f"no algorithm of the library is right at {shape}")
        best = sorted(taken, key=taken.__getitem__)[:FINALISTS]
        return [self.entrant(contest, contender) for contender in best]

    def entrant(self, contest: Contest, contender: Contender) -> Entrant:
        """A contender after its first look, at which a card that comes to its power limit shows
        it. Raises Wrong."""
        timed = partial(self.alone.block, contest.wanted.shape.operations)
        return Entrant(contender, *contest.looked_at(contender, timed, factor=1))

    def take_turns(
        self, contest: Contest, entrants: list[Entrant], reasons: dict[str, str]
    ) -> None:
        """BLOCKS of each, in random order; C of the last is verified. One that fails leaves."""
        for turn in range(BLOCKS):
            for entrant in [entrants[i] for i in self.random.permutation(len(entrants))]:
                look = entrant.look
                brief = not look.limited and look.time_ms * FEW <= BRIEF_S * 1e3
                settle_s, block_s = (BRIEF_S, BRIEF_S) if brief else (SETTLE_S, SWING_S)
                timed = partial(
                    self.alone.block, contest.wanted.shape.operations,
                    launch_ms=look.time_ms, settle_s=settle_s, block_s=block_s,
                )  # fmt: skip
                try:
                    with self.failures(entrant.name):
                        entrant.blocks.append(
                            timed(entrant.contender.launch) if turn < BLOCKS - 1
                            else contest.looked_at(entrant.contender, timed)[0]
                        )  # fmt: skip
                except Wrong as failure:
                    reasons[entrant.name] = str(failure)
                    entrants.remove(entrant)

    def point(self, variant: Variant, best: Mapping[str, Entrant]) -> Point:
        """What a variant and its rivals took. Of one that leaves the card below its power limit
        the power and the clock are those of its first look."""
        own = best[variant.name]
        names = [v.name for v in (variant, *self.rivals[variant.name]) if v.name in best]
        blocks = {name: best[name].blocks for name in names}
        draws = {
            (who, "kernel", "alone"): [(block.power_w, block.sm_clock_mhz) for block in of]
            for who, of in blocks.items()
        }
        point = Point(ran=own.contender.algorithm, draws=draws)
        times = {who: [block.time_ms for block in of] for who, of in blocks.items()}
        drawn = typical(own.blocks if own.look.limited else [own.look])
        point.add("kernel", "alone", times, **own.errors, **drawn)
        return point
