"""Checks of the timing: times of cuBLAS and of the project's kernels beside those of Triton's
do_bench, which shares no code with this project; and the reading for an empty kernel."""

import ctypes
import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import psutil

import matmul_sweep
from matmul_sweep.build.binaries import compile_instruments
from matmul_sweep.experiment.dataset.intervals import median_interval
from matmul_sweep.experiment.dataset.selection import squares
from matmul_sweep.experiment.dataset.tables import COLUMNS, read_table, version_of
from matmul_sweep.experiment.measure.launches import Action
from matmul_sweep.experiment.measure.timing import HeldStream
from matmul_sweep.experiment.verify import cublas
from matmul_sweep.experiment.verify.gpu import opened
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.operations import OPERATIONS, shape_of
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.gemm_bf16 import GEMM_BF16
from matmul_sweep.operations.gram import GRAM
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json

# ---- Triton's do_bench ----

# Where each is timed: PyTorch's own products, and the project's.
LIBRARIES = {"cublas_sgemm": GEMM.name, "cublas_dgemm": GRAM.name}
OWN = {"sgemm": GEMM.name, "sgemm_split": GEMM.name, "gram": GRAM.name, "bgemm": GEMM_BF16.name}
SWEEPS = LIBRARIES | OWN
INPUTS = {"uniform": lambda torch, *of, **to: torch.rand(*of, **to) * 2 - 1,
          "normal": lambda torch, *of, **to: torch.randn(*of, **to)}  # fmt: skip
SIZES = [320, 500, 640, 1024, 2048, 2500, 4096, 4500, 8192, 8500]  # of both sweeps
ROUNDS = 3  # of do_bench over all sizes, so that the spread has changes from minute to minute
BUDGET_MS = {"warmup": 100, "rep": 400}


def check_card(data: Path, gpu: str) -> None:
    """Raise UserError if the data set in `data` is of another GPU model than `gpu`."""
    measured = read_json(data / "device.json")["gpu"]
    if measured != gpu:
        raise UserError(f"{data} was measured on {measured or 'no GPU'}, but here is {gpu}")


def against_do_bench(data: Path) -> pd.DataFrame:
    """The rows of cross_check.csv, with the data set's time_ms: the median of ROUNDS times by
    do_bench, the smallest and the largest, in ms.

    PyTorch runs its own cuBLAS, and the project's kernels on its stream. do_bench clears the L2
    before each launch, so it is compared with cold times, or with hot ones if the data set has no
    others. Raises UserError.
    """
    version = version_of(read_json(data / "device.json"))
    points = points_of(read_table("summary.csv", data / "summary.csv", version))
    torch = pytorch()
    check_card(data, torch.cuda.get_device_name(0))
    times = [[do_bench_ms(torch, point) for point in points.itertuples()] for _ in range(ROUNDS)]
    return points.assign(
        rounds=ROUNDS,
        do_bench_ms=np.median(times, axis=0),
        do_bench_low_ms=np.min(times, axis=0),
        do_bench_high_ms=np.max(times, axis=0),
        torch=torch.__version__,
        triton=torch.triton.__version__,
        cublas=loaded_cublas(),
        uuid=f"GPU-{torch.cuda.get_device_properties(0).uuid}",
    )


def points_of(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of SWEEPS at square sizes, one for each, cold if there is one. Raises UserError if
    there are none."""
    rows = squares(summary).query(
        "phase == 'kernel' and status == 'ok' and fill in @INPUTS and mode == 'burst'"
    )
    chosen = rows[(rows.variant.map(SWEEPS) == rows.sweep) & rows.n.isin(SIZES)]
    if chosen.empty:
        wanted = ", ".join(map(str, SIZES))
        raise UserError(f"the data set has no times of {' or '.join(LIBRARIES)} at n = {wanted}")
    order = ["sweep", "variant", "n"]
    return chosen.sort_values([*order, "cache"]).drop_duplicates(order)


def pytorch() -> ModuleType:
    """`torch` with `triton`, without TF32. Raises UserError if either or a GPU is missing."""
    try:
        import torch
        import triton
        import triton.testing
    except ImportError as error:
        raise UserError(f"PyTorch and Triton must be installed: {error}") from None
    if not torch.cuda.is_available():
        raise UserError("PyTorch finds no GPU on this machine")
    torch.set_float32_matmul_precision("highest")
    torch.triton = triton
    return torch


def do_bench_ms(torch: Any, point: Any) -> float:
    """Median milliseconds of one point's product in PyTorch, on inputs like its fill's: by PyTorch
    itself, or by a kernel of the project, called as a program would."""
    dtype, extents = getattr(torch, point.dtype), shape_of(point).inputs
    fill = partial(INPUTS[point.fill], torch, dtype=dtype, device="cuda")
    inputs = [fill(*extent) for extent in extents]
    launch = (own_launch if point.variant in OWN else library_launch)(torch, point, inputs)
    return torch.triton.testing.do_bench(launch, **BUDGET_MS, return_mode="median")


def library_launch(torch: Any, point: Any, inputs: Sequence[Any]) -> Action:
    left, right = OPERATIONS[point.operation].factors(*inputs)
    return partial(torch.mm, left, right, out=torch.empty_like(right))


def own_launch(torch: Any, point: Any, inputs: Sequence[Any]) -> Action:
    product: Any = matmul_sweep.gram if OPERATIONS[point.operation].symmetric else matmul_sweep.gemm
    c = torch.empty(shape_of(point).output, dtype=inputs[0].dtype, device="cuda")
    return partial(product, *inputs, c, kernel=point.variant)


def loaded_cublas() -> str:
    """The version of the cuBLAS in this process, as NVIDIA writes it (13.1.0), or unknown."""
    mapped = (Path(file.path) for file in psutil.Process().memory_maps())
    path = next((path for path in mapped if path.name.startswith("libcublas.so")), None)
    return cublas.version_of(ctypes.CDLL(str(path))) if path else "unknown"


# ---- The empty kernel ----

EMPTY = "empty kernel"  # in timer_check.csv's column `variant`
LAUNCHES = 200
BATCH = 40  # launches per hold


def against_itself(data: Path) -> pd.DataFrame:
    """timer_check.csv, by launches of an empty kernel. Raises UserError, NoDevice."""
    with opened() as gpu, tempfile.TemporaryDirectory() as name:
        check_card(data, gpu.name)
        build = Path(name)
        compile_instruments(gpu.architecture, build / gpu.architecture / "instruments.cubin")
        tools = Instruments(gpu, build)
        stream, batch = HeldStream(tools), [tools.empty] * BATCH
        stream.times(batch)  # what the first ones take is no launch's
        times = [time for _ in range(LAUNCHES // BATCH) for time in stream.times(batch)]
        low, high = median_interval(times)
        row = {"variant": EMPTY, "recorder": "off", "readings": 0, "samples": len(times),
               "time_ms": statistics.median(times), "time_low_ms": low, "time_high_ms": high,
               "uuid": gpu.uuid}  # fmt: skip
        return pd.DataFrame([row], columns=COLUMNS["timer_check.csv"])
