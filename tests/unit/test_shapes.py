"""Shapes as users write them, their operations, and the grids that cover them."""

from typing import Any

import pytest

from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import LARGEST, triangle_of
from matmul_sweep.process.errors import UserError


@pytest.mark.parametrize(
    ("text", "operation", "remedy"),
    [
        ("4x4", "gemm", "MxNxK"), ("4x4x4", "gram", "MxN such"), ("4x", "gram", "MxN such"),
        *((text, "gemm", "") for text in (0, 640.0, True, None, f"1x1x{LARGEST + 1}", "9" * 5000)),
    ],
    ids=lambda text: repr(text)[:20],
)  # fmt: skip
def test_what_is_no_shape_of_an_operation_is_refused_with_how_to_write_it(
    text: Any, operation: str, remedy: str
) -> None:
    with pytest.raises(UserError, match=f"shape '{text}': .*{remedy}"):
        parse_shape(text, operation)


@pytest.mark.parametrize("tiles", range(1, 8))
def test_a_folded_triangle_has_a_block_for_each_tile_and_no_other(tiles: int) -> None:
    x, y, z = triangle_of(Gram(9, 64 * tiles - 1), (64, 64))
    assert x * y * z == tiles * (tiles + 1) // 2
