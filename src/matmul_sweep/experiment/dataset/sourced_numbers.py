"""Numbers that know where they come from: `summary.csv:812:time_ms` is a line and its column.

Arithmetic on them records itself, so that every printed figure can be computed again from the files
of the data set.
"""

import functools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from matmul_sweep.process.errors import UserError


@dataclass(frozen=True)
class Number:
    """A value and the expression that gives it."""

    value: float
    origin: str

    def __truediv__(self, other: "Number") -> "Number":
        return Number(self.value / other.value, f"{self.factor} / {other.factor}")

    def __mul__(self, other: "Number") -> "Number":
        return Number(self.value * other.value, f"{self.factor} * {other.factor}")

    def __add__(self, other: "Number") -> "Number":
        return Number(self.value + other.value, f"{self.origin} + {other.origin}")

    def __sub__(self, other: "Number") -> "Number":
        return Number(self.value - other.value, f"{self.origin} - {other.factor}")

    def times(self, factor: float) -> "Number":
        """In another unit."""
        if factor == 1:
            return self
        return Number(self.value * factor, f"{self.factor} * {factor!r}")

    @property
    def factor(self) -> str:
        """The origin as one term of a product."""
        return f"({self.origin})" if " " in self.origin else self.origin

    def json(self, digits: int = 3) -> dict[str, Any]:
        """For tables.json, with the text to print. An infinite error, for example of an element
        that was never written, is only the text."""
        value = self.value if math.isfinite(self.value) else None
        return {"value": value, "text": significant(self.value, digits), "origin": self.origin}

    def whole(self) -> dict[str, Any]:
        """The same for a count, with every digit."""
        return {"value": self.value, "text": f"{self.value:.0f}", "origin": self.origin}


def total(numbers: Iterable[Number]) -> Number:
    """The sum of one or more numbers."""
    return functools.reduce(operator.add, numbers)


def constant(value: int) -> Number:
    """A number that comes from no file."""
    return Number(value, str(value))


def geometric_mean(numbers: Sequence[Number]) -> Number:
    """The geometric mean of one or more numbers."""
    product = math.prod(number.value for number in numbers)
    factors = " * ".join(number.factor for number in numbers)
    return Number(product ** (1 / len(numbers)), f"({factors}) ** (1 / {len(numbers)})")


def cell(row: pd.Series, column: str, table: str = "summary.csv") -> Number:
    """A cell of a table; the row's name is its place in the file. Raises UserError if it is
    empty."""
    found = cell_if_any(row, column, table)
    if found is None:
        raise UserError(f"{table}, line {row.name + 2}: no {column}, but its status needs one")
    return found


def cell_if_any(row: pd.Series, column: str, table: str = "summary.csv") -> Number | None:
    """The same; None if it is empty."""
    value = row[column]
    if pd.isna(value):
        return None
    return Number(float(value), f"{table}:{row.name + 2}:{column}")


def significant(value: float, digits: int = 3) -> str:
    """`value` rounded to significant digits: 0.0123, 1.30, 95 500."""
    if not math.isfinite(value):
        return "not finite"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = math.floor(math.log10(abs(rounded)))
    if exponent < -5:
        return f"{rounded:.{digits - 1}e}".replace("e-0", "e-")
    text = f"{rounded:,.{max(0, digits - 1 - exponent)}f}"
    return text.replace(",", "\u2009" if exponent > 3 else "")
