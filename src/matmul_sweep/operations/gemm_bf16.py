"""C = A·B in bfloat16, summed in float32: A of m×k, B of k×n, C of m×n, all row-major."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from matmul_sweep.operations.gemm import GEMM, Gemm
from matmul_sweep.operations.operation import TUNED, Routine


@dataclass(frozen=True)
class GemmBf16(Gemm):
    """C = A·B with A of m×k, B of k×n and C of m×n."""

    operation: ClassVar[str] = "gemm_bf16"


def cublas_gemm_ex(cublas: Any, shape: GemmBf16, a: int, b: int, c: int) -> None:
    cublas.gemm_ex("bfloat16", "bfloat16", shape.m, shape.n, shape.k, a, b, c)


GEMM_BF16 = replace(
    GEMM,
    shape=GemmBf16,
    dtype="bfloat16",
    output="bfloat16",
    routines={"cublasGemmEx": Routine(True, cublas_gemm_ex)} | TUNED,
    rivals=("cublas_gemm_bf16",),
    figure_prefix="gemm_bf16_",
)
