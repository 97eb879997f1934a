"""The held stream discards times that the host delayed, and does not try forever."""

from types import SimpleNamespace
from typing import Any

import pytest

from matmul_sweep.experiment.measure.timing import PATIENCE_S, HeldStream


class Stream(HeldStream):
    """A held stream whose host takes the given seconds to enqueue, one after the other."""

    def __init__(self, seconds: list[float]) -> None:
        event = SimpleNamespace(time_since=lambda start: 2.5)
        drv = SimpleNamespace(Event=lambda: event)
        self.tools: Any = SimpleNamespace(drv=drv, wait=lambda: None)
        self.events, self.seconds = [], seconds

    def enqueue(self, launches: Any, before: Any, behind: Any) -> float:
        return self.seconds.pop(0)


def test_times_of_a_slow_host_are_taken_again() -> None:
    stream = Stream([PATIENCE_S, 0.0, 0.0])
    assert stream.times([lambda: None] * 3) == [2.5] * 3
    assert stream.seconds == [0.0]


def test_a_host_that_stays_slow_is_an_error() -> None:
    with pytest.raises(TimeoutError, match="2 launches"):
        Stream([PATIENCE_S] * 50).times([lambda: None] * 2)
