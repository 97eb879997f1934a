"""What counts as a correct product: every float32 order of summation passes, every mistake
fails."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import error_share, the_catalogue

from matmul_sweep.experiment.verify.verification import (
    PANEL_ROWS,
    accuracy,
    split,
    split_unit,
    verification_shapes,
)
from matmul_sweep.operations import fills
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.operation import FEW_TERMS
from matmul_sweep.operations.shapes import ceil_div

FIRST = [kernel.variants[0] for kernel in the_catalogue().values()]


def tf32(x: np.ndarray) -> np.ndarray:
    """x with the last 13 bits of its fraction dropped, as the tensor cores take it."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def test_a_tf32_product_is_right_by_its_own_bound_only():
    """Ten bits of mantissa: what cuBLAS computes when its math mode is not pinned."""
    a, b = fills.inputs("uniform", 2026, Gemm(64, 64, 64), "float32")
    c = tf32(a) @ tf32(b)
    kernel = the_catalogue()["cublas_sgemm_tf32"]
    assert accuracy(kernel, c, a, b).share <= 1 < error_share(c, a, b)
    assert accuracy(kernel, c + np.abs(a) @ np.abs(b) / 64, a, b).share > 1


def test_the_errors_by_hand():
    """Errors of 0, 2, 0 and 4 units where Σ|a||b| is 8: 1/2 and 3/16 of it, of which k·2⁻²⁴ is
    allowed. A sum of zeros is zero."""
    a = b = np.array([[2, -2], [2, -2]], np.float32)
    c = np.array([[0, 2], [0, 4]], np.float32)
    found = accuracy(the_catalogue()["cublas_sgemm"], c, a, b)
    assert (found.largest, found.mean) == (0.5, 3 / 16)
    assert found.share == 0.5 / (2 * 2.0**-24)
    assert error_share(c, 0 * a, b) == np.inf
    assert error_share(0 * c, 0 * a, b) == 0


def test_the_bound_counts_the_rounding_of_c():
    """A product in bfloat16, rounded once, is right; one last place of C more is wrong."""
    kernel = the_catalogue()["naive_bf16"]
    a, b = fills.inputs("uniform", 2026, kernel.product.parse("40x30x50"), kernel.dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    c = exact.astype(np.float32).astype(kernel.dtype)
    assert 0.9 < accuracy(kernel, c, a, b).share <= 1
    largest = np.unravel_index(np.abs(exact).argmax(), exact.shape)
    c[largest] *= np.float32(1 + 2**-7)
    assert accuracy(kernel, c, a, b).share > 1


def test_what_a_kernel_leaves_out_is_in_no_mean():
    """Of three elements on and above the diagonal one is off by a half."""
    a = np.eye(2)
    c = np.array([[1.0, 0.0], [np.nan, 1.5]])
    found = accuracy(the_catalogue()["cublas_dsyrk_triangle"], c, a)
    assert (found.largest, found.mean) == (0.5, 0.5 / 3)


@pytest.mark.parametrize("row", [0, PANEL_ROWS - 1, PANEL_ROWS, 2 * PANEL_ROWS + 2])
def test_one_wrong_element_is_wrong_in_every_row(row):
    """The reference is computed in panels of rows."""
    a, b = fills.inputs("digits", 2026, Gemm(2 * PANEL_ROWS + 3, 3, 5), "float32")
    right = a @ b
    assert error_share(right, a, b) == 0
    for column, change in ((0, 1.0), (2, -1.0), (0, np.nan), (1, np.inf), (2, -np.inf)):
        c = right.copy()
        c[row, column] += change
        share = error_share(c, a, b)
        assert share > 1e3 if np.isfinite(change) else share == np.inf


def test_the_float64_reference_sees_what_float64_rounds_away():
    """The exact sum of squares is 1 + 2⁻⁶⁰: float64's 1 is off by 2⁻⁶⁰, and 1 + 2⁻⁵² by more."""
    a = np.array([[1.0], [2.0**-30]])
    bound = 2 * 2.0**-53 * (1 + 2.0**-60)
    assert error_share(np.array([[1.0]]), a) == pytest.approx(2.0**-60 / bound)
    off = (2.0**-52 - 2.0**-60) / bound
    assert error_share(np.array([[1.0 + 2.0**-52]]), a) == pytest.approx(off)


@given(st.integers(1, 300), st.integers(0, 2**32 - 1), st.sampled_from(fills.FILLS))
def test_split_parts_add_up_and_the_leading_products_are_exact(terms, seed, fill):
    x = fills.matrix(fill, seed, 0, terms, 1, "float64")
    unit = split_unit(fills.LARGEST[fill], terms)
    high, low = split(x, unit)
    assert (high + low == x).all()
    assert np.abs(low).max() <= unit / 2
    exact = sum((Fraction(float(value)) ** 2 for value in high.ravel()), Fraction(0))
    assert Fraction(float((high.T @ high)[0, 0])) == exact


def test_only_the_upper_triangle_counts_where_only_it_is_written():
    a = fills.matrix("uniform", 2026, 0, 4, PANEL_ROWS + 30, "float64")
    c = np.where(np.tri(a.shape[1], k=-1), np.nan, a.T @ a)
    assert error_share(c, a, writes="upper") <= 1
    assert error_share(c, a) == np.inf
    for place in ((0, 0), (5, PANEL_ROWS), (PANEL_ROWS + 1, PANEL_ROWS + 1)):
        spoilt = c.copy()
        spoilt[place] += 1e-9
        assert error_share(spoilt, a, writes="upper") > 1


@pytest.mark.parametrize("variant", FIRST, ids=lambda v: v.name)
def test_every_kernel_is_verified_at_tiny_ragged_and_tile_shapes(variant):
    shapes = verification_shapes(variant, [])
    assert all(variant.refusal(shape) is None for shape in shapes)
    tile = variant.tile if variant.kernel.tile else (16, 16)
    if variant.kernel.product.symmetric:
        tile = (max(tile), max(tile))
    if variant.kernel.operation == "gram":
        assert {str(s) for s in shapes} >= {"5x47", "17x49", "33x97", "48x48", "49x1"}
    steps = [variant.steps.get(n, 1) for n in ("mm" if variant.kernel.product.symmetric else "mn")]
    limits = [variant.most_rows or math.inf, variant.most_columns or math.inf]
    for axis, (extent, step, most) in enumerate(zip(tile, steps, limits, strict=True)):
        wanted = {1, extent - 1, extent, extent + 1}
        taken = {min(ceil_div(n, step) * step, most) for n in wanted if n}
        assert {s.output[axis] for s in shapes} >= taken
    ring = variant.slab * variant.teams * variant.parameters.get("STAGES", 1)
    assert any(s.terms > ring for s in shapes)
    assert variant.slab == 1 or any(s.terms > ring and s.terms % variant.slab for s in shapes)
    if variant.kernel.accepts == "any":
        assert any(s.terms == 1 and not s.square for s in shapes)
        assert any(len({*s.dimensions}) == len(s.dimensions) for s in shapes)
    if variant.kernel.accepts == "any" and variant.takes_every_extent:
        whole = [s for s in shapes if not s.output[0] % tile[0] and not s.output[1] % tile[1]]
        assert any(s.terms % min(max(tile), FEW_TERMS - 1) for s in whole)
        for one, other in ((0, 1), (1, 0)):
            assert any(s.dimensions[one] == 1 and s.dimensions[other] > max(tile) for s in shapes)
