"""Draw every figure of a data set, as SVG and PNG. The same data give the same bytes."""

import logging
from functools import partial
from pathlib import Path

from matmul.catalogue.entries import load_catalogue
from matmul.process.errors import command_line
from matmul.process.workers import workers
from matmul.report.figures import style
from matmul.report.figures.gallery import FIGURES
from matmul.report.selection import Results, load_results, with_others
from matmul.settings import arguments

drawn_from: list[Results] = []  # the data set, which forked processes inherit


def draw(folder: Path, name: str) -> str:
    """Draw one figure and return its name."""
    style.save(FIGURES[name](drawn_from[0]), folder, name)
    return name


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_data_set(parser)
    parser.add_argument("--output", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--processes", type=int, default=1, help="number of processes that draw")
    options = arguments.parsed(parser)

    results = load_results(options.data, load_catalogue(options.catalogue))
    drawn_from.append(with_others(results, options.beside))
    with workers(options.processes) as processes:
        for name in processes.map(partial(draw, options.output), FIGURES):
            logging.info("drawn: %s", name)


if __name__ == "__main__":
    main()
