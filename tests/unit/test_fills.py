"""Inputs by formula: the published generator, ranges, means, and no dependence on the order."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from matmul_sweep.operations import fills


def splitmix64(state: int) -> Iterator[int]:
    """Steele, Lea and Flood's generator, in Python's integers."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        yield z ^ (z >> 31)


def test_elements_beyond_32_bits_of_index_differ():
    """A 32-bit counter would repeat itself after 2³² elements."""
    low = np.arange(8, dtype=np.uint64)
    assert not set(fills.random_bits(7, low)) & set(fills.random_bits(7, low + np.uint64(2**32)))


@pytest.mark.parametrize(("seed", "which"), [(0, 0), (2026, 1), (2**32 - 1, 1)])
def test_uniform_elements_are_the_top_24_bits(seed, which):
    start = list(islice(splitmix64(seed), 2))[which]
    expected = [(bits >> 40) / 2**23 - 1 for bits in islice(splitmix64(start), 35)]
    found = fills.matrix("uniform", seed, which, 5, 7)
    assert found.dtype == np.float32
    assert found.ravel().tolist() == expected


@pytest.mark.parametrize("fill", fills.FILLS)
@pytest.mark.parametrize("which", [0, 1])
def test_an_element_depends_on_its_index_alone(fill, which):
    whole = fills.matrix(fill, 5, which, 211, 97).ravel()
    index = np.random.default_rng(0).integers(0, whole.size, 500).astype(np.uint64)
    assert (fills.values(fill, 5, which, index) == whole[index.astype(int)]).all()


def test_digits_are_rounded_uniform_numbers():
    """round(9·u): 0 and 9 half as often as the digits between them."""
    x = fills.matrix("digits", 2026, 1, 600, 600)
    shares = np.bincount(x.ravel().astype(int), minlength=10) / x.size
    np.testing.assert_allclose(shares, [1 / 18, *[1 / 9] * 8, 1 / 18], atol=0.004)
    assert set(np.unique(x)) == set(range(10))


def test_constant_is_ones_and_twos_and_index_counts_row_by_row_modulo_100():
    assert all((fills.matrix("constant", 0, which, 3, 4) == which + 1).all() for which in (0, 1))
    assert fills.matrix("index", 0, 0, 15, 7).ravel().tolist() == [*range(100), *range(5)]
