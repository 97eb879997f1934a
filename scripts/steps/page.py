"""Write a data set as one interactive page that works offline.

A reader chooses product, shapes, variants and quantity, and reads the numbers of each point.
The page contains its data and plotly.js, both packed. The same data give the same bytes.
"""

import base64
import gzip
import html
import json
import re
from pathlib import Path

from plotly.offline import get_plotlyjs

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import Results, load_results, with_others
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.figures.figure_base import source_line, way_note
from matmul_sweep.experiment.report.page.data import page_data
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_text
from matmul_sweep.process.project import ROOT


def packed(text: str) -> str:
    """Text as gzip in base64: two fifths of the size of a program, much less for these data."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def page(template: str, results: Results) -> str:
    """The page's HTML."""
    data = json.dumps(page_data(results), allow_nan=False, separators=(",", ":"))
    filled = {
        "source": html.escape(source_line(results) + way_note(results, results.timed())),
        "library": packed(get_plotlyjs()),
        "data": packed(data),
    }
    return re.sub(r"\{\{ (\w+) \}\}", lambda hole: filled[hole[1]], template)


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_data_set(parser)
    parser.add_argument("--template", type=Path, default=ROOT / "reports" / "explore.html")
    parser.add_argument("--output", type=Path, required=True, help="the HTML file")
    options = arguments.parsed(parser)

    results = load_results(options.data, load_catalogue(options.catalogue))
    results = with_others(results, options.beside)
    write_text(page(options.template.read_text(), results), options.output)


if __name__ == "__main__":
    main()
