"""Verify the variants of an operation at tiny, ragged and prime shapes against NumPy in higher
precision.

On a GPU the compiled kernels run, with C filled with NaN and guard zones behind every matrix.
Without one, the same sources run on the CPU, with each thread of a block as a fiber. A dispatch is
verified in what it chooses.
"""

from pathlib import Path

from matmul_sweep.catalogue.entries import Kind
from matmul_sweep.experiment.dataset.tables import write_rows
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.plan.experiment import read_experiment
from matmul_sweep.experiment.verify.verifier import Rows, Verifier, tasks_of, unchosen
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
    rows: Rows = []
    for variant in experiment.operations[options.operation]:
        for task in tasks:
            if task.owner == variant:
                rows += task.named(verifier.record(task) or [])
        if variant.kernel.kind is Kind.DISPATCH:
            rows += unchosen(experiment, tasks, variant)
    write_rows(rows, "verification.csv", options.output)


if __name__ == "__main__":
    main()
