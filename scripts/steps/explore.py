"""Write a data set as one interactive page that works offline.

A reader chooses product, shapes, variants and quantity, and reads the numbers of each point.
The page contains its data and plotly.js, both packed. The same data give the same bytes.
"""

from pathlib import Path

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.check.check_set import check_readable
from matmul_sweep.experiment.dataset.selection import load_results, with_others
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.site.pages import explore_page
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_text


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_data_set(parser)
    parser.add_argument("--output", type=Path, required=True, help="the HTML file")
    options = arguments.parsed(parser)

    check_readable(options.data)
    results = load_results(options.data, load_catalogue(options.catalogue))
    results = with_others(results, options.beside)
    write_text(explore_page(results), options.output)


if __name__ == "__main__":
    main()
