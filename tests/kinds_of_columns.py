"""Kinds of A on which products in float64 are compared: ordinary ones, and some whose large
elements meet small ones."""

from collections.abc import Callable

import numpy as np

Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def normal(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    return rng.standard_normal((m, n))


def spread(by: float) -> Draw:
    """Normal numbers times e to the power of `by` normal numbers."""
    return lambda rng, m, n: normal(rng, m, n) * np.exp(by * normal(rng, m, n))


def one_huge(same_row: bool) -> Draw:
    def draw(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
        found = normal(rng, m, n)
        found[5 if same_row else rng.integers(0, m, n), np.arange(n)] = 1e8
        return found

    return draw


def halves_apart(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    found = normal(rng, m, n)
    found[: m // 2, ::2] *= 1e-14
    found[m // 2 :, 1::2] *= 1e-14
    return found


def sparse(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    found = normal(rng, m, n) * (rng.random((m, n)) < 0.01)
    found[rng.integers(0, m, n), np.arange(n)] = 1  # no column of zeros
    return found


# How a product by residues with norms alone compares with one in float64: no worse, or worse.
EASY: dict[str, Draw] = {
    "normal": normal,
    "uniform [0, 1]": lambda rng, m, n: rng.random((m, n)),
    "integers": lambda rng, m, n: rng.integers(-1000, 1001, (m, n)).astype(float),
    "Hilbert": lambda _, m, n: 1 / (1 + np.add.outer(np.arange(m), np.arange(n))),
    "columns of 10^-100 to 10^100": lambda rng, m, n: (
        normal(rng, m, n) * 10 ** rng.uniform(-100, 100, n)
    ),
    "graded rows": lambda rng, m, n: normal(rng, m, n) * 10 ** (-20 * np.arange(m)[:, None] / m),
    "one huge element per column, in one row": one_huge(True),
    "normal·exp(normal)": spread(1),
    "Student": lambda rng, m, n: rng.standard_t(3, (m, n)),
}
HARD: dict[str, Draw] = {
    "normal·exp(2·normal)": spread(2),
    "normal·exp(3·normal)": spread(3),
    "one huge element per column": one_huge(False),
    "halves apart": halves_apart,
    "sparse": sparse,
    "Cauchy": lambda rng, m, n: rng.standard_cauchy((m, n)),
}
KINDS = EASY | HARD


def fooling(seed: int, m: int, n: int) -> np.ndarray:
    """Numbers with exponents that spread by rows, columns, blocks or elements, sparse or
    cancelling, each by a drawn amount."""
    rng = np.random.default_rng(seed)
    found = normal(rng, m, n) * np.exp2(10 * normal(rng, 1, n))
    rows, blocks, elements = rng.choice([0, 0, 0, 0.5, 1, 2, 4, 10], 3)
    block = np.ones((-(-m // 4), -(-n // 4)))
    found *= np.exp2(rows * normal(rng, m, 1) + elements * normal(rng, m, n))
    found *= np.exp2(blocks * np.kron(normal(rng, 4, 4), block)[:m, :n])
    if rng.random() < 0.3:
        found[1:] *= rng.random((m - 1, n)) < rng.choice([0.7, 0.3, 0.1])
    if rng.random() < 0.3:  # the second half takes away what the first has summed
        half = m // 2
        found[half : 2 * half] = found[:half] * np.where(np.arange(n) % 2, 1, -1)
    found[rng.integers(0, m, n), np.arange(n)] = np.abs(found).max(0) * np.exp2(rng.integers(-9, 6))
    return found
