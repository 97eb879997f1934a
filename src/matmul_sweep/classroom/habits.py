"""Mistakes of checking, each shown by numbers that are computed here, and those of measuring, which
the report shows by what a data set measured."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from matmul_sweep.operations import fills

SEED = 2026
# Title and cure, under the name by which report/facts/measuring.py has what shows it.
HABITS_OF_MEASURING = {
    "not_waiting": (
        "No wait for the device",
        "Wait for the device before you read the clock, or use its events.",
    ),
    "first_in_the_mean": (
        "The first launch in the mean", "Warm up, and give the median and its interval."
    ),
    "copies": (
        "Copies counted, or not", "Say which of the two it is, and compare like with like."
    ),
    "one_size": (
        "One size only", "Measure many sizes, because no single one speaks for the others."
    ),
    "one_run": ("One run only", "Repeat, time rivals in turn, and give an interval."),
}  # fmt: skip


@dataclass(frozen=True)
class Habit:
    """A mistake of checking: what is done, what it shows here, and what to do instead."""

    name: str
    title: str
    shown: str
    cure: str


def matrices(fill: str, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    return fills.matrix(fill, SEED, 0, m, k), fills.matrix(fill, SEED, 1, k, n)


def differs(one: np.ndarray, other: np.ndarray) -> int:
    """How many elements differ by more than rounding."""
    return int((np.abs(one - other) > 1e-3 * np.abs(other).max()).sum())


def habits_of_checking() -> Iterator[Habit]:
    n = 100
    a, b = matrices("constant", n, n, n)
    random_a, random_b = matrices("uniform", n, n, n)
    yield Habit(
        "constant_input", "Ones in A and twos in B",
        f"With Bᵀ in place of B, {differs(a @ b.T, a @ b)} of {n * n} elements are wrong. With "
        f"random input, {differs(random_a @ random_b.T, random_a @ random_b)} are.",
        "Check with random input.",
    )  # fmt: skip
    yield Habit(
        "index_modulo_100", "Index modulo 100, at n = 100",
        f"With the rows of A in another order, {rows_exchanged(100)} elements are wrong, because "
        f"all rows are alike. At n = 101, {rows_exchanged(101)} of {101**2} are.",
        "Check with random input, at a prime size too.",
    )  # fmt: skip
    c = random_a @ random_b
    c[3, 4] = np.nan
    off = np.abs(c - random_a @ random_b)
    yield Habit(
        "nan_passes", "The largest difference as a loop of comparisons",
        "An element that was never written holds NaN, and every comparison with NaN is false. So "
        f"`if (off > most) most = off` finds a largest difference of "
        f"{np.fmax.reduce(off.ravel()):.3g}.",
        "Fill C with NaN before each check, and count what is not finite as wrong.",
    )  # fmt: skip
    worst = max(map(error_in_order, ("digits", "uniform")))
    yield Habit(
        "absolute_tolerance", "A tolerance of 10⁻⁵, whatever the size",
        f"A correct float32 sum of 4096 terms has an error of {1e4 * worst:.2g}·10⁻⁴ here.",
        "Let the tolerance grow with the number of terms and with Σ|a||b|.",
    )  # fmt: skip
    m, n, k = 3, 4, 5
    a, b = matrices("uniform", m, n, k)
    wrong, exchanged = (sgemm(*call).reshape(m, n) for call in ((m, n, k, a, b), (n, m, k, b, a)))
    yield Habit(
        "column_major", "Row-major matrices for a column-major library",
        f"After sgemm(m, n, k, A, B) with row-major arrays, {differs(wrong, a @ b)} of {m * n} "
        f"elements are wrong. With A and B exchanged, {differs(exchanged, a @ b)} are.",
        "Call sgemm(n, m, k, B, A): C = A·B by rows is Cᵀ = Bᵀ·Aᵀ by columns.",
    )  # fmt: skip
    square_a, square_b = matrices("uniform", 64, 64, 64)
    both = square_a @ square_b.T
    yield Habit(
        "second_wrong_result", "Checking against a second wrong result",
        "If the loop on the CPU has the same wrong index as the kernel, the two differ in "
        f"{differs(both, square_a @ square_b.T)} elements. A library's product differs from both "
        f"in {differs(both, square_a @ square_b)}.",
        "Check against a product that somebody else wrote.",
    )  # fmt: skip


def error_in_order(fill: str) -> float:
    """The largest error of sums of 4096 products in float32, one after the other."""
    a, b = matrices(fill, 64, 64, 4096)
    sums = np.zeros((64, 64), np.float32)
    for p in range(4096):
        sums += a[:, p : p + 1] * b[p]
    return float(np.abs(sums - a.astype(np.float64) @ b).max())


def rows_exchanged(n: int) -> int:
    """How many elements differ after another order of the rows of A, where elements are their
    index modulo 100."""
    a, b = matrices("index", n, n, n)
    return differs(np.roll(a, 7, axis=0) @ b, a @ b)


def sgemm(m: int, n: int, k: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What a column-major product of these dimensions makes of the elements of A and B in their
    order, as the elements of C in theirs."""
    return (a.reshape(k, m).T @ b.reshape(n, k).T).T.ravel()
