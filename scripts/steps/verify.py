"""Verify the variants of an operation at tiny, ragged and prime shapes against NumPy in higher
precision.

On a GPU the compiled kernels run, with C filled with NaN and guard zones behind every matrix.
Without one, the same sources run on the CPU, with each thread of a block as a fiber. A dispatch is
verified in what it chooses.
"""

from pathlib import Path

from matmul_sweep.experiment.dataset.tables import write_rows
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.plan.experiment import read_experiment
from matmul_sweep.experiment.verify.tasks import tasks_of
from matmul_sweep.experiment.verify.verifier import Verifier
from matmul_sweep.process.errors import command_line


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("operation", help="such as gemm")
    arguments.add_verifier(parser)
    parser.add_argument("--processes", type=int, default=1, help="of variants on the CPU")
    parser.add_argument("--output", type=Path, required=True, help="verification.csv")
    options = arguments.parsed(parser)

    experiment = read_experiment(options.experiment)
    tasks = tasks_of(experiment, options.operation)
    verifier = Verifier(experiment, options.build, options.records, options.machine)
    verifier.run(tasks, options.processes)
    write_rows(verifier.table(options.operation, tasks), "verification.csv", options.output)


if __name__ == "__main__":
    main()
