"""Launches of a contender: on its arrays or on copies in turn, several in a row, and how many make
a span of time."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from matmul_sweep.experiment.verify.products import GpuProduct
from matmul_sweep.operations.shapes import Shape

Action = Callable[[], None]


@dataclass(frozen=True)
class Launches:
    """Calling it enqueues a product on the next arrays: pointers to the inputs and to C."""

    product: GpuProduct
    shape: Shape
    turns: Iterator[Sequence[int]]

    def __call__(self) -> None:
        self.product(self.shape, *next(self.turns))

    def here(self) -> tuple[Sequence[int], Action]:
        """The next arrays, and what enqueues products on these alone."""
        arrays = next(self.turns)
        return arrays, partial(self.product, self.shape, *arrays)


def in_a_row(launch: Action, count: int) -> Action:
    """`launch`, this many times."""

    def launches() -> None:
        for _ in range(count):
            launch()

    return launches


def launches_of(seconds: float, launch_ms: float, most: int = sys.maxsize) -> int:
    """How many launches of this length take about so many seconds, from one to `most`."""
    return max(1, min(most, round(seconds * 1e3 / max(launch_ms, 1e-9))))
