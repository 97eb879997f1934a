"""What is computed: operations with their shapes, matrices, libraries and words, a module each."""

from typing import Any

from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.gemm_bf16 import GEMM_BF16
from matmul_sweep.operations.gemm_f16 import GEMM_F16
from matmul_sweep.operations.gram import GRAM
from matmul_sweep.operations.gram_bf16 import GRAM_BF16
from matmul_sweep.operations.operation import Operation
from matmul_sweep.operations.shapes import Shape

# In the order of the report.
OPERATIONS: dict[str, Operation] = {
    operation.name: operation for operation in (GEMM, GRAM, GEMM_BF16, GEMM_F16, GRAM_BF16)
}


def parse_shape(text: int | str, operation: str) -> Shape:
    """A shape of the operation of that name. Raises UserError."""
    return OPERATIONS[operation].parse(text)


def shape_of(row: Any) -> Shape:
    """The shape of a table's row, by its columns operation, m, n and k."""
    return OPERATIONS[row.operation].shape.of_row(row)


def operation_of(shape: Shape) -> Operation:
    """The operation of a shape."""
    return OPERATIONS[shape.operation]
