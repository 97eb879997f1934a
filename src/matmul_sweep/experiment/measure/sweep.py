"""One variant over the cases of a sweep: which are refused, resumed and measured."""

import logging
from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.tables import product_of
from matmul_sweep.experiment.measure.bench import LostDevice, Point, Wrong
from matmul_sweep.experiment.measure.cpu_bench import CpuBench
from matmul_sweep.experiment.measure.gpu_bench import GpuBench
from matmul_sweep.experiment.plan.settings import Case, Settings
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.files import read_json, write_json


class Sweep:
    """One variant over the cases of a sweep."""

    def __init__(
        self, name: str, variant: Variant, settings: Settings, journal: Path, identity: str,
        spared: Container[Shape] = (),
    ) -> None:  # fmt: skip
        self.name, self.variant, self.settings, self.spared = name, variant, settings, spared
        self.journal, self.identity = journal, identity
        self.rows: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []
        self.states: list[dict[str, Any]] = []
        self.pace: float | None = None  # seconds per operation at the last measured shape
        self.architecture: str | None = None  # of the GPU that it runs on
        self.lost = ""  # why nothing more can be measured in this job

    def point_of(self, case: Case) -> dict[str, Any]:
        """The columns that identify the point of a row."""
        what = {"sweep": self.name} | product_of(self.variant.kernel.dtype, case.shape)
        return what | {"fill": case.fill, "mode": case.mode}

    def refuse(self, cases: Iterable[Case], status: str, reason: str) -> None:
        """Record that `cases` were not measured, once per cache."""
        point, caches = Point(), self.settings.caches if self.variant.kernel.on_gpu else ["hot"]
        for cache in caches:
            point.add("kernel", cache, {}, status=status, reason=reason)
        for case in cases:
            logging.info("%s %s: %s: %s", self.variant.name, case, status, reason)
            self.add(case, point)

    def ran(self, shape: Shape) -> str:
        """The variant that a dispatch chose at a shape; empty for other variants."""
        part = self.variant.part(shape, self.architecture)
        return "" if part == self.variant else part.name

    def add(self, case: Case, point: Point) -> None:
        """Take over the rows, states and samples of a point."""
        own, what = self.variant.name, self.point_of(case)
        for row in point.rows:
            ran = self.ran(case.shape) if row["status"] == "ok" else ""
            self.rows.append({"variant": own, "ran": ran} | what | row)
        self.states += [{"variant": own} | what | row for row in point.states]
        for (who, phase, cache), times in point.times.items():
            key = {"variant": who} | what | {"phase": phase, "cache": cache}
            key["baseline_of"] = "" if who == own else own
            self.samples += [key | {"sample": i, "time_ms": ms} for i, ms in enumerate(times)]

    def take(self, case: Case, point: Point) -> None:
        """Add a measured point, which predicts the next one."""
        self.add(case, point)
        own = self.variant.name
        for (who, phase, _), times in point.times.items():
            if (who, phase) == (own, "kernel"):
                self.pace = median(times) / 1e3 / case.shape.operations
                logging.info("%s %s: %.4g ms, %d samples", own, case, median(times), len(times))
                return
        logging.info("%s %s: no cache to time", own, case)

    def too_slow(self, shape: Shape) -> str | None:
        """Why a launch at `shape` would take too long, judged by the rate at the previous shape."""
        budget = self.settings.limits.launch_seconds
        predicted = (self.pace or 0.0) * shape.operations
        if predicted <= budget:
            return None
        return f"predicted {predicted:.3g} s per launch, over the budget of {budget:g} s"

    def run(self, bench: GpuBench | CpuBench, cases: Sequence[Case]) -> None:
        """Measure every case, small shapes first."""
        for case in tqdm(cases, desc=self.variant.name, disable=None, leave=False, unit="point"):
            shape = case.shape
            try:
                # A point in the journal is kept, whatever today's prediction.
                if point := self.resumed(case):
                    self.take(case, point)
                elif self.lost:
                    self.refuse([case], "failed", f"not run: {self.lost}")
                elif reason := self.refusal(bench, shape):
                    self.refuse([case], "skipped", reason)
                else:
                    self.take(case, self.measured(bench, case))
            except Wrong as error:
                self.refuse([case], "failed", str(error))
            except LostDevice as error:
                self.refuse([case], "failed", str(error))
                self.lost = f"at {shape} {error}"

    def refusal(self, bench: GpuBench | CpuBench, shape: Shape) -> str | None:
        """Why not to measure `shape`, or None. Raises LostDevice."""
        if shape in self.spared:
            return "spared the CPU by the configuration (cpu_without)"
        return self.variant.refusal(shape) or bench.refusal(shape) or self.too_slow(shape)

    def entry(self, case: Case) -> Path:
        """The journal file of a case."""
        return self.journal / f"{case.shape}-{case.fill}-{case.mode}.json"

    def measured(self, bench: GpuBench | CpuBench, case: Case) -> Point:
        """Measure a point and write it into the journal."""
        point = bench.measure(case)
        times = [[*key, taken] for key, taken in point.times.items()]
        content = {"identity": self.identity} | asdict(point) | {"times": times}
        write_json(content, self.entry(case))
        return point

    def resumed(self, case: Case) -> Point | None:
        """The point that an interrupted job with the same identity left, or None."""
        path = self.entry(case)
        entry: dict[str, Any] = read_json(path) if path.exists() else {"identity": None}
        if entry["identity"] != self.identity:
            return None
        times = {(who, phase, cache): taken for who, phase, cache, taken in entry["times"]}
        return Point(entry["rows"], entry["states"], times)
