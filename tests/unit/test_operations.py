"""Operations: what each says about its products agrees with the products."""

import pytest
from support import the_catalogue

from matmul_sweep.operations import OPERATIONS, fills
from matmul_sweep.operations.operation import Operation

every = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda o: o.name)


@every
def test_the_factors_of_the_inputs_multiply_to_c(operation: Operation) -> None:
    shape = operation.shapes_around(16, 16)[-1]
    inputs = fills.inputs("digits", 1, shape, operation.dtype)
    left, right = operation.factors(*inputs)
    assert left.shape[1] == right.shape[0] == shape.terms
    assert (left.shape[0], right.shape[1]) == shape.output
    assert len(inputs) + 1 == operation.signature[0] == len(shape.elements)


@every
def test_rivals_are_entries_of_the_catalogue_for_the_same_operation(operation: Operation) -> None:
    catalogue = the_catalogue()
    for name in operation.rivals:
        assert catalogue[name].product == operation
        assert catalogue[name].routine.on_gpu
