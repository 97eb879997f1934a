"""Compare a data set's times of cuBLAS with Triton's do_bench, which shares no code with this
project.

This needs PyTorch and Triton, which the project does not install: run it where they are installed,
on the card of the data set. do_bench clears the L2 before each launch and takes the median, so it
is compared with cold times, or with hot ones if the data set has no others. PyTorch runs its own
cuBLAS.

    python scripts/cross_check.py --data results/local
"""

import ctypes
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import psutil

from matmul_sweep.experiment.dataset.selection import squares
from matmul_sweep.experiment.dataset.tables import read_table, version_of, write_table
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.facts.checks import CROSS, check_card
from matmul_sweep.operations import OPERATIONS, shape_of
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.gram import GRAM
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import read_json

SWEEPS = {"cublas_sgemm": GEMM.name, "cublas_dgemm": GRAM.name}  # where each is the product timed
SIZES = [320, 500, 640, 1024, 2048, 2500, 4096, 4500, 8192, 8500]  # of both sweeps
ROUNDS = 3  # of do_bench over all sizes
BUDGET_MS = {"warmup": 100, "rep": 400}


def pytorch() -> ModuleType:
    """`torch`, without TF32. Raises UserError if it, Triton or a GPU is missing."""
    try:
        import torch
        import triton.testing  # noqa: F401
    except ImportError as error:
        raise UserError(f"PyTorch and Triton must be installed: {error}") from None
    if not torch.cuda.is_available():
        raise UserError("PyTorch finds no GPU on this machine")
    torch.set_float32_matmul_precision("highest")
    return torch


def cublas_version() -> str:
    """The version of the loaded cuBLAS, as NVIDIA writes it (13.1.0), or unknown."""
    mapped = (Path(file.path) for file in psutil.Process().memory_maps())
    path = next((path for path in mapped if path.name.startswith("libcublas.so")), None)
    if path is None:
        return "unknown"
    library, value, parts = ctypes.CDLL(str(path)), ctypes.c_int(), []
    for which in range(3):  # libraryPropertyType: major, minor, patch
        library.cublasGetProperty(which, ctypes.byref(value))
        parts.append(str(value.value))
    return ".".join(parts)


def identity(torch: ModuleType) -> dict[str, str]:
    """The versions of the programs, and the card's UUID as NVML writes it."""
    import triton

    return {
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cublas": cublas_version(),
        "uuid": f"GPU-{torch.cuda.get_device_properties(0).uuid}",
    }


def points_of(summary: pd.DataFrame, sizes: list[int]) -> pd.DataFrame:
    """cuBLAS's rows at these square sizes, one for each, cold if there is one.

    Raises UserError if there are none.
    """
    rows = squares(summary).query(
        "phase == 'kernel' and status == 'ok' and fill == 'uniform' and mode == 'burst'"
    )
    own = rows[rows.variant.map(SWEEPS) == rows.sweep]
    chosen = own[own.n.isin(sizes)]
    if chosen.empty:
        known = ", ".join(map(str, sorted(set(own.n)))) or "no size"
        wanted = ", ".join(map(str, sizes))
        raise UserError(
            f"no times of {' or '.join(SWEEPS)} at n = {wanted}: the data set has them at {known}"
        )
    return chosen.sort_values(["sweep", "n", "cache"]).drop_duplicates(["sweep", "n"])


def do_bench_ms(torch: ModuleType, point: Any) -> float:
    """Median milliseconds of one point's product by PyTorch, on uniform inputs in [-1, 1)."""
    from triton.testing import do_bench

    def uniform() -> Any:
        n, dtype = int(point.n), getattr(torch, point.dtype)
        return torch.rand(n, n, dtype=dtype, device="cuda") * 2 - 1

    inputs = [uniform() for _ in shape_of(point).inputs]
    left, right = OPERATIONS[point.operation].factors(*inputs)
    c = torch.empty_like(right)
    return do_bench(lambda: torch.mm(left, right, out=c), **BUDGET_MS, return_mode="median")


def timed(torch: ModuleType, points: pd.DataFrame) -> pd.DataFrame:
    """The points with do_bench's median of ROUNDS times, the smallest and the largest, in ms.

    A round covers all points, so the spread includes changes from minute to minute.
    """
    times = [[do_bench_ms(torch, point) for point in points.itertuples()] for _ in range(ROUNDS)]
    return points.assign(
        rounds=ROUNDS,
        do_bench_ms=np.median(times, axis=0),
        do_bench_low_ms=np.min(times, axis=0),
        do_bench_high_ms=np.max(times, axis=0),
    )


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data", type=Path, default=Path("results/local"), help="a data set")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="n, in the data set")
    options = parser.parse_args()

    version = version_of(read_json(options.data / "device.json"))
    summary = read_table("summary.csv", options.data / "summary.csv", version)
    points = points_of(summary, options.sizes)
    torch = pytorch()
    check_card(options.data, torch.cuda.get_device_name(0))
    table = timed(torch, points).assign(**identity(torch))
    write_table(table, CROSS, options.data / CROSS)
    table["difference"] = table.time_ms / table.do_bench_ms - 1
    shown = ["variant", "n", "cache", "time_ms", "do_bench_ms", "difference"]
    print(table[shown].to_string(index=False, float_format="{:.4g}".format))


if __name__ == "__main__":
    main()
