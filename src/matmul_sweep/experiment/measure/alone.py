"""Times that a program gets: blocks of the launches of a contender, which has the card for itself,
at the clock that its own power leaves it.

A neutral kernel before each launch keeps it from overlapping with the last one; the neutral
kernel's own time is taken off.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial
from statistics import median

from matmul_sweep.experiment.measure.bench import Block, Wrong
from matmul_sweep.experiment.measure.contest import Contender, Contest
from matmul_sweep.experiment.measure.launches import Action, in_a_row, launches_of
from matmul_sweep.experiment.measure.state import Recorder, average_power_w, state_of
from matmul_sweep.experiment.measure.timing import HeldStream
from matmul_sweep.experiment.verify.cublaslt import CublasError
from matmul_sweep.experiment.verify.products import offers

BLOCKS = 6  # of each contender: the fewest that give an interval
# Shorter products draw too little power, at any clock, to come to a card's limit.
LARGE = 4e10  # operations
SHORT_S = 0.02  # a block of them
SETTLE_S = 0.2  # until the clock is that of the kernel's own power
BLOCK_S = 0.3
SCREEN_S = 0.05  # a block of each algorithm of the library
FINALISTS = 2  # of these algorithms, which are timed in full
MOST_LAUNCHES = 200  # in a held block, each with a neutral one; a product may be several
# What one contender fails by, and the others do not.
FAILURES = (Wrong, TimeoutError, CublasError)

Blocks = dict[Contender, list[Block]]


class Alone:
    """Times blocks on a stream."""

    def __init__(self, stream: HeldStream, recorder: Recorder) -> None:
        self.stream, self.recorder = stream, recorder
        self.told = False  # that no power is read

    @cached_property
    def neutral_ms(self) -> float:
        """The time that a neutral kernel adds before a launch."""
        row = in_a_row(self.stream.tools.empty, MOST_LAUNCHES)
        return median(self.stream.times([row])[0] for _ in range(BLOCKS)) / MOST_LAUNCHES

    def block(
        self, operations: float, launch: Action, behind: Action | None = None,
        settle_s: float = SETTLE_S, block_s: float = BLOCK_S,
    ) -> Block:  # fmt: skip
        """A block of launches of so many operations each; `behind` runs directly after the last.

        Raises TimeoutError, Unfinished.
        """

        def spaced() -> None:
            self.stream.tools.empty()
            launch()

        [launch_ms] = self.stream.times([launch])
        if operations < LARGE:
            count = launches_of(SHORT_S, launch_ms, MOST_LAUNCHES)
            [taken] = self.stream.times([in_a_row(spaced, count)], behind=behind)
            return Block(taken / count - self.neutral_ms)
        settling, count = (launches_of(span, launch_ms) for span in (settle_s, block_s))
        taken = self.stream.running(spaced, settling, count, behind)
        end = time.perf_counter()
        readings = self.recorder.span(end - taken / 1e3, end)
        clock, power = state_of(readings).sm_clock_mhz, average_power_w(readings)
        if power is None and not self.told:
            self.told = True
            logging.warning("no power: the card's energy counter stands still, or it has none")
        return Block(taken / count - self.neutral_ms, power, clock)

    def blocks(self, contest: Contest) -> Blocks:
        """BLOCKS of each contender, which take turns; C of the last is verified. The variant stands
        first. A rival that fails is left out, and of the library's algorithms the fastest stays.

        Raises one of FAILURES or Unfinished if the variant fails.
        """
        timed = partial(self.block, contest.wanted.shape.operations)
        found: Blocks = {}
        for one in contest.contenders:
            try:
                found |= {own: [] for own in self.entrants(contest, one)}
            except FAILURES as failure:
                leave_out(contest, one, failure)
        for turn in range(BLOCKS):
            order = [*found]
            for contender in (order[i] for i in contest.random.permutation(len(order))):
                try:
                    own = (
                        timed(contender.launches) if turn < BLOCKS - 1
                        else contest.looked_at(contender, timed)
                    )  # fmt: skip
                    found[contender].append(own)
                except FAILURES as failure:
                    leave_out(contest, contender, failure)
                    del found[contender]
        return fastest_of_each(found)

    def entrants(self, contest: Contest, contender: Contender) -> list[Contender]:
        """A contender; in the place of one that stands for all that the library offers, the
        FINALISTS fastest of its algorithms that are right, by a brief block. Raises CublasError if
        it offers nothing, or Wrong if none is right."""
        kernel = contender.variant.kernel
        if not kernel.tuned:
            return [contender]
        shape = contest.wanted.shape
        timed = partial(self.block, shape.operations, settle_s=0, block_s=SCREEN_S)
        taken: dict[Contender, float] = {}
        for name, product in offers(kernel.product, contest.tools, shape).items():
            own = replace(contender.launches, product=product)
            one = replace(contender, launches=own, algorithm=name)
            try:
                taken[one] = contest.looked_at(one, timed).time_ms
            except FAILURES as failure:
                logging.warning("%s is left out: %s", name, failure)
        if not taken:
            raise Wrong(
                f"{contender.variant.name}: no algorithm of the library is right at {shape}"
            )
        return sorted(taken, key=taken.__getitem__)[:FINALISTS]


def leave_out(contest: Contest, contender: Contender, failure: Exception) -> None:
    """Tell of a rival's failure. Raises the variant's."""
    if contender.variant == contest.contenders[0].variant:
        raise failure
    logging.warning("not compared: %s", failure)


def fastest_of_each(blocks: Blocks) -> Blocks:
    """Of each variant the contender with the least median, in the order of the variants."""
    variants = dict.fromkeys(contender.variant.name for contender in blocks)

    def median_ms(contender: Contender) -> float:
        return median(block.time_ms for block in blocks[contender])

    def of(name: str) -> Iterable[Contender]:
        return (contender for contender in blocks if contender.variant.name == name)

    return {best: blocks[best] for best in (min(of(name), key=median_ms) for name in variants)}
