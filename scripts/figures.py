"""Draw every figure of a data set, as SVG and PNG. The same data give the same bytes."""

import logging
from pathlib import Path

from matmul import arguments
from matmul.catalogue import load_catalogue
from matmul.errors import command_line
from matmul.reporting import style
from matmul.reporting.gallery import FIGURES
from matmul.reporting.results import load_results


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of a data set")
    arguments.add_catalogue(parser)
    parser.add_argument("--output", type=Path, required=True, help="folder of the figures")
    arguments.add_log(parser)
    options = parser.parse_args()
    arguments.start_log(options.log)

    results = load_results(options.data, load_catalogue(options.catalogue))
    for name, draw in FIGURES.items():
        style.save(draw(results), options.output, name)
        logging.info("drawn: %s", name)


if __name__ == "__main__":
    main()
