"""Which single slip would give exactly the wrong C that a kernel left: a stride, a
transposition, lost terms, a factor.

Inputs are random, so that a model that gives every element of C is hardly wrong by chance.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from matmul_sweep.classroom.experiments import Run
from matmul_sweep.classroom.signature import Signature
from matmul_sweep.operations.dtypes import DTYPES

CLOSE = 1e-4  # of the largest element, where float32 sums may be in any order
CLOSE_IN_DOUBLE = 1e-9  # the same of float64
ROUNDED = 5e-3  # of the largest element: half errs by less, a lost term by more


@dataclass(frozen=True, order=True)
class Explanation:
    """What would explain a wrong C. kind: of a mistake; key: the same at every shape; about: on
    which the mistake is: A, B, C, k, a tile, a sum or a sign, or a matrix that is taken again."""

    kind: str
    key: str
    about: str


Model = tuple[np.ndarray, Explanation]  # C, NaN where it is not known, and what gives it


def explanations(run: Run, signature: Signature) -> set[Explanation]:
    """Every one that gives the C of this run."""
    if not run.wrong.any() or run.unwritten.all():
        return set()
    own = (of_gram,) if len(run.inputs) == 1 else (operands_mixed_up, strides, tiles)
    about_rows = () if run.columns else own
    models = (
        pair for made in (lost_terms, multiples, *about_rows) for pair in made(run, signature)
    )
    return {told for c, told in models if matches(run, c)} | {*oddities(run)}


def matches(run: Run, model: np.ndarray) -> bool:
    """Whether C is the model wherever that is a number; it has to be one at some wrong element."""
    known = np.isfinite(model) & ~run.unwritten
    if not (known & run.wrong).any():
        return False
    c = run.result.c.astype(np.float64)
    dtype = DTYPES[run.result.c.dtype.name]
    close = CLOSE_IN_DOUBLE if dtype.name == "float64" else max(CLOSE, 4 * dtype.roundoff)
    allowed = close * max(1.0, float(np.abs(run.expected).max()))
    return bool((np.abs(c - model)[known] <= allowed).all())


def lost_terms(run: Run, signature: Signature) -> Iterator[Model]:
    """Sums that end early, or begin late."""
    left, right = (one.astype(np.float64) for one in signature.operation.factors(*run.inputs))
    terms, side = run.shape.terms, max(run.launch.block[:2])

    lost = partial(Explanation, "lost terms", about="k")
    for kept in range(terms):
        gone = terms - kept
        early, late = left[:, :kept] @ right[:kept], left[:, gone:] @ right[gone:]
        last = "term of a sum is" if gone == 1 else f"{gone} terms of a sum are"
        yield early, lost(f"the last {last} lost")
        if kept == terms // side * side:
            multiple = f"{signature.terms_name} is no multiple of {side}"
            yield early, lost(f"the last terms are lost where {multiple}")
        yield late, lost(f"a sum begins at term {gone} instead of 0")
        if gone == (terms - 1) // side * side:
            key = "only the last tile of terms is summed: each round begins the sum anew"
            yield late, lost(key)
    if terms > 1:
        key = "only the last term of a sum is left: each one takes the place of those before"
        yield left[:, -1:] @ right[-1:], lost(key, about="sum")
        yield left[:, ::2] @ right[::2], lost("every second term of a sum is lost")


def multiples(run: Run, _: Signature) -> Iterator[Model]:
    """Sums that are subtracted, or counted several times."""
    expected = run.expected.astype(np.float64)
    yield -expected, Explanation("wrong result", "every sum has the wrong sign", "sign")
    for times in (2, 3, 4):
        key = f"every sum is counted {times} times"
        yield times * expected, Explanation("wrong result", key, "C")


def oddities(run: Run) -> Iterator[Explanation]:
    """What is told by C alone: sums that have a number added, or are cut to whole numbers."""
    c, fractions = run.result.c, run.result.c.dtype.kind != "i"
    if fractions and (c == np.round(c)).all() and np.any(np.abs(run.expected[run.wrong]) > CLOSE):
        yield Explanation("wrong result", "C holds whole numbers: is a sum an int?", "C")
    off = (c - run.expected).astype(np.float64)[run.wrong]
    if len(off) > 2 and np.isfinite(off).all() and np.ptp(off) < CLOSE < abs(off.mean()):
        yield Explanation("wrong result", f"every sum is {off.mean():.4g} too large", "C")
    if fractions and len(off) and abs(off).max() < ROUNDED * float(np.abs(run.expected).max()):
        key = "C is nearly right, as if a factor or a sum were rounded to a smaller type"
        yield Explanation("wrong result", key, "C")


def operands_mixed_up(run: Run, signature: Signature) -> Iterator[Model]:
    """One matrix taken for both, or the two exchanged, which square matrices allow."""
    if not signature.square:
        return
    a, b = (array.astype(np.float64) for array in run.inputs)
    name_a, name_b = signature.name_of("A"), signature.name_of("B")
    for model, what, about in (
        (a @ a, f"{name_a}·{name_a}: {name_a} is read in the place of {name_b}", "A again"),
        (b @ b, f"{name_b}·{name_b}: {name_b} is read in the place of {name_a}", "B"),
        (b @ a, f"{name_b}·{name_a}: the matrices are exchanged", "A"),
    ):
        yield model, Explanation("wrong result", f"it computes {what}", about)


def strides(run: Run, signature: Signature) -> Iterator[Model]:
    """A matrix that is read, or C that is written, with another row length, or transposed."""
    m, n, k = run.shape.dimensions
    a, b = (array.astype(np.float64) for array in run.inputs)
    matrices = (("A", m, k, "k"), ("B", k, n, "n"), ("C", m, n, "n"))
    lengths = {"m": m, "n": n, "k": k, "1": 1}.items()
    for (which, rows, columns, right), (role, length), turned in itertools.product(
        matrices, lengths, (False, True)
    ):
        right_length = role == right or (signature.square and role != "1")
        if (right_length and not turned) or (role == "1" and turned):
            continue
        row, column = np.indices((rows, columns))
        index = row + column * length if turned else row * length + column
        model = (
            stored(run, index) if which == "C" else
            taken(a, index) @ b if which == "A" else a @ taken(b, index)
        )  # fmt: skip
        yield model, misread(signature, which, role, right, turned)


def tiles(run: Run, signature: Signature) -> Iterator[Model]:
    """The row of C taken for its column, or the other way round, in all of C or in a block's tile;
    and tiles that are used transposed."""
    a, b = (array.astype(np.float64) for array in run.inputs)
    side = run.launch.block[0]
    row, column = np.indices(run.shape.output)
    name_a, name_b = signature.name_of("A"), signature.name_of("B")
    everything = max(run.shape.output)
    for of, tile, abouts in (("", everything, "AB"), (" of its tile", side, ("tile", "tile"))):
        across = column % tile - row % tile  # to the other side of the diagonal
        key = f"{name_b} is read in the column that is the row of C{of}"
        yield pairwise(a, b, row, column - across), Explanation("wrong index", key, abouts[1])
        key = f"{name_a} is read in the row that is the column of C{of}"
        yield pairwise(a, b, row + across, column), Explanation("wrong index", key, abouts[0])
    for name, model in ((name_a, turned(a, side) @ b), (name_b, a @ turned(b, side))):
        key = f"the tiles of {name} are used transposed"
        yield model, Explanation("wrong index", key, "tile")


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


def of_gram(run: Run, signature: Signature) -> Iterator[Model]:
    """A that is read with another row length, or by rows, for one of the factors or for both."""
    m, n = run.shape.dimensions
    a = run.inputs[0].astype(np.float64)
    term, column = np.indices((m, n))
    wrong = taken(a, term * m + column)
    for left, right in ((wrong, a), (a, wrong), (wrong, wrong)) if m != n else ():
        yield left.T @ right, misread(signature, "A", "m", "n", False)
    for length in (m, n):
        rows = taken(a, column * length + term)
        key = "it computes A·Aᵀ, not AᵀA: A is read by rows"
        yield rows.T @ rows, Explanation("wrong index", key, "A")
        key = "it computes A·A: one of the factors is not transposed"
        for model in (rows.T @ a, a.T @ rows):
            yield model, Explanation("wrong index", key, "A")


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
    length = f"with rows of {used} elements; they have {wanted}"
    return Explanation("wrong index", f"{name} is {done} {length}", which)


def common(runs: list[Run], signature: Signature) -> Explanation | None:
    """What explains every one of these runs, preferring a wrong stride, which says most."""
    found = [explanations(run, signature) for run in itertools.islice(runs, 6)]
    shared = set.intersection(*found) if found else set()
    return min(shared, key=lambda one: (one.kind != "wrong index", one.key)) if shared else None
