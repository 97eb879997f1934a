"""Shapes as users write them, their operations, and the grids that cover them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matmul.dataset import product_of
from matmul.errors import UserError
from matmul.shapes import LARGEST, Gemm, Gram, Shape, grid_of, parse_shape, shape_of

EXTENTS = st.integers(1, 150)
NO_SHAPES = [
    "0", 0, "-4", -4, "4x4", "4x4x4x4", "4x0x4", "", "x", "axbxc", "4x4x4 ", "1e3", "640.0",
    3.5, True, None, str(LARGEST + 1), f"1x1x{LARGEST + 1}", "9" * 5000,
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("640", (640, 640, 640)),
        (640, (640, 640, 640)),
        ("1", (1, 1, 1)),
        ("3200x2400x1600", (3200, 2400, 1600)),
        ("3200×2400×1600", (3200, 2400, 1600)),
        (str(LARGEST), (LARGEST,) * 3),
    ],
)
def test_text_is_m_n_k(text: int | str, expected: tuple[int, int, int]) -> None:
    shape = parse_shape(text, "gemm")
    assert (shape.m, shape.n, shape.k) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("640", (640, 640)), (640, (640, 640)), ("5x47", (5, 47)), ("10250×20500", (10250, 20500))],
)
def test_text_is_m_n_for_gram(text: int | str, expected: tuple[int, int]) -> None:
    shape = parse_shape(text, "gram")
    assert (shape.m, shape.n, shape.k) == (*expected, None)


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


@given(EXTENTS, EXTENTS, EXTENTS)
def test_a_printed_shape_is_read_as_itself(m: int, n: int, k: int) -> None:
    assert parse_shape(str(Gemm(m, n, k)), "gemm") == Gemm(m, n, k)


def test_operations_are_a_multiplication_and_an_addition_per_term() -> None:
    a, b = np.ones((3, 5)), np.ones((5, 7))
    assert Gemm(3, 7, 5).operations == 2 * (a @ b).sum()
    assert Gemm(3200, 2400, 1600).operations == 24_576_000_000


def test_gram_counts_the_operations_that_symmetry_leaves() -> None:
    """A multiplication and an addition for each term of each element of the upper triangle."""
    a = np.ones((5, 7))
    assert Gram(5, 7).operations == 2 * np.triu(a.T @ a).sum()


def test_elements_are_those_of_the_inputs_and_of_c() -> None:
    assert Gemm(3, 7, 5).elements == (3 * 5, 5 * 7, 3 * 7)
    assert Gram(5, 7).elements == (5 * 7, 7 * 7)


@pytest.mark.parametrize("shape", [Gemm(3, 7, 5), Gram(5, 7)])
def test_a_tables_row_gives_its_shape_back(shape: Shape) -> None:
    row = pd.DataFrame([product_of("float32", shape)]).astype({"k": "Int64"})
    assert shape_of(row.iloc[0]) == shape
    assert shape_of(next(row.itertuples())) == shape


@given(EXTENTS, EXTENTS, st.integers(1, 70), st.integers(1, 70))
def test_grid_covers_every_element_once_and_has_no_idle_block(
    m: int, n: int, rows: int, columns: int
) -> None:
    covered = np.zeros((m, n), int)
    blocks_x, blocks_y, blocks_z = grid_of(Gemm(m, n, 1), (rows, columns))
    assert blocks_z == 1
    for y in range(blocks_y):
        for x in range(blocks_x):
            tile = covered[y * rows : (y + 1) * rows, x * columns : (x + 1) * columns]
            assert tile.size
            tile += 1
    assert (covered == 1).all()


@given(EXTENTS, EXTENTS, st.integers(1, 70))
def test_the_grid_of_gram_covers_its_square_output(m: int, n: int, width: int) -> None:
    assert grid_of(Gram(m, n), (width, width)) == grid_of(Gemm(n, n, 1), (width, width))


def test_the_documents_grid_has_7500_blocks() -> None:
    """Document 000: 3200×1600 times 1600×2400 in tiles of 32×32."""
    assert grid_of(Gemm(3200, 2400, 1600), (32, 32)) == (75, 100, 1)
