"""Write the measured results into README.md and docs/kernels.md.

They come from the published data sets. Everything between the markers in these files is computed
by the template in reports/blocks with the markers' name; nothing there is written by hand.
"""

import environment  # noqa: F401

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import (
    Results,
    in_words,
    leading,
    load_results,
    picture_of,
    processor,
    rate_unit,
)
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.blocks import BLOCKS
from matmul_sweep.experiment.report.facts.cards import tried
from matmul_sweep.experiment.report.facts.ladder import ladder as facts_of
from matmul_sweep.experiment.report.facts.ladder import shares
from matmul_sweep.experiment.report.facts.published import in_order, ladder, speedup
from matmul_sweep.experiment.report.facts.random_shapes import random_shapes
from matmul_sweep.experiment.report.figures.claims import listed
from matmul_sweep.experiment.report.figures.figure_base import source_line
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_text
from matmul_sweep.process.project import ROOT

README, KERNELS = ROOT / "README.md", ROOT / "docs" / "kernels.md"
TIMES = "time_loglog.svg"  # the documents' chart, in a data set's folder


def told_views(results: Results) -> list[Results]:
    """The operations that were measured, without those whose launches overlap."""
    views = [results.of(operation) for operation in OPERATIONS]
    return [view for view in views if len(view.summary) and not view.overlaps]


def pictures(results: Results) -> list[tuple[str, str]]:
    """The files of the documents' chart and of the first operation's steps, as far as the set has
    them, each with what it shows."""
    named = [(TIMES, "Time against n")]
    for view in told_views(results)[:1]:
        named.append((picture_of(view.product), f"{view.product.title} step by step"))
    return [(name, words) for name, words in named if (results.folder / name).exists()]


def claims(results: Results) -> dict[str, Any]:
    """What is told first: the fastest kernel of each operation, beside the first one and the
    library, where kernels are compared at a square; that of each `other` arithmetic; the dispatches
    at shapes drawn at random. `alone`: whether all of it was timed so."""
    leads, others = [], []
    for view in told_views(results):
        told, product = facts_of(view.whole or view, view.product.name), {"product": view.product}
        if (best := told["lead"]) and view.compared and view.compared.square:
            leads.append(best | product | {fact: told[fact] for fact in ("gain", "unit")})
        others += [own | product | {"arithmetic": kind}
                   for kind, own in told["reduced"].items() if own["speedup"]]  # fmt: skip
    drawn = [x for x in random_shapes(results) if not results.of(x["operation"]).overlaps]
    ways = {(x.get("speedup") or x).get("way") for x in (*leads, *others, *drawn)}
    return {"leads": leads, "others": others, "drawn": drawn, "alone": ways == {"alone"}}


def ladders(results: Results) -> Iterator[dict[str, Any]]:
    """Of each operation a row per rung: kernel, lesson, rate, and speed-up over each library that
    fills C."""
    for view in map(results.of, OPERATIONS):
        rungs = ladder(view)
        if rungs.empty:
            continue
        speedups = [
            {pair["library"]["name"]: speedup(pair) for pair in shares(view, row, 1)}
            for _, row in rungs.iterrows()
        ]
        libraries = [name for name in view.order if any(name in own for own in speedups)]
        unit, per_tflops = rate_unit(rungs.tflops)
        rows = [
            {
                "title": view.title(row.kernel),
                "file": entry and (entry.source or entry.dispatch),
                "lesson": entry.lesson if entry else "",
                "rate": row.tflops * per_tflops,
                "n": row.n,
                "speedups": [own.get(library, "") for library in libraries],
            }
            for row, own in zip(rungs.itertuples(), speedups, strict=True)
            for entry in [view.catalogue.get(row.kernel)]
        ]
        yield {"product": view.product, "n": rungs.n.max(), "unit": unit, "rows": rows} | {
            "libraries": [view.title(library) for library in libraries],
            "way": "alone" if leading(rungs) == "alone" else "in turn",
            "overlaps": view.overlaps,
        }


def work(results: Results) -> list[str]:
    """The operations that a product counts, of each kind that was measured."""
    measured = [known for name, known in OPERATIONS.items() if len(results.of(name).summary)]
    return list(dict.fromkeys(f"{known.work} for {known.title}" for known in measured))


BLOCKS.globals |= {
    own.__name__: own
    for own in (
        claims, in_words, ladders, picture_of, pictures, processor, source_line, work,
    )
}  # fmt: skip
BLOCKS.filters |= {
    "cell": lambda text: text.replace("|", "\\|"), "listed": listed, "significant": significant
}  # fmt: skip


def block(name: str, page: Path, data_sets: Sequence[Results]) -> str:
    """The text between the markers of that name on a page."""
    ordered = in_order(data_sets)
    return BLOCKS.get_template(f"{name}.md").render(
        quoted=ordered[:1],
        tried=tried(ordered),
        at=lambda path: os.path.relpath(path, page.parent),
    )


def pages(data_sets: Sequence[Results]) -> dict[Path, str]:
    """The new text of the pages."""
    written = {}
    for name, page in {"published": README, "ladder": KERNELS}.items():
        before, start, marked = page.read_text().partition(f"<!-- {name} -->\n")
        _, end, after = marked.partition(f"<!-- end of {name} -->")
        written[page] = before + start + block(name, page, data_sets) + end + after
    return written


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("data", nargs="*", type=Path, help="folders of published data sets")
    arguments.add_catalogue(parser)
    options = parser.parse_args()

    catalogue = load_catalogue(options.catalogue)
    data_sets = [load_results(folder, catalogue) for folder in options.data]
    for page, text in pages(data_sets).items():
        write_text(text, page)
        print(f"wrote the results into {page}")


if __name__ == "__main__":
    main()
