"""What counts as a correct product, and the shapes at which every kernel must be correct.

The error bound of an element of C has two parts: that of its sum (Operation.error_scale), a share
of Σ|a||b|, and that of rounding it to C's dtype, a share of itself. A larger error is wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from matmul_sweep.catalogue.entries import Kernel, Variant
from matmul_sweep.operations.shapes import Shape

PANEL_ROWS = 512  # of C at a time, to limit the memory of the float64 arrays


@dataclass(frozen=True)
class Accuracy:
    """How far a product is from its reference: the largest error as a share of the bound, and the
    largest and the mean error of its elements as shares of their Σ|a||b|."""

    share: float
    largest: float
    mean: float


def split_unit(largest: float, terms: int) -> float:
    """The unit to which `split` rounds: a power of two.

    Multiples of it up to `largest` have so few bits that the sum of `terms` of their products fits
    in the 53 bits of a float64, so any order of summation gives it exactly (Ozaki, Ogita, Oishi and
    Rump, Error-free transformations of matrix multiplication, Numerical Algorithms 59, 2012).
    """
    exponent = math.ceil(math.log2(largest)) if largest > 0 else 0
    return 2.0 ** (exponent - (53 - math.ceil(math.log2(terms))) // 2)


def split(x: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """x (float64) as an exact sum: the nearest multiples of `unit`, and the rest."""
    high = np.rint(x / unit) * unit
    return high, x - high


def accuracy(kernel: Kernel, c: np.ndarray, *inputs: np.ndarray) -> Accuracy:
    """The errors of the part of C that a kernel writes; C and the inputs have the kernel's dtypes.

    The error is infinite if an element is not finite, or differs although its bound is zero. A
    share above 1 means a wrong product. The reference has twice the precision of the sums, or
    nearly so for float64, where the leading product is exact and the rest is rounded.
    """
    left, right = kernel.product.factors(*inputs)
    wide = right.astype(np.float64)
    unit = None
    if kernel.product.sums == "float64":
        largest = max(np.abs(left).max(), np.abs(right).max())
        unit = split_unit(float(largest), len(right))
    right_high, right_low = (wide, wide) if unit is None else split(wide, unit)
    # float32 does for the bound (the device takes TF32): no term of its sums is negative.
    magnitude = np.abs(wide).astype(np.float32)
    scale = kernel.product.error_scale(len(right), kernel.arithmetic)
    share = largest_error = total = 0.0
    for first in range(0, len(left), PANEL_ROWS):
        rows = left[first : first + PANEL_ROWS].astype(np.float64)
        panel = c[first:][:PANEL_ROWS].astype(np.float64)
        if unit is None:
            reference = rows @ right_high
            error = np.abs(panel - reference)
        else:
            high, low = split(rows, unit)
            reference = high @ right_high
            error = np.abs((panel - reference) - (high @ right_low + low @ wide))
        terms = (np.abs(rows).astype(np.float32) @ magnitude).astype(np.float64)
        errors = quotient(error, terms)
        shares = quotient(error, scale * terms + kernel.product.rounding * np.abs(reference))
        for each in (errors, shares):
            each[~np.isfinite(panel)] = np.inf
            if kernel.writes == "upper":
                each[:] = np.triu(each, first)
        share = max(share, float(shares.max()))
        largest_error, total = max(largest_error, float(errors.max())), total + float(errors.sum())
    return Accuracy(share, largest_error, total / written(kernel, c.shape))


def quotient(error: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """error / bound: zero without an error, infinite if only the bound is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error == 0, 0.0, error / bound)


def written(kernel: Kernel, output: tuple[int, int]) -> int:
    """How many elements of C a kernel writes."""
    rows, columns = output
    return rows * (rows + 1) // 2 if kernel.writes == "upper" else rows * columns


def verification_shapes(variant: Variant, extra: Sequence[Shape]) -> list[Shape]:
    """Tiny, ragged and prime shapes that a variant accepts, around its own tile; then `extra`.

    A kernel that takes few rows or columns of C, or multiples of a number, has shapes near these.
    """
    tile = variant.tile if variant.kernel.tile else (16, 16)
    built_in = map(variant.fitted, variant.kernel.product.shape.around(*tile))
    shapes = dict.fromkeys([*built_in, *extra])
    return [s for s in shapes if min(s.dimensions) > 0 and not variant.refusal(s)]
