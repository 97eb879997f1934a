"""Residues and remainders in whole numbers of Python: the numbers of kernels/gram/remainders.cuh, and what
kernels/gram/residues.cu computes."""

import math
from fractions import Fraction

import numpy as np

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193)
COUNTS = (14, 15, 16)  # of moduli that a product may take
LARGEST_SUM = 1 - Fraction(1, 2**12)  # of a sum, as a share of P/2

TOP = """\
// The numbers of the Chinese remainder theorem (residues.cu, Remainders) for as many of the moduli, the first ones.
// tests/unit/chinese.py computes them exactly, and a test holds this file against it.
//
//     limit           the largest product of two columns' norms, (1 - 2^-12) P / 2; P is the product of the moduli
//     high, low       for each modulus p the number between -P/2 and P/2 that is 1 modulo p and 0 modulo the others
//     product_high,   P
//     product_low
//     inverse         1 / P
//
// A high part is a multiple of 2^{grain}, so that sums of high parts times residues are exact.
#pragma once

template <int moduli>
struct Remainder;
"""


def balanced(x: int, modulus: int) -> int:
    """The number congruent to x from -modulus/2 on and below modulus/2."""
    half = modulus // 2
    return (x + half) % modulus - half


def weights(count: int) -> list[int]:
    """For each modulus what is 1 modulo it and 0 modulo the others."""
    product = math.prod(MODULI[:count])
    ones = (product // p * pow(product // p, -1, p) for p in MODULI[:count])
    return [balanced(one, product) for one in ones]


def grain(count: int) -> int:
    """The exponent of which the high parts are multiples: their sums have at most 53 bits."""
    spare = math.ceil(math.log2(sum((p + 1) // 2 for p in MODULI[:count])))
    return (math.prod(MODULI[:count]) // 2).bit_length() - 53 + spare


def split(number: int, exponent: int) -> tuple[float, float]:
    """A multiple of 2**exponent, and what is left."""
    high = round(Fraction(number, 1 << exponent)) << exponent
    return float(high), float(number - high)


def remainder(count: int) -> str:
    """The numbers for as many moduli, in C++."""
    product, exponent = math.prod(MODULI[:count]), grain(count)
    pairs = [split(weight, exponent) for weight in weights(count)]
    high, low = (",\n".join(f"        {x.hex()}" for x in part) for part in zip(*pairs, strict=True))
    product_high, product_low = split(product, exponent)
    limit = math.nextafter(float(LARGEST_SUM * product / 2), 0)
    return f"""
template <>
struct Remainder<{count}> {{
    static constexpr double limit = {limit.hex()}, inverse = {float(1 / Fraction(product)).hex()};
    static constexpr double product_high = {product_high.hex()}, product_low = {product_low.hex()};
    static constexpr double high[] = {{
{high}}};
    static constexpr double low[] = {{
{low}}};
}};
"""


def header() -> str:
    """The text of remainders.cuh."""
    grains = ", ".join(f"{grain(count)} for {count} moduli" for count in COUNTS)
    return TOP.replace("2^{grain}", f"2^g, g = {grains}") + "".join(map(remainder, COUNTS))


def scaled(a: np.ndarray, count: int) -> tuple[np.ndarray, list[int]]:
    """A as whole numbers, and the exponent of each column."""
    limit = Fraction(math.nextafter(float(LARGEST_SUM * math.prod(MODULI[:count]) / 2), 0))
    exponents = []
    for column in a.T:
        quotient = limit / sum(Fraction(x) ** 2 for x in column)
        exponent = math.floor(math.log2(quotient)) // 2
        assert 4.0**exponent <= quotient < 4.0 ** (exponent + 1)
        exponents.append(exponent)
    whole = [
        [round(Fraction(float(x)) * Fraction(2) ** e) for x, e in zip(row, exponents, strict=True)]
        for row in a
    ]
    return np.array(whole, dtype=object), exponents


def gram(a: np.ndarray, count: int) -> np.ndarray:
    """AᵀA of the whole numbers, from its residues, scaled back: what the kernel rounds, as fractions."""
    whole, exponents = scaled(a, count)
    product = math.prod(MODULI[:count])
    total = np.zeros((a.shape[1],) * 2, object)
    for p, weight in zip(MODULI, weights(count), strict=False):
        digits = (whole + p // 2) % p - p // 2
        total += weight * ((digits.T @ digits + p // 2) % p - p // 2)
    c = (total + product // 2) % product - product // 2
    scales = np.array([Fraction(2) ** -e for e in exponents], object)
    return c * scales[:, None] * scales
