"""Collect the results of the jobs into a data set: summary, ratios, samples, kernels, device.

A data set belongs to one model of GPU; jobs on two are refused. Nothing is timed here, and the same
inputs give the same bytes.
"""

from pathlib import Path

from matmul_sweep.experiment.dataset.tables import write_table
from matmul_sweep.experiment.measure.collect import collect
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.plan.experiment import read_experiment
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_json


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_experiment(parser)
    parser.add_argument("--results", type=Path, required=True, help="folder of the steps' results")
    parser.add_argument("--output", type=Path, required=True, help="folder of the data set")
    options = arguments.parsed(parser)

    device, tables = collect(read_experiment(options.experiment), options.results)
    for name, table in tables.items():
        write_table(table, name, options.output / name)
    # Last, because without it there is no data set.
    write_json(device, options.output / "device.json")


if __name__ == "__main__":
    main()
