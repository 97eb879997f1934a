"""Draw every figure of a data set, as SVG and PNG. The same data give the same bytes."""

import logging
import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from matmul.catalogue.entries import load_catalogue
from matmul.process.errors import command_line
from matmul.process.lifetime import die_with_parent
from matmul.report.figures import style
from matmul.report.figures.gallery import FIGURES
from matmul.report.selection import Results, load_results, with_others
from matmul.settings import arguments

drawn_from: list[Results] = []  # the data set, which forked processes inherit


def draw(folder: Path, name: str) -> str:
    """Draw one figure and return its name."""
    style.save(FIGURES[name](drawn_from[0]), folder, name)
    return name


def start() -> None:
    """Leave interrupts to the process that started this one, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of a data set")
    arguments.add_catalogue(parser)
    arguments.add_beside(parser)
    parser.add_argument("--output", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--processes", type=int, default=1, help="number of processes that draw")
    arguments.add_log(parser)
    options = parser.parse_args()
    arguments.start_log(options.log)

    results = load_results(options.data, load_catalogue(options.catalogue))
    drawn_from.append(with_others(results, options.beside))
    forking = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.processes, forking, initializer=start) as processes:
        for name in processes.map(partial(draw, options.output), FIGURES):
            logging.info("drawn: %s", name)


if __name__ == "__main__":
    main()
