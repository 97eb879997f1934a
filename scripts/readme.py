"""Write the measured results into README.md, docs/kernels.md and the list of the published sets.

They come from the published data sets. Everything between the markers in these files is computed;
nothing there is written by hand.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import (
    Results,
    fastest,
    fastest_own,
    in_words,
    load_results,
    picture_of,
    power_capped,
    processor,
    quotable,
    rate_unit,
    verdict_of,
)
from matmul_sweep.experiment.dataset.tables import POINT
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.facts.ladder import ladder as facts_of
from matmul_sweep.experiment.report.facts.published import (
    DataSet,
    entries,
    full_libraries,
    ladder,
    quoted,
    share,
)
from matmul_sweep.experiment.report.facts.random_shapes import drawn_kernels, drawn_ratios
from matmul_sweep.experiment.report.figures.figure_base import cache_note, source_line
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.operation import Operation
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import write_text
from matmul_sweep.process.project import PUBLISHED, ROOT

TIMES = "time_loglog.svg"  # the documents' chart, in a data set's folder
IN_TURN = ", in turn, at one clock"  # where a speed-up would differ with a clock for each kernel
COUNTS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def findings_block(data_sets: Sequence[DataSet], readme: Path) -> str:
    """The text between the README's markers: pictures, sentences, and their source."""
    paragraphs: list[str] = []
    for folder, results in quoted(data_sets):
        at = os.path.relpath(folder, readme.parent)
        sentences = [f"- {sentence}" for sentence in found(results)]
        paragraphs += [pictures(folder, results, at), "\n".join(sentences), words_of(results, at)]
    return framed(list(filter(None, paragraphs)))


def ladder_block(data_sets: Sequence[DataSet], page: Path) -> str:
    """The text between the markers of docs/kernels.md: every kernel of each operation."""
    paragraphs: list[str] = []
    for folder, results in quoted(data_sets):
        at = os.path.relpath(folder, page.parent)
        for operation in OPERATIONS:
            view = results.of(operation)
            rungs = ladder(view)
            if not rungs.empty:
                heading = f"{in_words(view.product)}, n = {rungs.n.max()}"
                drawn = filter(None, [picture(folder, results, operation, at)])
                paragraphs += [f"**{heading}**", *drawn, table(view, rungs, page)]
        paragraphs.append(source(results, at))
    return framed(paragraphs)


def gallery_block(data_sets: Sequence[DataSet], page: Path) -> str:
    """The text between the markers of the list of sets: a row each."""
    head = ["card", "measured", "kernels", "the fastest kernels", "beside the current set", "files"]
    lines = [head, ["---"] * len(head)]
    for entry in entries(data_sets):
        paths = {
            words: os.path.relpath(file, page.parent) + "/" * file.is_dir()
            for words, file in entry.files.items()
        }
        links = ", ".join(f"[{words}]({path})" for words, path in paths.items())
        about = [entry.card, entry.date, entry.kernels, "<br>".join(entry.fastest), entry.beside]
        lines.append([*about, links])
    return framed([markdown(lines)] if data_sets else [])


def framed(paragraphs: Sequence[str]) -> str:
    """The paragraphs, each surrounded by empty lines."""
    return "".join(f"\n{text}\n" for text in paragraphs) + "\n"


def picture(folder: Path, results: Results, operation: str, at: str) -> str:
    """The picture of the steps of an operation in a data set; empty if it has none."""
    name = picture_of(OPERATIONS[operation])
    return f"![{steps_on(results, operation)}]({at}/{name})" if (folder / name).exists() else ""


def steps_on(results: Results, operation: str) -> str:
    """What the picture of the steps shows."""
    return f"{OPERATIONS[operation].title} step by step on {processor(results.device)}"


def pictures(folder: Path, results: Results, at: str) -> str:
    """The documents' chart and the first operation's steps side by side, as far as the set has
    them."""
    named = {TIMES: f"Time against n on {processor(results.device)}"} | {
        picture_of(view.product): steps_on(results, view.product.name)
        for view in told_views(results)[:1]
    }
    return "\n".join(
        f'<img src="{at}/{name}" alt="{words}" width="49%">'
        for name, words in named.items()
        if (folder / name).exists()
    )


def told_views(results: Results) -> list[Results]:
    """The operations that were measured, without those whose launches overlap."""
    views = [results.of(operation) for operation in OPERATIONS]
    return [view for view in views if len(view.summary) and not view.overlaps]


def found(results: Results) -> Iterator[str]:
    """What a data set shows, a sentence for each claim: of each operation how far its steps lead,
    and how often the last one beats the library; then the products from halves."""
    for view in told_views(results):
        best = fastest_own(view, quotable(ladder(view)))
        if len(best):
            yield climbed(results, view, best)
        yield from at_random(results, view.product)
    yield from from_halves(results)


def climbed(results: Results, view: Results, best: pd.DataFrame) -> str:
    """How far the steps of an operation lead, and what the last one (one row) is beside the
    library."""
    (row,) = best.itertuples()
    rise = f"{in_words(view.product)}: {risen(results, view.product.name, row.kernel)}"
    here = f"At n = {row.n} *{view.title(row.kernel)}*"
    pair = fastest_rival(view, best)
    if pair is None:
        return f"{rise}. {here} is the fastest."
    past = ", past cuBLAS" * (verdict_of(pair.ratio_low, pair.ratio_high) == "faster")
    return f"{rise}{past}. {here} {speed_up(pair)} cuBLAS{in_turn(best)}."


def risen(results: Results, operation: str, kernel: str) -> str:
    """`from 5.7 to 55.3 TFLOP/s in six steps`, up the staircase to a kernel."""
    told = facts_of(results, operation)
    rates = {step["name"]: step["rate"]["value"] for step in told["steps"] if step["rate"]}
    stairs = told["stairs"] if kernel in told["stairs"] else [kernel]
    first, last = (
        significant(rates[name], 3 if rates[name] >= 10 else 2) for name in (stairs[0], kernel)
    )
    steps = stairs.index(kernel)
    if not steps:
        return f"{last} {told['unit']}"
    words = COUNTS[steps - 1] if steps <= len(COUNTS) else str(steps)
    return f"from {first} to {last} {told['unit']} in {words} step{'s' * (steps > 1)}"


def fastest_rival(view: Results, best: pd.DataFrame) -> Any:
    """The pairs of a kernel (one row) with the library's fastest routine there that fills C; None
    if there are none."""
    held = best[["kernel", "variant", *POINT, "cache"]].merge(view.ratios)
    held = quotable(held[held.baseline.isin(full_libraries(view, held))])
    return None if held.empty else held.loc[held.ratio.idxmin()]


def speed_up(pair: Any) -> str:
    """What a kernel is beside a library, before the library's name."""
    verdict = verdict_of(pair.ratio_low, pair.ratio_high)
    if verdict == "tie":
        return "is as fast as"
    if verdict == "slower":
        return f"has {100 * pair.ratio:.0f}% of the speed of"
    return f"is {significant(pair.ratio)} times as fast as"


def in_turn(rows: pd.DataFrame) -> str:
    """How kernels were compared, where the card was at its power limit: a kernel that draws more
    power slows down its rival as much as itself, and in a program only itself."""
    return IN_TURN * bool(power_capped(rows.throttled).any())


def at_random(results: Results, operation: Operation) -> Iterator[str]:
    """At how many shapes drawn at random a dispatch beats the fastest library routine."""
    for kernel in drawn_kernels(results):
        rows = drawn_ratios(results, kernel)
        if results.catalogue[kernel].product is operation and len(rows):
            timed = results.summary[results.drawn(results.summary)]
            yield (
                f"On {len(rows)} random shapes *{results.title(kernel)}* beats cuBLAS on "
                f"{(rows.ratio_low > 1).sum()}; at its worst it has {100 * rows.ratio.min():.0f}% "
                f"of cuBLAS's speed{in_turn(timed[timed.kernel == kernel])}."
            )


def from_halves(results: Results) -> Iterator[str]:
    """The fastest kernel that makes float32 products from halves, beside the library in speed and
    error; nothing if there is none, or no library beside it."""
    view = results.of(GEMM.name, reduced=True)
    rows = quotable(view.at_compared(fastest(view.timed())))
    own = rows[rows.kernel.map(view.arithmetic) == "halves"]
    best = own.nlargest(1, "tflops")
    pair = fastest_rival(view, best) if len(best) else None
    if pair is None:
        return
    (row,) = best.itertuples()
    theirs = rows.mean_error[rows.kernel == pair.baseline].dropna()
    errors = map(significant, (row.mean_error, *theirs))
    yield (
        f"*{view.title(row.kernel)}* makes float32 products on tensor cores, units that multiply "
        f"small matrices of 16-bit numbers. At n = {row.n} it {speed_up(pair)} cuBLAS in float32"
        f"{in_turn(best)}, with a mean error of {' against '.join(errors)}."
    )


def words_of(results: Results, at: str) -> str:
    """Where the README's numbers come from, and what its words mean."""
    return (
        f"*{source_line(results)}. 1 TFLOP/s is 10¹² additions and multiplications a second. "
        "cuBLAS is here the fastest of its routines for the product. In turn, at one clock: on a "
        "card at its power limit launches of both take turns, so that both have one clock; alone "
        "each has the clock that its own power allows. The [report]"
        f"({at}/report.pdf) has every figure with its interval, and [this folder]({at}/) the data.*"
    )


def source(results: Results, at: str) -> str:
    """The source of a data set's numbers, and what they mean."""
    cards = f" · {len(results.cards)} cards" if len(results.cards) > 1 else ""
    host = f" · CPU kernels on {results.device.get('cpu') or 'an unknown CPU'}"
    measured = [known for name, known in OPERATIONS.items() if len(results.of(name).summary)]
    counts = dict.fromkeys(f"{known.work} for {known.title}" for known in measured)
    work = ", ".join(counts)
    made = f"{source_line(results)}{cards}{cache_note(results)}{host}. Operations: {work}."
    return (
        f"*{made} A share is the time of the library divided by that of the kernel: the median of "
        "pairs timed in turn, with its 95% interval. Sizes with too few pairs for an interval are "
        f"left out. The data set and its report: [{at}]({at}/).*"
    )


def table(view: Results, rungs: pd.DataFrame, page: Path) -> str:
    """One row per rung: kernel, lesson, rate, and share of each library that fills C."""
    held = rungs.merge(view.ratios, on=["kernel", "variant", *POINT, "cache"])
    libraries = full_libraries(view, held)
    unit, per_tflops = rate_unit(rungs.tflops)
    shares = [f"share of {view.title(library)}" for library in libraries]
    lines = [["kernel", "its lesson", unit, *shares], ["---"] * 2 + ["---:"] * (1 + len(shares))]
    for row in rungs.itertuples():
        where = "" if row.n == rungs.n.max() else f" at {row.n}"
        own = held[held.kernel == row.kernel]
        lines.append(
            [
                linked(view, row.kernel, page),
                view.catalogue[row.kernel].lesson if row.kernel in view.catalogue else "",
                significant(row.tflops * per_tflops) + where,
                *(share(own[own.baseline == library]) for library in libraries),
            ]
        )
    return markdown(lines)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table from its cells; the second line says how columns are aligned."""
    safe = ([cell.replace("|", "\\|") for cell in cells] for cells in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in safe)


def linked(view: Results, kernel: str, page: Path) -> str:
    """A kernel's title, linked to its source or dispatch table if it has one."""
    entry = view.catalogue.get(kernel)
    file = (entry.source or entry.dispatch) if entry else None
    if file is None:
        return view.title(kernel)
    return f"[{view.title(kernel)}]({os.path.relpath(file, page.parent)})"


def pages(
    data_sets: Sequence[DataSet], readme: Path, kernels: Path, gallery: Path
) -> dict[Path, str]:
    """The new text of the pages. Raises UserError naming a page that lacks its markers."""
    blocks = {
        readme: ("published", findings_block(data_sets, readme)),
        kernels: ("ladder", ladder_block(data_sets, kernels)),
        gallery: ("sets", gallery_block(data_sets, gallery)),
    }
    written = {}
    for page, (name, text) in blocks.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, marked = page.read_text().partition(start)
        _, ended, after = marked.partition(end)
        if not (found and ended):
            raise UserError(f"{page}: it has no lines {start.strip()} and {end}")
        written[page] = before + start + text + end + after
    return written


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("data", nargs="*", type=Path, help="folders of published data sets")
    arguments.add_catalogue(parser)
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--kernels", type=Path, default=ROOT / "docs" / "kernels.md")
    parser.add_argument("--gallery", type=Path, default=PUBLISHED / "README.md")
    options = parser.parse_args()

    catalogue = load_catalogue(options.catalogue)
    data_sets = [(folder, load_results(folder, catalogue)) for folder in options.data]
    for page, text in pages(data_sets, options.readme, options.kernels, options.gallery).items():
        write_text(text, page)
        print(f"wrote the results into {page}")


if __name__ == "__main__":
    main()
