"""Write the list of the published data sets as one HTML page: a row for each, with links to it."""

import html
import os
import re
from collections.abc import Sequence
from pathlib import Path

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import load_results
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.facts.published import DataSet, Entry, entries
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_text
from matmul_sweep.process.project import ROOT


def page(template: str, data_sets: Sequence[DataSet], folder: Path) -> str:
    """The HTML of a page in `folder`."""
    rows = "\n".join(row(entry, folder) for entry in entries(data_sets))
    return template.replace("{{ rows }}", rows)


def row(entry: Entry, folder: Path) -> str:
    """A set as a row of the table."""
    links = [
        f'<a href="{html.escape(os.path.relpath(file, folder))}">{html.escape(words)}</a>'
        for words, file in entry.files.items()
    ]
    words = [[entry.card], [entry.date], [entry.kernels], entry.fastest, [entry.beside]]
    cells = ["<br>".join(lines) for lines in [*(map(emphasised, own) for own in words), links]]
    return f"<tr><td>{'<td>'.join(cells)}</tr>"


def emphasised(text: str) -> str:
    """Text in HTML."""
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", html.escape(text, quote=False))


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("data", nargs="*", type=Path, help="folders of published data sets")
    arguments.add_catalogue(parser)
    parser.add_argument("--template", type=Path, default=ROOT / "reports" / "gallery.html")
    parser.add_argument("--output", type=Path, required=True, help="the HTML file")
    options = arguments.parsed(parser)

    catalogue = load_catalogue(options.catalogue)
    data_sets = [(folder, load_results(folder, catalogue)) for folder in options.data]
    text = page(options.template.read_text(), data_sets, options.output.parent)
    write_text(text, options.output)


if __name__ == "__main__":
    main()
