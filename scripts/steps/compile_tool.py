"""Compile one of the tools that measure on a GPU: the instruments, or the ceilings."""

from pathlib import Path

from matmul_sweep.build.binaries import TOOLS, compile_instruments
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import command_line


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("--arch", required=True, help="such as sm_90")
    parser.add_argument("--output", type=Path, required=True, help="the cubin")
    options = arguments.parsed(parser)
    compile_instruments(options.arch, options.output, options.tool)


if __name__ == "__main__":
    main()
