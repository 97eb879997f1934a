"""How many elements of A and B the threads of each kernel read from global memory in one product.

The CPU runs the kernel and counts every access, so no GPU is needed.
"""

import logging
import tempfile
from pathlib import Path

from matmul_sweep.experiment.dataset.tables import write_rows
from matmul_sweep.experiment.measure.loads import row_of
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.plan.experiment import read_experiment
from matmul_sweep.process.errors import command_line


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_experiment(parser)
    parser.add_argument("--output", type=Path, required=True, help="loads.csv")
    options = arguments.parsed(parser)

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for variant in read_experiment(options.experiment).counted:
            rows.append(row_of(variant, Path(folder)))
            logging.info("%s", rows[-1])
    write_rows(rows, "loads.csv", options.output)


if __name__ == "__main__":
    main()
