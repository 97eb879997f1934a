"""Times that a program gets: blocks of the launches of a contender, which has the card for itself,
at the clock that its own power leaves it.

A neutral kernel before each launch keeps it from overlapping with the last one; the neutral
kernel's own time is taken off.
"""

import logging
import time
from math import inf
from statistics import median

from matmul_sweep.dispatch.cost import LARGE
from matmul_sweep.experiment.dataset.words import POWER
from matmul_sweep.experiment.measure.bench import Block
from matmul_sweep.experiment.measure.launches import Action, in_a_row, launches_of
from matmul_sweep.experiment.measure.state import Recorder, average_power_w, state_of
from matmul_sweep.experiment.measure.timing import HeldStream

BLOCKS = 6  # of each contender: the fewest that give an interval
SHORT_S = 0.02  # a block of launches of less than LARGE operations
SETTLE_S = 0.2  # until the clock is that of this contender, and of no other
BLOCK_S = 0.5  # long enough to read the power
# A card at its power limit overshoots it for some 0.6 s, falls below, and comes back: over a swing
# its rate is within 1% of that after four seconds (docs/measuring.md).
SWING_S = 1.05
BRIEF_S = 0.1  # where the card is below its limit: 0.05 s bring it back to its highest clock
MOST_LAUNCHES = 200  # in a held block, each with a neutral one
# Milliseconds of a product that the host enqueues in less time. It may be ten launches, and a held
# stream has room for a thousand.
KEPT_UP_MS = 0.05
AT_LIMIT = 0.97  # of the power limit: a card that draws it has not lowered its clock yet, or hardly


class Alone:
    """Times blocks on a stream."""

    def __init__(self, stream: HeldStream, recorder: Recorder, limit_w: float | None) -> None:
        """limit_w: the card's power limit, None if it does not say."""
        self.stream, self.recorder, self.limit_w = stream, recorder, limit_w or inf
        self.told = False  # that no power is read

    def neutral_ms(self) -> float:
        """The time that a neutral kernel adds before a launch, at the clock of now. It rises for
        good when the process loads a further module, and differs by 0.3 µs between processes, as
        that of the products does (kernels/WORKLOG.md)."""
        rows = [in_a_row(self.stream.tools.empty, MOST_LAUNCHES)] * 3
        return median(self.stream.times(rows)) / MOST_LAUNCHES

    def block(
        self, operations: float, launch: Action, behind: Action | None = None, *,
        launch_ms: float | None = None, settle_s: float = SETTLE_S, block_s: float = BLOCK_S,
    ) -> Block:  # fmt: skip
        """A block of launches of so many operations each; `behind` runs directly after the last.

        launch_ms: what a launch takes, if that is known. A block shorter than BLOCK_S has no power
        and clock. Raises TimeoutError, Unfinished.
        """

        def spaced() -> None:
            self.stream.tools.empty()
            launch()

        if launch_ms is None:
            [launch_ms] = self.stream.times([launch])
        if operations < LARGE and launch_ms < KEPT_UP_MS:
            count = launches_of(SHORT_S, launch_ms, MOST_LAUNCHES)
            [taken] = self.stream.times([in_a_row(spaced, count)], behind=behind)
            return Block(taken / count - self.neutral_ms())
        if operations < LARGE:
            settle_s, block_s = 0, SHORT_S
        settling, count = (launches_of(span, launch_ms) for span in (settle_s, block_s))
        taken = self.stream.running(spaced, settling, count, behind)
        if block_s < BLOCK_S:
            return Block(taken / count - self.neutral_ms())
        end = time.perf_counter()
        readings = self.recorder.span(end - taken / 1e3, end)
        state, power = state_of(readings), average_power_w(readings)
        if power is None and not self.told:
            self.told = True
            logging.warning("no power: the card's energy counter stands still, or it has none")
        limited = POWER in (state.throttled or "") or (power or 0) >= AT_LIMIT * self.limit_w
        return Block(taken / count - self.neutral_ms(), power, state.sm_clock_mhz, limited)
