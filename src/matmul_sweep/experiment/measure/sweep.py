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
from matmul_sweep.experiment.measure.in_turn import InTurnBench
from matmul_sweep.experiment.measure.together import AloneBench
from matmul_sweep.experiment.plan.settings import Case, Settings
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.files import read_record, write_json

KEYED = ("times", "draws")  # parts of a point by (who, phase, cache), which are no keys in JSON


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
        own, product = self.variant.name, product_of(self.variant.kernel.dtype, case.shape)
        what = {"sweep": self.name} | product | {"fill": case.fill, "mode": case.mode}
        for row in point.rows:
            ran = (point.ran or self.ran(case.shape)) if row["status"] == "ok" else ""
            self.rows.append({"variant": own, "ran": ran} | what | row)
        self.states += [{"variant": own} | what | row for row in point.states]
        for (who, phase, cache), times in point.times.items():
            key = {"variant": who} | what | {"phase": phase, "cache": cache}
            key["baseline_of"] = "" if who == own else own
            draws = point.draws.get((who, phase, cache), [(None, None)] * len(times))
            self.samples += [
                key | {"sample": i, "time_ms": ms, "block_w": watts, "block_mhz": clock}
                for i, (ms, (watts, clock)) in enumerate(zip(times, draws, strict=True))
            ]

    def take(self, case: Case, point: Point) -> None:
        """Add a measured point, which predicts the next one."""
        self.add(case, point)
        own = (self.variant.name, "kernel")
        times = next(taken for key, taken in point.times.items() if key[:2] == own)
        self.pace = median(times) / 1e3 / case.shape.operations
        logging.info("%s %s: %.4g ms, %d samples", own[0], case, median(times), len(times))

    def too_slow(self, shape: Shape) -> str | None:
        """Why a launch at `shape` would take too long, judged by the rate at the previous shape."""
        budget = self.settings.limits.launch_seconds
        predicted = (self.pace or 0.0) * shape.operations
        if predicted <= budget:
            return None
        return f"predicted {predicted:.3g} s per launch, over the budget of {budget:g} s"

    def run(self, bench: InTurnBench | CpuBench, cases: Sequence[Case]) -> None:
        """Measure every case, small shapes first."""
        for case in tqdm(cases, desc=self.variant.name, disable=None, leave=False, unit="point"):
            try:
                if not self.settled(bench, case):
                    self.take(case, self.kept(case, bench.measure(case)))
            except Wrong as error:
                self.refuse([case], "failed", str(error))
            except LostDevice as error:
                self.lose(case, error)

    def settled(self, bench: GpuBench | CpuBench, case: Case) -> bool:
        """Whether a case needs no measuring, because it is taken over or refused. Raises
        LostDevice."""
        # A point in the journal is kept, whatever today's prediction.
        if point := self.resumed(case):
            self.take(case, point)
        elif self.lost:
            self.refuse([case], "failed", f"not run: {self.lost}")
        elif reason := self.refusal(bench, case.shape):
            self.refuse([case], "skipped", reason)
        else:
            return False
        return True

    def lose(self, case: Case, failure: LostDevice) -> None:
        """Record that a case took the device with it."""
        self.refuse([case], "failed", str(failure))
        self.lost = f"at {case.shape} {failure}"

    def refusal(self, bench: GpuBench | CpuBench, shape: Shape) -> str | None:
        """Why not to measure `shape`, or None. Raises LostDevice."""
        if shape in self.spared:
            return "not for the CPU: cpu_without in the configuration"
        return self.variant.refusal(shape) or bench.refusal(shape) or self.too_slow(shape)

    def entry(self, case: Case) -> Path:
        """The journal file of a case."""
        return self.journal / f"{case.shape}-{case.fill}-{case.mode}.json"

    def kept(self, case: Case, point: Point) -> Point:
        """The point, which is now in the journal."""
        content: dict[str, Any] = {"identity": self.identity} | asdict(point)
        for name in KEYED:
            content[name] = [[*key, own] for key, own in content[name].items()]
        write_json(content, self.entry(case))
        return point

    def resumed(self, case: Case) -> Point | None:
        """The point that an interrupted job with the same identity left, or None."""
        entry = read_record(self.entry(case), self.identity)
        if entry is None:
            return None
        keyed: dict[str, Any] = {
            name: {tuple(key): own for *key, own in entry[name]} for name in KEYED
        }
        return Point(entry["rows"], entry["states"], ran=entry["ran"], **keyed)


def run_together(sweeps: Sequence[Sweep], bench: AloneBench, cases: Sequence[Case]) -> list[Sweep]:
    """Measure every case of variants that are timed alone, in one contest. The variants that are
    through: all, unless the device was lost; then the one that lost it, and another process may
    measure the others."""
    for case in tqdm(cases, desc=sweeps[0].name, disable=None, leave=False, unit="point"):
        left = sweeps
        try:
            left = [sweep for sweep in sweeps if not sweep.settled(bench, case)]
            found = bench.measure(case, [sweep.variant for sweep in left]) if left else {}
        except Wrong as error:
            found = dict.fromkeys((sweep.variant.name for sweep in left), str(error))
        except LostDevice as error:
            lost = [sweep for sweep in left if sweep.variant.name == error.who] or list(left)
            for sweep in lost:
                sweep.lose(case, error)
                sweep.refuse(cases[cases.index(case) + 1 :], "failed", f"not run: {sweep.lost}")
            return lost
        for sweep in left:
            own = found[sweep.variant.name]
            if isinstance(own, Point):
                sweep.take(case, sweep.kept(case, own))
            else:
                sweep.refuse([case], "failed", own)
    return list(sweeps)
