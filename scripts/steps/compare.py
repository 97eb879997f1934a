"""Compare two data sets: each point and each variant is the same, faster, slower or unclear.

A is the reference, B the new data set. A change is B divided by A: the times if the devices are of
one model, otherwise the times relative to the library, from ratios.csv. A point is `same` if the
95% interval of its change lies within the tolerance and the timer's resolution, and `faster` or
`slower` if it lies wholly outside. For a variant the same holds for the geometric mean of its
changes, at half the tolerance.

The exit code is 1 if a variant is slower as a whole. Single points do not decide, because chance
makes one or two of a hundred slower. An `error:` line says why two data sets cannot be compared.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import (
    Results,
    load_results,
    processor,
    published_name,
    thermally_throttled,
)
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.facts.changes import (
    TABLE,
    TOLERANCE,
    VALUES,
    comparable,
    compare_points,
    compare_variants,
    lacking_line,
    own_times,
    summary_line,
    variant_lines,
)
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.changes import draw_changes
from matmul_sweep.experiment.report.figures.figure_base import source_line
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import write_text


def reference_folder(given: Path, device: dict[str, Any]) -> Path:
    """`given` itself, or the data set of `device` in that folder, or else the first one there."""
    if (given / "device.json").exists():
        return given
    inside = sorted(file.parent for file in given.glob("*/device.json"))
    if not inside:
        raise UserError(f"{given}: neither a data set nor a folder of data sets (no device.json)")
    own = given / published_name(device)
    return own if own in inside else inside[0]


def chosen_values(asked: str, reference: Results, new: Results) -> str:
    """Which of VALUES to compare. Raises UserError for times of different devices."""
    fit = comparable(reference, new)
    if asked == "times" and fit != "times":
        raise UserError(
            f"--what times: A is from {processor(reference.device)}, B from "
            f"{processor(new.device)}; compare times relative to the library with --what ratios"
        )
    return fit if asked == "auto" else asked


def heading(what: str, reference: Results, new: Results) -> str:
    """What is compared, and why."""
    if what == "times":
        return f"compared: times on {processor(new.device)}"
    differ = comparable(reference, new) != "times"
    why = ", because the devices are of different models" if differ else ""
    return f"compared: kernel times relative to the library{why}"


def side_line(results: Results) -> str:
    """Device, date and commit, and a warning if the card throttled."""
    thermal = thermally_throttled(own_times(results).throttled).any()
    return source_line(results) + (" · the card throttled thermally" if thermal else "")


def common_points(
    what: str, folders: Sequence[Path], sides: Sequence[Results], tolerance: float
) -> tuple[pd.DataFrame, str | None]:
    """compare_points of A and B, and a line on the points that B lacks, if any.

    Raises UserError if there is nothing to compare.
    """
    values = [VALUES[what](side) for side in sides]
    for folder, side, table in zip(folders, sides, values, strict=True):
        if table.empty:
            raise UserError(
                f"{folder}: has no kernel {what} of {processor(side.device)}; compare data sets of "
                "one device, or of GPUs, because only they have ratios"
            )
    points = compare_points(values[0], values[1], tolerance)
    if points.empty:
        raise UserError(
            f"{folders[0]} and {folders[1]}: no common point; measure the same kernels and shapes"
        )
    return points, lacking_line(*values)


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument(
        "a", metavar="A", type=Path, help="the reference: a data set, or a folder of data sets, "
        "from which the one of B's device is taken, or else the first"
    )  # fmt: skip
    parser.add_argument("b", metavar="B", type=Path, help="the new data set")
    parser.add_argument("--what", choices=["auto", *VALUES], default="auto", help="what to compare")
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, help="allowed change, a share of the time"
    )
    parser.add_argument("--csv", type=Path, help="write every point here")
    parser.add_argument("--figure", type=Path, help="draw the changes here, as .svg or .png")
    arguments.add_catalogue(parser)
    options = parser.parse_args()
    if not 0 < options.tolerance < 1:
        raise UserError(f"--tolerance {options.tolerance}: a share between 0 and 1, such as 0.02")
    if options.figure and options.figure.suffix[1:] not in style.FORMATS:
        raise UserError(f"--figure {options.figure}: end it with .svg or .png")

    catalogue = load_catalogue(options.catalogue)
    new = load_results(options.b, catalogue)
    folders = [reference_folder(options.a, new.device), options.b]
    if folders[0].resolve() == folders[1].resolve():
        raise UserError(f"{options.b}: given as both A and B; name two data sets")
    reference = load_results(folders[0], catalogue)
    what = chosen_values(options.what, reference, new)
    points, lacking = common_points(what, folders, [reference, new], options.tolerance)
    variants = compare_variants(points, options.tolerance)

    sources = [side_line(side) for side in (reference, new)]
    print(f"A {folders[0]}: {sources[0]}\nB {folders[1]}: {sources[1]}")
    said = [heading(what, reference, new), summary_line(points, variants), lacking]
    print("\n".join([*filter(None, said), *variant_lines(variants)]))
    if options.csv:
        write_text(points[TABLE].to_csv(None, index=False, lineterminator="\n"), options.csv)
    if options.figure:
        figure = draw_changes(points, new, what, options.tolerance, sources)
        style.save(figure, options.figure.parent, options.figure.stem, [options.figure.suffix[1:]])
    sys.exit(int((variants.verdict == "slower").any()))


if __name__ == "__main__":
    main()
