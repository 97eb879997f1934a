"""Hold a data set, published or in results/, against its own samples.

Medians, intervals, rates and ratios are computed anew from the samples; names, states, jobs,
verifications, digests and the points of the configuration are held against one another, and rates
against the card. The first thing that cannot be as it stands is one line that names the file, the
line, the value and the remedy, with exit code 1.
"""

import environment  # noqa: F401

from pathlib import Path

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.check.check_set import check_set
from matmul_sweep.experiment.dataset.selection import processor
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import command_line


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the data set")
    parser.add_argument(
        "--earlier", action="store_true", help="accept a set that other kernels or another version "
        "of the project measured"
    )  # fmt: skip
    arguments.add_catalogue(parser)
    options = parser.parse_args()

    data = check_set(options.folder, load_catalogue(options.catalogue), options.earlier)
    samples, points = len(data["samples.csv.gz"]), len(data["summary.csv"])
    card = processor(data.device)
    print(f"{options.folder}: {points} rows on {card} follow from {samples} samples")


if __name__ == "__main__":
    main()
