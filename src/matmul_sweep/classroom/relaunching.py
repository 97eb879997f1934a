"""Mistakes of a launch: what another one would mend, tried at the shapes that went wrong."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from matmul_sweep.catalogue import plans
from matmul_sweep.catalogue.architectures import STATIC_SHARED
from matmul_sweep.classroom.experiments import ALONE, Bench, Run
from matmul_sweep.classroom.launching import striding_blocks
from matmul_sweep.classroom.mistakes import CURES, Mistake, Teller
from matmul_sweep.operations.shapes import Shape

MOST_RUNS = 6  # that went wrong, all of which have to be mended
SLICES = (2, 3, 4, 8)  # blocks along z

Change = Callable[[plans.Launch, Shape], plans.Launch]


@dataclass(frozen=True)
class Mend:
    """What is launched instead. kind: of the mistake that it mends; line: where that is; told: in
    words, of the launch as it was and as it should be."""

    kind: str
    line: int
    bench: Bench
    told: Callable[[plans.Launch, plans.Launch], str]
    cure: str


def mistake_of_launch(bench: Bench, wrong: Sequence[Run]) -> Mistake | None:
    """The mistake of the launch that explains everything that went wrong, if there is one."""
    few = [run for run in wrong if run.factors == ALONE][:MOST_RUNS]
    for mend in mends(bench) if few else ():
        mended = []
        for run in few:
            mended.append(mend.bench.run(run.shape))
            if not mended[-1].right:
                break
        else:
            first = few[0]
            what = f"{mend.told(first.launched, mended[0].launched)}; {shown(first, bench)}"
            return Mistake(mend.kind, mend.line, what, mend.cure, first)
    return None


def shown(run: Run, bench: Bench) -> str:
    """What the mistake does."""
    teller = Teller(run, bench.program)
    found = [*map(teller.told, run.mistaken), *([teller.wrong()] if run.wrong.any() else [])]
    return found[0].what


def mends(bench: Bench) -> Iterator[Mend]:
    """What may be wrong with a launch, the likeliest first."""
    c = bench.signature.name_of("C")
    if bench.adds and not bench.finds_zeros:
        line = Teller.line_of(bench.program, rf"\b{re.escape(c)}\b.*[+]=|atomicAdd")
        told = f"it adds to what {c} holds, and nothing clears {c}"
        yield Mend(
            "uninitialised C", line, replace(bench, cleared=True), lambda *_: told,
            f"clear {c} before each launch: cudaMemset({c}, 0, bytes)",
        )  # fmt: skip
    program = bench.launch.program
    if program is None:
        return
    _, grid_line, _, shared_line = program.own.lines

    def other(kind: str, change: Change, line: int, cure: str = "") -> Mend:
        mended = replace(bench, launch=replace(bench.launch, mended=change))
        told = asked if kind == "too little shared memory" else launched
        return Mend(kind, line, mended, told, cure or CURES[kind])

    yield other("grid exchanged", exchanged, grid_line)
    up = "round up: (n + T - 1) / T blocks for n elements, T of them in a block"
    if not striding_blocks(bench.program.source, bench.program.kernel):  # which take any grid
        for x, y in ((1, 1), (1, 0), (0, 1)):
            yield other("grid too small", partial(enlarged, x, y), grid_line, up)
        yield other("grid too small", bench_covers(bench), grid_line, up)
    if re.search(r"blockIdx\s*\.\s*z", bench.program.kernel.body):
        for slices in SLICES:
            cure = f"the kernel takes blockIdx.z: launch {slices} blocks along z"
            yield other("grid too small", partial(sliced, slices), grid_line, cure)
    if "extern" in bench.program.kernel.body:
        yield other("too little shared memory", roomy, shared_line)


def exchanged(launch: plans.Launch, _: Shape) -> plans.Launch:
    x, y, z = launch.grid
    return replace(launch, grid=(y, x, z))


def enlarged(more_x: int, more_y: int, launch: plans.Launch, _: Shape) -> plans.Launch:
    x, y, z = launch.grid
    return replace(launch, grid=(x + more_x, y + more_y, z))


def bench_covers(bench: Bench) -> Change:
    return lambda launch, shape: replace(launch, grid=bench.launch.covering(shape))


def sliced(slices: int, launch: plans.Launch, _: Shape) -> plans.Launch:
    return replace(launch, grid=(*launch.grid[:2], slices))


def roomy(launch: plans.Launch, _: Shape) -> plans.Launch:
    return replace(launch, shared_bytes=STATIC_SHARED)


def launched(was: plans.Launch, should: plans.Launch) -> str:
    had, wants = ("×".join(map(str, one.grid)) for one in (was, should))
    return f"the program launches {had} blocks, where {wants} would do"


def asked(was: plans.Launch, _: plans.Launch) -> str:
    return f"the program asks for {was.shared_bytes} bytes of dynamic shared memory, too few"
