"""C = A·B of halves, summed and stored in float32: A of m×k, B of k×n, C of m×n, all row-major."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from matmul_sweep.operations.gemm import GEMM, Gemm
from matmul_sweep.operations.operation import TUNED, Routine


@dataclass(frozen=True)
class GemmF16(Gemm):
    """C = A·B with A of m×k, B of k×n and C of m×n."""

    operation: ClassVar[str] = "gemm_f16"


def cublas_gemm_ex(cublas: Any, shape: GemmF16, a: int, b: int, c: int) -> None:
    cublas.gemm_ex("float16", "float32", shape.m, shape.n, shape.k, a, b, c)


GEMM_F16 = replace(
    GEMM,
    shape=GemmF16,
    dtype="float16",
    routines={"cublasGemmEx": Routine(True, cublas_gemm_ex)} | TUNED,
    rivals=("cublas_gemm_f16",),
    figure_prefix="gemm_f16_",
)
