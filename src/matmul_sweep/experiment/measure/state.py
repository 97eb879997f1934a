"""The card's clocks, power, temperature and throttle reasons around a measurement, by NVML."""

import math
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pynvml

from matmul_sweep.experiment.dataset.words import POWER, REASONS, THERMAL

BITS = {
    name: getattr(pynvml, f"nvmlClocksThrottleReason{reason}") for name, reason in REASONS.items()
}
PERIOD_S = 0.02  # between two readings


class Reading(NamedTuple):
    """The card at one moment."""

    time: float  # s, time.perf_counter
    sm_clock_mhz: float
    memory_clock_mhz: float
    power_w: float
    temperature_c: float
    highest_mhz: float  # that the SM clock can be
    reasons: int  # bits: the reasons why it slows down, by the driver
    energy_j: float = math.nan  # that the card has taken since its driver was loaded


@dataclass(frozen=True)
class State:
    """Medians over a span of time, the highest temperature, and what slowed the card down."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttled: str | None = None


class Recorder(threading.Thread):
    """Reads the card's state every PERIOD_S until stopped; without NVML it reads nothing."""

    def __init__(self, handle: Any) -> None:
        super().__init__(daemon=True)
        self.handle = handle
        self.readings: list[Reading] = []
        self.finished = threading.Event()

    def run(self) -> None:
        while self.handle and not self.finished.wait(PERIOD_S):
            self.readings += self.now()

    def read(self) -> Reading:
        handle = self.handle
        # The counter goes on every tenth of a second, and its power is that of the time between.
        energy, now = energy_j(handle), time.perf_counter()
        return Reading(
            now,
            pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            power_w(handle),
            pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
            pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
            energy,
        )

    def span(self, start: float, end: float) -> list[Reading]:
        """The readings from `start` to `end` (time.perf_counter)."""
        return [reading for reading in self.readings if start <= reading.time <= end]

    def now(self) -> list[Reading]:
        """One reading; none without NVML, or if the card is gone, which its launches report."""
        try:
            return [self.read()] if self.handle else []
        except pynvml.NVMLError:
            return []


@contextmanager
def recording(handle: Any) -> Iterator[Recorder]:
    """A recorder for the duration of the block."""
    recorder = Recorder(handle)
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.finished.set()
        recorder.join()


def power_w(handle: Any) -> float:
    """The power now; if the driver does not give it, an average over up to a second."""
    try:
        (field,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])
        if field.nvmlReturn == pynvml.NVML_SUCCESS:
            return field.value.uiVal / 1000
    except pynvml.NVMLError:
        pass
    return pynvml.nvmlDeviceGetPowerUsage(handle) / 1000


def energy_j(handle: Any) -> float:
    """The energy counter; NaN for a card without one."""
    try:
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000
    except pynvml.NVMLError:
        return math.nan


def average_power_w(readings: Sequence[Reading]) -> float | None:
    """The power by the energy counter, from the first to the last time that it was seen to move;
    None where it did not move twice."""
    moved = [later for before, later in pairwise(readings) if later.energy_j > before.energy_j]
    if len(moved) < 2:
        return None
    first, last = moved[0], moved[-1]
    return (last.energy_j - first.energy_j) / (last.time - first.time)


def state_of(readings: Sequence[Reading]) -> State:
    """Several readings as one state, which is unknown if there are none."""
    if not readings:
        return State()
    return State(
        statistics.median(reading.sm_clock_mhz for reading in readings),
        statistics.median(reading.memory_clock_mhz for reading in readings),
        round(statistics.median(reading.power_w for reading in readings), 1),
        max(reading.temperature_c for reading in readings),
        "+".join(name for name, bit in BITS.items() if slowed(readings, bit, name)),
    )


def slowed(readings: Sequence[Reading], bit: int, name: str) -> bool:
    """Whether this reason slowed the card down. Heat counts if it was seen at all.

    The power limit, like the medians, speaks for at least half of the readings, and only those
    below the highest clock count. A series has the launches of a kernel and of its library, so a
    frugal kernel has a few readings at the limit, which the library reached.
    """
    seen = [reading for reading in readings if reading.reasons & bit]
    if name != POWER:
        return bool(seen)
    slow = [reading for reading in seen if reading.sm_clock_mhz < reading.highest_mhz]
    return 2 * len(slow) >= len(readings)


def cool(reading: Reading, celsius: float) -> bool:
    """Whether the card is below `celsius` and does not slow down for heat."""
    thermal = sum(BITS[name] for name in THERMAL)
    return reading.temperature_c <= celsius and not reading.reasons & thermal
