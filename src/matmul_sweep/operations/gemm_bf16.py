"""C = A·B in bfloat16, summed in float32: A of m×k, B of k×n, C of m×n, all row-major."""

from dataclasses import dataclass, replace
from typing import ClassVar

from matmul_sweep.operations.gemm import GEMM, Gemm
from matmul_sweep.operations.operation import SIXTEEN_BITS


@dataclass(frozen=True)
class GemmBf16(Gemm):
    """C = A·B with A of m×k, B of k×n and C of m×n."""

    operation: ClassVar[str] = "gemm_bf16"


GEMM_BF16 = replace(
    GEMM,
    shape=GemmBf16,
    dtype="bfloat16",
    output="bfloat16",
    routines=SIXTEEN_BITS,
    rivals=("cublas_gemm_bf16",),
    figure_prefix="gemm_bf16_",
)
