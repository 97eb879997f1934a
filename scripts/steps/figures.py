"""Draw the figures of a data set that have something to draw, as SVG and PNG.

drawn.json has the caption of each. The same data give the same bytes.
"""

import logging
from functools import partial
from pathlib import Path

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import Results, load_results, with_others
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.figure_base import NothingToDraw
from matmul_sweep.experiment.report.figures.gallery import FIGURES
from matmul_sweep.experiment.report.figures.names import caption
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_json
from matmul_sweep.process.workers import workers

drawn_from: list[Results] = []  # the data set, which forked processes inherit


def draw(folder: Path, name: str) -> str | None:
    """Draw one figure. Returns why there is nothing to draw, or None."""
    try:
        style.save(FIGURES[name](drawn_from[0]), folder, name)
    except NothingToDraw as reason:
        return str(reason)
    return None


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_data_set(parser)
    parser.add_argument("--output", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--processes", type=int, default=1, help="number of processes that draw")
    options = arguments.parsed(parser)

    results = load_results(options.data, load_catalogue(options.catalogue))
    drawn_from.append(with_others(results, options.beside))
    drawn = {}
    with workers(options.processes) as processes:
        missing = processes.map(partial(draw, options.output), FIGURES)
        for name, reason in zip(FIGURES, missing, strict=True):
            logging.info("%s: %s", name, reason or "drawn")
            if reason is None:
                drawn[name] = caption(name)
    write_json(drawn, options.output / "drawn.json")


if __name__ == "__main__":
    main()
