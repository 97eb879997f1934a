"""What all benches share: how a job spends its time, a measured point, and failures."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.verify.verification import Accuracy

Draw = tuple[float | None, float | None]  # W by the energy counter, and MHz, of a block


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

    def row(self, rows: int = 1) -> dict[str, float]:
        """The seconds of a row of jobs.csv, of so many among which the job's are shared."""
        names = ("start", "inputs", "verification", "cooling", "timed")
        parts = {f"{name}_s": self.seconds.get(name, 0.0) for name in names}
        wall_s = time.perf_counter() - self.begun
        return {k: round(spent / rows, 3) for k, spent in ({"wall_s": wall_s} | parts).items()}


class Wrong(Exception):
    """A product that fails verification, or a launch that fails; the message says how."""


class LostDevice(Exception):
    """A failed or endless launch after which the device is lost: nothing more can run in this
    process. who: the variant that was launched, if that is known."""

    def __init__(self, reason: str, who: str = "") -> None:
        super().__init__(reason)
        self.who = who


@dataclass(frozen=True)
class Block:
    """time_ms: of a launch. power_w: by the energy counter; None in a short block, and for a card
    whose counter stands still. sm_clock_mhz: the median; None where it was not read. limited:
    whether the card was at its power limit."""

    time_ms: float
    power_w: float | None = None
    sm_clock_mhz: float | None = None
    limited: bool = False


@dataclass
class Point:
    """The results of one case of one variant: rows of points.csv and states.csv, and times in ms by
    (who, phase, cache). draws: of times that are blocks, their power and clock."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    times: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    draws: dict[tuple[str, str, str], list[Draw]] = field(default_factory=dict)
    ran: str = ""  # the library's algorithm

    def add(self, phase: str, cache: str, times: Mapping[str, list[float]], **columns: Any) -> None:
        """Add a span: the variant's row, and the times of everyone who was timed."""
        named = {"phase": phase, "cache": cache, "status": "ok", "reason": ""}
        self.rows.append(named | columns)
        self.times |= {(who, phase, cache): taken for who, taken in times.items()}


def typical(blocks: Sequence[Block]) -> dict[str, float | None]:
    """The columns of a variant's own power and clock: medians of its blocks."""
    return {
        "power_w": middle([block.power_w for block in blocks]),
        "sm_clock_mhz": middle([block.sm_clock_mhz for block in blocks]),
    }


def middle(values: Sequence[float | None]) -> float | None:
    """The median, where all values are known."""
    known = [value for value in values if value is not None]
    return median(known) if len(known) == len(values) else None


def error_columns(variant: Variant, errors: Accuracy, when: str = "") -> dict[str, float]:
    """The columns of a verified point, to four digits. Raises Wrong."""
    if not errors.share <= 1:
        said = f"error {errors.share:.3g} times the bound"
        raise Wrong(f"wrong result of {variant.name}{when}: {said}")
    found = {"error": errors.share, "largest_error": errors.largest, "mean_error": errors.mean}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def beyond(needed: int, free: int, purpose: str, share: float) -> str | None:
    """Why `needed` bytes are over `share` of the free ones, or None if they are not."""
    allowed = share * free
    if needed <= allowed:
        return None
    return (
        f"needs {needed / 1e9:.2f} GB of {purpose}; "
        f"{share:.0%} of the {free / 1e9:.2f} GB free is {allowed / 1e9:.2f} GB"
    )
