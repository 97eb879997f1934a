"""Typeset a data set's report: one PDF from tables.json and the figures.

The same inputs give the same bytes: it uses no date, and only the fonts that come with typst.
"""

import os
from pathlib import Path

import typst

from matmul.dataset.tables import whole_file
from matmul.process.errors import UserError, command_line
from matmul.settings import arguments


def typeset(source: Path, tables: Path, figures: Path) -> bytes:
    """The PDF of `source`. Raises UserError for a missing file, or with typst's own message."""
    for path in (source, tables, figures):
        if not path.exists():
            raise UserError(f"{path}: there is no such file or folder")
    paths = [path.resolve() for path in (source, tables, figures)]
    root = Path(os.path.commonpath([path.parent for path in paths]))
    inputs = {name: f"/{path.relative_to(root)}"
              for name, path in zip(("tables", "figures"), paths[1:], strict=True)}  # fmt: skip
    try:
        return typst.compile(
            paths[0], root=root, ignore_system_fonts=True, sys_inputs=inputs, format="pdf"
        )
    except typst.TypstError as error:
        raise UserError(f"{source}: {error.diagnostic}") from None


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--tables", type=Path, required=True, help="tables.py's JSON")
    parser.add_argument("--figures", type=Path, required=True, help="folder of the SVG files")
    parser.add_argument("--source", type=Path, default=Path("reports/report.typ"))
    parser.add_argument("--output", type=Path, required=True, help="the PDF")
    arguments.add_log(parser)
    options = parser.parse_args()
    arguments.start_log(options.log)

    pdf = typeset(options.source, options.tables, options.figures)
    with whole_file(options.output) as temporary:
        temporary.write_bytes(pdf)


if __name__ == "__main__":
    main()
