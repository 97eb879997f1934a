"""Kinds of factors: some show how a product in float32 errs, others what SGEMM has answers for."""

from collections.abc import Callable

import numpy as np

Factors = tuple[np.ndarray, np.ndarray]
Draw = Callable[[tuple[int, int]], np.ndarray]


def kinds(m: int, n: int, k: int, seed: int = 1) -> dict[str, Factors]:
    """Factors of ordinary sizes, by name."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal

    def spread(shape: tuple[int, int]) -> np.ndarray:
        return normal(shape) * np.exp(3 * normal(shape))

    def both(draw: Draw) -> Factors:
        return single(draw((m, k)), draw((k, n)))

    huge = normal((m, k))
    huge[np.arange(m), rng.integers(0, k, m)] = 1e10
    return {
        "normal": both(normal),
        "uniform [0, 1]": both(rng.random),
        "uniform [-1, 1]": both(lambda shape: rng.uniform(-1, 1, shape)),
        "normal·exp(3·normal)": both(spread),
        "rows that span 2⁷⁸": both(lambda shape: spread(shape) * np.exp(6 * normal(shape))),
        "one huge element per row": single(huge, normal((k, n))),
        "Hilbert": both(lambda shape: 1 / (1 + np.add.outer(*map(np.arange, shape)))),
        "integers": both(lambda shape: rng.integers(-2048, 2049, shape)),
    }


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
