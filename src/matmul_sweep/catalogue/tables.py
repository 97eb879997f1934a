"""The tables of dispatches as text, and the tilings in them.

A column in capital letters is a compile-time constant. Where a row has them, it defines the tiling
that its variant names; a tiling of the catalogue's file needs none. What it leaves out of the
kernel's parameters has their value.
"""

import contextlib
import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from matmul_sweep.catalogue.entries import Kernel
from matmul_sweep.process.errors import UserError, naming
from matmul_sweep.process.models import one_of

Row = dict[str, str]
Searched = dict[str, dict[str, dict[str, int]]]  # constants by kernel and tiling


def read_table(path: Path | None) -> list[Row]:
    """The rows of a dispatch's table; of another kernel none. Raises UserError if it cannot be
    read."""
    if path is None:
        return []
    try:
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: {error}") from None


@contextlib.contextmanager
def reading(path: Path | None, line: int) -> Iterator[None]:
    """Names the line in the mistakes of a row, and a column that is missing."""
    try:
        with naming(f"{path}, line {line}"):
            yield
    except KeyError as error:
        raise UserError(f"{path}: there is no column {error}") from None


def constants_of(row: Row) -> dict[str, int]:
    """The compile-time constants in a row, in the order of the columns. Raises UserError."""
    found = {}
    for column, cell in row.items():
        if column and column.isupper() and cell:
            if not cell.isdecimal():
                raise UserError(f"{column}: '{cell}' is not a whole number")
            found[column] = int(cell)
    return found


def add_tilings(found: Searched, dispatch: Kernel, kernels: Mapping[str, Kernel]) -> None:
    """Add the tilings that a dispatch's table defines. Raises UserError."""
    for line, row in enumerate(read_table(dispatch.dispatch), 2):
        with reading(dispatch.dispatch, line):
            values = constants_of(row)
            if not values:
                continue
            name, _, tiling = row["variant"].partition("/")
            one_of("variant", name, kernels)
            kernel = kernels[name]
            known, own = kernel.variants[0].parameters, found.setdefault(name, {})
            values = {**kernel.parameters, **values}
            if odd := values.keys() ^ known.keys():
                raise UserError(f"{odd.pop()}: the constants of {name} are {', '.join(known)}")
            written = {variant.tiling: variant.parameters for variant in kernel.variants}
            before = (written | own).get(tiling, values)
            for constant, value in values.items():
                if before[constant] != value:
                    raise UserError(
                        f"{constant}={value}: elsewhere {name}/{tiling} has "
                        f"{before[constant]}; give one of them another name"
                    )
            if tiling not in written:
                own[tiling] = {constant: values[constant] for constant in known}
