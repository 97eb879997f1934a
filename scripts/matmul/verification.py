"""What counts as a right product, and the shapes at which every kernel has to be right."""

from collections.abc import Sequence

import numpy as np

from matmul.catalogue import Variant
from matmul.shapes import Shape

ROUNDOFF = 2.0**-24  # of float32
PANEL_ROWS = 512  # of C at a time, to bound the memory of the float64 arrays


def error_share(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """The largest error of C = A·B as a share of its bound; above 1 the product is wrong.

    A (m×k), B (k×n), C (m×n): float32. The bound of an element is k·u·Σ|a||b| with u = 2⁻²⁴,
    for any order of summation (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
    eq. 3.13). Infinity where an element is not finite, or differs although its bound is zero.
    """
    wide_b, abs_b = b.astype(np.float64), np.abs(b, dtype=np.float64)
    worst = 0.0
    for first in range(0, len(a), PANEL_ROWS):
        rows = slice(first, first + PANEL_ROWS)
        wide_a, panel = a[rows].astype(np.float64), c[rows]
        error = np.abs(panel - wide_a @ wide_b)
        bound = a.shape[1] * ROUNDOFF * (np.abs(wide_a) @ abs_b)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(error == 0, 0.0, error / bound)
        share[~np.isfinite(panel)] = np.inf
        worst = max(worst, float(share.max()))
    return worst


def verification_shapes(variant: Variant, extra: Sequence[Shape]) -> list[Shape]:
    """Tiny, ragged and prime shapes that a variant accepts, around its own tile; then `extra`."""
    rows, columns = variant.tile if variant.kernel.tile else (16, 16)
    width = max(rows, columns)
    squares = [Shape(n, n, n) for n in (1, 2, width - 1, width, width + 1, 2 * width + 1, 97)]
    others = [
        Shape(1, 1, width + 1),
        Shape(1, 2 * columns + 3, 5),
        Shape(2 * rows + 3, 1, 7),
        Shape(rows + 1, columns - 1, 1),
        Shape(rows - 1, columns + 1, width + 1),
        Shape(2 * rows, 2 * columns, width),
        Shape(2 * rows, 2 * columns, width + 1),
        Shape(53, 97, 71),
    ]
    shapes = dict.fromkeys([*squares, *others, *extra])
    return [s for s in shapes if min(s.m, s.n, s.k) > 0 and not variant.refusal(s)]
