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
from matmul_sweep.experiment.report.blocks import BLOCKS
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_bytes, write_json, write_text


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
    return BLOCKS.get_template("mistakes.md").render(
        shown=shown, habits=habits, of_measuring=HABITS_OF_MEASURING.values(), checks=CHECKS,
        legend=LEGEND, in_characters=in_characters,
    )  # fmt: skip


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
