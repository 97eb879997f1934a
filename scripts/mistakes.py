"""Run the gallery of mistakes: what each one breaks, the smallest input that shows it, and which
checks see it.

    python scripts/mistakes.py --output results/mistakes
    python scripts/mistakes.py --output reports/mistakes --page docs/mistakes.md

It writes mistakes.json and a picture of each wrong C into the folder, and with --page the page of
the docs. The second command renews what the repository has of them. It needs no GPU.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matmul_sweep.classroom import results
from matmul_sweep.classroom.gallery import CHECKS, GALLERY, Exhibit, exhibits
from matmul_sweep.classroom.habits import HABITS_OF_MEASURING, Habit, habits_of_checking
from matmul_sweep.classroom.picture import LEGEND, as_png, in_characters
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_json, write_text

PAGE = """# The gallery of mistakes

Kernels that are wrong on purpose. Each has one mistake, from a document's listing or from a
classroom. The sources are in [kernels/mistakes](../kernels/mistakes/). This page and
[its results](../reports/mistakes/) come from

```
uv run python scripts/mistakes.py --output reports/mistakes --page docs/mistakes.md
```

## Who would have seen it

*found*: the check names the mistake. *wrong C*: it shows only that something is wrong. –: it sees
nothing. The sanitizers run at the smallest shape that shows the mistake. `scripts/try.py` finds all
of the mistakes. The check with ones and twos does not fill C with NaN first, as in classrooms.

{table}

{exhibits}

## Mistakes of checking

Each is shown by numbers that were computed when this page was written.

{habits_of_checking}

## Mistakes of measuring

The report of a run on a GPU has a chapter that shows each by what it measured there.

| mistake | instead |
|---|---|
{habits_of_measuring}
"""
ENTRY = """## {title}

```cuda
{source}
```

{kind} in line {line}. The smallest shape that shows it is {shape}: {what}.{rule}

{picture}Cure: `{cure}`

"""


def record_of(shown: Sequence[Exhibit], wrong_habits: Sequence[Habit]) -> dict[str, Any]:
    """mistakes.json."""
    return {
        "digest": results.digest(),
        "checks": CHECKS,
        "exhibits": [as_record(one) for one in shown],
        "habits_of_checking": [asdict(one) for one in wrong_habits],
        "habits_of_measuring": HABITS_OF_MEASURING,
    }


def as_record(exhibit: Exhibit) -> dict[str, Any]:
    """An exhibit for JSON."""
    mistake = exhibit.mistake
    return {
        "name": exhibit.name,
        "title": exhibit.entry["title"],
        "documents": exhibit.entry["documents"],
        "kind": mistake.kind,
        "line": mistake.line,
        "shape": str(mistake.run.shape),
        "what": mistake.what,
        "rule": exhibit.rule,
        "cure": exhibit.entry["cure"],
        "caught": dict(exhibit.caught),
        "source": exhibit.source,
        "picture": f"{exhibit.name}.png" if exhibit.picture else None,
    }


def page_of(shown: Sequence[Exhibit], wrong_habits: Sequence[Habit]) -> str:
    """docs/mistakes.md."""
    head = f"| mistake | document | kind | {' | '.join(CHECKS.values())} |\n"
    head += f"|{'---|' * (3 + len(CHECKS))}\n"
    rows = [
        f"| {one.entry['title']} | {', '.join(one.entry['documents']) or '–'} | "
        f"{one.mistake.kind} | "
        f"{' | '.join(one.caught.values())} |"
        for one in shown
    ]
    told = "".join(f"**{one.title}.** {one.shown} {one.cure}\n\n" for one in wrong_habits).rstrip()
    return PAGE.format(
        table=head + "\n".join(rows),
        exhibits="".join(map(told_exhibit, shown)).rstrip(),
        habits_of_checking=told,
        habits_of_measuring="\n".join(
            f"| {title} | {cure} |" for title, cure in HABITS_OF_MEASURING.values()
        ),
    )


def told_exhibit(exhibit: Exhibit) -> str:
    mistake, picture = exhibit.mistake, ""
    if exhibit.picture:
        rows = "\n".join(in_characters(exhibit.picture))
        picture = f"C at {exhibit.picture.shape} ({LEGEND}):\n\n```text\n{rows}\n```\n\n"
    return ENTRY.format(
        title=exhibit.entry["title"], source=exhibit.source.strip(), kind=mistake.kind.capitalize(),
        line=mistake.line, shape=mistake.run.shape, what=mistake.what, picture=picture,
        rule=f" In general, {exhibit.rule}." if exhibit.rule else "", cure=exhibit.entry["cure"],
    )  # fmt: skip


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--page", type=Path, help="docs/mistakes.md, to write it anew")
    parser.add_argument("--gallery", type=Path, default=GALLERY)
    parser.add_argument(
        "--processes", type=int, default=1, help="number of processes that run them"
    )
    options = arguments.parsed(parser)

    shown, wrong_habits = exhibits(options.gallery, options.processes), [*habits_of_checking()]
    options.output.mkdir(parents=True, exist_ok=True)
    for one in shown:
        if one.picture:
            (options.output / f"{one.name}.png").write_bytes(as_png(one.picture))
    write_json(record_of(shown, wrong_habits), options.output / results.RESULTS)
    if options.page:
        write_text(page_of(shown, wrong_habits), options.page)


if __name__ == "__main__":
    main()
