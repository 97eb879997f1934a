"""What counts as a right product, and the shapes at which every kernel has to be right.

The error of a sum of t products in any order is at most t·u·Σ|a||b|, u the dtype's unit roundoff
(Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 3.13). An element whose error
is larger is wrong.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from matmul.catalogue.entries import Kernel, Variant
from matmul.operations.shapes import Gemm, Gram, Shape

ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
TF32_ROUNDOFF = 2.0**-10  # of an input: 10 bits of fraction, the others dropped
PANEL_ROWS = 512  # of C at a time, to bound the memory of the float64 arrays


@dataclass(frozen=True)
class Accuracy:
    """How far a product is from its reference: the largest error as a share of the bound, and the
    largest and the mean one of its elements as shares of their Σ|a||b|."""

    share: float
    largest: float
    mean: float


def bound_scale(kernel: Kernel, terms: int) -> float:
    """What an element's error may be at most, as a share of its Σ|a||b|.

    TF32 rounds both inputs first, and its units drop bits of the sums instead of rounding them.
    """
    unit = ROUNDOFF[kernel.dtype]
    if kernel.arithmetic == "tf32":
        return 2 * TF32_ROUNDOFF + 2 * terms * unit
    return terms * unit


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


def accuracy(kernel: Kernel, c: np.ndarray, a: np.ndarray, b: np.ndarray | None = None) -> Accuracy:
    """The errors of a kernel's C = A·B, or C = Aᵀ·A without a B; of what it writes of C.

    C, A and B have the kernel's dtype. Infinity where an element is not finite, or differs although
    its bound is zero; a share above 1 is a wrong product. The reference has twice the precision of
    C's dtype, nearly so for float64: the leading product there is exact, the rest is rounded.
    """
    left, right = (a.T, a) if b is None else (a, b)
    wide = right.astype(np.float64)
    largest = max(np.abs(left).max(), np.abs(right).max())
    unit = split_unit(float(largest), len(right)) if c.dtype == np.float64 else None
    right_parts = (wide,) if unit is None else split(wide, unit)
    # float32 does for the bound (the device takes TF32): no term of its sums is negative.
    magnitude = np.abs(right).astype(np.float32)
    scale, upper = bound_scale(kernel, len(right)), kernel.writes == "upper"
    worst = total = 0.0
    for first in range(0, len(left), PANEL_ROWS):
        rows, panel = left[first : first + PANEL_ROWS].astype(np.float64), c[first:][:PANEL_ROWS]
        if unit is None:
            error = np.abs(panel - rows @ right_parts[0])
        else:
            high, low = split(rows, unit)
            error = (panel - high @ right_parts[0]) - (high @ right_parts[1] + low @ wide)
        bound = scale * (np.abs(rows).astype(np.float32) @ magnitude).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(error == 0, 0.0, np.abs(error) / bound)
        share[~np.isfinite(panel)] = np.inf
        share = np.triu(share, first) if upper else share
        worst, total = max(worst, float(share.max())), total + float(share.sum())
    return Accuracy(worst, worst * scale, total / written(kernel, c.shape) * scale)


def written(kernel: Kernel, output: tuple[int, int]) -> int:
    """How many elements of C a kernel writes."""
    rows, columns = output
    return rows * (rows + 1) // 2 if kernel.writes == "upper" else rows * columns


def verification_shapes(variant: Variant, extra: Sequence[Shape]) -> list[Shape]:
    """Tiny, ragged and prime shapes that a variant accepts, around its own tile; then `extra`.

    For a kernel that takes few rows of C they have no more.
    """
    tile = variant.tile if variant.kernel.tile else (16, 16)
    built_in = {"gemm": gemm_shapes, "gram": gram_shapes}[variant.kernel.operation](*tile)
    if variant.most_rows:
        built_in = (replace(shape, m=min(shape.m, variant.most_rows)) for shape in built_in)
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
