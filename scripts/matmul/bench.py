"""What every bench shares: settings, the split of a job's time, a measured point, and failures."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from matmul.catalogue import Variant
from matmul.sampling import Rule


@dataclass(frozen=True)
class Settings:
    """What decides how a point is measured; a change of it measures anew."""

    fill: str
    seed: int
    caches: tuple[str, ...]
    rule: Rule
    copies: Rule | None  # None: copies, end to end and unified memory are not timed
    launch_seconds: float
    memory_share: float
    threads: int


@dataclass
class Split:
    """Where a job's wall time went, in seconds; it began with the process, imports included."""

    begun: float = field(default_factory=lambda: psutil.Process().create_time())
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
        """Everything until now was the start: imports, the driver, the context, the library."""
        self.seconds["start"] = time.time() - self.begun

    def row(self, variant: Variant) -> dict[str, Any]:
        """A row of jobs.csv."""
        parts = {f"{name}_s": round(self.seconds.get(name, 0.0), 3)
                 for name in ("start", "inputs", "verification", "timed")}  # fmt: skip
        wall = round(time.time() - self.begun, 3)
        return {"variant": variant.name, "wall_s": wall} | parts


class Wrong(Exception):
    """A product that fails verification, or a launch that fails; the message says how."""


class LostDevice(Exception):
    """A launch that failed and took the context with it: nothing more can run in this job."""


@dataclass
class Point:
    """What one shape of one variant gave: rows of points.csv, and times by (who, phase, cache)."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    times: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)


def beyond_host_memory(needed: int, purpose: str, share: float) -> str | None:
    """Why `needed` bytes are over `share` of the host's free memory, or None where they are not."""
    allowed = share * psutil.virtual_memory().available
    if needed <= allowed:
        return None
    return (
        f"needs {needed / 1e9:.2f} GB of {purpose}; "
        f"{share:.0%} of what is free is {allowed / 1e9:.2f} GB"
    )
