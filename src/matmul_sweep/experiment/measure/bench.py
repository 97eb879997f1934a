"""What all benches share: settings, how a job spends its time, a measured point, and failures."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from matmul_sweep.experiment.measure.sampling import Rule
from matmul_sweep.experiment.verify.verification import Accuracy
from matmul_sweep.operations.shapes import Shape

MODES = ("burst", "sustained")
CACHES = ("hot", "rotated", "cold")


@dataclass(frozen=True)
class Settings:
    """How a point is measured; after a change the points are measured again."""

    seed: int
    caches: tuple[str, ...]
    rule: Rule
    sample_seconds: float  # of launches in a row that make a sample; 0: one launch
    copies: Rule | None  # None: copies, end to end and unified memory are not timed
    warm_seconds: Mapping[str, float]  # of launches before the samples, first included
    cool_celsius: float  # a card that is hotter, or slows down for heat, is left to cool
    cool_seconds: float  # at most, per job
    launch_seconds: float  # a launch predicted to take longer is skipped
    hang_seconds: float  # after which the job gives up a launch
    memory_share: float
    threads: int


@dataclass(frozen=True)
class Case:
    """What is measured at a time: a shape, the fill of its inputs, and the mode.

    mode: burst or sustained, how long the product is launched before it is timed.
    """

    shape: Shape
    fill: str
    mode: str

    def __str__(self) -> str:
        return f"{self.shape} {self.fill} {self.mode}"


def process_age() -> float:
    """Seconds since this process began, by a monotonic clock."""
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")


@dataclass
class Split:
    """Where the wall time of a job went, in seconds, from the start of the process."""

    begun: float = field(default_factory=lambda: time.perf_counter() - process_age())
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def started(self) -> None:
        """End the start: imports, the driver, the context, the library."""
        self.seconds["start"] = time.perf_counter() - self.begun

    def row(self) -> dict[str, float]:
        """The seconds of a row of jobs.csv."""
        parts = {f"{name}_s": round(self.seconds.get(name, 0.0), 3)
                 for name in ("start", "inputs", "verification", "cooling", "timed")}  # fmt: skip
        return {"wall_s": round(time.perf_counter() - self.begun, 3)} | parts


class Wrong(Exception):
    """A product that fails verification, or a launch that fails; the message says how."""


class LostDevice(Exception):
    """A failed or endless launch after which the device is lost: nothing more can run in this
    job."""


@dataclass
class Point:
    """The results of one case of one variant: rows of points.csv and states.csv, and times by
    (who, phase, cache)."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    times: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)


def error_columns(errors: Accuracy) -> dict[str, float]:
    """The columns of a verified point, to four digits."""
    found = {"error": errors.share, "largest_error": errors.largest, "mean_error": errors.mean}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def beyond_host_memory(needed: int, purpose: str, share: float) -> str | None:
    """Why `needed` bytes are over `share` of the host's free memory, or None if they are not."""
    allowed = share * psutil.virtual_memory().available
    if needed <= allowed:
        return None
    return (
        f"needs {needed / 1e9:.2f} GB of {purpose}; "
        f"{share:.0%} of the free memory is {allowed / 1e9:.2f} GB"
    )
