"""Which single slip would give exactly the wrong C that a kernel left: a stride, a
transposition, lost terms, a factor.

Inputs are random, so that a model that gives every element of C is hardly wrong by chance.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from matmul_sweep.classroom.experiments import Run
from matmul_sweep.classroom.signature import Signature
from matmul_sweep.operations.dtypes import DTYPES

CLOSE = 1e-4  # of the largest element, where float32 sums may be in any order
ROUNDED = 5e-3  # of the largest element: half errs by less, a lost term by more


@dataclass(frozen=True, order=True)
class Explanation:
    """What would explain a wrong C. kind: of a mistake; key: the same at every shape; about: on
    which the mistake is: A, B, C, k, a tile, a sum or a sign, or a matrix that is taken again."""

    kind: str
    key: str
    about: str


def explanations(run: Run, signature: Signature) -> set[Explanation]:
    """Every model that gives the C of this run."""
    if run.wrong is None or not run.wrong.any() or run.unwritten.all():
        return set()
    models = (lost_terms, factors, operands_mixed_up, strides, tiles)
    return {found for model in models for found in model(run, signature)}


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
            if lost == (terms - 1) // side * side:
                key = "only the last tile of terms is summed: each round begins the sum anew"
                yield Explanation("lost terms", key, "k")
    if terms > 1 and matches(run, left[:, -1:] @ right[-1:]):
        key = "only the last term of a sum is left: each one takes the place of those before"
        yield Explanation("lost terms", key, "sum")
    if terms > 1 and matches(run, left[:, ::2] @ right[::2]):
        yield Explanation("lost terms", "every second term of a sum is lost", "k")


def factors(run: Run, _: Signature) -> Iterator[Explanation]:
    """Sums that are counted several times, have a number added, or are cut to whole numbers."""
    assert run.wrong is not None and run.result.c is not None
    if matches(run, -run.expected.astype(np.float64)):
        yield Explanation("wrong result", "every sum has the wrong sign", "sign")
    whole = run.result.c.dtype.kind != "i" and (run.result.c == np.round(run.result.c)).all()
    if whole and np.any(np.abs(run.expected[run.wrong]) > CLOSE):
        yield Explanation("wrong result", "C holds whole numbers: is a sum an int?", "C")
    for times in (2, 3, 4):
        if matches(run, times * run.expected.astype(np.float64)):
            yield Explanation("wrong result", f"every sum is counted {times} times", "C")
    off = (run.result.c - run.expected).astype(np.float64)[run.wrong]
    if len(off) > 2 and np.isfinite(off).all() and np.ptp(off) < CLOSE < abs(off.mean()):
        yield Explanation("wrong result", f"every sum is {off.mean():.4g} too large", "C")
    near = ROUNDED * float(np.abs(run.expected).max())
    if run.result.c.dtype.kind != "i" and len(off) and abs(off).max() < near:
        key = "C is nearly right, as if a factor or a sum were rounded to a smaller type"
        yield Explanation("wrong result", key, "C")


def operands_mixed_up(run: Run, signature: Signature) -> Iterator[Explanation]:
    """One matrix taken for both, or the two exchanged, which square matrices allow."""
    if len(run.inputs) == 1 or not signature.square:
        return
    a, b = (array.astype(np.float64) for array in run.inputs)
    name_a, name_b = signature.name_of("A"), signature.name_of("B")
    for model, what, about in (
        (a @ a, f"{name_a}·{name_a}: {name_a} is read in the place of {name_b}", "A again"),
        (b @ b, f"{name_b}·{name_b}: {name_b} is read in the place of {name_a}", "B"),
        (b @ a, f"{name_b}·{name_a}: the matrices are exchanged", "A"),
    ):
        if matches(run, model):
            yield Explanation("wrong result", f"it computes {what}", about)


def strides(run: Run, signature: Signature) -> Iterator[Explanation]:
    """A matrix that is read, or C that is written, with another row length, or transposed."""
    if len(run.inputs) == 1:
        yield from strides_of_gram(run, signature)
        return
    m, n, k = run.shape.dimensions
    lengths = {"m": m, "n": n, "k": k, "1": 1}
    a, b = (array.astype(np.float64) for array in run.inputs)
    for role, length in lengths.items():
        for which, rows, columns, right_length in (
            ("A", m, k, "k"),
            ("B", k, n, "n"),
            ("C", m, n, "n"),
        ):
            for turned in (False, True):
                if (role == right_length and not turned) or (role == "1" and turned):
                    continue
                index = np.arange(rows)[:, None] * (1 if turned else length)
                index = index + np.arange(columns) * (length if turned else 1)
                model = (
                    stored(run, index) if which == "C" else
                    taken(a, index) @ b if which == "A" else a @ taken(b, index)
                )  # fmt: skip
                if matches(run, model):
                    yield misread(signature, which, role, right_length, turned)


def tiles(run: Run, signature: Signature) -> Iterator[Explanation]:
    """The row of C taken for its column, or the other way round, in all of C or in a block's tile;
    and tiles that are used transposed."""
    if len(run.inputs) == 1:
        return
    a, b = (array.astype(np.float64) for array in run.inputs)
    m, n, _ = run.shape.dimensions
    side = run.launch.block[0]
    rows, columns = np.arange(m)[:, None], np.arange(n)
    name_a, name_b = signature.name_of("A"), signature.name_of("B")
    of_tile = (columns // side * side + rows % side, rows // side * side + columns % side)
    for about, (column, row) in (
        ("B", (rows + 0 * columns, columns + 0 * rows)),
        ("tile", of_tile),
    ):
        of = " of its tile" if about == "tile" else ""
        if matches(run, pairwise(a, b, rows + 0 * columns, column)):
            key = f"{name_b} is read in the column that is the row of C{of}"
            yield Explanation("wrong index", key, about)
        if matches(run, pairwise(a, b, row, columns + 0 * rows)):
            key = f"{name_a} is read in the row that is the column of C{of}"
            yield Explanation("wrong index", key, about if of else "A")
    for name, model in ((name_a, turned(a, side) @ b), (name_b, a @ turned(b, side))):
        if matches(run, model):
            yield Explanation("wrong index", f"the tiles of {name} are used transposed", "tile")


def pairwise(a: np.ndarray, b: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """For each element the product of this row of A and this column of B, NaN where there is
    none."""
    inside = (row < len(a)) & (column < b.shape[1])
    product = a @ b
    return np.where(inside, product[row * inside, column * inside], np.nan)


def turned(matrix: np.ndarray, side: int) -> np.ndarray:
    """The matrix with each of its tiles transposed, and zeros from beyond its edge."""
    rows, columns = matrix.shape
    padded = np.pad(matrix, ((0, -rows % side), (0, -columns % side)))
    blocks = padded.reshape(len(padded) // side, side, -1, side)
    return blocks.transpose(0, 3, 2, 1).reshape(padded.shape)[:rows, :columns]


def strides_of_gram(run: Run, signature: Signature) -> Iterator[Explanation]:
    m, n = run.shape.dimensions
    a = run.inputs[0].astype(np.float64)
    terms, columns = np.arange(m)[:, None], np.arange(n)
    wrong = taken(a, terms * m + columns)
    for left, right in ((wrong, a), (a, wrong), (wrong, wrong)):
        if m != n and matches(run, left.T @ right):
            yield misread(signature, "A", "m", "n", False)
    for length in (m, n):
        rows = taken(a, columns * length + terms)
        if matches(run, rows.T @ rows):
            yield Explanation("wrong index", "it computes A·Aᵀ, not AᵀA: A is read by rows", "A")
        if matches(run, rows.T @ a) or matches(run, a.T @ rows):
            key = "it computes A·A: one of the factors is not transposed"
            yield Explanation("wrong index", key, "A")


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
    used = signature.name_of(role)
    wanted = signature.terms_name if signature.square else signature.name_of(right)
    return Explanation(
        "wrong index",
        f"{name} is {done} with rows of {used} elements; they have {wanted}",
        which,
    )


def common(runs: list[Run], signature: Signature) -> Explanation | None:
    """What explains every one of these runs, preferring a wrong stride, which says most."""
    found = [explanations(run, signature) for run in itertools.islice(runs, 6)]
    shared = set.intersection(*found) if found else set()
    return min(shared, key=lambda one: (one.kind != "wrong index", one.key)) if shared else None
