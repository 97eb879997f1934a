"""Kinds of matrices on which products are compared: ordinary ones, ones whose large elements meet
small ones, and for float32 some that SGEMM has answers for."""

from collections.abc import Callable

import numpy as np

Factors = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def normal(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    return rng.standard_normal((m, n))


def spread(by: float) -> Draw:
    """Normal numbers times e to the power of `by` normal numbers."""
    return lambda rng, m, n: normal(rng, m, n) * np.exp(by * normal(rng, m, n))


BOTH: dict[str, Draw] = {
    "normal": normal,
    "uniform [0, 1]": lambda rng, m, n: rng.random((m, n)),
    "normal·exp(3·normal)": spread(3),
    "Hilbert": lambda _, m, n: 1 / (1 + np.add.outer(np.arange(m), np.arange(n))),
}

# Factors of A·B in float32, both of a kind.


def one_huge_in_a_row(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    found = normal(rng, m, n)
    found[np.arange(m), rng.integers(0, n, m)] = 1e10
    return found


ALIKE = BOTH | {
    "uniform [-1, 1]": lambda rng, m, n: rng.uniform(-1, 1, (m, n)),
    "rows that span 2⁷⁸": lambda rng, m, n: spread(3)(rng, m, n) * np.exp(6 * normal(rng, m, n)),
    "integers": lambda rng, m, n: rng.integers(-2048, 2049, (m, n)),
}
FACTORS = {kind: (draw, draw) for kind, draw in ALIKE.items()}
FACTORS["one huge element per row"] = one_huge_in_a_row, normal


def factors(kind: str, m: int, n: int, k: int) -> Factors:
    """Factors of one of FACTORS."""
    rng = np.random.default_rng(1)
    draw_a, draw_b = FACTORS[kind]
    return single(draw_a(rng, m, k), draw_b(rng, k, n))


def hard_kinds(m: int, n: int, k: int) -> dict[str, Factors]:
    """Factors at the ends of a float's range, or whose large elements meet zeros; of at least 10
    rows, columns and steps."""
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    found = {
        "zeros": single(0 * a, b),
        "denormals": single(1e-40 * a, 1e3 * b),
        "large": single(1e37 * a, 1e-5 * b),
        "largest": single(np.full((m, k), 1.7e38), b / k),
    }
    a, b = a.copy(), b.copy()
    a[:, 5], b[5] = 2.0**40, 0
    found["masked"] = single(a, b)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a[3, 5], b[5, 7] = 2.0**60, 0
    found["one masked"] = single(a, b)
    return found


def not_finite(m: int, n: int, k: int) -> Factors:
    """Infinities and NaN, some of which meet zeros."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a[3, 4], a[5, 6], b[7, 8], b[4, 9] = np.inf, np.nan, -np.inf, 0
    return single(a, b)


def single(*factors: np.ndarray) -> Factors:
    a, b = (np.asarray(factor, np.float32) for factor in factors)
    return a, b


def in_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A·B as SGEMM has it: multiply-adds in float32, one step of k after the other."""
    c = np.zeros((len(a), b.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for step in range(len(b)):
            exact = c.astype(np.float64) + np.outer(a[:, step].astype(np.float64), b[step])
            c = exact.astype(np.float32)
    return c


# The A of AᵀA in float64.

BOUND = 2.0**-48 + 2.0**-52  # of Σ|a||b|, on errors by residues, as residues.cu says


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
    **{kind: BOTH[kind] for kind in ("normal", "uniform [0, 1]", "Hilbert")},
    "integers": lambda rng, m, n: rng.integers(-1000, 1001, (m, n)).astype(float),
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
    "normal·exp(3·normal)": BOTH["normal·exp(3·normal)"],
    "one huge element per column": one_huge(False),
    "halves apart": halves_apart,
    "sparse": sparse,
    "Cauchy": lambda rng, m, n: rng.standard_cauchy((m, n)),
}
COLUMNS = EASY | HARD


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


def errors(c: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Those of C = AᵀA as shares of Σ|a||b|."""
    wide = a.astype(np.longdouble)
    terms = np.abs(wide).T @ np.abs(wide)
    return np.abs(c - wide.T @ wide) / np.where(terms > 0, terms, 1)
