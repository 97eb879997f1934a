"""Shapes as users write them, their operations, and the grids that cover them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matmul.errors import UserError
from matmul.shapes import LARGEST, Shape, grid_of, parse_shape

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
    shape = parse_shape(text)
    assert (shape.m, shape.n, shape.k) == expected


@pytest.mark.parametrize("text", NO_SHAPES, ids=lambda text: repr(text)[:20])
def test_other_text_is_refused_by_name(text: Any) -> None:
    with pytest.raises(UserError) as caught:
        parse_shape(text)
    assert f"'{text}'" in str(caught.value)


@given(EXTENTS, EXTENTS, EXTENTS)
def test_a_printed_shape_is_read_as_itself(m: int, n: int, k: int) -> None:
    assert parse_shape(str(Shape(m, n, k))) == Shape(m, n, k)


def test_operations_are_a_multiplication_and_an_addition_per_term() -> None:
    a, b = np.ones((3, 5)), np.ones((5, 7))
    assert Shape(3, 7, 5).operations == 2 * (a @ b).sum()
    assert Shape(3200, 2400, 1600).operations == 24_576_000_000


def test_elements_are_those_of_a_b_and_c() -> None:
    assert Shape(3, 7, 5).elements == (3 * 5, 5 * 7, 3 * 7)


@given(EXTENTS, EXTENTS, st.integers(1, 70), st.integers(1, 70))
def test_grid_covers_every_element_once_and_has_no_idle_block(
    m: int, n: int, rows: int, columns: int
) -> None:
    covered = np.zeros((m, n), int)
    blocks_x, blocks_y, blocks_z = grid_of(Shape(m, n, 1), (rows, columns))
    assert blocks_z == 1
    for y in range(blocks_y):
        for x in range(blocks_x):
            tile = covered[y * rows : (y + 1) * rows, x * columns : (x + 1) * columns]
            assert tile.size
            tile += 1
    assert (covered == 1).all()


def test_the_documents_grid_has_7500_blocks() -> None:
    """Document 000: 3200×1600 times 1600×2400 in tiles of 32×32."""
    assert grid_of(Shape(3200, 2400, 1600), (32, 32)) == (75, 100, 1)
