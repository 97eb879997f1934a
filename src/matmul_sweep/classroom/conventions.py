"""Which convention a kernel follows: how matrices are stored, and which dimension each number is.

The kernel's own indexing decides, where nobody said it: C of two launches is right under one only.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

from matmul_sweep.catalogue.architectures import MAXIMUM_THREADS
from matmul_sweep.classroom.experiments import Bench, Run, processor_seconds
from matmul_sweep.classroom.launching import EVERYTHING, other_blocks
from matmul_sweep.classroom.program import Program, build_for_cpu, executable_in
from matmul_sweep.classroom.relaunching import bench_covers
from matmul_sweep.classroom.signature import (
    CONVENTIONS,
    LEADING,
    TRANSPOSED,
    Signature,
    by_index_of_rows,
)
from matmul_sweep.classroom.source import word_set
from matmul_sweep.classroom.syntax import Kernel, places_of
from matmul_sweep.operations.shapes import Shape

# Matrices that are stored by columns, the usual ones first: A·Bᵀ, Aᵀ·B, and all, as in cuBLAS.
STORED = ("", "B", "A", "AB", "ABC", "C", "BC", "AC")
# Of the matrices by which storage is told; the other one if the first block reaches beyond them.
SIDE, WIDER = 192, 256
TURNED = TRANSPOSED | word_set("nt tn tt abt atb atbt backward backprop grad gradient")
SECONDS = 8.0  # of processor time, after which nothing more is tried
SMALL, WIDE, WIDEST = 32, 64, 256  # tiles up to which a shape of three different sides is cheap


def fitting(bench: Bench, folder: Path) -> Bench | None:
    """The bench, with its tile, under the convention that its kernel follows, and with the block
    that it takes, if that is a guess; None if it follows none, or does not have to be asked."""
    told, by_setting = bench.signature.settled, bench.signature.stored
    if by_setting and not bench.launch.possible:
        return None
    end = processor_seconds() + SECONDS
    bench = replace(bench, narrow=True)
    fixed = bool(bench.signature.fixed)  # of square matrices the order does not count yet
    for ordered in reordered(bench) if fixed and not told else [bench]:
        for stored in candidates(ordered, folder, by_setting, end):
            stored = stored.with_tile(SIDE)  # the same for every order of the numbers
            orders = [stored] if told or fixed else [*reordered(stored)]
            for one in [*orders, *map(regridded, orders if stored.launch.program else ())]:
                if all(right(one.run(shape), whole=True) for shape in telling(one)):
                    sure = replace(one.program, signature=replace(one.signature, unsure=False))
                    launch = replace(one.launch, mended=None)
                    return replace(one, narrow=False, launch=launch, program=sure)
    signature, program = bench.signature, bench.program
    others = other_blocks(program.source, program.kernel, bench.launch)
    rows = signature.fixed.get("m", 0)
    whole = (signature.fixed.get("n", rows * signature.square), rows, 1)
    alone = "block" in bench.launch.guessed and "blockIdx" not in program.kernel.body
    if alone and bench.launch.possible != (whole,) and 0 < math.prod(whole) <= MAXIMUM_THREADS:
        others = (whole,)  # the only one that fits C
    tried = replace(bench, launch=replace(bench.launch, possible=others))
    if others and (found := fitting(tried, folder)):
        return found
    ask = told or fixed or signature.square or signature.again or bench.launch.possible
    return None if ask else likeliest(replace(bench, narrow=False))


def regridded(bench: Bench) -> Bench:
    """The bench with a grid that covers C in the place of the file's, which may be the mistake."""
    return replace(bench, launch=replace(bench.launch, mended=bench_covers(bench)))


def likeliest(bench: Bench) -> Bench | None:
    """The bench of a kernel that is right under no convention, with its numbers in the order in
    which it reads nothing beyond its matrices and writes all of C, if it does not so in its own;
    None if neither this nor a name tells the order."""

    def stays_inside(one: Bench) -> tuple[bool, bool]:
        run = one.run(different_sides(one))
        return not reaches_beyond(run), run.result.ended and not run.unwritten.any()

    signature, kernel = bench.signature, bench.program.kernel
    roles = {p.name: p.role for p in signature.parameters}
    matrices = {role: name for name, role in roles.items() if role in {*"ABC"}}
    numbers = [name for name, role in roles.items() if role in {*"mnk"}]
    lengths = by_lengths(kernel, matrices, numbers) if signature.unsure else {}
    told = lengths or by_index_of_rows(kernel, roles, roles) or by_divided_index(kernel, roles)
    if len({*told.values()}) == len(told) == 3:
        ways = reordered(bench.with_tile(SIDE))
        found = next(one for one in ways if told == {k: one.signature.name_of(k) for k in told})
        sure = replace(found.signature, unsure=found.signature.unsure and not lengths)
        return replace(found, program=replace(found.program, signature=sure))
    usual = bench.with_tile()
    inside, whole = stays_inside(usual)
    if not inside and not bench.signature.open_rows:
        others = (one for one in reordered(bench.with_tile(SIDE)) if all(stays_inside(one)))
        if other := next(others, None):
            return other
    return usual if (inside and whole) or not bench.signature.unsure else None


def by_lengths(kernel: Kernel, names: Mapping[str, str], numbers: Iterable[str]) -> dict[str, str]:
    """What m, n and k are of a kernel of three numbers that has one for the length of rows of B and
    C, and another one for that of A; or nothing. names: of the matrices."""
    length = re.compile(r"\s*(?:\w+|\((?:[^()]|\([^()]*\))*\))\s*\*\s*(\w+)\s*\+.*")
    found = {role: {told[1] if (told := length.fullmatch(one)) else "" for one in
                    places_of(name, kernel)} for role, name in names.items()}  # fmt: skip
    rest = {*numbers} - found["A"] - found["B"]
    alone = all(len(one) == 1 for one in (*found.values(), rest))
    if not alone or found["B"] != found["C"] or found["A"] == found["B"]:
        return {}
    return {"m": rest.pop(), "n": found["B"].pop(), "k": found["A"].pop()}


def by_divided_index(kernel: Kernel, numbers: Iterable[str]) -> dict[str, str]:
    """What m, n and k are of a kernel that says it by an index of all of C, of which it takes the
    quotient and the rest, by its bound, and by a loop; or nothing."""
    for index, *sides in re.findall(r"\b(\w+)\s*<\s*\(?(\w+)\s*\*\s*(\w+)\b", kernel.body):
        for m, n in permutations(sides):
            split = all(re.search(rf"\b{index}\s*{sign}\s*{n}\b", kernel.body) for sign in "/%")
            ends = {one for one in numbers if re.search(rf"<\s*{one}\s*;", kernel.body)}
            if split and len(ends) == 1 and {m, n} <= {*numbers}:
                return {"m": m, "n": n, "k": ends.pop()}
    return {}


def candidates(bench: Bench, folder: Path, told: bool, end: float) -> Iterator[Bench]:
    """The bench with each storage of its matrices, unless that is told, and each block that the
    text allows, until the processor time `end`, under which a block of the grid is right. One
    launch shows it for every storage: the bytes are the same, and of squares the lengths of rows.
    """
    usual = bench.signature.columns
    tried = list[tuple[Bench, Run]]()
    sides = (SMALL,) if bench.has_one_block else (SIDE, WIDER)
    for side, block in product(sides, bench.launch.possible or [bench.launch.block]):
        if side == WIDER and not all(map(reaches_beyond, (run for _, run in tried))):
            break
        if processor_seconds() < end:
            one = replace(bench, launch=replace(bench.launch, block=block))
            square = bench.shape(side, side, side)
            tried.append((one, one.run(square, one.first_block(square))))
            if right(tried[-1][1], whole=False):
                yield one
    ways = ("", "A") if bench.signature.operation.symmetric else STORED
    for columns in [] if told else map(frozenset, ways):
        for one, run in tried:
            if columns != usual and right(one.seen(run, columns), whole=False):
                yield stored_so(one, columns, folder)


def right(run: Run, whole: bool) -> bool:
    """Whether C is right, in all or as far as it was written, and nothing beyond it touched."""
    wrong = run.wrong if whole else run.wrong & ~run.unwritten
    fine = not run.launch.possible or not run.mistaken  # too many threads do some work twice
    inside = not reaches_beyond(run)
    return run.result.ended and fine and inside and not wrong.any() and not run.unwritten.all()


def reaches_beyond(run: Run) -> bool:
    """Whether a thread accesses an element that no array has."""
    return any(one["kind"] == "outside" for one in run.result.findings)


def stored_so(bench: Bench, columns: frozenset[str], folder: Path) -> Bench:
    """The bench with these matrices stored by columns; a kernel that takes the lengths of rows is
    built anew for them."""
    signature = replace(bench.signature, columns=columns)
    stored = with_signature(bench, signature)
    if any(p.role.startswith(LEADING) for p in signature.parameters):
        place = folder / f"stored-{''.join(sorted(columns))}"
        place.mkdir(exist_ok=True)
        build_for_cpu(stored.program, place)
        return replace(stored, executable=executable_in(place), built=None)
    return stored


def with_signature(bench: Bench, signature: Signature) -> Bench:
    program = replace(bench.program, signature=signature)
    own = bench.launch.program
    launch = replace(bench.launch, program=own.under(signature)) if own else bench.launch
    return replace(bench, program=program, launch=launch, built=bench.built or bench.signature)


def reordered(bench: Bench) -> Iterator[Bench]:
    """The bench with its numbers as the dimensions in every order, its own first."""
    yield bench
    parameters = bench.signature.parameters
    letters = bench.signature.operation.shape.__match_args__
    roles = [role for role in letters if any(p.role == role for p in parameters)]
    few = len(roles) < len(letters)
    fixed = len(bench.signature.fixed) not in (0, len(roles))  # some of them, by arrays of rows
    said = few and not bench.signature.unsure
    orders = [tuple(roles)] if said else [*permutations(letters, len(roles))]
    ways: list[tuple[tuple[str, ...], dict[str, str]]] = [(order, {}) for order in orders]
    ways += [(order, {last: one}) for order in orders if len(order) == 2
             for last in {*letters} - {*order} for one in order]  # fmt: skip
    if fixed or bench.signature.square:
        return
    for order, tied in ways:
        other = dict(zip(roles, order, strict=True))
        renamed = tuple(replace(p, role=other.get(p.role, p.role)) for p in parameters)
        yield with_signature(bench, replace(bench.signature, parameters=renamed, tied=tied))


def different_sides(bench: Bench) -> Shape:
    """A shape whose sides differ, all multiples of what the tile suggests."""
    assert bench.launch.tile
    if bench.has_one_block:
        return bench.shape(SMALL, SMALL // 2, SMALL // 4)
    tile = (min(side, WIDEST) for side in bench.launch.tile if side != EVERYTHING)
    side = max(SMALL, bench.launch.multiple, *tile)
    wide = bench.shape(2 * side, side, min(side // 2, WIDE))
    differ = len({*wide.dimensions}) == len(wide.dimensions)
    return wide if side >= WIDE and differ else bench.shape(3 * side, side, 2 * side)


def telling(bench: Bench) -> Iterator[Shape]:
    """The same; and if a dimension has no number of its own, one that has the others the other way
    round: a kernel may be right with it as either as long as this is the shorter one."""
    first = different_sides(bench)
    yield first
    free = [role for role in first.__match_args__ if role not in bench.signature.tied]
    if bench.signature.tied and not (bench.signature.settled or bench.launch.program):
        short, long = sorted(free, key=lambda role: getattr(first, role))
        sides = {short: 2 * getattr(first, long), long: getattr(first, long)}
        yield bench.shape(*(sides.get(role, 1) for role in "mnk"))


def by_fragments(program: Program) -> frozenset[str]:
    """The matrices of which a kernel's tensor-core fragments say that they are by columns, as
    those of B in the registers of mma.sync are."""
    said = {"A": r"matrix_a\b[^;]*\bcol_major", "B": r"matrix_b\b[^;]*\bcol_major|\.row\.col\."}
    said["C"] = r"\bmem_col_major\b"
    return frozenset(name for name, pattern in said.items() if re.search(pattern, program.code))


def steps_by_columns(program: Program) -> bool:
    """Whether a kernel writes C at `i + j * ld`, as those for matrices by columns do."""
    c, body = re.escape(program.signature.name_of("C")), program.kernel.body
    index = "|".join(re.findall(rf"\b{c}\s*\[\s*(\w+)\s*\]", body)) or "-"
    macro = "|".join(re.findall(rf"\b{c}\s*\[\s*(\w+)\s*\(", body)) or "-"
    told = re.search(rf"#\s*define\s+(?:{macro})\((\w+), *(\w+), *(\w+)\)(.*)", program.source.bare)
    if told:  # such as IDX2C
        row, column, length, index = (re.sub(r"[()\s]", "", text) for text in told.groups())
        return index in (f"{column}*{length}+{row}", f"{row}+{column}*{length}")
    return bool(re.search(rf"\b(?:{c}\s*\[|(?:{index})\s*=)[^][*=;]*\+[^][;]*\*", body))


def convention_of(found: Signature, told: Signature) -> tuple[str, str]:
    """How a signature differs from that which the names tell, in words, and as settings."""
    words, settings = [], []
    if told.square and told.exchanged and found.columns == frozenset("ABC") != told.columns:
        words.append("{2} is {1}·{0}".format(*map(found.name_of, "ABC")))
        settings.append(f"order={CONVENTIONS['order']}")
    elif found.columns == frozenset("ABC") != told.columns:
        words.append("all matrices are stored by columns")
        settings.append(f"order={CONVENTIONS['order']}")
    elif found.columns != told.columns:
        for key in "abc":
            if key.upper() in found.columns ^ told.columns:
                turned = key.upper() in found.columns
                name, how = found.name_of(key.upper()), "transposed" if turned else "by rows"
                words.append(f"{name} is stored {how}")
                settings.append(f"{key}={CONVENTIONS[key] if turned else 'rows'}")
    fixed = found.fixed.values()  # of which alike ones tell nothing
    moved = (found.parameters, found.tied) != (told.parameters, told.tied) or told.unsure
    if moved and len({*fixed}) == len(fixed):
        m, n, k = (found.name_of(role) for role in "mnk")
        a, b = (found.name_of(role) for role in "AB")
        words.append(f"{a} is {m}×{k} and {b} is {k}×{n}")
        own = {p.role: p.name for p in reversed(found.parameters)}
        own |= {role: own[other] for role, other in found.tied.items()}
        settings += [f"{role}={own[role]}" for role in "mnk" if role in own]
    return " and ".join(words), " ".join(settings)
