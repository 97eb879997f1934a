"""A verdict in plain words, and as a page to hand in."""

import base64
import html
import math
import re
from collections.abc import Iterator

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CudaLexer

from matmul_sweep.classroom.experiments import Run
from matmul_sweep.classroom.launching import EVERYTHING, LINEAR, Launch
from matmul_sweep.classroom.mistakes import CURES, OF_LAUNCH, Mistake
from matmul_sweep.classroom.picture import LEGEND, as_png, in_characters
from matmul_sweep.classroom.relaunching import is_exact
from matmul_sweep.classroom.signature import UNUSED
from matmul_sweep.classroom.source import read
from matmul_sweep.classroom.strict import UNLIKE
from matmul_sweep.classroom.syntax import line_of, loops_around
from matmul_sweep.classroom.verdict import CORRECT, NOT_COMPILED, NOT_RUN, SAMPLED, Verdict
from matmul_sweep.process.errors import printable

MOST_PRINTED = 10  # lines of what a kernel prints
MOST_FURTHER = 3  # mistakes beside the worst
MOST_WRONG = 0.9  # of a C that a picture shows
# Cures at a shape at which no thread is beyond an edge of C, in the place of the usual ones.
WITHOUT_EDGES = {
    CURES["uninitialised shared memory"]: "let the threads of a block write every element of the "
    "array, and wait at a __syncthreads(), before any of them reads it",
    CURES["out of bounds"]: "check the index{}: no thread is beyond an edge at this shape",
}
TERMS = {
    "thread": "a thread (x,y) has threadIdx.x = x and threadIdx.y = y",
    "block": "the threads that share __shared__ arrays; block (x,y) has blockIdx.x = x and "
    "blockIdx.y = y",
    "tile": "the part of a matrix that a block has at a time",
    "barrier": "__syncthreads(), where each thread of a block waits for all others",
    "race": "two threads use one element, at least one writes it, and nothing says who is first",
    "guard": "the `if` that keeps threads beyond the edge of C from reading and writing",
    "out of bounds": "beyond the first or the last element of an array",
    "uninitialised": "read before anything was written there",
    "stride": "the number of elements from one row of a matrix to the next",
}
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; }}
pre {{ font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; }} img {{ max-width: 100%; }}
{style}
</style>
<h1>{title}</h1>
{body}
</html>
"""


def lines_of(verdict: Verdict) -> Iterator[str]:
    """The verdict for a terminal."""
    yield f"{verdict.program.source.path}: {headline(verdict)}"
    source = verdict.program.source
    if verdict.status in (NOT_COMPILED, NOT_RUN) and verdict.line:
        yield f"  {verdict.line:4} | {source.line(verdict.line)}"
    for i, mistake in enumerate(verdict.mistakes[: 1 + MOST_FURTHER]):
        yield ""
        yield from lines_of_mistake(mistake, verdict, further=i > 0)
    if verdict.convention[0]:
        words, setting = verdict.convention
        yield f"  Its indexing shows that {words} ({setting})."
    if (more := len(verdict.mistakes) - 1 - MOST_FURTHER) > 0:
        yield f"\n  {more} more of them may follow from these."
    yield from lines_of_rule(verdict)
    if verdict.printed:
        yield "\n  It printed:"
        yield from (f"    {line}" for line in verdict.printed.splitlines()[:MOST_PRINTED])
    if run := picture_of(verdict):
        yield f"\n  C at {run.shape} ({LEGEND}):\n"
        yield from (f"    {row}" for row in in_characters(run))
    if verdict.status == CORRECT:
        shapes = [*verdict.shapes]
        several = f"{len(shapes)} shapes, from {shapes[0]} to {shapes[-1]}"
        tried = several if len(shapes) > 1 else f"{shapes[0]} alone: the file fixes its sizes"
        some = SAMPLED in verdict.shapes.values()
        yield f"  {tried}; every access was watched{'; of large grids some blocks ran' * some}."
    if verdict.remark:
        yield f"  A remark: {verdict.remark}."
    if verdict.bench:
        yield from (f"  {line}" for line in launch_of(verdict))
        own = verdict.bench.launch.program
        multiple = verdict.bench.launch.multiple
        if verdict.seed is None and own and multiple > verdict.program.launch.multiple:
            yield f"  Its program launches it at multiples of {multiple} only."
        if verdict.bench.finds_zeros:
            c = verdict.program.signature.name_of("C")
            given = verdict.bench.is_given_zeros
            who = "its caller has to clear" if given else "the program clears or fills"
            yield f"  It adds to {c}, which {who} before."
    if verdict.option:
        yield f"  nvcc takes it with the option {verdict.option} only."
    yield from (f"  Not judged: {said}." for said in verdict.unjudged)
    yield from lines_of_grading(verdict)


def lines_of_rule(verdict: Verdict) -> Iterator[str]:
    """Where the kernel is right, and what that says about what to mend."""
    if not verdict.rule:
        return
    yield f"\n  In all: {verdict.rule}."
    found = re.search(
        r"where (.*) (?:is a multiple|are multiples) of \d+(, up to \d+)?$", verdict.rule
    )
    if not found or not verdict.mistakes:
        return
    terms, names = verdict.program.signature.terms_name, re.findall(r"[\w.]+", found[1])
    multiple = math.lcm(*map(int, re.findall(r"multiples? of (\d+)", verdict.rule)))
    code = verdict.program.code
    if terms in names and "__shared__" in code:
        if verdict.mistakes[0].kind == "lost terms":
            yield f"  To mend: round the number of tiles of {terms} up: the last one is not full."
        yield "  To mend: put 0 into a tile where it sticks out of its matrix."
    beyond = any(one.kind in ("out of bounds", "race", "crash") for one in verdict.mistakes)
    if beyond and (names != [terms] or verdict.program.signature.square):
        loads = (
            "but load its part of each tile" if "__shared__" in code else "and read nothing there"
        )
        yield f"  To mend: let a thread beyond an edge of C write nothing, {loads}."
    if re.search(r"__shared__|\bwmma\b", code):
        yield f"  If your course allows multiples of {multiple} only, say multiple={multiple}."


def lines_of_grading(verdict: Verdict) -> Iterator[str]:
    """What the hand-in says of itself, whether that counts, and how to repeat a strict verdict."""
    own = [one for one in verdict.settings if one["from"] == "hand-in"]
    file = read(verdict.program.source.path)
    for name, value in verdict.program.source.given:
        if (line := file.line_that_defines(name)) and file.names.get(name) != value:
            was = f"in the place of line {line}: {file.line(line)}"
            yield f"  {name} is {value}, as a setting says, {was}"
    for counts, said in ((True, "count"), (False, "do not count")):
        if told := [f"{one['key']}={one['value']}" for one in own if one["counts"] == counts]:
            yield f"  Settings in the file, which {said}: {' '.join(told)}"
    if verdict.doubt:
        yield f"  Strict grading would refuse it: {verdict.doubt}"
    if verdict.seed is not None:
        yield f"  Graded strictly; --strict --seed {verdict.seed} repeats it."


def picture_of(verdict: Verdict) -> Run | None:
    """The run of the worst mistake, if its C shows something: that some of it is right."""
    run = verdict.mistakes[0].run if verdict.mistakes else None
    return run if run and 0 < run.wrong.mean() <= MOST_WRONG else None


def headline(verdict: Verdict) -> str:
    """The verdict in a line."""
    kernel = verdict.program.kernel.name
    if verdict.status == CORRECT:
        said = "is correct" + " as its program launches it" * bool(verdict.rule)
        if verdict.bench and verdict.bench.guesses_launch:
            said = "is correct if launched as guessed: its program's launch cannot be read"
            said += verdict.program.source.host.perhaps_left_out
        return f"{kernel} {said}{', as far as the CPU reads it' * (UNLIKE in verdict.doubt)}"
    if verdict.status == NOT_COMPILED:
        where = f"line {verdict.line}: " if verdict.line else ""
        return f"does not compile: {where}{verdict.message}"
    if verdict.mistakes:
        mistake = verdict.mistakes[0]
        where = f", line {mistake.line}" if mistake.line else ""
        right = re.match(r"it is right( (?:where|at) .*?)(?: only)?$", verdict.rule)
        but = f" except{right[1]}" if right else ""
        return f"{kernel} is not correct{but}: {mistake.kind}{where}, at {mistake.run.shape}"
    return f"{kernel}: {verdict.message}"


def lines_of_mistake(mistake: Mistake, verdict: Verdict, further: bool) -> Iterator[str]:
    where = f" in line {mistake.line}" if mistake.line else ""
    bench, shape, of_launch = verdict.bench, mistake.run.shape, mistake.kind in OF_LAUNCH
    own = bench and (shape == bench.own_shape or (of_launch and is_exact(bench, shape)))
    smallest = "" if further or own else "; no smaller shape shows it"
    yield f"  {'Also: ' if further else ''}{mistake.kind}{where}, at {mistake.run.shape}{smallest}"
    if mistake.line:
        yield f"  {mistake.line:4} | {verdict.program.source.line(mistake.line)}"
    yield f"       {mistake.what}."
    if cure := cure_of(mistake, verdict):
        yield f"       Cure: {cure}."


def cure_of(mistake: Mistake, verdict: Verdict) -> str:
    """The cure, as it fits the shape: where blocks cover C exactly, no thread is beyond an edge."""
    assert verdict.bench
    launch = verdict.bench.launch
    sides = {*launch.block[:2], *(launch.tile or ())} - {EVERYTHING}
    ragged = any(extent % side for extent in mistake.run.shape.dimensions for side in sides)
    loops = loops_around(verdict.program.kernel.node, mistake.line)
    ends = f", and how far the loop of line {line_of(loops[-1])} goes" if loops else ""
    cure = mistake.cure if ragged else WITHOUT_EDGES.get(mistake.cure, mistake.cure)
    return cure.replace("{}", ends)


def launch_of(verdict: Verdict) -> Iterator[str]:
    """The launch that a verdict assumes, where it is from, and what a shape means."""
    assert verdict.bench
    launch, signature = verdict.bench.launch, verdict.program.signature
    worst = verdict.mistakes[0].run.shape if verdict.mistakes else None
    shape = worst or [*verdict.shapes][-1]
    found = launch.at(shape)
    blocks, threads = ("×".join(map(str, sides)) for sides in (found.grid, found.block))
    shared = f", {found.shared_bytes} bytes of dynamic shared memory" if found.shared_bytes else ""
    known = launch.grid_of_file(shape) is not None
    there = verdict.program.kernel.name in verdict.program.source.host.launchers
    origin = "not as in the file" if there else "no launch in the file"
    if launch.program:
        origin = f"as in line {launch.program.own.lines[0]}{launch.program.of}"
        guess = not known and "blockIdx" in verdict.program.code
        origin += ", with a guessed grid, because its own is not known at this shape" * guess
    guessed = guesses(verdict)
    guessed = f"; guessed, which a setting can correct: {guessed}" if guessed else ""
    yield f"Launch at {shape}: {blocks} blocks of {threads} threads{shared}; {origin}{guessed}."
    if not known and not launch.grid:
        yield tile_of(launch)
    names = shape.__match_args__[:1] if signature.square else shape.__match_args__
    sizes = {signature.name_of(role): getattr(shape, role) for role in names}
    a, more = signature.name_of("A"), verdict.bench.padding
    longer = f", with rows of {a} that are {more} elements longer" if more else ""
    yield f"{shape} is {', '.join(f'{name} = {size}' for name, size in sizes.items())}{longer}."
    if vain := [p.name for p in signature.parameters if p.pointer and p.role.startswith(UNUSED)]:
        yield f"It gets anything for {' and '.join(vain)}, on which C does not depend."


def tile_of(launch: Launch) -> str:
    """How the blocks of a guessed grid share C."""
    assert launch.tile
    block = "×".join(map(str, launch.block[: 3 if launch.block[2] > 1 else 2]))
    if launch.order == LINEAR:
        return f"Blocks of {block} threads, in a line along the elements of C."
    if launch.blocks:
        return f"{launch.blocks} blocks of {block} threads at every shape."
    rows, columns = ("all" if side == EVERYTHING else side for side in launch.tile)
    if launch.tile == (EVERYTHING, EVERYTHING):
        return f"One block of {block} threads, because the kernel reads no blockIdx."
    tile = f"Blocks of {block} threads for {rows}×{columns} elements"
    across, down = (f"blockIdx.{axis}" for axis in launch.order)
    return f"{tile}; {across} runs along the columns of C, {down} along its rows."


def guesses(verdict: Verdict) -> str:
    """The settings for what neither the file nor the user says, as they were tried."""
    launch = verdict.bench.launch if verdict.bench else verdict.program.launch
    block = "x".join(map(str, launch.block)).removesuffix("x1")
    tried = {**launch.constants, "block": block, "shared": launch.shared_bytes}
    return " ".join(f"{name}={tried[name]}" for name in sorted(launch.guessed & tried.keys()))


def page_of(verdict: Verdict) -> str:
    """The verdict as a page of HTML in one file: the words, the picture, and the source."""
    source = verdict.program.source
    marked = [mistake.line for mistake in verdict.mistakes if mistake.line] or [verdict.line]
    formatter = HtmlFormatter(linenos="inline", hl_lines=[line for line in marked if line])
    text = printable("\n".join(lines_of(verdict)))
    parts = [f"<pre>{html.escape(text)}</pre>"]
    if run := picture_of(verdict):
        picture = base64.b64encode(as_png(run)).decode()
        parts.append(f'<img alt="the wrong elements of C" src="data:image/png;base64,{picture}">')
    told = {True: "right", False: "wrong", SAMPLED: "right in the blocks that were tried"}
    shapes = ", ".join(f"{shape} {told[fine]}" for shape, fine in verdict.shapes.items())
    terms = "".join(
        f"<dt>{term}</dt><dd>{html.escape(meaning)}</dd>"
        for term, meaning in TERMS.items() if term in text
    )  # fmt: skip
    parts += [f"<h2>Words</h2><dl>{terms}</dl>",
              f"<h2>Shapes</h2><p>{shapes}</p>", "<h2>Source</h2>",
              highlight(source.text, CudaLexer(stripnl=False), formatter)]  # fmt: skip
    title = html.escape(printable(f"{source.path.name}: {headline(verdict)}"))
    return PAGE.format(title=title, style=formatter.get_style_defs(), body="\n".join(parts))
