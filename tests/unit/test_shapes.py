"""Shapes as users write them, their operations, and the grids that cover them."""

from typing import Any

import pandas as pd
import pytest

from matmul_sweep.experiment.dataset.tables import product_of
from matmul_sweep.operations import parse_shape, shape_of
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import LARGEST, Shape, grid_of, triangle_of
from matmul_sweep.process.errors import UserError

NO_SHAPES = [0, "4x4x4 ", "640.0", 3.5, True, None, f"1x1x{LARGEST + 1}", "9" * 5000]


@pytest.mark.parametrize(
    ("text", "operation", "remedy"),
    [("4x4", "gemm", "MxNxK"), ("4x4x4", "gram", "MxN such"), ("4x", "gram", "MxN such")],
)
def test_the_other_operations_text_is_refused_with_how_to_write_it(
    text: str, operation: str, remedy: str
) -> None:
    with pytest.raises(UserError, match=f"^{operation} shape '{text}': .*{remedy}"):
        parse_shape(text, operation)


@pytest.mark.parametrize("text", NO_SHAPES, ids=lambda text: repr(text)[:20])
def test_other_text_is_refused_by_name(text: Any) -> None:
    with pytest.raises(UserError) as caught:
        parse_shape(text, "gemm")
    assert f"'{text}'" in str(caught.value)


def test_the_documents_product_takes_24_576_million_operations() -> None:
    assert Gemm(3200, 2400, 1600).operations == 24_576_000_000


@pytest.mark.parametrize("shape", [Gemm(3, 7, 5), Gram(5, 7)])
def test_a_tables_row_gives_its_shape_back(shape: Shape) -> None:
    row = pd.DataFrame([product_of("float32", shape)]).astype({"k": "Int64"})
    assert shape_of(row.iloc[0]) == shape
    assert shape_of(next(row.itertuples())) == shape


def test_the_documents_grid_has_7500_blocks() -> None:
    """Document 000: 3200×1600 times 1600×2400 in tiles of 32×32."""
    assert grid_of(Gemm(3200, 2400, 1600), (32, 32)) == (75, 100, 1)


@pytest.mark.parametrize("tiles", range(1, 8))
def test_a_folded_triangle_has_a_block_for_each_tile_and_no_other(tiles: int) -> None:
    x, y, z = triangle_of(Gram(9, 64 * tiles - 1), (64, 64))
    assert x * y * z == tiles * (tiles + 1) // 2
