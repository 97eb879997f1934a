"""Operations: what each says about its products agrees with the products."""

from support import the_catalogue

from matmul_sweep.operations import OPERATIONS


def test_rivals_are_entries_of_the_catalogue_for_the_same_operation():
    for operation in OPERATIONS.values():
        for name in operation.rivals:
            assert the_catalogue()[name].product == operation
            assert the_catalogue()[name].routine.on_gpu
