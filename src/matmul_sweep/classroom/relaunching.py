"""Mistakes of a launch: what another one would mend, tried at the shapes that went wrong."""

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

import numpy as np

from matmul_sweep.catalogue import plans
from matmul_sweep.catalogue.architectures import MAXIMUM_THREADS, STATIC_SHARED
from matmul_sweep.classroom.experiments import ALONE, Bench, Run
from matmul_sweep.classroom.file_launch import FileLaunch, passed
from matmul_sweep.classroom.launching import EVERYTHING, Launch, striding_blocks
from matmul_sweep.classroom.mistakes import CURES, PATTERN, Mistake, Teller
from matmul_sweep.classroom.signature import Signature
from matmul_sweep.operations.shapes import Shape, ceil_div

MOST_RUNS = 6  # of those that went wrong, all of which have to be mended
OF_GRID = ("grid exchanged", "grid too small")
SLICES = (2, 3, 4, 8)  # blocks along z

Change = Callable[[plans.Launch, Shape], plans.Launch]
Told = Callable[[plans.Launch, plans.Launch], str]


@dataclass(frozen=True)
class Mend:
    """What is launched instead. kind: of the mistake that it mends; line: where that is; told: in
    words, of the launch as it was and as it should be; where: in which line of another file than
    the kernel's, and then `line` is 0."""

    kind: str
    line: int
    bench: Bench
    told: Told
    cure: str
    where: str = ""


def mistake_of_launch(bench: Bench, wrong: Sequence[Run]) -> tuple[Mistake | None, Sequence[Run]]:
    """The mistake of the launch that explains all that went wrong, or at least which elements are
    not written; and what goes wrong beside it."""
    alone = [run for run in wrong if run.factors == ALONE]
    alone.sort(key=lambda run: not is_exact(bench, run.shape))
    few = alone[:: max(1, ceil_div(len(alone), MOST_RUNS))]  # small ones and large ones
    for mend in mends(bench) if few else ():
        shapes = takewhile(mend.bench.reaches, (run.shape for run in few))
        mended = [*takewhile(lambda run: run.right, map(mend.bench.run, shapes))]
        if len(mended) == len(few):
            pairs = [*zip(few, mended, strict=True)]
            more = any(np.greater(new.launched.grid, old.launched.grid).any() for old, new in pairs)
            if more or mend.kind not in OF_GRID:
                return mended_by(mend, *pairs[0]), ()
    short = [run for run in alone
             if run.result.ended and run.unwritten.any() and not run.sampled]  # fmt: skip
    clean = [run for run in short if not run.mistaken] or short
    counted = "gridDim" in bench.program.kernel.body  # by which it numbers its blocks
    for mend in (one for one in mends(bench) if short and one.kind in OF_GRID):
        exchanged = mend.kind == "grid exchanged"
        few = (clean if exchanged else short)[:MOST_RUNS]
        mended = [mend.bench.run(run.shape) for run in few]
        explains = not exchanged or (not counted and all(map(unset_alone, mended)))
        if explains and not any(run.result.ended and run.unwritten.any() for run in mended):
            others = [run for run in wrong if run not in short]
            left = (*mended, *(mend.bench.run(run.shape) if is_exact(bench, run.shape) else run
                               for run in others))  # fmt: skip
            return mended_by(mend, few[0], mended[0]), [run for run in left if not run.right]
    return None, ()


def is_exact(bench: Bench, shape: Shape) -> bool:
    """Whether the program's grid has nothing to round at a shape: its tiles cover C, or, if it has
    none, the shape is its own."""
    program = bench.launch.program
    if program and program.sides:
        return not any(map(operator.mod, shape.output, program.sides[0]))
    return program is not None and shape == program.own_shape


def unset_alone(run: Run) -> bool:
    """Whether nothing is wrong but what begins with no value."""
    numbers = np.abs(run.result.c.astype(np.float64)) < PATTERN
    return not run.mistaken and not (run.wrong & numbers).any()


def refused_at_own(bench: Bench, run: Run) -> Mistake | None:
    """The mistake of a launch that a GPU refuses at the program's own sizes alone, or that has too
    short a matrix there, if it is known which size is which."""
    program = bench.launch.program
    finding = program.refused_at_own if program else None
    if finding and bench.signature.unsure and finding["mistake"] == "out of bounds":
        return None
    at_own = replace(run, shape=bench.own_shape or run.shape)
    return Teller(at_own, bench.program).tell_refused(finding, 0) if finding else None


def fixed_grid(bench: Bench, run: Run) -> Mistake | None:
    """The mistake of a grid of numbers that is too small for the program's own sizes, which a trial
    has made smaller."""
    program = bench.launch.program
    if not program or program.follows or bench.launch.blocks or bench.launch.fixed:
        return None
    shape, had = program.written_shape, program.own.grid
    if not (shape and had and any(map(operator.lt, had, wanted := bench.launch.covering(shape)))):
        return None
    line, where = program.place(program.own.lines[1])
    grids = ("×".join(map(str, one)) for one in (had, wanted))
    what = "the program launches {} blocks, where its own size wants {}".format(*grids) + where
    return Mistake("grid too small", line, what, CURES["grid too small"], run)


def turned_grid(bench: Bench, run: Run) -> Mistake | None:
    """The mistake of a grid that follows the columns of C along the axis of its rows, where the
    kernel is not told how many rows there are, so that no other shape shows it."""
    program, own, order = bench.launch.program, bench.own_shape, bench.launch.order
    along_rows = bench.signature.open_rows and program and program.stays == order[0]
    if not (along_rows and program and own) or bench.covers(own):
        return None
    line, where = program.place(program.own.lines[1])
    what = f"{order[1]} of the grid grows with the columns of C, and {order[0]} does not{where}"
    return Mistake("grid exchanged", line, what, CURES["grid exchanged"], replace(run, shape=own))


def mended_by(mend: Mend, run: Run, mended: Run) -> Mistake:
    teller = Teller(run, mend.bench.program)
    found = [*map(teller.told, run.mistaken), *([teller.wrong()] if run.wrong.any() else [])]
    (x, y, _), (columns, rows, _) = run.launched.grid, mended.launched.grid
    if x != y and (x, y) == (rows, columns):
        mend = replace(mend, kind="grid exchanged", cure=CURES["grid exchanged"])
    if mend.cure == CURES["grid too small"] and is_exact(mend.bench, run.shape):
        sides = ["all" if one == EVERYTHING else str(one) for one in mend.bench.launch.tile or ()]
        cure = f"a block has {'×'.join(sides)} elements of C: launch as many as cover it"
        mend = replace(mend, cure=cure)
    told = mend.told(run.launched, mended.launched)
    what = f"{told}{mend.where}; {found[0].what}"  # and what that does
    return Mistake(mend.kind, mend.line, what, mend.cure, run)


def launched(was: plans.Launch, should: plans.Launch) -> str:
    had, wants = ("×".join(map(str, one.grid)) for one in (was, should))
    if was.block != should.block:  # they are exchanged
        had, wants = f"{had} blocks of {wants} threads", f"{wants} blocks of {had}"
        return f"the program launches {had}, where {wants} would do"
    return f"the program launches {had} blocks, where {wants} would do"


def said(was: plans.Launch, should: plans.Launch) -> str:
    return launched(was, should).replace("program launches", "setting grid= says")


def asked(was: plans.Launch, _: plans.Launch) -> str:
    return f"the program asks for {was.shared_bytes} bytes of dynamic shared memory, too few"


def mends(bench: Bench) -> Iterator[Mend]:
    """What may be wrong with a launch, the likeliest first."""
    c = bench.signature.name_of("C")
    if bench.adds and not bench.finds_zeros:
        line = Teller.line_of(bench.program, rf"\b{re.escape(c)}\b.*[+]=|atomicAdd")
        told = f"it adds to what {c} holds, and nothing clears {c}"
        yield Mend(
            "uninitialised C", line, replace(bench, zeros=True), lambda *_: told,
            f"clear {c} before each launch: cudaMemset({c}, 0, bytes)",
        )  # fmt: skip
    if bench.launch.grid:
        free = replace(bench, launch=replace(bench.launch, grid=()))
        yield Mend("grid too small", 0, free, said, "say more blocks, or leave grid= out")
    if bench.launch.program is None:
        return
    yield from by_names(bench, bench.launch.program)
    yield relaunched(bench, "grid exchanged", exchanged)
    if not (bench.signature.operation.symmetric or bench.signature.square):
        yield relaunched(bench, "grid exchanged", with_sides_exchanged(bench.launch))
    own = bench.launch.program.own.grid
    if own and bench.launch.program.constant and 0 < math.prod(own) <= MAXIMUM_THREADS:
        yield relaunched(bench, "grid and block exchanged", turned)
    if not striding_blocks(bench.program.source, bench.program.kernel):  # that takes any grid
        yield relaunched(bench, "grid too small", bench_covers(bench))
    if re.search(r"blockIdx\s*\.\s*z", bench.program.kernel.body):
        for slices in SLICES:
            cure = f"the kernel takes blockIdx.z: launch {slices} blocks along z"
            yield relaunched(bench, "grid too small", partial(sliced, slices), cure)
    if "extern" in bench.program.kernel.body:
        yield relaunched(bench, "too little shared memory", roomy)


def sizes_exchanged(
    signature: Signature, program: FileLaunch
) -> tuple[tuple[tuple[str, str], ...], str]:
    """The roles of a launch's sizes by the names that they have of the kernel's own, if that is
    another order, and in words; or nothing."""
    sizes = [(text, one) for one, text, _ in passed(signature, program.own)
             if one.role in ("m", "n", "k")]  # fmt: skip
    named = {one.name.lower(): one.role for _, one in sizes}
    roles = tuple((text, named.get(text.lower(), role)) for text, role in program.roles)
    if roles == program.roles or {text.lower() for text, _ in sizes} != named.keys():
        return (), ""
    given, wanted = ", ".join(text for text, _ in sizes), ", ".join(p.name for _, p in sizes)
    return roles, f"the program passes {given} for {wanted}"


def by_names(bench: Bench, program: FileLaunch) -> Iterator[Mend]:
    """The launch with the sizes in the order of their names."""
    roles, told = sizes_exchanged(bench.signature, program)
    if told:
        line, where = program.place(program.own.lines[0])
        launch = replace(bench.launch, program=replace(program, roles=roles, read={}))
        other, kind = replace(bench, launch=launch), "sizes exchanged"
        yield Mend(kind, line, other, lambda *_: told, CURES[kind], where)


def relaunched(bench: Bench, kind: str, change: Change, cure: str = "") -> Mend:
    """A mend of the file's launch, with the cure of its kind if there is no other."""
    program, of_memory = bench.launch.program, "memory" in kind
    assert program
    line, where = program.place(program.own.lines[3 if of_memory else 1])
    mended = replace(bench, launch=replace(bench.launch, mended=change))
    told = asked if of_memory else launched
    return Mend(kind, line, mended, told, cure or CURES[kind], where)


def exchanged(launch: plans.Launch, _: Shape) -> plans.Launch:
    x, y, z = launch.grid
    return replace(launch, grid=(y, x, z))


def with_sides_exchanged(of: Launch) -> Change:
    """The grid that the file has where m and n are exchanged."""

    def change(launch: plans.Launch, shape: Shape) -> plans.Launch:
        grid = of.grid_of_file(replace(shape, m=shape.n, n=shape.m))
        return replace(launch, grid=grid or launch.grid)

    return change


def turned(launch: plans.Launch, _: Shape) -> plans.Launch:
    return replace(launch, grid=launch.block, block=launch.grid)


def bench_covers(bench: Bench) -> Change:
    return lambda launch, shape: replace(launch, grid=bench.launch.covering(shape))


def sliced(slices: int, launch: plans.Launch, _: Shape) -> plans.Launch:
    return replace(launch, grid=(*launch.grid[:2], slices))


def roomy(launch: plans.Launch, _: Shape) -> plans.Launch:
    return replace(launch, shared_bytes=STATIC_SHARED)
