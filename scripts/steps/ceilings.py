"""Measure the highest rates of the card: multiply-adds on each kind of unit, and a memory copy."""

from pathlib import Path

from matmul_sweep.build.binaries import tool_source
from matmul_sweep.experiment.dataset.tables import write_rows
from matmul_sweep.experiment.measure.ceilings import measured
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.programs import program_digest


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--output", type=Path, required=True, help="ceilings.csv")
    options = arguments.parsed(parser)

    rows = measured(options.build)
    digest = program_digest(Path(__file__), tool_source("ceilings"))
    write_rows([row | {"sha256": digest} for row in rows], "ceilings.csv", options.output)


if __name__ == "__main__":
    main()
