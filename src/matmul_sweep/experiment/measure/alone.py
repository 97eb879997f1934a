"""Times that a program gets: blocks of the launches of a contender, which has the card for itself,
at the clock that its own power leaves it.

A neutral kernel before each launch keeps it from overlapping with the last one; the neutral
kernel's own time is taken off.
"""

import time
from functools import cached_property
from statistics import median

from matmul_sweep.experiment.measure.bench import Block
from matmul_sweep.experiment.measure.launches import Action, in_a_row, launches_of
from matmul_sweep.experiment.measure.state import Recorder, average_power_w, state_of
from matmul_sweep.experiment.measure.timing import HeldStream

BLOCKS = 6  # of each contender: the fewest that give an interval
# Shorter products draw too little power, at any clock, to come to a card's limit.
LARGE = 4e10  # operations
SHORT_S = 0.02  # a block of them
SETTLE_S = 0.2  # until the clock is that of the kernel's own power
BLOCK_S = 0.3
MOST_LAUNCHES = 200  # in a held block, each with a neutral one; a product may be several


class Alone:
    """Times blocks on a stream."""

    def __init__(self, stream: HeldStream, recorder: Recorder) -> None:
        self.stream, self.recorder = stream, recorder

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
        clock = state_of(readings).sm_clock_mhz
        return Block(taken / count - self.neutral_ms, average_power_w(readings), clock)
