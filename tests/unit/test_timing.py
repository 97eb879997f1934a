"""Times that the host delayed are discarded, and not taken again forever."""

from types import SimpleNamespace
from typing import Any

import pytest

from matmul_sweep.experiment.measure.timing import LOT, LOTS_AHEAD, PATIENCE_S, HeldStream


class Stream(HeldStream):
    """A held stream whose host takes the given seconds to enqueue, one after the other."""

    def __init__(self, seconds: list[float]) -> None:
        drv = SimpleNamespace(Event=lambda: SimpleNamespace(time_since=lambda start: 2.5))
        self.tools: Any = SimpleNamespace(drv=drv, wait=lambda: None)
        self.events, self.seconds = [], seconds

    def enqueue(self, launches: Any, before: Any, behind: Any) -> float:
        return self.seconds.pop(0)


def test_times_of_a_slow_host_are_taken_again():
    stream = Stream([PATIENCE_S, 0.0, 0.0])
    assert stream.times([lambda: None] * 3) == [2.5] * 3
    assert stream.seconds == [0.0]


def test_a_host_that_stays_slow_is_an_error():
    with pytest.raises(TimeoutError, match="2 launches"):
        Stream([PATIENCE_S] * 50).times([lambda: None] * 2)


class Device:
    """Launches that take a time each, on a device that waits for a host which takes its own time to
    enqueue one; events know when they are through."""

    def __init__(self, launch_s: float, host_s: float) -> None:
        self.launch_s, self.host_s = launch_s, host_s
        self.now = self.through = 0.0  # of the host, and when the device will have done all
        self.most = 0.0  # launches that it ever had before it

    def launch(self) -> None:
        self.now += self.host_s
        self.through = max(self.through, self.now) + self.launch_s
        self.most = max(self.most, (self.through - self.now) / self.launch_s)

    def event(self) -> SimpleNamespace:
        own = SimpleNamespace(at=0.0)
        own.record = lambda stream: setattr(own, "at", self.through)
        own.query = lambda: own.at <= self.now
        own.time_since = lambda start: 1e3 * (own.at - start.at)
        return own

    def wait(self, done: Any = None) -> None:
        while done and not done():
            self.now += self.launch_s / 10


@pytest.mark.parametrize(("launch_s", "late"), [(2e-4, False), (2e-5, True)])
def test_launches_run_without_a_pause_or_are_late_and_never_fill_the_queue(launch_s, late):
    device, stream = Device(launch_s, host_s=3e-5), HeldStream.__new__(HeldStream)
    drv = SimpleNamespace(Event=device.event)
    stream.tools: Any = SimpleNamespace(drv=drv, stream=None, wait=device.wait)
    stream.events = []
    if late:
        with pytest.raises(TimeoutError, match="more slowly than they run"):
            stream.running(device.launch, 100, 1000, None)
    else:
        assert stream.running(device.launch, 100, 1000, None) == pytest.approx(1e6 * launch_s)
    assert device.most <= LOT * (LOTS_AHEAD + 1)
