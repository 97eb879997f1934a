"""Kinds of factors: some show how a product in float32 errs, others what SGEMM has answers for."""

from collections.abc import Callable

import numpy as np

Factors = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal(shape)


def spread(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return normal(rng, shape) * np.exp(3 * normal(rng, shape))


def one_huge(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    found = normal(rng, shape)
    found[np.arange(shape[0]), rng.integers(0, shape[1], shape[0])] = 1e10
    return found


# How both factors of ordinary sizes are drawn.
ALIKE: dict[str, Draw] = {
    "normal": normal,
    "uniform [0, 1]": lambda rng, shape: rng.random(shape),
    "uniform [-1, 1]": lambda rng, shape: rng.uniform(-1, 1, shape),
    "normal·exp(3·normal)": spread,
    "rows that span 2⁷⁸": lambda rng, shape: spread(rng, shape) * np.exp(6 * normal(rng, shape)),
    "Hilbert": lambda _, shape: 1 / (1 + np.add.outer(*map(np.arange, shape))),
    "integers": lambda rng, shape: rng.integers(-2048, 2049, shape),
}
KINDS = {kind: (draw, draw) for kind, draw in ALIKE.items()}
KINDS["one huge element per row"] = one_huge, normal


def factors(kind: str, m: int, n: int, k: int) -> Factors:
    """Factors of one of KINDS."""
    rng = np.random.default_rng(1)
    draw_a, draw_b = KINDS[kind]
    return single(draw_a(rng, (m, k)), draw_b(rng, (k, n)))


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
