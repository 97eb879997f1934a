"""C = A·Aᵀ in bfloat16, summed in float32: A of m×k, C of m×m, symmetric, row-major."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.operation import MUCH, SIXTEEN_BITS, Operation
from matmul_sweep.operations.shapes import Extent, SymmetricShape


@dataclass(frozen=True)
class GramBf16(SymmetricShape):
    """C = A·Aᵀ with A of m×k and C of m×m, symmetric."""

    m: int
    k: int
    operation: ClassVar[str] = "gram_bf16"
    pattern: ClassVar[str] = "MxK such as 4096x14336"

    @property
    def n(self) -> int:  # type: ignore[override]
        """Columns of C."""
        return self.m

    @property
    def output(self) -> Extent:
        return self.m, self.m

    @property
    def terms(self) -> int:
        return self.k

    @classmethod
    def around(cls, rows: int, columns: int) -> Sequence["GramBf16"]:
        """Gram's, whose A is Aᵀ here."""
        return [cls(shape.n, shape.m) for shape in Gram.around(rows, columns)]


GRAM_BF16 = Operation(
    shape=GramBf16,
    dtype="bfloat16",
    output="bfloat16",
    sums="float32",
    right_transposed=True,
    routines=SIXTEEN_BITS,
    rivals=("cublas_gram_bf16",),
    title="C = AAᵀ",
    work="mk(m + 1)",
    symmetric=True,
    classes={
        "square": lambda shape: shape.square,
        "deep": lambda shape: shape.k >= MUCH * shape.m,
        "shallow": lambda shape: MUCH * shape.k <= shape.m,
    },
    figure_prefix="gram_bf16_",
)
