"""Run the gallery of mistakes: what each one breaks, the smallest input that shows it, and which
checks see it.

    python scripts/mistakes.py --output results/mistakes
    python scripts/mistakes.py --output reports/mistakes --page docs/mistakes.md

It writes mistakes.json and a picture of each wrong C into the folder, and with --page the page of
the docs. The second command renews what the repository has of them. It needs no GPU.
"""

import environment  # noqa: F401

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matmul_sweep.classroom import results
from matmul_sweep.classroom.gallery import CHECKS, GALLERY, Exhibit, exhibits
from matmul_sweep.classroom.habits import HABITS_OF_MEASURING, Habit, habits_of_checking
from matmul_sweep.classroom.picture import LEGEND, as_png, in_characters
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_bytes, write_json, write_text

PAGE = """# The gallery of mistakes

Kernels that are wrong on purpose, or launched wrongly, by one mistake each from a document's
listing or from a classroom. The sources are in [kernels/mistakes](../kernels/mistakes/). This page
and [its results](../reports/mistakes/) come from

```
uv run python scripts/mistakes.py --output reports/mistakes --page docs/mistakes.md
```

## Which check finds it

`scripts/try.py` finds all of the mistakes and names their kind. *found*: another check names the
mistake. *wrong C*: it shows only that something is wrong. –: it sees nothing. As in classrooms, the
check with ones and twos does not fill C with NaN first.

{table}

{exhibits}

## Mistakes of checking

Each is shown by numbers that were computed when this page was written.

{habits_of_checking}

## Mistakes of measuring

The report of a run on a GPU shows those that it measured.

| mistake | instead |
|---|---|
{habits_of_measuring}
"""
ENTRY = """## {title}

```cuda
{source}
```

{kind} in line {line}, {text}. The smallest shape that shows it is {shape}: {what}.{rule}

{picture}Cure: `{cure}`

"""


def record_of(shown: Sequence[Exhibit], habits: Sequence[Habit]) -> dict[str, Any]:
    """mistakes.json."""
    return {
        "digest": results.digest(),
        "checks": CHECKS,
        "exhibits": [
            vars(one) | {"picture": f"{one.name}.png" if one.picture else None} for one in shown
        ],
        "habits_of_checking": [*map(vars, habits)],
        "habits_of_measuring": HABITS_OF_MEASURING,
    }


def page_of(shown: Sequence[Exhibit], habits: Sequence[Habit]) -> str:
    """docs/mistakes.md."""
    rows = [["mistake", "document", "`scripts/try.py`", *CHECKS.values()]]
    for one in shown:
        rows += [[one.title, ", ".join(one.documents) or "–", one.kind, *one.caught.values()]]
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return PAGE.format(
        table="\n".join([head, f"|{'---|' * len(rows[0])}", *others]),
        exhibits="".join(map(told, shown)).rstrip(),
        habits_of_checking="\n\n".join(f"**{h.title}.** {h.shown} {h.cure}" for h in habits),
        habits_of_measuring="\n".join(
            f"| {title} | {cure} |" for title, cure in HABITS_OF_MEASURING.values()
        ),
    )


def told(exhibit: Exhibit) -> str:
    run, picture = exhibit.picture, ""
    if run:
        rows = "\n".join(in_characters(run))
        picture = f"C at {run.shape} ({LEGEND}):\n\n```text\n{rows}\n```\n\n"
    rule = f" In general, {exhibit.rule}." if exhibit.rule else ""
    changed = {"source": exhibit.source.strip(), "kind": exhibit.kind.capitalize(), "rule": rule}
    text = exhibit.source.splitlines()[exhibit.line - 1].strip()
    changed["text"] = f"`{text}`{exhibit.elsewhere}"
    return ENTRY.format_map(vars(exhibit) | changed | {"picture": picture})


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--page", type=Path, help="docs/mistakes.md, to write it anew")
    parser.add_argument("--gallery", type=Path, default=GALLERY)
    parser.add_argument("--processes", type=int, default=1, help="how many run the kernels")
    options = arguments.parsed(parser)

    shown, habits = exhibits(options.gallery, options.processes), [*habits_of_checking()]
    options.output.mkdir(parents=True, exist_ok=True)
    for one in shown:
        if one.picture:
            write_bytes(as_png(one.picture), options.output / f"{one.name}.png")
    write_json(record_of(shown, habits), options.output / results.RESULTS)
    if options.page:
        write_text(page_of(shown, habits), options.page)


if __name__ == "__main__":
    main()
