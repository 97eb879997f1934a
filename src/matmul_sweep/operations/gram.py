"""C = Aᵀ·A in float64: A of m×n, C of n×n, symmetric, row-major (BLAS: SYRK)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from matmul_sweep.operations.operation import (
    FEW_TERMS,
    MANY_TERMS,
    MUCH,
    TUNED,
    Operation,
    Routine,
    matmul_into,
)
from matmul_sweep.operations.shapes import Extent, SymmetricShape


@dataclass(frozen=True)
class Gram(SymmetricShape):
    """C = Aᵀ·A with A of m×n and C of n×n, symmetric."""

    m: int
    n: int
    k: ClassVar[None] = None  # type: ignore[misc]
    operation: ClassVar[str] = "gram"
    pattern: ClassVar[str] = "MxN such as 10250x20500"

    @property
    def output(self) -> Extent:
        return self.n, self.n

    @property
    def terms(self) -> int:
        return self.m

    @classmethod
    def around(cls, rows: int, columns: int) -> Sequence["Gram"]:
        """Also around document 004's 48×48."""
        width = max(rows, columns)
        squares = (1, 2, 48, width - 1, width, width + 1, 2 * width + 1, 97)
        return [
            *(cls(min(n, FEW_TERMS), n) for n in squares),
            cls(1, 2 * width + 3),
            cls(2 * width + 3, 1),
            *(cls(m, n) for m, n in ((5, 47), (17, 49), (33, 97), (49, 1))),
            cls(FEW_TERMS, 2 * width),
            cls(MANY_TERMS, width),
        ]


def cublas_dgemm(cublas: Any, shape: Gram, a: int, c: int) -> None:
    cublas.gemm("float64", shape.n, shape.n, shape.m, a, a, c, columns=shape.n)


def cublas_dsyrk(cublas: Any, shape: Gram, a: int, c: int) -> None:
    cublas.syrk(shape.m, shape.n, a, c)


GRAM = Operation(
    shape=Gram,
    dtype="float64",
    output="float64",
    sums="float64",
    left_transposed=True,
    routines={
        "cublasDgemm": Routine(True, cublas_dgemm),
        "cublasDsyrk": Routine(True, cublas_dsyrk, writes="upper"),
        # NumPy sees that both factors are one matrix, and calls BLAS's syrk.
        "numpy.matmul": Routine(False, lambda shape, a, c: matmul_into(a.T, a, c)),
    }
    | TUNED,
    rivals=("cublas_dgemm", "cublas_dsyrk", "cublas_dsyrk_triangle"),
    title="C = AᵀA",
    work="mn(n + 1)",
    symmetric=True,
    classes={
        "square": lambda shape: shape.square,
        "tall": lambda shape: shape.m >= MUCH * shape.n,
        "wide": lambda shape: shape.n >= MUCH * shape.m,
    },
    # Document 004's forms of A.
    series={"square (m = n)": 1.0, "wide (m = n/2)": 0.5, "tall (m = 2n)": 2.0},
    figure_prefix="gram_",
)
