"""Compile the variants of a kernel, or a tool that measures on a GPU, and record what the compiler
reports.

A source that does not compile is a result too: its status is failed with the compiler's first
error, and its binary is empty, so the other kernels continue.
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from matmul.build.binaries import TOOLS, compile_instruments, compile_into
from matmul.catalogue.entries import Variant
from matmul.process.errors import command_line
from matmul.settings import arguments
from matmul.settings.experiment import read_experiment


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("kernel", help=f"a kernel of the catalogue, or {' or '.join(TOOLS)}")
    parser.add_argument("--experiment", type=Path, help="what the workflow wrote of this run, JSON")
    parser.add_argument("--arch", required=True, help="such as sm_90, or host for C")
    parser.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--processes", type=int, default=1, help="compilers at a time")
    options = arguments.parsed(parser)

    if options.kernel in TOOLS:
        binary = options.build / options.arch / f"{options.kernel}.cubin"
        compile_instruments(options.arch, binary, options.kernel)
        return
    experiment = read_experiment(options.experiment)

    def compiled(variant: Variant) -> None:
        record = compile_into(variant, options.arch, options.build)
        logging.info("%s: %s %s", variant.name, record["status"], record["reason"])

    with ThreadPoolExecutor(options.processes) as pool:
        list(pool.map(compiled, experiment.binaries[options.arch, options.kernel]))


if __name__ == "__main__":
    main()
