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
from pathlib import Path

from matmul_sweep.catalogue.entries import Catalogue
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.check.check_set import check_readable
from matmul_sweep.experiment.dataset.changes import (
    TABLE,
    TOLERANCE,
    VALUES,
    chosen_values,
    common_points,
    compare_variants,
    heading,
    own_times,
    reference_folder,
    summary_line,
    variant_lines,
)
from matmul_sweep.experiment.dataset.selection import Results, load_results, thermally_throttled
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.figures.figure_base import source_line
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import write_text


def read(folder: Path, catalogue: Catalogue) -> Results:
    """A data set, which may be a stranger's. Raises UserError."""
    check_readable(folder)
    return load_results(folder, catalogue)


def side_line(results: Results) -> str:
    """Device, date and commit, and a warning if the card throttled."""
    thermal = thermally_throttled(own_times(results).throttled).any()
    return source_line(results) + (" · the card throttled thermally" if thermal else "")


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
    arguments.add_catalogue(parser)
    options = parser.parse_args()
    if not 0 < options.tolerance < 1:
        raise UserError(f"--tolerance {options.tolerance}: a share between 0 and 1, such as 0.02")

    catalogue = load_catalogue(options.catalogue)
    new = read(options.b, catalogue)
    folder = reference_folder(options.a, new.device)
    if folder.resolve() == options.b.resolve():
        raise UserError(f"{options.b}: given as both A and B; name two data sets")
    reference = read(folder, catalogue)
    what = chosen_values(options.what, reference, new)
    points, lacking = common_points(what, [reference, new], options.tolerance)
    variants = compare_variants(points, options.tolerance)

    print(f"A {folder}: {side_line(reference)}\nB {options.b}: {side_line(new)}")
    said = [heading(what, reference, new), summary_line(points, variants), lacking]
    print("\n".join([*filter(None, said), *variant_lines(variants)]))
    if options.csv:
        write_text(points[TABLE].to_csv(None, index=False, lineterminator="\n"), options.csv)
    sys.exit(int((variants.verdict == "slower").any()))


if __name__ == "__main__":
    main()
