"""How a hand-in that is correct does on a GPU: its time in pairs beside kernels of the ladder
and the library, what it takes of a multiprocessor, and the next step."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from matmul_sweep.build.binaries import compile_instruments, compile_into
from matmul_sweep.catalogue.entries import Catalogue, Kernel, Kind, Variant
from matmul_sweep.classroom.experiments import SEED
from matmul_sweep.classroom.launching import COLUMNS_FIRST
from matmul_sweep.classroom.program import FUNCTION
from matmul_sweep.classroom.verdict import Verdict
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.intervals import median_interval
from matmul_sweep.experiment.measure.bench import LostDevice, Split, Wrong
from matmul_sweep.experiment.measure.in_turn import InTurnBench
from matmul_sweep.experiment.measure.occupancy import occupancy_of
from matmul_sweep.experiment.measure.state import recording
from matmul_sweep.experiment.plan.settings import Case, Limits, Sampling, Settings
from matmul_sweep.experiment.verify.gpu import Gpu, opened
from matmul_sweep.experiment.verify.runner import GpuRunner
from matmul_sweep.experiment.verify.verifier import check
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.process.errors import HANG_SECONDS, UserError

SIZE = 2048  # of the square product that is timed, in all dimensions
SETTINGS = Settings(
    seed=SEED, caches=("hot",),
    sampling=Sampling(10, 100, 0.01, 1.0, sample_seconds=0.005, warm_seconds=0.2),
    limits=Limits(
        launch_seconds=10, hang_seconds=HANG_SECONDS, memory_share=0.8, cool_celsius=75,
        cool_seconds=30,
    ),
)  # fmt: skip


WRONG_THERE = "wrong on the GPU, though right on the CPU"


@dataclass(frozen=True)
class Standing:
    """milliseconds: of a product of `shape`. ratios: of each rival, the median of its time over the
    hand-in's in pairs, and its 95% interval. registers: of a thread. occupancy: the share of a
    multiprocessor's threads that fit. next_step: the slowest kernel of the ladder that is
    faster."""

    gpu: str
    shape: str
    milliseconds: float
    ratios: Mapping[str, tuple[float, float, float]]
    registers: int
    occupancy: float
    next_step: str

    def __str__(self) -> str:
        shares = ", ".join(
            f"{ratio:.1%} [{low:.1%}, {high:.1%}] of {name}"
            for name, (ratio, low, high) in self.ratios.items()
        )
        return (
            f"{self.milliseconds:.3f} ms at {self.shape} on {self.gpu}, which is {shares}; "
            f"{self.registers} registers a thread, occupancy {self.occupancy:.0%}.\n"
            f"  Next step: {self.next_step}."
        )


def standing(verdict: Verdict) -> Standing | str:
    """How the hand-in does on the first GPU, or why it was not timed. Raises NoDevice."""
    with opened() as gpu, tempfile.TemporaryDirectory(prefix="try-gpu-") as name:
        folder = Path(name)
        if reason := refusal(verdict):
            return f"not timed: {reason}"
        variant = entry_of(verdict, folder / "trial.cu")
        rivals = ladder(load_catalogue(), variant.kernel, gpu.architecture)
        try:
            return measured(verdict, variant, rivals, gpu, folder)
        except Wrong as error:
            return f"{WRONG_THERE}: {error}"
        except LostDevice as error:
            raise UserError(f"{verdict.program.source.path}: {error}") from None


def ladder(catalogue: Catalogue, kernel: Kernel, arch: str) -> list[Variant]:
    """What a hand-in is timed beside: the classroom's kernels of its operation, in the order of the
    catalogue, and then the libraries that fill C."""
    steps = [
        one.variants[0]
        for one in catalogue.values()
        if one.classroom and one.operation == kernel.operation and one.variants[0].runs_on(arch)
    ]
    return steps + [one for one in catalogue.rivals(kernel) if one.kernel.writes == "full"]


def refusal(verdict: Verdict) -> str | None:
    """Why a hand-in cannot be timed beside the kernels of the catalogue, or None."""
    assert verdict.bench
    operation = verdict.program.signature.operation
    if OPERATIONS[operation.name].dtype != operation.dtype:
        return f"no library of the project computes {operation.name} in {operation.dtype}"
    if verdict.bench.launch.order != COLUMNS_FIRST:
        return "blockIdx.x runs along no row of C"
    if verdict.bench.launch.fixed or verdict.bench.launch.depth > 1:
        return "its grid is not that of a tile for each block"
    if verdict.program.signature.accumulates or verdict.bench.adds:
        return "it adds to what C held"
    if verdict.remark:
        return verdict.remark
    if min(verdict.bench.launch.most) < SIZE:
        return "it takes few rows or columns of C"
    return None


def entry_of(verdict: Verdict, source: Path) -> Variant:
    """The hand-in as an entry of the catalogue."""
    assert verdict.bench and verdict.bench.launch.tile
    launch, program = verdict.bench.launch, verdict.program
    source.write_text(program.for_gpu)
    kernel = Kernel(
        name=program.kernel.name, operation=program.signature.operation.name, source=source,
        function=FUNCTION, tile=launch.tile, threads=(launch.block[1], launch.block[0]),
        blocks=launch.blocks, dynamic_shared_bytes=launch.shared_bytes,
    )  # fmt: skip
    return Variant(kernel, "", {})


def measured(
    verdict: Verdict, variant: Variant, rivals: Sequence[Variant], gpu: Gpu, folder: Path
) -> Standing:
    """Verify at the verdict's shapes, then time. Raises Wrong, LostDevice, UserError."""
    arch = gpu.architecture
    compile_instruments(arch, folder / arch / "instruments.cubin")
    records = {
        one.name: compile_into(one, arch, folder)
        for one in (variant, *rivals) if one.kernel.kind is Kind.CUDA
    }  # fmt: skip
    for name, record in records.items():
        if record["reason"]:
            raise UserError(f"{verdict.program.source.path}: {name} for {arch}: {record['reason']}")
    runner = GpuRunner(folder, HANG_SECONDS, gpu)
    for shape in verdict.shapes:
        found = check(runner, variant, shape, "uniform", SEED)
        if found["status"] == "failed":
            raise Wrong(found["reason"])
    assert verdict.bench
    shape = verdict.bench.shape(SIZE, SIZE, SIZE)
    with recording(gpu.nvml) as recorder:
        bench = InTurnBench(gpu, variant, rivals, folder, SETTINGS, Split(), [shape], recorder)
        times = bench.measure(Case(shape, "uniform", "burst")).times
    taken = {one.name: np.array(times[one.name, "kernel", "hot"]) for one in (variant, *rivals)}
    own = taken.pop(variant.name)
    ratios = {
        name: (float(np.median(of / own)), *median_interval(of / own)) for name, of in taken.items()
    }
    record = records[variant.name]
    return Standing(
        gpu.name, str(shape), float(np.median(own)), ratios, record["registers"],
        occupancy_of(variant, gpu, record), next_step(rivals, ratios),
    )  # fmt: skip


def next_step(rivals: Sequence[Variant], ratios: Mapping[str, tuple[float, float, float]]) -> str:
    """The slowest kernel that is faster than the hand-in, and its lesson."""
    faster = [one for one in rivals if ratios[one.name][0] < 1]
    if not faster:
        return "none: it is the fastest here"
    above = max(faster, key=lambda one: ratios[one.name][0])
    lesson = above.kernel.lesson.rstrip(".")
    return f"{above.kernel.title}: {lesson} ({above.kernel.name} in kernels/catalogue.yaml)"
