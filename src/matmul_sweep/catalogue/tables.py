"""The tables of dispatches as text, and the tilings in them.

A column in capital letters is a compile-time constant. Where a row has them, it defines the tiling
that its variant names; a tiling of the catalogue's file needs none.
"""

import contextlib
import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from matmul_sweep.catalogue.entries import Kernel
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.models import one_of

Row = dict[str, str]


def read_table(path: Path) -> list[Row]:
    """The rows of a dispatch's table. Raises UserError if it cannot be read."""
    try:
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: {error}") from None


@contextlib.contextmanager
def reading(path: Path | None, line: int) -> Iterator[None]:
    """Names the line in the mistakes of a row, and a column that is missing."""
    try:
        yield
    except KeyError as error:
        raise UserError(f"{path}: there is no column {error}") from None
    except UserError as error:
        raise UserError(f"{path}, line {line}: {error}") from None


def constants_of(row: Row) -> dict[str, int]:
    """The compile-time constants in a row, in the order of the columns. Raises UserError."""
    found = {}
    for column, cell in row.items():
        if column and column.isupper() and cell:
            if not cell.isdecimal():
                raise UserError(f"{column}: '{cell}' is not a whole number")
            found[column] = int(cell)
    return found


def tiling_of(row: Row, kernels: Mapping[str, Kernel]) -> tuple[str, str, dict[str, int]] | None:
    """The kernel, the tiling and all its constants that a row defines; None if it defines none.

    Raises KeyError for a missing column, or UserError.
    """
    values = constants_of(row)
    if not values:
        return None
    name, _, tiling = row["variant"].partition("/")
    one_of("variant", name, kernels)
    known = kernels[name].variants[0].parameters
    if odd := values.keys() ^ known.keys():
        raise UserError(f"{odd.pop()}: the constants of {name} are {', '.join(known)}")
    return name, tiling, {constant: values[constant] for constant in known}


def searched(
    tables: Mapping[str, list[Row]], kernels: Mapping[str, Kernel]
) -> dict[str, dict[str, dict[str, int]]]:
    """The tilings that the tables define, by kernel and name. Raises UserError."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for dispatch, rows in tables.items():
        for line, row in enumerate(rows, 2):
            with reading(kernels[dispatch].dispatch, line):
                if own := tiling_of(row, kernels):
                    name, tiling, values = own
                    written = {v.tiling: v.parameters for v in kernels[name].variants}
                    known = found.setdefault(name, {})
                    before = (written | known).get(tiling, values)
                    for constant, value in values.items():
                        if before[constant] != value:
                            raise UserError(
                                f"{constant}={value}: elsewhere {name}/{tiling} has "
                                f"{before[constant]}; give one of them another name"
                            )
                    if tiling not in written:
                        known[tiling] = values
    return found
