"""AᵀA by residues in Python: the numbers of kernels/gram/remainders.cuh, what residues.cu computes
in whole numbers, and what its guard decides."""

import math
from fractions import Fraction

import numpy as np

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193)
COUNTS = (14, 15, 16)  # of moduli that a product may take
LARGEST_SUM = 1 - Fraction(1, 2**12)  # of a sum, as a share of P/2


def weights(count: int) -> list[int]:
    """For each modulus what is 1 modulo it and 0 modulo the others, from -P/2 on and below P/2."""
    half = (product := math.prod(MODULI[:count])) // 2
    ones = (product // p * pow(product // p, -1, p) for p in MODULI[:count])
    return [(one + half) % product - half for one in ones]


def grain(count: int) -> int:
    """The exponent of which the high parts are multiples: their sums have at most 53 bits."""
    spare = math.ceil(math.log2(sum((p + 1) // 2 for p in MODULI[:count])))
    return (math.prod(MODULI[:count]) // 2).bit_length() - 53 + spare


def split(number: int, exponent: int) -> tuple[float, float]:
    """A multiple of 2**exponent, and what is left."""
    high = round(Fraction(number, 1 << exponent)) << exponent
    return float(high), float(number - high)


def remainder(count: int) -> dict[str, list[float]]:
    """The numbers of remainders.cuh for as many moduli, by their names there."""
    product, exponent = math.prod(MODULI[:count]), grain(count)
    pairs = [split(weight, exponent) for weight in weights(count)]
    high, low = ([*part] for part in zip(*pairs, strict=True))
    product_high, product_low = split(product, exponent)
    inverse = float(1 / Fraction(product))
    return {"limit": [limit(count)], "inverse": [inverse], "product_high": [product_high],
            "product_low": [product_low], "high": high, "low": low}  # fmt: skip


def limit(count: int) -> float:
    """The largest product of the norms of two columns."""
    return math.nextafter(float(LARGEST_SUM * math.prod(MODULI[:count]) / 2), 0)


def exponents(a: np.ndarray, count: int) -> np.ndarray:
    """By which powers of two columns become whole numbers."""
    return (np.frexp(limit(count) / np.square(a).sum(0))[1] - 1) // 2


def whole(a: np.ndarray, count: int) -> np.ndarray:
    """Columns as whole numbers, float64."""
    return np.rint(np.ldexp(a, exponents(a, count)))


as_integers = np.vectorize(int, otypes=[object])


def gram(a: np.ndarray, count: int) -> np.ndarray:
    """AᵀA of the whole numbers, from its residues, scaled back, as fractions."""
    numbers, product = as_integers(whole(a, count)), math.prod(MODULI[:count])
    total = np.zeros((a.shape[1],) * 2, object)
    for p, weight in zip(MODULI, weights(count), strict=False):
        residues = (numbers + p // 2) % p - p // 2
        total += weight * ((residues.T @ residues + p // 2) % p - p // 2)
    scales = np.array([Fraction(2) ** -int(e) for e in exponents(a, count)], object)
    return ((total + product // 2) % product - product // 2) * scales[:, None] * scales


def moduli_needed(a: np.ndarray, every: int = 1) -> int:
    """What the guard says of finite columns that are not zero, by every so-manieth row: 14, 15, 16,
    or 17 for native."""
    scale = exponents(a, 14)
    norms = np.ldexp(np.sqrt(np.square(a).sum(0)), scale)
    bound_scale = 7 - np.frexp(np.abs(a).max(0))[1]
    bounds = np.trunc(np.ldexp(np.abs(a), bound_scale))[::every]
    spare = np.ldexp(bounds.T @ bounds, np.add.outer(scale - bound_scale, scale - bound_scale) - 48)
    error = np.sqrt(3 * np.add.outer(norms**2, norms**2))
    return 14 + sum(bool((error > better * spare).any()) for better in (1, 8, 128))
