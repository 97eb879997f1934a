"""The instruments on the device: fill, float64 reference, comparison, and the held stream."""

from pathlib import Path
from typing import Any

import numpy as np

from matmul import fills
from matmul.cublas import WORKSPACE_BYTES, Cublas
from matmul.device import Gpu, architecture
from matmul.shapes import Shape
from matmul.verification import ROUNDOFF

SOURCE = Path(__file__).with_name("instruments.cu")
FLAGS = ["-O3", "-std=c++17"]
BLOCKS, THREADS = (1056, 1, 1), (256, 1, 1)  # grid-stride kernels: any grid is right
PANEL_BYTES = 1 << 30


class Instruments:
    """Kernels of instruments.cu and a cuBLAS handle, on one stream of one GPU."""

    def __init__(self, gpu: Gpu, build: Path) -> None:
        """`build` holds <architecture>/instruments.cubin."""
        self.drv = gpu.drv
        self.stream = self.drv.Stream()
        module = self.drv.module_from_file(str(build / architecture() / "instruments.cubin"))
        self.hold, self.fill, self.widen, self.compare = (
            module.get_function(name).prepare(arguments)
            for name, arguments in (
                ("hold", "PQ"),
                ("fill", "PQiQi"),
                ("widen", "PPPQ"),
                ("compare", "PPPQdP"),
            )
        )
        self.workspace = self.drv.mem_alloc(WORKSPACE_BYTES)
        self.cublas = Cublas(self.stream.handle, int(self.workspace))
        self.sweep_bytes = 2 * gpu.l2_bytes
        self.sweep = self.drv.mem_alloc(self.sweep_bytes)

    def filled(self, fill: str, seed: int, matrix: int, count: int) -> Any:
        """A device array of `count` float32 elements of matrix 0 (A) or 1 (B)."""
        array = self.drv.mem_alloc(4 * count)
        kind, start = fills.FILLS.index(fill), fills.start_of(seed, matrix)
        self.fill.prepared_async_call(
            BLOCKS, THREADS, self.stream, array, count, kind, start, matrix
        )
        return array

    def poison(self, array: Any, count: int) -> None:
        """Fill `count` float32 elements with NaN: what a kernel leaves out shows."""
        self.drv.memset_d32_async(array, 0xFFFFFFFF, count, self.stream)

    def clear_l2(self) -> None:
        """Write twice the L2's size, so that no input is left in it."""
        self.drv.memset_d32_async(self.sweep, 0, self.sweep_bytes // 4, self.stream)


def reference_bytes(shape: Shape) -> int:
    """Device memory that `Reference` takes beside the product's own matrices."""
    _, b, _ = shape.elements
    return 12 * b + 12 * panel_rows(shape) * (shape.k + shape.n)


def panel_rows(shape: Shape) -> int:
    """Rows of C that the reference computes at a time, to bound its memory."""
    return max(1, min(shape.m, PANEL_BYTES // (12 * (shape.k + shape.n))))


class Reference:
    """A·B in float64 by cublasDgemm, and Σ|a||b|, panel by panel of rows of C.

    The error of a float32 product is bounded by k·u·Σ|a||b| for any order of summation, with
    u = 2⁻²⁴ (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 3.13).
    """

    def __init__(self, tools: Instruments, shape: Shape, a: int, b: int) -> None:
        """`a`, `b`: device pointers to A and B in float32."""
        self.tools, self.shape, self.a = tools, shape, int(a)
        drv, rows = tools.drv, panel_rows(shape)
        self.wide_b, self.abs_b = self.widened(int(b), shape.k * shape.n)
        self.wide_a, self.abs_a = (drv.mem_alloc(size * rows * shape.k) for size in (8, 4))
        self.product, self.bound = (drv.mem_alloc(size * rows * shape.n) for size in (8, 4))
        self.largest = drv.mem_alloc(8)

    def widened(self, x: int, count: int) -> tuple[Any, Any]:
        """Device arrays of `x` in float64 and of |x| in float32."""
        wide, magnitude = (self.tools.drv.mem_alloc(size * count) for size in (8, 4))
        self.widen_into(x, wide, magnitude, count)
        return wide, magnitude

    def widen_into(self, x: int, wide: Any, magnitude: Any, count: int) -> None:
        self.tools.widen.prepared_async_call(
            BLOCKS, THREADS, self.tools.stream, x, wide, magnitude, count
        )

    def errors(self, products: list[int]) -> list[float]:
        """For each C (device pointers, float32): its largest error as a share of the bound."""
        m, n, k = self.shape.m, self.shape.n, self.shape.k
        worst = [0.0] * len(products)
        for first in range(0, m, panel_rows(self.shape)):
            rows = min(panel_rows(self.shape), m - first)
            self.widen_into(self.a + 4 * first * k, self.wide_a, self.abs_a, rows * k)
            gemm = self.tools.cublas.gemm
            gemm("float64", rows, n, k, int(self.wide_a), int(self.wide_b), int(self.product))
            gemm("float32", rows, n, k, int(self.abs_a), int(self.abs_b), int(self.bound))
            for which, c in enumerate(products):
                worst[which] = max(worst[which], self.panel_error(int(c) + 4 * first * n, rows * n))
        return worst

    def panel_error(self, c: int, count: int) -> float:
        """The largest share of the bound among `count` elements of C from pointer `c` on."""
        drv, stream = self.tools.drv, self.tools.stream
        scale = self.shape.k * ROUNDOFF
        drv.memset_d32_async(self.largest, 0, 2, stream)
        self.tools.compare.prepared_async_call(
            BLOCKS, THREADS, stream, c, self.product, self.bound, count, scale, self.largest
        )
        stream.synchronize()
        found = np.empty(1, np.float64)
        drv.memcpy_dtoh(found, self.largest)
        return float(found[0])

    def spot_check(self, fill: str, seed: int, spots: int = 8) -> None:
        """Hold spots² elements of the last panel against NumPy, which gets them by formula.

        Raises RuntimeError when the device's fill or its float64 product is wrong.
        """
        m, n, k = self.shape.m, self.shape.n, self.shape.k
        first = (m - 1) // panel_rows(self.shape) * panel_rows(self.shape)
        random = np.random.default_rng(seed)
        rows = random.integers(first, m, spots).astype(np.uint64)
        columns = random.integers(0, n, spots).astype(np.uint64)
        inner = np.arange(k, dtype=np.uint64)
        a = fills.values(fill, seed, 0, rows[:, None] * np.uint64(k) + inner).astype(np.float64)
        b = fills.values(fill, seed, 1, inner[:, None] * np.uint64(n) + columns).astype(np.float64)
        found = np.empty((spots, spots))
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                offset = 8 * ((int(row) - first) * n + int(column))
                self.tools.drv.memcpy_dtoh(found[i, j : j + 1], int(self.product) + offset)
        allowed = 2.0**-50 * k * (np.abs(a) @ np.abs(b)).max()
        if not np.allclose(found, a @ b, rtol=0, atol=allowed):
            raise RuntimeError(f"the GPU's float64 reference differs from NumPy's at {self.shape}")
