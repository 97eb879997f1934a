"""A verdict in plain words, and as a page to hand in."""

import base64
import html
import re
from collections.abc import Iterator

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CudaLexer

from matmul_sweep.classroom.launching import COLUMNS_FIRST, EVERYTHING, LINEAR, Launch
from matmul_sweep.classroom.mistakes import Mistake
from matmul_sweep.classroom.picture import LEGEND, as_png, in_characters
from matmul_sweep.classroom.verdict import CORRECT, NOT_COMPILED, NOT_RUN, Verdict

MOST_PRINTED = 10  # lines of what a kernel prints
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; }}
pre {{ font: 13px/1.4 ui-monospace, monospace; overflow-x: auto; }}
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
    for i, mistake in enumerate(verdict.mistakes):
        yield ""
        yield from lines_of_mistake(mistake, verdict, further=i > 0)
    if verdict.convention[0]:
        words, setting = verdict.convention
        yield f"  Its indexing shows that {words} ({setting})."
    if verdict.rule:
        yield f"\n  In all: {verdict.rule}."
    if found := re.search(r"multiples? of (\d+)$", verdict.rule):
        yield f"  If it is made for those only, say multiple={found[1]}."
    if verdict.printed:
        yield "\n  It printed:"
        yield from (f"    {line}" for line in verdict.printed.splitlines()[:MOST_PRINTED])
    if run := verdict.picture:
        yield f"\n  C at {run.shape} ({LEGEND}):\n"
        yield from (f"    {row}" for row in in_characters(run))
    if verdict.status == CORRECT:
        shapes = [*verdict.shapes]
        tried = f"{len(shapes)} shapes, from {shapes[0]} to {shapes[-1]}"
        yield f"  {tried}; every access was watched."
    if verdict.bench:
        yield from (f"  {line}" for line in launch_of(verdict))
        if guessed := guesses(verdict):
            yield f"  A guess, which a setting can correct: {guessed}."
        if verdict.bench.finds_zeros:
            c = verdict.program.signature.name_of("C")
            yield f"  It adds to {c}, which the program clears before."
    yield from (f"  Not judged: {said}." for said in verdict.unjudged)


def headline(verdict: Verdict) -> str:
    """The verdict in a line."""
    kernel = verdict.program.kernel.name
    if verdict.status == CORRECT:
        return f"{kernel} is correct"
    if verdict.status == NOT_COMPILED:
        where = f"line {verdict.line}: " if verdict.line else ""
        return f"does not compile: {where}{verdict.message}"
    if verdict.mistakes:
        mistake = verdict.mistakes[0]
        where = f", line {mistake.line}" if mistake.line else ""
        return f"{kernel} is not correct: {mistake.kind}{where}, at {mistake.run.shape}"
    return f"{kernel}: {verdict.message}"


def lines_of_mistake(mistake: Mistake, verdict: Verdict, further: bool) -> Iterator[str]:
    where = f" in line {mistake.line}" if mistake.line else ""
    smallest = "" if further else "; no smaller shape shows it"
    yield f"  {'Also: ' if further else ''}{mistake.kind}{where}, at {mistake.run.shape}{smallest}"
    if mistake.line:
        yield f"  {mistake.line:4} | {verdict.program.source.line(mistake.line)}"
    yield f"       {mistake.what}."
    if mistake.cure:
        yield f"       Cure: {mistake.cure}."


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
    origin = "the file has no launch that says it, so settings and guesses do"
    if launch.program:
        origin = f"as in line {launch.program.own.lines[0]}"
        origin += (
            "" if known else ", with a guessed grid, because its own is not known at this shape"
        )
    yield f"Launch at {shape}: {blocks} blocks of {threads} threads{shared}; {origin}."
    if not known:
        yield tile_of(launch)
    names = shape.__match_args__[:1] if signature.square else shape.__match_args__
    sizes = zip(names, shape.dimensions, strict=False)
    yield f"{shape} is {', '.join(f'{signature.name_of(role)} = {size}' for role, size in sizes)}."


def tile_of(launch: Launch) -> str:
    """How the blocks of a guessed grid share C."""
    assert launch.tile
    block = "×".join(map(str, launch.block[: 3 if launch.block[2] > 1 else 2]))
    if launch.order == LINEAR:
        return f"Blocks of {block} threads, in a line along the elements of C."
    if launch.blocks:
        return f"{launch.blocks} blocks of {block} threads at every shape."
    rows, columns = ("all" if side == EVERYTHING else side for side in launch.tile)
    along = "columns" if launch.order == COLUMNS_FIRST else "rows"
    tile = f"Blocks of {block} threads for {rows}×{columns} elements"
    return f"{tile}; blockIdx.x runs along the {along} of C."


def guesses(verdict: Verdict) -> str:
    """The settings for what neither the file nor the user says, as they were tried."""
    launch = verdict.program.launch
    tried = {**launch.constants, "block": "x".join(map(str, launch.block))}
    return " ".join(f"{name}={tried[name]}" for name in sorted(launch.guessed))


def page_of(verdict: Verdict) -> str:
    """The verdict as a page of HTML in one file: the words, the picture, and the source."""
    source = verdict.program.source
    marked = [mistake.line for mistake in verdict.mistakes if mistake.line] or [verdict.line]
    formatter = HtmlFormatter(linenos="inline", hl_lines=[line for line in marked if line])
    parts = [f"<pre>{html.escape(chr(10).join(lines_of(verdict)))}</pre>"]
    if verdict.picture:
        picture = base64.b64encode(as_png(verdict.picture)).decode()
        parts.append(f'<img alt="the wrong elements of C" src="data:image/png;base64,{picture}">')
    shapes = ", ".join(
        f"{shape} {'right' if fine else 'wrong'}" for shape, fine in verdict.shapes.items()
    )
    parts += [f"<h2>Shapes</h2><p>{shapes}</p>", "<h2>Source</h2>",
              highlight(source.text, CudaLexer(stripnl=False), formatter)]  # fmt: skip
    title = html.escape(f"{source.path.name}: {headline(verdict)}")
    return PAGE.format(title=title, style=formatter.get_style_defs(), body="\n".join(parts))
