"""What counts as a right product, and the shapes at which every kernel has to be right.

The error of a sum of t products in any order is at most t·u·Σ|a||b|, u the dtype's unit roundoff
(Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 3.13). An element whose error
is larger is wrong.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from matmul.catalogue import Variant
from matmul.shapes import Gemm, Gram, Shape

ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
PANEL_ROWS = 512  # of C at a time, to bound the memory of the float64 arrays


def split_unit(largest: float, terms: int) -> float:
    """The unit to which `split` rounds: a power of two.

    Multiples of it up to `largest` have so few bits that the sum of `terms` of their products fits
    the 53 bits of a float64, and any order of summation gives it exactly (Ozaki, Ogita, Oishi and
    Rump, Error-free transformations of matrix multiplication, Numerical Algorithms 59, 2012).
    """
    exponent = math.ceil(math.log2(largest)) if largest > 0 else 0
    return 2.0 ** (exponent - (53 - math.ceil(math.log2(terms))) // 2)


def split(x: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """x (float64) as an exact sum: the nearest multiples of `unit`, and what is left."""
    high = np.rint(x / unit) * unit
    return high, x - high


def error_share(c: np.ndarray, a: np.ndarray, b: np.ndarray | None = None,
                writes: str = "full") -> float:  # fmt: skip
    """The largest error of C = A·B, or of C = Aᵀ·A without a B, as a share of its bound.

    C: float32 or float64; A and B have its dtype. writes: "upper" where only the elements on and
    above the diagonal count. Infinity where an element is not finite, or differs although its
    bound is zero; above 1 the product is wrong. The reference has twice the precision of C's dtype,
    nearly so for float64: the leading product there is exact, the rest is rounded.
    """
    left, right = (a.T, a) if b is None else (a, b)
    wide = right.astype(np.float64)
    largest = max(np.abs(left).max(), np.abs(right).max())
    unit = split_unit(float(largest), len(right)) if c.dtype == np.float64 else None
    right_parts = (wide,) if unit is None else split(wide, unit)
    magnitude = np.abs(wide)
    worst = 0.0
    for first in range(0, len(left), PANEL_ROWS):
        rows, panel = left[first : first + PANEL_ROWS].astype(np.float64), c[first:][:PANEL_ROWS]
        if unit is None:
            error = np.abs(panel - rows @ right_parts[0])
        else:
            high, low = split(rows, unit)
            error = (panel - high @ right_parts[0]) - (high @ right_parts[1] + low @ wide)
        bound = len(right) * ROUNDOFF[c.dtype.name] * (np.abs(rows) @ magnitude)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(error == 0, 0.0, np.abs(error) / bound)
        share[~np.isfinite(panel)] = np.inf
        worst = max(worst, float((np.triu(share, first) if writes == "upper" else share).max()))
    return worst


def verification_shapes(variant: Variant, extra: Sequence[Shape]) -> list[Shape]:
    """Tiny, ragged and prime shapes that a variant accepts, around its own tile; then `extra`."""
    tile = variant.tile if variant.kernel.tile else (16, 16)
    built_in = {"gemm": gemm_shapes, "gram": gram_shapes}[variant.kernel.operation](*tile)
    shapes = dict.fromkeys([*built_in, *extra])
    return [s for s in shapes if min(s.dimensions) > 0 and not variant.refusal(s)]


def gemm_shapes(rows: int, columns: int) -> Iterable[Gemm]:
    """Around a tile of C of rows×columns."""
    width = max(rows, columns)
    squares = (1, 2, width - 1, width, width + 1, 2 * width + 1, 97)
    return [
        *(Gemm(n, n, n) for n in squares),
        Gemm(1, 1, width + 1),
        Gemm(1, 2 * columns + 3, 5),
        Gemm(2 * rows + 3, 1, 7),
        Gemm(rows + 1, columns - 1, 1),
        Gemm(rows - 1, columns + 1, width + 1),
        Gemm(2 * rows, 2 * columns, width),
        Gemm(2 * rows, 2 * columns, width + 1),
        Gemm(53, 97, 71),
    ]


def gram_shapes(rows: int, columns: int) -> Iterable[Gram]:
    """Around a tile of C of rows×columns, and around document 004's 48×48."""
    width = max(rows, columns)
    squares = (1, 2, 48, width - 1, width, width + 1, 2 * width + 1, 97)
    return [
        *(Gram(n, n) for n in squares),
        Gram(1, 2 * width + 3),
        Gram(2 * width + 3, 1),
        Gram(5, 47),
        Gram(17, 49),
        Gram(33, 97),
        Gram(49, 1),
        Gram(width + 1, 2 * width),
        Gram(1000, 1001),
    ]
