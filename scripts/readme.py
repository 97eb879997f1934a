"""Write the measured results into README.md, docs/kernels.md and the list of the published sets.

They come from the published data sets. Everything between the markers in these files is computed;
nothing there is written by hand.
"""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from matmul.catalogue.entries import load_catalogue
from matmul.dataset.provenance import ROOT
from matmul.dataset.tables import POINT, PUBLISHED, write_text
from matmul.operations import OPERATIONS
from matmul.operations.gemm import GEMM
from matmul.process.errors import UserError, command_line
from matmul.report.facts.published import (
    DataSet,
    entries,
    full_libraries,
    ladder,
    quoted,
    rate_of,
    share,
    shares,
)
from matmul.report.facts.random_shapes import drawn_kernels, drawn_ratios
from matmul.report.figures.figure_base import cache_note, source_line
from matmul.report.selection import (
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
from matmul.report.sourced_numbers import significant
from matmul.settings import arguments

SENTENCES = 5  # at most, so that the README stays one page
IN_TURN = ", in turn, at one clock"  # where a share would differ with a clock for each kernel


def findings_block(data_sets: Sequence[DataSet], readme: Path) -> str:
    """The text between the README's markers: a picture, sentences, and their source."""
    paragraphs: list[str] = []
    for folder, results in quoted(data_sets):
        at = os.path.relpath(folder, readme.parent)
        pictures = [picture(folder, results, operation, at) for operation in OPERATIONS]
        paragraphs += list(filter(None, pictures))[:1]
        sentences = list(itertools.islice(found(results), SENTENCES))
        paragraphs += ["\n".join(f"- {sentence}" for sentence in sentences)] if sentences else []
        paragraphs.append(source(results, at))
    return framed(paragraphs)


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
    words = f"{OPERATIONS[operation].title} step by step on {processor(results.device)}"
    return f"![{words}]({at}/{name})" if (folder / name).exists() else ""


def found(results: Results) -> Iterator[str]:
    """The results of a data set in sentences, those that matter most first: the last step of each
    operation, floats on tensor cores, random shapes, the steps, and the sizes. Operations whose
    launches overlap have none."""
    every = [results.of(operation) for operation in OPERATIONS]
    views = [view for view in every if not view.overlaps]
    ladders = [(view, quotable(ladder(view))) for view in views]
    best = [(view, fastest_own(view, rungs)) for view, rungs in ladders]
    yield from (headline(*own) for own in best if len(own[1]))
    yield from filter(None, [from_halves(results), at_random(results)])
    yield from filter(None, itertools.starmap(steps, ladders))
    for view, own in best:
        if len(own):
            yield from by_size(view, own.kernel.iloc[0])


def headline(view: Results, best: pd.DataFrame) -> str:
    """The fastest kernel (one row) at the size of the ladder, and its share of each library."""
    row, own = best.iloc[0], shares(view, best)
    return (
        f"For {in_words(view.product)}, the fastest hand-written kernel, "
        f"*{view.title(row.kernel)}*, reaches {rate_of(row.tflops, *rate_unit(best.tflops))} at "
        f"n = {row.n}" + (f", which is {' and '.join(own)}{in_turn(best)}." if own else ".")
    )


def in_turn(rows: pd.DataFrame) -> str:
    """How shares were timed, where the card was at its power limit: a kernel that draws more power
    slows down its rival as much as itself, and in a program only itself."""
    return IN_TURN * bool(power_capped(rows.throttled).any())


def from_halves(results: Results) -> str:
    """The share of the fastest kernel that makes float32 products from halves on tensor cores, and
    its error beside that of each library; empty if there is none, or no library beside it."""
    view = results.of(GEMM.name, reduced=True)
    rows = quotable(view.at_compared(fastest(view.timed())))
    own = rows[rows.kernel.map(view.arithmetic) == "halves"]
    if own.empty:
        return ""
    best = own.loc[[own.tflops.idxmax()]]
    (row,) = best.itertuples()
    held = shares(view, best)
    if not held:
        return ""
    errors = [
        f"{significant(other.mean_error)} for *{view.title(other.kernel)}*"
        for other in rows.itertuples()
        if other.kernel in view.full_rivals
    ]
    beside = f" ({', '.join(errors)})" * bool(errors)
    return (
        f"For {in_words(view.product)} from halves, on tensor cores, "
        f"*{view.title(row.kernel)}* has {' and '.join(held)} at n = {row.n}{in_turn(best)}, "
        f"with a mean error of {significant(row.mean_error)}{beside}."
    )


def by_size(view: Results, kernel: str) -> Iterator[str]:
    """At which square sizes with an interval a kernel beats its libraries, in a sentence."""
    rows = quotable(view.square_ratios())
    rows = rows[rows.kernel == kernel]
    rows = rows.loc[rows.groupby(["baseline", "n"]).ratio.idxmax()]  # the best of several tilings
    counts = [
        f"than *{view.title(library)}* at {counted(rows[rows.baseline == library])}"
        for library in full_libraries(view, rows)
    ]
    if counts:
        yield f"*{view.title(kernel)}* is faster {', and '.join(counts)}."


def counted(pairs: pd.DataFrame) -> str:
    """At how many sizes a kernel is faster than one library, and what happens at the others."""
    sizes: dict[str, list[str]] = {"faster": [], "tie": [], "slower": []}
    for row in pairs.itertuples():
        sizes[verdict_of(row.ratio_low, row.ratio_high)].append(str(row.n))
    words = {"tie": "a tie at", "slower": "slower at"}
    others = [f"{text} {', '.join(sizes[word])}" for word, text in words.items() if sizes[word]]
    faster = len(sizes["faster"])
    share_of_all = "all" if faster == len(pairs) else f"{faster} of the"
    count = f"{share_of_all} {len(pairs)} square sizes"
    return count + (f" ({'; '.join(others)})" if others else "")


def steps(view: Results, rungs: pd.DataFrame) -> str:
    """The rates of the CPU and of the steps that the figures tell of; empty for one rung."""
    rungs = rungs[rungs.kernel.isin(view.told) | ~view.gpu(rungs)]
    if len(rungs) < 2:
        return ""
    unit, per_tflops = rate_unit(rungs.tflops)
    places = [
        f"*{view.title(row.kernel)}* {significant(row.tflops * per_tflops)}"
        + ("" if row.n == rungs.n.max() else f" (at {row.n})")
        for row in rungs.itertuples()
    ]
    named = ", ".join(places)
    return f"{in_words(view.product)} step by step, in {unit} at n = {rungs.n.max()}: {named}."


def at_random(results: Results) -> str:
    """At how many shapes drawn at random each dispatch beats the fastest library routine."""
    counts = []
    for kernel in drawn_kernels(results):
        if results.of(results.catalogue[kernel].operation).overlaps:
            continue
        rows = drawn_ratios(results, kernel)
        verdicts = [verdict_of(row.ratio_low, row.ratio_high) for row in rows.itertuples()]
        if verdicts:
            timed = results.summary[results.drawn(results.summary)]
            how = in_turn(timed[timed.kernel == kernel])
            lowest = f"{100 * rows.ratio.min():.0f}%{how}"
            faster = f"{verdicts.count('faster')} of {len(rows)}"
            counts.append(f"*{results.title(kernel)}* at {faster} (lowest share {lowest})")
    return f"Faster than the library at shapes drawn at random: {', '.join(counts)}." * bool(counts)


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
    return "\n".join(f"| {' | '.join(map(plain, cells))} |" for cells in lines)


def linked(view: Results, kernel: str, page: Path) -> str:
    """A kernel's title, linked to its source or dispatch table if it has one."""
    entry = view.catalogue.get(kernel)
    file = (entry.source or entry.dispatch) if entry else None
    if file is None:
        return view.title(kernel)
    return f"[{view.title(kernel)}]({os.path.relpath(file, page.parent)})"


def plain(text: str) -> str:
    """Text that is safe in a cell of a table."""
    return text.replace("|", "\\|")


def with_block(page: str, name: str, text: str) -> str:
    """The page with a new part between its markers. Raises UserError if it has no markers."""
    marked = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)
    if not marked.search(page):
        raise UserError(f"the page has no lines <!-- {name} --> and <!-- end of {name} -->")
    return marked.sub(lambda _: text, page)


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
        try:
            written[page] = with_block(page.read_text(), name, text)
        except UserError as error:
            raise UserError(f"{page}: {error}") from None
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
