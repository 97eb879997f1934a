"""One variant over its shapes: what is refused, what is resumed, what is measured."""

import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from matmul.bench import LostDevice, Point, Settings, Wrong
from matmul.catalogue import Variant
from matmul.cpu_bench import CpuBench
from matmul.dataset import point_of, read_json, write_json
from matmul.gpu_bench import GpuBench
from matmul.shapes import Shape
from matmul.state import State


class Sweep:
    """One variant over its shapes: what is refused, what is resumed, what is measured."""

    def __init__(self, variant: Variant, settings: Settings, journal: Path, identity: str) -> None:
        self.variant, self.settings = variant, settings
        self.journal, self.identity = journal, identity
        self.rows: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []
        self.pace: float | None = None  # seconds per operation at the last measured shape

    def refuse(self, shape: Shape, status: str, reason: str) -> None:
        """Record that `shape` was not measured, once per cache."""
        logging.info("%s %s: %s: %s", self.variant.name, shape, status, reason)
        empty = {"phase": "kernel", "error": None, "status": status, "reason": reason}
        for cache in self.caches:
            self.add_row(shape, empty | {"cache": cache} | asdict(State()))

    def refuse_all(self, shapes: Sequence[Shape], status: str, reason: str) -> None:
        """Record for the same reason that none of `shapes` was measured."""
        for shape in shapes:
            self.refuse(shape, status, reason)

    def add_row(self, shape: Shape, row: dict[str, Any]) -> None:
        point = point_of(self.variant.kernel.dtype, shape)
        self.rows.append({"variant": self.variant.name} | point | row)

    def add(self, shape: Shape, point: Point) -> None:
        """Take over a measured point."""
        what = point_of(self.variant.kernel.dtype, shape)
        states = {(row["phase"], row["cache"]): row for row in point.rows}
        for (who, phase, cache), times in point.times.items():
            own = who == self.variant.name
            key = {"variant": who} | what | {"phase": phase, "cache": cache}
            key["baseline_of"] = "" if own else self.variant.name
            self.samples += [
                key | {"sample": i, "time_ms": time_ms} for i, time_ms in enumerate(times)
            ]
            if own:
                row = states.get((phase, cache), {"error": None} | asdict(State()))
                named = {"phase": phase, "cache": cache, "status": "ok", "reason": ""}
                self.add_row(shape, row | named)
        for span, row in states.items():
            if (self.variant.name, *span) not in point.times:
                self.add_row(shape, row)
        hot = point.times[self.variant.name, "kernel", self.caches[0]]
        median = float(np.median(hot))
        self.pace = median / 1e3 / shape.operations
        logging.info("%s %s: %.4g ms, %d samples", self.variant.name, shape, median, len(hot))

    @property
    def caches(self) -> tuple[str, ...]:
        return self.settings.caches if self.variant.kernel.on_gpu else ("hot",)

    def too_slow(self, shape: Shape) -> str | None:
        """Why a launch at `shape` would take too long, by the pace of the shape before it."""
        if self.pace is None:
            return None
        predicted = self.pace * shape.operations
        if predicted <= self.settings.launch_seconds:
            return None
        return (
            f"predicted {predicted:.3g} s a launch, over the budget of "
            f"{self.settings.launch_seconds:g} s"
        )

    def run(self, bench: GpuBench | CpuBench, shapes: Sequence[Shape]) -> None:
        """Measure every shape, small ones first."""
        for shape in tqdm(shapes, desc=self.variant.name, disable=None, leave=False, unit="shape"):
            # A point of the journal is kept, whatever would be predicted of it today.
            point = self.resumed(shape)
            reason = self.variant.refusal(shape) or bench.refusal(shape) or self.too_slow(shape)
            if reason and not point:
                self.refuse(shape, "skipped", reason)
                continue
            try:
                self.add(shape, point or self.measured(bench, shape))
            except Wrong as error:
                self.refuse(shape, "failed", str(error))
            except LostDevice as error:
                self.refuse(shape, "failed", str(error))
                rest = shapes[shapes.index(shape) + 1 :]
                self.refuse_all(rest, "failed", f"not run: at {shape} {error}")
                return

    def measured(self, bench: GpuBench | CpuBench, shape: Shape) -> Point:
        """Measure a point and put it into the journal."""
        point = bench.measure(shape)
        times = [[*key, taken] for key, taken in point.times.items()]
        entry = {"identity": self.identity, "rows": point.rows, "times": times}
        write_json(entry, self.journal / f"{shape}.json")
        return point

    def resumed(self, shape: Shape) -> Point | None:
        """The point as an interrupted job of the same identity left it."""
        path = self.journal / f"{shape}.json"
        if not path.exists():
            return None
        entry = read_json(path)
        if entry["identity"] != self.identity:
            return None
        times = {(who, phase, cache): taken for who, phase, cache, taken in entry["times"]}
        return Point(entry["rows"], times)
