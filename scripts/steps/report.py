"""Typeset a data set's report: one PDF from tables.json, the figures and the gallery of mistakes.

The same inputs give the same bytes: it uses no date, and only the fonts that come with typst.
"""

from collections.abc import Mapping
from pathlib import Path

import typst

from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import write_bytes


def typeset(source: Path, read: Mapping[str, Path]) -> bytes:
    """The PDF of `source`, which finds the paths in `read` under their names. Raises UserError for
    a missing file, or with typst's own message."""
    for path in (source, *read.values()):
        if not path.exists():
            raise UserError(f"{path}: there is no such file or folder")
    own, inputs = source.resolve(), {name: str(path.resolve()) for name, path in read.items()}
    try:
        return typst.compile(own, root=Path("/"), ignore_system_fonts=True, sys_inputs=inputs)
    except typst.TypstError as error:
        raise UserError(f"{source}: {error.diagnostic}") from None


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--tables", type=Path, help="tables.py's JSON")
    parser.add_argument("--figures", type=Path, help="folder of the SVG files")
    parser.add_argument("--mistakes", type=Path, help="mistakes.py's folder")
    parser.add_argument("--source", type=Path, default=Path("reports/report.typ"))
    parser.add_argument("--output", type=Path, required=True, help="the PDF")
    options = arguments.parsed(parser)

    wanted = {name: getattr(options, name) for name in ("tables", "figures", "mistakes")}
    pdf = typeset(options.source, {name: path for name, path in wanted.items() if path})
    write_bytes(pdf, options.output)


if __name__ == "__main__":
    main()
