"""Several launches in a row, and how many make a span of time."""

import sys
from collections.abc import Callable

Action = Callable[[], None]


def in_a_row(launch: Action, count: int) -> Action:
    """`launch`, this many times."""

    def launches() -> None:
        for _ in range(count):
            launch()

    return launches


def launches_of(seconds: float, launch_ms: float, most: int = sys.maxsize) -> int:
    """How many launches of this length take about so many seconds, from one to `most`."""
    return max(1, min(most, round(seconds * 1e3 / max(launch_ms, 1e-9))))
