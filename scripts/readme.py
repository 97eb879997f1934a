"""Write the README's part on what was measured: ladders and pictures of published data sets.

Everything between its markers is computed from the data sets; nothing there is written by hand.
"""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from matmul.catalogue.entries import load_catalogue
from matmul.dataset.provenance import ROOT
from matmul.dataset.tables import POINT, write_text
from matmul.operations import OPERATIONS
from matmul.process.errors import UserError, command_line
from matmul.report.figures.figure_base import cache_note, source_line
from matmul.report.selection import (
    Results,
    common_sizes,
    fastest,
    load_results,
    picture_of,
    processor,
    rate_unit,
    squares,
    verdict_of,
)
from matmul.report.sourced_numbers import significant
from matmul.settings import arguments

BLOCK = re.compile(r"(?<=<!-- published -->\n).*?(?=<!-- end of published -->)", re.DOTALL)


def block(data_sets: Sequence[tuple[Path, Results]], readme: Path) -> str:
    """What belongs between the markers of `readme`."""
    sections = (section(folder, results, readme) for folder, results in data_sets)
    paragraphs = itertools.chain.from_iterable(sections)
    return "".join(f"\n{text}\n" for text in paragraphs) + "\n"


def section(folder: Path, results: Results, readme: Path) -> Iterator[str]:
    """A data set's paragraphs: picture and ladder of each operation, then where they are from."""
    at = os.path.relpath(folder, readme.parent)
    for operation in OPERATIONS:
        view = results.of(operation)
        picture = folder / picture_of(view.product)
        words = f"Rate of {view.product.title} against size on {processor(results.device)}"
        if picture.exists():
            yield f"![{words}]({at}/{picture.name})"
        rungs = ladder(view)
        if not rungs.empty:
            yield f"**{view.product.title}** in {view.product.dtype}, n = {rungs.n.max()}:"
            yield table(view, rungs, readme)
    yield source(results, at)


def source(results: Results, at: str) -> str:
    """Where a data set's numbers come from, and what they mean."""
    cards = f" · {len(results.cards)} cards" if len(results.cards) > 1 else ""
    host = f" · CPU kernels on {results.device.get('cpu') or 'an unknown CPU'}"
    work = ", ".join(f"{known.work} for {known.title}" for known in OPERATIONS.values())
    return (
        f"*{source_line(results)}{cards}{cache_note(results)}{host}. Operations: {work}. "
        "A share is the library's time over the kernel's, the median of pairs timed in turn, with "
        f"its 95% interval. The whole data set and its report: [{at}]({at}/).*"
    )


def ladder(view: Results) -> pd.DataFrame:
    """The fastest variant of each kernel at the largest square size at which every GPU kernel has
    an interval, or else a time; of a kernel of the CPU, which may not get there, at its last."""
    rows = squares(fastest(view.timed()))
    gpu = rows[view.gpu(rows)]
    kernels = list(gpu.kernel.unique())
    sizes = common_sizes(gpu.dropna(subset=["time_low_ms", "time_high_ms"]), kernels)
    sizes = sizes or common_sizes(gpu, kernels)
    if not sizes:
        return rows[:0]
    last = rows[rows.n <= sizes[-1]].groupby("kernel", sort=False).tail(1)
    return last.sort_values("kernel", key=lambda names: names.map(view.position), kind="stable")


def table(view: Results, rungs: pd.DataFrame, readme: Path) -> str:
    """A row for each rung: kernel, its idea, rate, and share of each library that fills C."""
    held = rungs.merge(view.ratios, on=["kernel", "variant", *POINT, "cache"])
    libraries = [name for name in view.order
                 if name in set(held.baseline) and not view.writes_half(name)]  # fmt: skip
    unit, per_tflops = rate_unit(rungs.tflops)
    shares = [f"share of {view.title(library)}" for library in libraries]
    lines = [["kernel", "its idea", unit, *shares], ["---"] * 2 + ["---:"] * (1 + len(shares))]
    for row in rungs.itertuples():
        where = "" if row.n == rungs.n.max() else f" at {row.n}"
        own = held[held.kernel == row.kernel]
        lines.append(
            [
                linked(view, row.kernel, readme),
                view.catalogue[row.kernel].lesson if row.kernel in view.catalogue else "",
                significant(row.tflops * per_tflops) + where,
                *(share(own[own.baseline == library]) for library in libraries),
            ]
        )
    return "\n".join(f"| {' | '.join(map(plain, cells))} |" for cells in lines)


def linked(view: Results, kernel: str, readme: Path) -> str:
    """A kernel's title, with a link to its source where it has one."""
    entry = view.catalogue.get(kernel)
    if entry is None or entry.source is None:
        return view.title(kernel)
    return f"[{entry.title}]({os.path.relpath(entry.source, readme.parent)})"


def share(pairs: pd.DataFrame) -> str:
    """A kernel's share of a library in words; nothing where they were not timed in turn."""
    if pairs.empty:
        return ""
    row = pairs.iloc[0]
    value, low, high = (f"{100 * end:.1f}" for end in (row.ratio, row.ratio_low, row.ratio_high))
    verdict = verdict_of(row.ratio_low, row.ratio_high)
    if verdict == "unknown":
        return f"{value}%, too few pairs for an interval"
    return f"{value}% [{low}, {high}]" + (", a tie" if verdict == "tie" else "")


def plain(text: str) -> str:
    """Text that ends no cell of a table."""
    return text.replace("|", "\\|")


def with_block(readme: str, text: str) -> str:
    """The README with another part between its markers. Raises UserError: it has none."""
    if not BLOCK.search(readme):
        raise UserError("the README has no lines <!-- published --> and <!-- end of published -->")
    return BLOCK.sub(lambda _: text, readme)


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("data", nargs="*", type=Path, help="folders of published data sets")
    arguments.add_catalogue(parser)
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    options = parser.parse_args()

    catalogue = load_catalogue(options.catalogue)
    data_sets = [(folder, load_results(folder, catalogue)) for folder in options.data]
    written = with_block(options.readme.read_text(), block(data_sets, options.readme))
    write_text(written, options.readme)
    print(f"written: what was measured, in {options.readme}")


if __name__ == "__main__":
    main()
