"""Inputs by formula: the value of an element is a function of seed, matrix and index alone.

The device computes the same formula (instruments.cu), bit for bit, so that neither side needs
the other's arrays to know what any element is.
"""

import numpy as np

FILLS = ("uniform", "constant", "digits", "index")
DESCRIPTIONS = {
    "uniform": "uniform in [-1, 1)",
    "constant": "ones in A and twos in B (document 001)",
    "digits": "uniform in [0, 9], rounded (document 003)",
    "index": "the element's index modulo 100 (documents 000 and 002)",
}
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def start_of(seed: int, matrix: int) -> int:
    """Where the random sequence of a matrix (0 for A, 1 for B) begins: 64 bits."""
    return int(random_bits(seed, np.array([matrix], np.uint64))[0])


def random_bits(start: int, index: np.ndarray) -> np.ndarray:
    """64 random bits for each index: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) by counter."""
    with np.errstate(over="ignore"):
        z = np.uint64(start % 2**64) + (index.astype(np.uint64) + np.uint64(1)) * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def values(fill: str, seed: int, matrix: int, index: np.ndarray) -> np.ndarray:
    """Elements of a matrix (0 for A, 1 for B) at linear indices `index`, as float32."""
    if fill == "constant":
        return np.full(index.shape, matrix + 1, np.float32)
    if fill == "index":
        return (index % 100).astype(np.float32)
    # 24 bits: every value is exact in float32, on both sides.
    fraction = (random_bits(start_of(seed, matrix), index) >> np.uint64(40)).astype(np.float64)
    if fill == "digits":
        return np.floor(fraction * 2.0**-24 * 9 + 0.5).astype(np.float32)
    return (fraction * 2.0**-23 - 1).astype(np.float32)


def matrix(fill: str, seed: int, which: int, rows: int, columns: int) -> np.ndarray:
    """A whole matrix (0 for A, 1 for B) of rows×columns, float32, row-major."""
    index = np.arange(rows * columns, dtype=np.uint64)
    return values(fill, seed, which, index).reshape(rows, columns)
