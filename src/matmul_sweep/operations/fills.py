"""Inputs by formula: the value of an element is a function of seed, matrix and index alone.

The device computes the same formula (instruments.cu), bit for bit, so that neither side needs
the other's arrays to know what any element is.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import Shape

FILLS = ("uniform", "constant", "digits", "index", "normal")
# No element is beyond it.
LARGEST = {"uniform": 1.0, "constant": 2.0, "digits": 9.0, "index": 99.0, "normal": 6.0}
PART = 1 << 18  # elements that a thread computes at a time, so that they fit in its cache
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def start_of(seed: int, matrix: int) -> int:
    """The 64-bit start of the random sequence of a matrix (0 for A, 1 for B)."""
    return int(random_bits(seed, np.array([matrix], np.uint64))[0])


def random_bits(start: int, index: np.ndarray) -> np.ndarray:
    """64 random bits for each index: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) by counter."""
    with np.errstate(over="ignore"):
        z = np.uint64(start % 2**64) + (index.astype(np.uint64) + np.uint64(1)) * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def values(
    fill: str, seed: int, matrix: int, index: np.ndarray, dtype: str = "float32"
) -> np.ndarray:
    """Elements of a matrix (0 for A, 1 for B) at linear indices `index`, as `dtype`."""
    if fill == "constant":
        return np.full(index.shape, matrix + 1, dtype)
    if fill == "index":
        return (index % 100).astype(dtype)
    if fill == "normal":
        return normal(start_of(seed, matrix), index).astype(dtype)
    # As many bits as a mantissa has: every uniform value is exact on both sides.
    bits = DTYPES[dtype].mantissa if fill == "uniform" else 24
    fraction = (random_bits(start_of(seed, matrix), index) >> np.uint64(64 - bits)) * 2.0**-bits
    if fill == "digits":
        return np.floor(fraction * 9 + 0.5).astype(dtype)
    return (fraction * 2 - 1).astype(dtype)


def normal(start: int, index: np.ndarray) -> np.ndarray:
    """The sum of twelve uniform numbers of 16 bits, less six: mean 0, variance 1, within ±6.

    It uses whole numbers until the end, so that the device has the same bits. A truly normal number
    needs a logarithm or a cosine, whose last bit differs between libraries.
    """
    total = np.zeros(index.shape, np.uint64)
    for word in range(3):
        bits = random_bits(start, index * np.uint64(3) + np.uint64(word))
        for part in range(4):
            total += bits >> np.uint64(16 * part) & np.uint64(0xFFFF)
    return total.astype(np.float64) * 2.0**-16 - 6


def matrix(
    fill: str, seed: int, which: int, rows: int, columns: int, dtype: str = "float32"
) -> np.ndarray:
    """A whole matrix (0 for A, 1 for B) of rows×columns, row-major."""
    flat = np.empty(rows * columns, dtype)

    def part(start: int) -> None:
        index = np.arange(start, min(start + PART, flat.size), dtype=np.uint64)
        flat[start : start + PART] = values(fill, seed, which, index, dtype)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(part, range(0, flat.size, PART)))
    return flat.reshape(rows, columns)


def inputs(fill: str, seed: int, shape: Shape, dtype: str) -> list[np.ndarray]:
    """The inputs of a product, as the kernel takes them."""
    return [matrix(fill, seed, i, *extent, dtype) for i, extent in enumerate(shape.inputs)]
