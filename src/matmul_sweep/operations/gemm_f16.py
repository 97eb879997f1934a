"""C = A·B of halves, summed and stored in float32: A of m×k, B of k×n, C of m×n, all row-major."""

from dataclasses import dataclass, replace
from typing import ClassVar

from matmul_sweep.operations.gemm import GEMM, Gemm
from matmul_sweep.operations.operation import SIXTEEN_BITS


@dataclass(frozen=True)
class GemmF16(Gemm):
    """C = A·B with A of m×k, B of k×n and C of m×n."""

    operation: ClassVar[str] = "gemm_f16"


GEMM_F16 = replace(
    GEMM,
    shape=GemmF16,
    dtype="float16",
    routines=SIXTEEN_BITS,
    rivals=("cublas_gemm_f16",),
    figure_prefix="gemm_f16_",
)
