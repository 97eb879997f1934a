"""The grids that cover shapes."""

import pytest

from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import triangle_of


@pytest.mark.parametrize("tiles", range(1, 8))
def test_a_folded_triangle_has_a_block_for_each_tile_and_no_other(tiles):
    x, y, z = triangle_of(Gram(9, 64 * tiles - 1), (64, 64))
    assert x * y * z == tiles * (tiles + 1) // 2
