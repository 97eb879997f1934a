"""Hardware counters of the steps of the ladders and of the dispatches at a large size, by ncu.

Where there is no GPU or no ncu, or the counters are not permitted, each row says why. Clocks are
left as they are. ncu starts this program a second time, which then launches the products.
"""

import argparse
import sys
from pathlib import Path

from matmul_sweep.experiment.dataset.tables import write_rows
from matmul_sweep.experiment.measure import counters
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.plan.experiment import read_experiment
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_json


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_experiment(parser)
    parser.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--output", type=Path, required=True, help="counters.csv")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments.add_log(parser)
    options = parser.parse_args()
    variants = read_experiment(options.experiment).shown
    if options.inside:
        write_json(counters.launched(variants, options.build), options.inside)
        return
    # Not earlier: what runs inside has the same options, and would empty the log.
    arguments.start_log(options.log)
    rows = counters.rows(variants, [sys.executable, *sys.argv, "--inside"])
    write_rows(rows, "counters.csv", options.output)


if __name__ == "__main__":
    main()
