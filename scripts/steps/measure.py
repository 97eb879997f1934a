"""Measure variants over a sweep's shapes, fills and modes, each verified before it is timed."""

from pathlib import Path

from matmul_sweep.experiment.measure.bench import Split
from matmul_sweep.experiment.measure.measuring import Measuring
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.plan.experiment import read_experiment
from matmul_sweep.experiment.verify.verifier import Verifier
from matmul_sweep.process.errors import command_line


@command_line
def main() -> None:
    split = Split()
    parser = arguments.parser(__doc__)
    parser.add_argument("part", help="gpu, for all that runs there, or a kernel of the catalogue")
    parser.add_argument("--sweep", required=True, help="its name in the configuration")
    arguments.add_verifier(parser)
    parser.add_argument("--journal", type=Path, required=True, help="folder of finished points")
    parser.add_argument("--output", type=Path, required=True, help="a folder for each variant")
    options = arguments.parsed(parser)

    experiment = read_experiment(options.experiment)
    job = Measuring(experiment, options.sweep, options.build, options.journal, options.output)
    verifier = Verifier(experiment, options.build, options.records, options.machine)
    job.run(experiment.measured[options.sweep, options.part], verifier, split)


if __name__ == "__main__":
    main()
