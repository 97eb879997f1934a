"""C = A·B in float32: A of m×k, B of k×n, C of m×n, all row-major."""

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
from matmul_sweep.operations.shapes import Extent, Shape


@dataclass(frozen=True)
class Gemm(Shape):
    """C = A·B with A of m×k, B of k×n and C of m×n."""

    m: int
    n: int
    k: int
    operation: ClassVar[str] = "gemm"
    pattern: ClassVar[str] = "MxNxK such as 3200x2400x1600"

    @property
    def inputs(self) -> tuple[Extent, ...]:
        return (self.m, self.k), (self.k, self.n)

    @property
    def output(self) -> Extent:
        return self.m, self.n

    @property
    def terms(self) -> int:
        return self.k

    @property
    def operations(self) -> int:
        """2mnk: a multiplication and an addition per term."""
        return 2 * self.m * self.n * self.k

    @classmethod
    def around(cls, rows: int, columns: int) -> Sequence["Gemm"]:
        few = min(max(rows, columns) + 1, FEW_TERMS)
        near = ((rows + more, columns + more) for more in (-1, 0, 1))
        return [
            *(cls(n, n, n) for n in (1, 2, 97)),
            *(cls(m, n, min(max(m, n), FEW_TERMS)) for m, n in near),
            cls(2 * rows + 1, 2 * columns + 1, 33),
            cls(rows, columns, MANY_TERMS),
            cls(1, 1, few),
            cls(1, 2 * columns + 3, 5),
            cls(2 * rows + 3, 1, 7),
            cls(rows + 1, columns - 1, 1),
            cls(rows - 1, columns + 1, few),
            cls(2 * rows, 2 * columns, few),
            cls(53, 97, 71),
        ]


def cublas_sgemm(cublas: Any, shape: Gemm, a: int, b: int, c: int) -> None:
    cublas.gemm("float32", shape.m, shape.n, shape.k, a, b, c)


GEMM = Operation(
    shape=Gemm,
    dtype="float32",
    output="float32",
    sums="float32",
    routines={
        "cublasSgemm": Routine(True, cublas_sgemm, ("full", "tf32")),
        "numpy.matmul": Routine(False, lambda shape, a, b, c: matmul_into(a, b, c)),
    }
    | TUNED,
    rivals=("cublas_sgemm",),
    title="C = A·B",
    work="2mnk",
    classes={
        "square": lambda shape: shape.square,
        "deep": lambda shape: shape.k >= MUCH * max(shape.output),
        "shallow": lambda shape: MUCH * shape.k <= min(shape.output),
        "flat": lambda shape: MUCH * shape.m <= shape.n,
        "narrow": lambda shape: MUCH * shape.n <= shape.m,
    },
)
