"""The card's clock, power, temperature and throttle reasons while it is timed, by NVML."""

import statistics
import threading
import time
from dataclasses import dataclass
from typing import Any

import pynvml

# Reasons that slow a card down; idling and the user's own clock settings are none.
REASONS = {
    pynvml.nvmlClocksThrottleReasonSwPowerCap: "power_cap",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hw_slowdown",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "sw_thermal",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "hw_thermal",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power_brake",
}


@dataclass(frozen=True)
class State:
    """Medians over a span of time, the highest temperature, and every reason that was seen."""

    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttled: str | None = None


class Recorder(threading.Thread):
    """Reads the card's state every `period` seconds until stopped; without NVML, nothing."""

    def __init__(self, handle: Any, period: float = 0.02) -> None:
        super().__init__(daemon=True)
        self.handle, self.period = handle, period
        self.readings: list[tuple[float, float, float, float, int]] = []
        self.finished = threading.Event()

    def run(self) -> None:
        while self.handle and not self.finished.wait(self.period):
            self.readings.append(self.read())

    def read(self) -> tuple[float, float, float, float, int]:
        """Time, SM clock in MHz, power in W, temperature in °C, bits of the throttle reasons."""
        return (
            time.perf_counter(),
            pynvml.nvmlDeviceGetClockInfo(self.handle, pynvml.NVML_CLOCK_SM),
            pynvml.nvmlDeviceGetPowerUsage(self.handle) / 1000,
            pynvml.nvmlDeviceGetTemperature(self.handle, pynvml.NVML_TEMPERATURE_GPU),
            pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle),
        )

    def between(self, start: float, end: float) -> State:
        """The state from `start` to `end` (time.perf_counter), or at its end if that was short."""
        if not self.handle:
            return State()
        span = [r for r in self.readings if start <= r[0] <= end] or [self.read()]
        _, clocks, powers, temperatures, reasons = zip(*span, strict=True)
        seen = 0
        for bits in reasons:
            seen |= bits
        return State(
            statistics.median(clocks),
            round(statistics.median(powers), 1),
            max(temperatures),
            "+".join(name for bit, name in REASONS.items() if seen & bit),
        )

    def stop(self) -> None:
        self.finished.set()
