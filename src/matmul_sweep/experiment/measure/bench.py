"""What all benches share: how a job spends its time, a measured point, and failures."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.verify.verification import Accuracy


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
    """The results of one case of one variant: rows of points.csv and states.csv, and times in ms by
    (who, phase, cache)."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    times: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)

    def add(self, phase: str, cache: str, times: Mapping[str, list[float]], **columns: Any) -> None:
        """Add a span: the variant's row, and the times of everyone who was timed."""
        named = {"phase": phase, "cache": cache, "status": "ok", "reason": ""}
        self.rows.append(named | columns)
        self.times |= {(who, phase, cache): taken for who, taken in times.items()}


def error_columns(variant: Variant, errors: Accuracy) -> dict[str, float]:
    """The columns of a verified point, to four digits. Raises Wrong."""
    if not errors.share <= 1:
        raise Wrong(f"wrong result of {variant.name}: error {errors.share:.3g} times the bound")
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
