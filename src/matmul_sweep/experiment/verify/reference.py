"""The reference on the device: each product in higher precision than the kernel's, and its bound.

The bound is that of verification.py. C is computed in panels of rows, to limit the memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from matmul_sweep.catalogue.entries import Kernel
from matmul_sweep.experiment.measure.instruments import Instruments
from matmul_sweep.experiment.verify.verification import Accuracy, bound_scale, split_unit, written
from matmul_sweep.operations import fills, operation_of
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import Shape

PANEL_BYTES = 1 << 30
SPOTS = 8  # rows, and columns, of the elements that NumPy computes too


def reference(tools: Instruments, shape: Shape, fill: str, arrays: Sequence[int]) -> "Reference":
    """The reference of a product of filled device arrays."""
    return KINDS[operation_of(shape).sums](tools, shape, fill, arrays)


def reference_bytes(shape: Shape) -> int:
    """Device memory that the reference takes, besides the product's own matrices."""
    kind = KINDS[operation_of(shape).sums]
    right = shape.elements[operation_of(shape).right]
    return kind.right_bytes * right + panel_rows(shape) * row_bytes(shape)


def row_bytes(shape: Shape) -> int:
    """Device memory for each row of a panel."""
    return KINDS[operation_of(shape).sums].row_bytes(shape)


def panel_rows(shape: Shape) -> int:
    """Rows of C that the reference computes at a time."""
    return max(1, min(shape.output[0], PANEL_BYTES // row_bytes(shape)))


class Reference(ABC):
    """What the references of all operations share: panels, comparison, and a spot check."""

    right_bytes: ClassVar[int]  # on the device, for each element of the right factor
    precision: float  # relative error of the reference per term of a sum
    product: Any  # the panel's reference, float64
    rest: Any = 0  # float64 to add to it, or null
    bound: Any  # the panel's Σ|a||b|, float32

    def __init__(self, tools: Instruments, shape: Shape) -> None:
        self.tools, self.shape = tools, shape
        self.operation = operation_of(shape)
        self.rows = panel_rows(shape)
        self.found = tools.drv.mem_alloc(24)

    @staticmethod
    @abstractmethod
    def row_bytes(shape: Shape) -> int:
        """Device memory for each row of a panel."""

    @abstractmethod
    def compute_panel(self, first: int, rows: int) -> None:
        """Compute product, rest and bound of `rows` rows of C from row `first` on."""

    @abstractmethod
    def operands(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Linear indices of the left operand's elements for these rows of C, and of the right
        operand's for these columns: arrays of rows×terms and terms×columns."""

    def errors(self, products: Sequence[int], kernels: Sequence[Kernel]) -> list[Accuracy]:
        """How far each kernel's C (device pointers) is from the reference."""
        height, width = self.shape.output
        found = np.zeros((len(products), 3))
        for first in range(0, height, self.rows):
            rows = min(self.rows, height - first)
            self.compute_panel(first, rows)
            for own, c, kernel in zip(found, products, kernels, strict=True):
                panel = int(c) + DTYPES[self.operation.output].bytes * first * width
                share, largest, added = self.panel_errors(panel, first, rows, kernel)
                own[:] = max(own[0], share), max(own[1], largest), own[2] + added
        return [
            Accuracy(share, largest, total / written(kernel, self.shape.output))
            for (share, largest, total), kernel in zip(found.tolist(), kernels, strict=True)
        ]

    def compute_bound(self, product: Callable[..., None], *arguments: Any) -> None:
        """The panel's bound in TF32, which takes a fraction of float32's time. Its terms have one
        sign, so ten bits of each factor's fraction keep it within 0.2%."""
        with self.tools.cublas.arithmetic("tf32"):
            product("float32", *arguments)

    def panel_errors(self, c: int, first: int, rows: int, kernel: Kernel) -> np.ndarray:
        """For `rows` rows at pointer `c`, from row `first` of C on: the largest error as a share of
        its bound, and the largest and the sum as shares of Σ|a||b|."""
        drv, stream, width = self.tools.drv, self.tools.stream, self.shape.output[1]
        drv.memset_d32_async(self.found, 0, 6, stream)
        self.tools.call(
            f"compare_{self.operation.output}", c, self.product, self.rest, self.bound,
            rows * width, width, first, kernel.writes == "upper",
            bound_scale(kernel, self.shape.terms), self.operation.rounding, self.found,
        )  # fmt: skip
        stream.synchronize()
        found = np.empty(3, np.float64)
        drv.memcpy_dtoh(found, self.found)
        return found

    def spot_check(self, fill: str, seed: int) -> None:
        """Compare SPOTS² elements of the last panel with NumPy's, computed from the formula of the
        fill in more than float64 (if the platform's long double is wider).

        Raises RuntimeError when the device's fill or its reference is wrong.
        """
        height, width = self.shape.output
        first = (height - 1) // self.rows * self.rows
        random = np.random.default_rng(seed)
        rows = random.integers(first, height, SPOTS).astype(np.uint64)
        columns = random.integers(0, width, SPOTS).astype(np.uint64)
        matrices = (0, self.operation.right)
        left, right = (
            fills.values(fill, seed, which, index, self.operation.dtype)
            .astype(np.float64)
            .astype(np.longdouble)
            for which, index in zip(matrices, self.operands(rows, columns), strict=True)
        )
        found = np.array([[self.element(int(row) - first, int(column)) for column in columns]
                          for row in rows])  # fmt: skip
        allowed = self.precision * self.shape.terms * (np.abs(left) @ np.abs(right)).max()
        if not (np.abs(found - left @ right) <= allowed).all():
            raise RuntimeError(f"the GPU's reference differs from NumPy's at {self.shape}")

    def element(self, row: int, column: int) -> np.longdouble:
        """An element of the panel's reference."""
        parts = np.zeros(2)
        for i, array in enumerate((self.product, self.rest)):
            if array:
                offset = 8 * (row * self.shape.output[1] + column)
                self.tools.drv.memcpy_dtoh(parts[i : i + 1], int(array) + offset)
        return parts.astype(np.longdouble).sum()


class WidenedReference(Reference):
    """A·B by cublasDgemm, for matrices whose elements fit in float32."""

    right_bytes = 12
    precision = 2.0**-50

    @staticmethod
    def row_bytes(shape: Shape) -> int:
        return 12 * (shape.terms + shape.output[1])

    def __init__(self, tools: Instruments, shape: Shape, fill: str, arrays: Sequence[int]) -> None:
        super().__init__(tools, shape)
        a, b = arrays
        self.a, allocate = int(a), tools.drv.mem_alloc
        count = shape.terms * shape.n
        self.wide_b, self.abs_b = allocate(8 * count), allocate(4 * count)
        self.widen(b, self.wide_b, self.abs_b, count)
        self.wide_a, self.abs_a = (allocate(size * self.rows * shape.terms) for size in (8, 4))
        self.product, self.bound = (allocate(size * self.rows * shape.n) for size in (8, 4))

    def widen(self, matrix: int, wide: int, magnitude: int, count: int) -> None:
        self.tools.call(f"widen_{self.operation.dtype}", matrix, wide, magnitude, count)

    def compute_panel(self, first: int, rows: int) -> None:
        n, k = self.shape.n, self.shape.terms
        panel = self.a + DTYPES[self.operation.dtype].bytes * first * k
        self.widen(panel, self.wide_a, self.abs_a, rows * k)
        gemm = self.tools.cublas.gemm
        gemm("float64", rows, n, k, int(self.wide_a), int(self.wide_b), int(self.product))
        self.compute_bound(gemm, rows, n, k, int(self.abs_a), int(self.abs_b), int(self.bound))

    def operands(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inner = np.arange(self.shape.terms, dtype=np.uint64)
        k, n = np.uint64(self.shape.terms), np.uint64(self.shape.n)
        return rows[:, None] * k + inner, inner[:, None] * n + columns


class SplitReference(Reference):
    """Aᵀ·A of a float64 matrix by three products of cublasDgemm: with A = H + L, split so that
    HᵀH is exact (verification.split_unit), the rest is HᵀL + LᵀA, smaller by the bits of H."""

    right_bytes = 20
    precision = 2.0**-62

    @staticmethod
    def row_bytes(shape: Shape) -> int:
        return 20 * shape.output[1]

    def __init__(self, tools: Instruments, shape: Shape, fill: str, arrays: Sequence[int]) -> None:
        super().__init__(tools, shape)
        (a,) = arrays
        self.a, allocate, count = int(a), tools.drv.mem_alloc, shape.m * shape.n
        self.high, self.low, self.magnitude = (allocate(size * count) for size in (8, 8, 4))
        unit = split_unit(fills.LARGEST[fill], shape.m)
        tools.call("split", a, self.high, self.low, self.magnitude, unit, count)
        self.product, self.rest, self.bound = (
            allocate(size * self.rows * shape.n) for size in (8, 8, 4)
        )

    def compute_panel(self, first: int, rows: int) -> None:
        m, n = self.shape.m, self.shape.n
        high, low, magnitude = int(self.high), int(self.low), int(self.magnitude)
        gemm = self.tools.cublas.gemm_transposed
        gemm("float64", rows, n, m, high + 8 * first, n, high, int(self.product))
        gemm("float64", rows, n, m, high + 8 * first, n, low, int(self.rest))
        gemm("float64", rows, n, m, low + 8 * first, n, self.a, int(self.rest), add=True)
        self.compute_bound(gemm, rows, n, m, magnitude + 4 * first, n, magnitude, int(self.bound))

    def operands(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inner, n = np.arange(self.shape.m, dtype=np.uint64), np.uint64(self.shape.n)
        return inner * n + rows[:, None], inner[:, None] * n + columns


# By the dtype of a product's sums: float64 has no wider type, so its matrices are split.
KINDS: dict[str, type[WidenedReference] | type[SplitReference]] = {
    "float32": WidenedReference,
    "float64": SplitReference,
}
