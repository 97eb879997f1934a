"""The reference on the device: each product in higher precision than the kernel's, and its bound.

The bound is that of verification.py. C is computed in panels of rows, to limit the memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from matmul_sweep.catalogue.entries import Kernel
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.verification import Accuracy, split_unit, written
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
    right = KINDS[operation_of(shape).sums].right_bytes * shape.elements[-2]
    return right + panel_rows(shape) * row_bytes(shape)


def row_bytes(shape: Shape) -> int:
    """Device memory for each row of a panel."""
    of_term, of_column = KINDS[operation_of(shape).sums].of_row
    return of_term * shape.terms + of_column * shape.output[1]


def panel_rows(shape: Shape) -> int:
    """Rows of C that the reference computes at a time."""
    return max(1, min(shape.output[0], PANEL_BYTES // row_bytes(shape)))


class Reference(ABC):
    """What the references of all operations share: panels, comparison, and a spot check."""

    # Device memory: for each element of the right factor; and in a row of a panel for each term of
    # a sum and for each column.
    right_bytes: ClassVar[int]
    of_row: ClassVar[tuple[int, int]]
    precision: float  # relative error of the reference per term of a sum
    product: Any  # the panel's reference, float64
    rest: Any = 0  # float64 to add to it, or null
    bound: Any  # the panel's Σ|a||b|, float32

    def __init__(self, tools: Instruments, shape: Shape) -> None:
        self.tools, self.shape = tools, shape
        self.operation = operation_of(shape)
        self.rows = panel_rows(shape)
        self.found = tools.drv.mem_alloc(24)

    @abstractmethod
    def compute_panel(self, first: int, rows: int) -> None:
        """Compute product, rest and bound of `rows` rows of C from row `first` on."""

    def allocated(self, count: int, *sizes: int) -> list[Any]:
        """Device arrays of `count` elements, of so many bytes each."""
        return [self.tools.drv.mem_alloc(size * count) for size in sizes]

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
        scale = self.operation.error_scale(self.shape.terms, kernel.arithmetic)
        self.tools.call(
            f"compare_{self.operation.output}", c, self.product, self.rest, self.bound,
            rows * width, width, first, kernel.writes == "upper", scale, self.operation.rounding,
            self.found,
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
        left, right = (
            fills.values(fill, seed, which, index, self.operation.dtype)
            .astype(np.float64)
            .astype(np.longdouble)
            for which, index in zip((0, len(self.shape.inputs) - 1), self.operands(rows, columns),
                                    strict=True)
        )  # fmt: skip
        found, line = np.zeros((SPOTS, SPOTS), np.longdouble), np.empty(width)
        for row, own in zip(rows.tolist(), found, strict=True):
            for array in (self.product, self.rest):
                if array:
                    place = int(array) + line.nbytes * (row - first)
                    self.tools.drv.memcpy_dtoh(line, place)
                    own += line[columns]
        allowed = self.precision * self.shape.terms * (np.abs(left) @ np.abs(right)).max()
        if not (np.abs(found - left @ right) <= allowed).all():
            raise RuntimeError(f"the GPU's reference differs from NumPy's at {self.shape}")

    def operands(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Linear indices of the left operand's elements for these rows of C, and of the right
        operand's for these columns: arrays of rows×terms and terms×columns."""
        terms, (height, width) = self.shape.terms, map(np.uint64, self.shape.output)
        inner, down = np.arange(terms, dtype=np.uint64), rows[:, None]
        across = inner[:, None]
        left = inner * height + down if self.operation.left_transposed else down * terms + inner
        if self.operation.right_transposed:
            return left, columns * np.uint64(terms) + across
        return left, across * width + columns


class WidenedReference(Reference):
    """A·B or A·Aᵀ by cublasDgemm, for matrices whose elements fit in float32."""

    right_bytes = 12
    of_row = (12, 12)
    precision = 2.0**-50

    def __init__(self, tools: Instruments, shape: Shape, fill: str, arrays: Sequence[int]) -> None:
        super().__init__(tools, shape)
        self.a, b = int(arrays[0]), int(arrays[-1])
        self.b = self.allocated(shape.terms * shape.n, 8, 4)  # wide, and its magnitude
        self.widen(b, self.b, shape.terms * shape.n)
        self.panel = self.allocated(self.rows * shape.terms, 8, 4)  # of A, likewise
        self.product, self.bound = self.allocated(self.rows * shape.n, 8, 4)

    def widen(self, matrix: int, to: Sequence[Any], count: int) -> None:
        self.tools.call(f"widen_{self.operation.dtype}", matrix, *to, count)

    def compute_panel(self, first: int, rows: int) -> None:
        n, k, transposed = self.shape.n, self.shape.terms, self.operation.right_transposed
        gemm = partial(self.tools.cublas.gemm, right_transposed=transposed)
        self.widen(self.a + DTYPES[self.operation.dtype].bytes * first * k, self.panel, rows * k)
        (a, abs_a), (b, abs_b) = (map(int, pair) for pair in (self.panel, self.b))
        gemm("float64", rows, n, k, a, b, int(self.product))
        self.compute_bound(gemm, rows, n, k, abs_a, abs_b, int(self.bound))


class SplitReference(Reference):
    """Aᵀ·A of a float64 matrix by three products of cublasDgemm: with A = H + L, split so that
    HᵀH is exact (verification.split_unit), the rest is HᵀL + LᵀA, smaller by the bits of H."""

    right_bytes = 20
    of_row = (0, 20)
    precision = 2.0**-62

    def __init__(self, tools: Instruments, shape: Shape, fill: str, arrays: Sequence[int]) -> None:
        super().__init__(tools, shape)
        (self.a,), count = map(int, arrays), shape.m * shape.n
        self.parts = self.allocated(count, 8, 8, 4)  # high, low, magnitude
        tools.call("split", self.a, *self.parts, split_unit(fills.LARGEST[fill], shape.m), count)
        self.product, self.rest, self.bound = self.allocated(self.rows * shape.n, 8, 8, 4)

    def compute_panel(self, first: int, rows: int) -> None:
        m, n = self.shape.m, self.shape.n
        gemm = partial(self.tools.cublas.gemm, columns=n)
        high, low, magnitude = map(int, self.parts)
        gemm("float64", rows, n, m, high + 8 * first, high, int(self.product))
        gemm("float64", rows, n, m, high + 8 * first, low, int(self.rest))
        gemm("float64", rows, n, m, low + 8 * first, self.a, int(self.rest), add=True)
        self.compute_bound(gemm, rows, n, m, magnitude + 4 * first, magnitude, int(self.bound))


# By the dtype of a product's sums: float64 has no wider type, so its matrices are split.
KINDS: dict[str, type[WidenedReference] | type[SplitReference]] = {
    "float32": WidenedReference,
    "float64": SplitReference,
}
