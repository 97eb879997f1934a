"""Which single slip would give exactly the wrong C that a kernel left: a stride, a
transposition, lost terms, a factor.

Inputs are random, so that a model that gives every element of C is hardly wrong by chance.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from matmul.operations.dtypes import DTYPES
from matmul.trial.experiments import Run
from matmul.trial.signature import Signature

CLOSE = 1e-4  # of the largest element, where float32 sums may be in any order


@dataclass(frozen=True, order=True)
class Explanation:
    """What would explain a wrong C. kind: of a mistake; key: the same at every shape; about: A,
    B, C or k, on which the mistake is."""

    kind: str
    key: str
    about: str


def explanations(run: Run, signature: Signature) -> set[Explanation]:
    """Every model that gives the C of this run."""
    if run.wrong is None or not run.wrong.any() or run.unwritten.all():
        return set()
    return {*lost_terms(run, signature), *strides(run, signature), *factors(run)}


def matches(run: Run, model: np.ndarray) -> bool:
    """Whether C is the model wherever that is a number; it has to be one at some wrong element."""
    assert run.wrong is not None and run.result.c is not None
    known = np.isfinite(model) & ~run.unwritten
    if not (known & run.wrong).any():
        return False
    c = run.result.c.astype(np.float64)
    close = max(CLOSE, 4 * DTYPES[run.result.c.dtype.name].roundoff)
    allowed = close * max(1.0, float(np.abs(run.expected).max()))
    return bool((np.abs(c - model)[known] <= allowed).all())


def operands(run: Run, signature: Signature) -> tuple[np.ndarray, np.ndarray]:
    left, right = signature.operation.factors(*run.inputs)
    return left.astype(np.float64), right.astype(np.float64)


def lost_terms(run: Run, signature: Signature) -> Iterator[Explanation]:
    """Sums that end early, or begin late."""
    left, right = operands(run, signature)
    terms = run.shape.terms
    own = signature.terms_name
    side = max(run.launch.block[:2])
    for kept in range(terms):
        lost = terms - kept
        if matches(run, left[:, :kept] @ right[:kept]):
            key = "term of a sum is lost" if lost == 1 else f"{lost} terms of a sum are lost"
            yield Explanation("lost terms", f"the last {key}", "k")
            if kept == terms // side * side:
                key = f"the last terms are lost where {own} is no multiple of {side}"
                yield Explanation("lost terms", key, "k")
        if matches(run, left[:, lost:] @ right[lost:]):
            yield Explanation("lost terms", f"a sum begins at term {lost} instead of 0", "k")


def factors(run: Run) -> Iterator[Explanation]:
    """Sums that are counted several times, or have a number added."""
    assert run.wrong is not None and run.result.c is not None
    for times in (2, 3, 4):
        if matches(run, times * run.expected.astype(np.float64)):
            yield Explanation("wrong result", f"every sum is counted {times} times", "C")
    off = (run.result.c - run.expected).astype(np.float64)[run.wrong]
    if len(off) > 2 and np.isfinite(off).all() and np.ptp(off) < CLOSE < abs(off.mean()):
        yield Explanation("wrong result", f"every sum is {off.mean():.4g} too large", "C")


def strides(run: Run, signature: Signature) -> Iterator[Explanation]:
    """A matrix that is read, or C that is written, with another row length, or transposed."""
    if len(run.inputs) == 1:
        yield from strides_of_gram(run, signature)
        return
    m, n, k = run.shape.dimensions
    lengths = {"m": m, "n": n, "k": k}
    a, b = (array.astype(np.float64) for array in run.inputs)
    yield from wrong_index_pairs(a, b, signature, run)
    for role, length in lengths.items():
        for which, rows, columns, right_length in (
            ("A", m, k, "k"),
            ("B", k, n, "n"),
            ("C", m, n, "n"),
        ):
            for turned in (False, True):
                if role == right_length and not turned:
                    continue
                index = np.arange(rows)[:, None] * (1 if turned else length)
                index = index + np.arange(columns) * (length if turned else 1)
                model = (
                    stored(run, index) if which == "C" else
                    taken(a, index) @ b if which == "A" else a @ taken(b, index)
                )  # fmt: skip
                if matches(run, model):
                    yield misread(signature, which, role, right_length, turned)


def wrong_index_pairs(
    a: np.ndarray, b: np.ndarray, signature: Signature, run: Run
) -> Iterator[Explanation]:
    """The row of C taken for its column, or the other way round, in one of the matrices."""
    m, n, _ = run.shape.dimensions
    rows, columns = np.arange(m), np.arange(n)
    of_row = np.full((m, n), np.nan)
    inside = rows[rows < n]
    of_row[inside] = np.einsum("ip,pi->i", a[inside], b[:, inside])[:, None]
    if matches(run, of_row):
        what = f"{signature.name_of('B')} is read in the column that is the row of C"
        yield Explanation("wrong index", what, "B")
    of_column = np.full((m, n), np.nan)
    inside = columns[columns < m]
    of_column[:, inside] = np.einsum("jp,pj->j", a[inside], b[:, inside])
    if matches(run, of_column):
        what = f"{signature.name_of('A')} is read in the row that is the column of C"
        yield Explanation("wrong index", what, "A")


def strides_of_gram(run: Run, signature: Signature) -> Iterator[Explanation]:
    m, n = run.shape.dimensions
    a = run.inputs[0].astype(np.float64)
    wrong = taken(a, np.arange(m)[:, None] * m + np.arange(n))
    for left, right in ((wrong, a), (a, wrong), (wrong, wrong)):
        if m != n and matches(run, left.T @ right):
            yield misread(signature, "A", "m", "n", False)
    if m == n and matches(run, a @ a.T):
        yield Explanation("wrong index", "it computes A·Aᵀ, not AᵀA: A is read by rows", "A")
    if m == n and matches(run, a @ a):
        yield Explanation(
            "wrong index", "it computes A·A: one of the factors is not transposed", "A"
        )


def taken(matrix: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The elements at flat indices, NaN beyond the end."""
    flat = matrix.ravel()
    return np.where(index < flat.size, flat[np.minimum(index, flat.size - 1)], np.nan)


def stored(run: Run, index: np.ndarray) -> np.ndarray:
    """C if the element at (i, j) went to the flat index instead; NaN where none went, or
    several."""
    flat, counts = np.full(run.expected.size, np.nan), np.zeros(run.expected.size, int)
    inside = index < flat.size
    flat[index[inside]] = run.expected[inside]
    np.add.at(counts, index[inside], 1)
    return np.where(counts == 1, flat, np.nan).reshape(run.expected.shape)


def misread(signature: Signature, which: str, role: str, right: str, turned: bool) -> Explanation:
    name, done = signature.name_of(which), "written" if which == "C" else "read"
    if turned:
        return Explanation("wrong index", f"{name} is {done} transposed", which)
    used = "1" if signature.square else signature.name_of(role)
    return Explanation(
        "wrong index",
        f"{name} is {done} with rows of {used} elements; they have {signature.name_of(right)}",
        which,
    )


def common(runs: list[Run], signature: Signature) -> Explanation | None:
    """What explains every one of these runs, preferring a wrong stride, which says most."""
    found = [explanations(run, signature) for run in itertools.islice(runs, 6)]
    shared = set.intersection(*found) if found else set()
    return min(shared, key=lambda one: (one.kind != "wrong index", one.key)) if shared else None
