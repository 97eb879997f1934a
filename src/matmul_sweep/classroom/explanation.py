"""Which single slip would give exactly the wrong C that a kernel left: a stride, a
transposition, lost terms, a factor.

Inputs are random, so that a model that gives every element of C is hardly wrong by chance.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product

import numpy as np

from matmul_sweep.classroom.experiments import ALONE, Run
from matmul_sweep.classroom.launching import EVERYTHING
from matmul_sweep.classroom.signature import ADDEND, Signature
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import ceil_div

CLOSE = 1e-4  # of the largest element, where float32 sums may be in any order
SUMMED = 1024  # units of roundoff that an order of sums may cost, if those are less
KEPT = (4, 8, 16, 32, 64, 128, 256)  # rounds of a loop that does not go on to the last term
CHEAP = 2e5  # operations of a product that is compared with every model
MANY = 10  # times as many of a single one, if that tells more
MOST_RUNS = 5  # of which an explanation has to explain each
ROUNDED = 5e-3  # of the largest element: half errs by less, a lost term by more


@dataclass(frozen=True, order=True)
class Explanation:
    """What would explain a wrong C. kind: of a mistake; key: the same at every shape; about: on
    which the mistake is: A, B, C, the place of a block's tile of one ("A offset"), or of the next
    round's ("A step"), k, a round of a tile, a tile, a sum or a sign, a matrix that is taken again,
    alpha or beta. vague: how much less it says than others do, which come first."""

    vague: int
    kind: str
    key: str
    about: str


Model = tuple[np.ndarray, Explanation]  # C, NaN where it is not known, and what gives it


def explanations(run: Run, signature: Signature) -> set[Explanation]:
    """Every one that gives the C of this run."""
    if not run.wrong.any() or run.unwritten.all():
        return set()
    if run.factors != ALONE:
        return {scaling(run, signature)}
    own = (of_gram,) if len(run.inputs) == 1 else (operands_mixed_up, strides, indices)
    about_rows = () if run.columns else (*own, tiles, lines_apart)
    makers = (lost_terms, multiples, *about_rows)
    models = (pair for made in makers for pair in made(run, signature))
    return {told for c, told in models if matches(run, c)} | {*oddities(run)}


def matches(run: Run, model: np.ndarray) -> bool:
    """Whether C is the model wherever that is a number; it has to be one at some wrong element."""
    known = np.isfinite(model) & ~run.unwritten
    if not (known & run.wrong).any():
        return False
    c = run.result.c.astype(np.float64)
    unit = DTYPES[run.result.c.dtype.name].roundoff
    close = max(min(CLOSE, SUMMED * unit), 4 * unit)
    allowed = close * max(1.0, float(np.abs(run.expected).max()))
    return bool((np.abs(c - model)[known] <= allowed).all())


def scaling(run: Run, signature: Signature) -> Explanation:
    """What C is in place of alpha·A·B + beta·C, if it is a sum of such parts."""
    alpha, beta = run.factors
    name_c = signature.name_of(ADDEND if signature.beta else "C")
    product = "·".join(map(signature.name_of, "AB"))
    assert run.before is not None
    before = run.before.astype(np.float64)
    ab = (run.expected.astype(np.float64) - beta * before) / alpha
    written = ~run.unwritten
    parts = np.stack([ab[written], before[written], np.ones(written.sum())], axis=1)
    c = run.result.c[written].astype(np.float64)
    found, *_ = np.linalg.lstsq(parts, c, rcond=None)
    fits = np.isfinite(c).all() and np.abs(parts @ found - c).max() < 1e-2
    words = {alpha: "alpha·", beta: "beta·", alpha * beta: "alpha·beta·", alpha**2: "alpha²·",
             beta**2: "beta²·", 1 / alpha: "1/alpha·", 0.0: "0", 1.0: ""}  # fmt: skip
    said = [next((w for v, w in words.items() if abs(v - x) < 0.02), None) for x in found]
    if not fits or None in said:
        left = (c - alpha * ab[written]) / beta if beta else c
        if (np.abs(left[:, None] - before.ravel()).min(axis=1) < 1e-2).all():
            key = f"it adds beta times another element of {name_c}"
            return Explanation(0, "wrong result", key, "beta")
        key = "it is right only where alpha is 1 and beta is 0"
        return Explanation(1, "wrong result", key, "alpha")
    terms = [f"{w}{of}" for w, of in zip(said, (product, name_c, "1"), strict=True) if w != "0"]
    whole = f"alpha·{product}" + (f" + beta·{name_c}" if signature.accumulates else "")
    whole = f"{product} + {name_c}" if signature.beta else whole
    told = " + ".join(term.removesuffix("·1") for term in terms) or "0"
    about = "beta" if said[0] == "alpha·" else "alpha"
    return Explanation(0, "wrong result", f"it computes {told}, not {whole}", about)


def lost_terms(run: Run, signature: Signature) -> Iterator[Model]:
    """Sums that end early, or begin late, or skip terms."""
    left, right = (one.astype(np.float64) for one in signature.operation.factors(*run.inputs))
    terms, name, own = run.shape.terms, signature.terms_name, own_sides(run)

    def lost(vague: int, key: str, about: str = "k") -> Explanation:
        return Explanation(vague, "lost terms", key, about)

    added = left.sum(1, keepdims=True) + right.sum(0)
    yield added, Explanation(1, "wrong result", "elements are added, not multiplied", "added")
    for kept in range(terms):
        gone = terms - kept
        early, late = left[:, :kept] @ right[:kept], left[:, gone:] @ right[gone:]
        last = "term of a sum is" if gone == 1 else f"{gone} terms of a sum are"
        if kept or gone == 1:  # not all of several
            yield early, lost(1, f"the last {last} lost")
        if kept:
            yield late, lost(1, f"a sum begins at term {gone} instead of 0")
        yield early, lost(3, "the last terms of a sum are lost")
        if kept == terms % 256:
            key = f"only {name} % 256 terms of a sum are taken: is a number of them a char?"
            yield early, lost(0, key)
        if kept in KEPT:
            yield early, lost(2, f"only {kept} terms of a sum are taken")
        for side in sides_of(run):
            if kept == terms // side * side:
                key = f"the last terms are lost where {name} is no multiple of {side}"
                yield early, lost(2 + (side not in own), key)
            if gone == (terms - 1) // side * side:
                key = "only the last tile of terms is summed: each round begins the sum anew"
                yield late, lost(1, key)
        yield late, lost(3, "the first terms of a sum are lost")
    if terms > 1:
        key = "only the last term of a sum is left: each one takes the place of those before"
        yield left[:, -1:] @ right[-1:], lost(0, key, about="sum")
        yield left[:, ::2] @ right[::2], lost(1, "every second term of a sum is lost")
    number = np.arange(terms)
    for side in sides_of(run):
        key = "only the last term of a full tile is left: each one takes the place of those before"
        yield left[:, -1:] @ right[-1:] * (terms % side == 0), lost(4, key, about="sum")
        near = number // side + number % side
        for which, model in (("A", left[:, near] @ right), ("B", left @ right[near])):
            key = f"each round takes {signature.name_of(which)} one term further on, not {side}"
            yield model, Explanation(1, "wrong index", key, f"{which} step")
        before = np.where(number < side, number, number - side)
        key = f"each tile of {side} terms but the first is that of the round before"
        yield left[:, before] @ right[before], lost(1, key, "A again")
        first, last = number % side == 0, number % side == side - 1
        for taken, key, about in (
            (first, f"only the first of every {side} terms of a sum is taken", "round"),
            (~first, f"the first of every {side} terms of a sum is lost", "round"),
            (~last, f"the last of every {side} terms of a sum is lost", "round"),
            (number // side % 2 == 0, f"every second tile of {side} terms is lost", "k"),
        ):
            if side > 2:
                yield left[:, taken] @ right[taken], lost(1, key, about)


def own_sides(run: Run) -> set[int]:
    return {*run.launch.block[:2], *(run.launch.tile or ())} - {1, EVERYTHING}


def sides_of(run: Run) -> list[int]:
    """What may be the number of terms of a tile."""
    return sorted({2, 4, 8, 16, 32, 64} | own_sides(run))


def multiples(run: Run, _: Signature) -> Iterator[Model]:
    """Sums that are subtracted, or counted several times."""
    expected = run.expected.astype(np.float64)
    yield -expected, Explanation(1, "wrong result", "every sum has the wrong sign", "sign")
    for times in (2, 3, 4):
        key = f"every sum is counted {times} times"
        yield times * expected, Explanation(1, "wrong result", key, "C")


def oddities(run: Run) -> Iterator[Explanation]:
    """What is told by C alone: sums that have a number added, or are cut to whole numbers."""
    c, fractions = run.result.c, run.result.c.dtype.kind != "i"
    if (
        fractions
        and c.any()
        and (np.isfinite(c) & (c == np.round(c))).all()
        and np.any(np.abs(run.expected[run.wrong]) > CLOSE)
    ):
        yield Explanation(1, "wrong result", "C holds whole numbers: is a sum an int?", "type")
    if fractions and run.wrong.all() and not c.any():
        key = "every sum is 0: is it an int, or does each term begin it anew?"
        yield Explanation(1, "wrong result", key, "type")
    off = (c - run.expected).astype(np.float64)[run.wrong]
    if len(off) > 2 and np.isfinite(off).all() and np.ptp(off) < CLOSE < abs(off.mean()):
        yield Explanation(1, "wrong result", f"every sum is {off.mean():.4g} too large", "C")
    if fractions and len(off) and abs(off).max() < ROUNDED * float(np.abs(run.expected).max()):
        key = "C is nearly right, as if a factor or a sum were rounded to a smaller type"
        yield Explanation(1, "wrong result", key, "type")


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
        yield model, Explanation(1, "wrong result", f"it computes {what}", about)


def strides(run: Run, signature: Signature) -> Iterator[Model]:
    """A matrix that is read, or C that is written, with another row length, in all of it or from
    tile to tile or within one, or transposed."""
    m, n, k = run.shape.dimensions
    a, b = (array.astype(np.float64) for array in run.inputs)
    matrices = (("A", m, k, "k"), ("B", k, n, "n"), ("C", m, n, "n"))
    lengths = {"m": m, "n": n, "k": k, "1": 1, "0": 0}

    read = dict[tuple[str, str], tuple[np.ndarray, Explanation]]()

    def model(which: str, index: np.ndarray) -> np.ndarray:
        if which == "C":
            return stored(run, index)
        return taken(a, index) @ b if which == "A" else a @ taken(b, index)

    for which, rows, columns, right in matrices:
        row, column = np.indices((rows, columns))
        for role in "mnk":
            index = row + column * lengths[role]
            yield model(which, index), misread(signature, which, role, right, True)
        for role in [role for role in "mnk1" if role != right]:
            index = row * lengths[role] + column
            read[which, role] = index, misread(signature, which, role, right, False)
            yield model(which, index), read[which, role][1]
        for side in sides_of(run):
            tile, inner = row // side * side, row % side
            for role in [role for role in lengths if role != right and rows > side]:
                index = tile * lengths[role] + inner * lengths[right] + column
                about = "B step" if which == "B" else f"{which} offset"
                yield model(which, index), misplaced(signature, which, role, right, about)
                index = tile * lengths[right] + inner * lengths[role] + column
                yield model(which, index), misread(signature, which, role, right, False)
            if columns > side:
                index = row * lengths[right] + column % side
                about = "A step" if which == "A" else f"{which} offset"
                yield model(which, index), misplaced(signature, which, "0", right, about)
    for one, other in product("mn", "mk"):
        (index, of_a), (other_index, of_b) = read["A", one], read["B", other]
        both = replace(of_a, vague=1, key=f"{of_a.key}, and {of_b.key}")
        yield taken(a, index) @ taken(b, other_index), both


def indices(run: Run, signature: Signature) -> Iterator[Model]:
    """A or B read at an index in which two of row, column and term, or one of them and a row's
    length, have the place of each other."""
    if run.shape.operations > CHEAP:
        return
    m, n, k = run.shape.dimensions
    a, b = (array.astype(np.float64) for array in run.inputs)
    counters = dict(zip(("row", "column", "term"), np.indices((m, n, k)), strict=True))
    for which, length, right in (("A", "k", "row * {} + term"), ("B", "n", "term * {} + column")):
        name = signature.terms_name if signature.square else signature.name_of(length)
        factors = [*counters.items(), (name, getattr(run.shape, length))]
        for (one, x), (other, y), (last, z) in (
            (*pair, more) for pair, more in product(combinations(factors, 2), counters.items())
        ):
            index = x * y + z
            c = taken(a, index) * b.T if which == "A" else a[:, None] * taken(b, index)
            key = f"{signature.name_of(which)} is read at {one} * {other} + {last}, with row and "
            key += f"column of C; its element is at {right.format(name)}"
            yield c.sum(2), Explanation(1, "wrong index", key, which)


def tiles(run: Run, signature: Signature) -> Iterator[Model]:
    """The row of C taken for its column, or the other way round, in all of C, in a block's tile or
    in the number of a tile; and tiles that are used transposed."""
    left, right = (one.astype(np.float64) for one in signature.operation.factors(*run.inputs))
    row, column = np.indices(run.shape.output)
    name_a, name_b = signature.name_of("A"), signature.name_of("AB"[len(run.inputs) - 1])

    def mixed(
        other_row: np.ndarray, other_column: np.ndarray, of: str, a: str, b: str
    ) -> Iterator[Model]:
        key = f"{name_b} is read in the column that is the row of C{of}"
        yield pairwise(left, right, row, other_row), Explanation(0, "wrong index", key, b)
        key = f"{name_a} is read in the row that is the column of C{of}"
        yield pairwise(left, right, other_column, column), Explanation(0, "wrong index", key, a)

    yield from mixed(row, column, "", "A", "B")
    for side in sides_of(run):
        first_row, first_column = row - row % side, column - column % side
        one, other = first_column + row % side, first_row + column % side
        yield from mixed(one, other, " of its tile", "tile", "tile")
        yield from mixed(other, one, ", by tiles", "A", "B")
        for which, name, model in (
            ("a", name_a, turned(left, side) @ right), ("b", name_b, left @ turned(right, side))
        ):  # fmt: skip
            key = f"the tiles of {name} are used transposed"
            yield model, Explanation(0, "wrong index", key, f"{which} tile")
        yield from one_line_of_tiles(left, right, side, name_a, name_b)


def lines_apart(run: Run, signature: Signature) -> Iterator[Model]:
    """Rows of A, or columns of B, that a tile or a thread finds at a wrong distance from those of
    the one before, or a part of a vector that is taken for another."""
    left, right = (one.astype(np.float64) for one in signature.operation.factors(*run.inputs))
    whole = run.launch.tile or (1, 1)
    for which, extent, tile in zip("AB", run.shape.output, whole, strict=True):
        lines, name = np.arange(extent), signature.name_of(which)
        word = "rows" if which == "A" else "columns"

        def model(instead: np.ndarray, which: str = which) -> np.ndarray:
            inside = (instead >= 0) & (instead < len(instead))
            taken = np.where(inside, instead, 0)
            found = left[taken] @ right if which == "A" else left @ right[:, taken]
            return np.where(inside[:, None] if which == "A" else inside, found, np.nan)

        for side, step in permutations((1, *sides_of(run)), 2):
            first = 0 if side >= tile else lines // tile * tile
            instead = first + (lines - first) // side * step + lines % side
            key = f"{name} is read {side} {word} at a time, which begin {step} apart"
            about = f"{which} offset" if side >= tile else "tile"
            yield model(instead), Explanation(2, "wrong index", key, about)
        for one, other in permutations(range(4), 2):
            key = f"of each 4 {word} of C the {'xyzw'[one]} takes the {'xyzw'[other]} of {name}"
            instead = lines + (other - one) * (lines % 4 == one)
            about = f"{'xyzw'[one]} for {'xyzw'[other]}"
            yield model(instead), Explanation(0, "wrong index", key, about)


def one_line_of_tiles(
    left: np.ndarray, right: np.ndarray, side: int, name_a: str, name_b: str
) -> Iterator[Model]:
    """Tiles that are filled with one of their columns, or rows, over and over: threadIdx.x and
    threadIdx.y are taken for each other in the number of a term."""
    rows, columns = left.shape[0], right.shape[1]
    term = np.arange(left.shape[1])
    for which, name, line, elements in (
        ("A", name_a, "column", np.arange(rows)), ("B", name_b, "row", np.arange(columns))
    ):  # fmt: skip
        # The term that each element of C has in the place of each of its own.
        instead = term - term % side + (elements % side)[:, None]
        if which == "A":
            model = taken_along(left, instead) @ right
        else:
            model = left @ taken_along(right.T, instead).T
        key = f"each thread that loads a tile of {name} takes the {line} of the other axis"
        yield model, Explanation(0, "wrong index", key, which)


def taken_along(matrix: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """For each row the elements in these columns, 0 beyond the last one, as a guard has it."""
    inside = columns < matrix.shape[1]
    return np.where(inside, np.take_along_axis(matrix, columns * inside, 1), 0.0)


def pairwise(a: np.ndarray, b: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """For each element the product of this row of A and this column of B, NaN where there is
    none."""
    inside = (row < len(a)) & (column < b.shape[1])
    return np.where(inside, (a @ b)[row * inside, column * inside], np.nan)


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
        yield rows.T @ rows, Explanation(0, "wrong index", key, "A")
        key = "it computes A·A: one of the factors is not transposed"
        for model in (rows.T @ a, a.T @ rows):
            yield model, Explanation(0, "wrong index", key, "A")


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
        return Explanation(0, "wrong index", f"{name} is {done} transposed", which)
    used = signature.name_of(role)
    wanted = signature.terms_name if signature.square else signature.name_of(right)
    length = f"with rows of {used} elements; they have {wanted}"
    return Explanation(0, "wrong index", f"{name} is {done} {length}", which)


def misplaced(signature: Signature, which: str, role: str, right: str, about: str) -> Explanation:
    """A tile that begins at another place."""
    name, done = signature.name_of(which), "writes" if which == "C" else "reads"
    wanted = signature.terms_name if signature.square else signature.name_of(right)
    rows = f"rows of {signature.name_of(role)} elements; they have {wanted}"
    key = f"the tiles of {name} begin at {rows}"
    if role in "01":
        key = f"a block or a round {done} {name} in a tile of another one"
    return Explanation(1, "wrong index", key, about)


def few_of(runs: Sequence[Run]) -> Sequence[Run]:
    """Those of the wrong runs that an explanation has to explain: the smallest, and others that
    are cheap to explain."""
    alone = [run for run in runs if run.factors == ALONE] or runs
    ordered = sorted(alone, key=lambda run: run.shape.operations)
    cheap = [run for run in ordered if run.shape.operations < CHEAP] or ordered[:1]
    few = cheap[:: max(1, ceil_div(len(cheap), MOST_RUNS))]
    # Of a square C m and n are alike, so that a stride could be either.
    more = [run for run in ordered if run.shape.m != run.shape.n][:1]
    alike = all(run.shape.m == run.shape.n for run in few)
    return [*few, *(run for run in more if alike and run.shape.operations < MANY * CHEAP)]


def common(runs: Sequence[Run], signature: Signature, body: str = "") -> Explanation | None:
    """What explains every one of these runs, preferring what says most, and of several lengths of
    rows that which the kernel's text has in an index of the matrix."""

    def order(one: Explanation) -> tuple[int, bool, Explanation]:
        name, _, length = one.key.partition(" is read with rows of ")
        index = rf"\b{re.escape(name)}\s*\[[^][]*\b{re.escape(length.split(' ')[0])}\b"
        return one.vague, bool(length) and not re.search(index, body), one

    shared: set[Explanation] | None = None
    for run in runs:
        found = explanations(run, signature)
        shared = found if shared is None else shared & found
        if not shared:
            return None
    return min(shared or (), default=None, key=order)
