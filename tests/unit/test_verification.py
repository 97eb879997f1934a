"""What counts as a right product: every float32 order of summation passes, every mistake fails."""

from collections.abc import Callable

import numpy as np
import pytest
from support import Entry, WriteCatalogue

from matmul import fills
from matmul.catalogue import Variant, load_catalogue
from matmul.shapes import Shape
from matmul.verification import PANEL_ROWS, error_share, verification_shapes

VARIANTS = list(load_catalogue().variants.values())

Matrices = tuple[np.ndarray, np.ndarray]


def inputs(fill: str, m: int, n: int, k: int) -> Matrices:
    return fills.matrix(fill, 2026, 0, m, k), fills.matrix(fill, 2026, 1, k, n)


def running_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The kernels' order: one running float32 sum per element."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for p in range(a.shape[1]):
        c += a[:, p : p + 1] * b[p]
    return c


@pytest.mark.parametrize("fill", fills.FILLS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 1), (64, 64, 64), (33, 17, 2049)])
@pytest.mark.parametrize("multiply", [np.matmul, running_sums])
def test_a_float32_product_is_right(
    fill: str, shape: tuple[int, int, int], multiply: Callable[..., np.ndarray]
) -> None:
    a, b = inputs(fill, *shape)
    assert error_share(multiply(a, b), a, b) <= 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (12, 16), (36, 28)])
def test_one_element_that_is_not_finite_is_wrong(bad: float, place: tuple[int, int]) -> None:
    a, b = inputs("uniform", 37, 29, 41)
    c = a @ b
    c[place] = bad
    assert error_share(c, a, b) == np.inf


@pytest.mark.parametrize("row", [0, PANEL_ROWS - 1, PANEL_ROWS, 2 * PANEL_ROWS + 2])
@pytest.mark.parametrize(("change", "expected"), [(0, 0), (1, 1e3), (np.nan, np.inf)])
def test_a_tall_product_is_checked_in_every_row(row: int, change: float, expected: float) -> None:
    """The reference is computed in panels of rows."""
    a, b = inputs("digits", 2 * PANEL_ROWS + 3, 2, 3)
    c = a @ b
    c[row, 1] += change
    assert error_share(c, a, b) >= expected
    assert change or error_share(c, a, b) == 0


@pytest.mark.parametrize("place", [(0, 0), (12, 16), (36, 28)])
def test_one_wrong_element_is_wrong(place: tuple[int, int]) -> None:
    a, b = inputs("uniform", 37, 29, 41)
    c = a @ b
    c[place] += 1e-3
    assert error_share(c, a, b) > 1


@pytest.mark.parametrize(
    "mistake",
    [
        lambda a, b: b @ a,
        lambda a, b: (a @ b).T,
        lambda a, b: a.T @ b,
        lambda a, b: a @ b.T,
        lambda a, b: np.roll(a @ b, 1, axis=0),
        lambda a, b: a[:, 1:] @ b[1:],
        lambda a, b: -(a @ b),
        lambda a, b: np.zeros_like(a @ b),
    ],
    ids=["B·A", "(A·B)ᵀ", "Aᵀ·B", "A·Bᵀ", "rows moved", "first term lost", "sign", "zeros"],
)
@pytest.mark.parametrize("fill", ["uniform", "digits"])
@pytest.mark.parametrize("n", [3, 5, 32, 97])
def test_a_mixed_up_product_is_wrong(mistake: Callable[..., np.ndarray], fill: str, n: int) -> None:
    a, b = inputs(fill, n, n, n)
    assert error_share(mistake(a, b), a, b) > 1


@pytest.mark.parametrize("fill", fills.FILLS)
@pytest.mark.parametrize("k", [1, 2, 5, 17, 33])
def test_a_sum_without_its_last_term_is_wrong(fill: str, k: int) -> None:
    """The documents' loops lose it when k leaves a remainder of 1."""
    a, b = inputs(fill, 33, 31, k)
    lost = (a[:, :-1] @ b[:-1]).astype(np.float32)
    assert error_share(lost, a, b) > 1


def test_tf32_is_wrong() -> None:
    """Ten bits of mantissa: what cuBLAS computes when its math mode is not pinned."""
    a, b = inputs("uniform", 64, 64, 64)
    cut = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b)]
    assert error_share(cut[0] @ cut[1], a, b) > 1


def test_a_sum_of_zeros_has_to_be_zero() -> None:
    a, b = np.zeros((2, 3), np.float32), np.ones((3, 2), np.float32)
    assert error_share(np.zeros((2, 2), np.float32), a, b) == 0
    assert error_share(np.full((2, 2), 1e-30, np.float32), a, b) == np.inf


def test_the_share_is_of_k_u_and_the_magnitudes() -> None:
    """By hand: k = 2, Σ|a||b| = 4, so the bound is 2·2⁻²⁴·4, and the error 2⁻²²."""
    a, b = np.array([[1, -2]], np.float32), np.array([[2], [1]], np.float32)
    c = np.array([[2.0**-22]], np.float32)
    assert error_share(c, a, b) == 2.0**-22 / (2 * 2.0**-24 * 4)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_every_variant_is_verified_at_tiny_ragged_and_tile_shapes(variant: Variant) -> None:
    shapes = verification_shapes(variant, [])
    width = max(variant.tile) if variant.kernel.tile else 16
    squares = {s.m for s in shapes if s.square}
    assert squares >= {1, width - 1, width, width + 1}
    assert {s.k % width for s in shapes} >= {0, 1, width - 1}
    assert all(variant.refusal(shape) is None for shape in shapes)
    if variant.kernel.accepts == "any":
        assert any(s.k == 1 and not s.square for s in shapes)
        assert any(s.m == 1 and s.n > width for s in shapes)
        assert any(s.n == 1 and s.m > width for s in shapes)
        assert any(s.m % width == s.n % width == 0 and s.k % width == 1 for s in shapes)
        assert any(len({s.m, s.n, s.k}) == 3 for s in shapes)


def test_extra_shapes_are_added_where_the_variant_takes_them() -> None:
    extra = [Shape(65, 65, 65), Shape(3, 4, 5)]
    catalogue = load_catalogue()
    assert set(verification_shapes(catalogue.variant("naive_rect"), extra)) >= set(extra)
    taken = verification_shapes(catalogue.variant("naive"), extra)
    assert extra[0] in taken
    assert extra[1] not in taken


def test_a_kernel_of_whole_tiles_is_verified_at_whole_tiles(
    entry: Entry, write_catalogue: WriteCatalogue
) -> None:
    path = write_catalogue({"mine": entry(parameters={"W": [16]}, accepts="W")})
    shapes = verification_shapes(load_catalogue(path).variant("mine"), [])
    assert len(shapes) >= 2
    assert not any(extent % 16 for s in shapes for extent in (s.m, s.n, s.k))


def test_a_tile_of_one_has_no_empty_shape(entry: Entry, write_catalogue: WriteCatalogue) -> None:
    path = write_catalogue({"mine": entry(tile=[1, 1], threads=[1, 1])})
    shapes = verification_shapes(load_catalogue(path).variant("mine"), [])
    assert shapes
    assert min(min(s.m, s.n, s.k) for s in shapes) == 1
