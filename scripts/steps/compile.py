"""Compile the variants of a kernel, and record what the compiler reports.

A source that does not compile is a result too: its status is failed with the compiler's first
error, and its binary is empty, so the other kernels continue.
"""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from matmul_sweep.build.recipes import Recipe, compile_into
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import read_json


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("kernel", help="a kernel of the catalogue")
    arguments.add_experiment(parser)
    parser.add_argument("--arch", required=True, help="such as sm_90, or host for C")
    parser.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--processes", type=int, default=1, help="compilers at a time")
    options = arguments.parsed(parser)

    recipes = read_json(options.experiment)["recipes"]
    own = [Recipe(**recipe) for recipe in recipes[options.arch][options.kernel]]
    with ThreadPoolExecutor(options.processes) as pool:
        for record in pool.map(lambda recipe: compile_into(recipe, options.build), own):
            logging.info("%s: %s %s", record["variant"], record["status"], record["reason"])


if __name__ == "__main__":
    main()
