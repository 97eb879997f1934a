"""Numbers of the report: JSON has no NaN, and a reader no use for sixteen digits."""

import math
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import verdict_of

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

UNITS = {"s": 1e3, "ms": 1.0, "µs": 1e-3}  # in milliseconds


def known(value: float) -> float | None:
    """A cell of a table, None if it is empty."""
    return None if pd.isna(value) else float(value)


def ends(low: float, high: float) -> list[float] | None:
    """An interval, None if there were too few samples or pairs for one."""
    return None if pd.isna([low, high]).any() else [float(low), float(high)]


def judged(row: Any) -> dict[str, Any]:
    """A ratio of a table, its interval, and what that says."""
    both = row.ratio_low, row.ratio_high
    return {"ratio": row.ratio, "interval": ends(*both), "verdict": verdict_of(*both)}


def borne_out(value: float, low: float, high: float) -> tuple[str, ...]:
    """A value and its interval with like decimals: of the end three to five significant digits, as
    many as make the interval two units wide: 1.082 and 1.080 to 1.083."""
    power = math.floor(math.log10(high))
    digits = 2 - power + sum(high - low < 2 * 10.0 ** (power - n) for n in (2, 3))
    return tuple(f"{x:.{max(0, digits)}f}" for x in (value, low, high))


def in_unit(ms: float) -> tuple[float, str]:
    """A time in a unit that suits it, and the unit."""
    unit = next((name for name, size in UNITS.items() if ms >= size * 0.999), "µs")
    return ms / UNITS[unit], unit


def significant(value: float, digits: int = 3) -> str:
    """`value` rounded to significant digits: 0.0123, 1.30, 95 500, 2.50·10⁻⁹."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = math.floor(math.log10(abs(rounded)))
    if exponent < -4:
        return f"{rounded / 10.0**exponent:.{digits - 1}f}·10{str(exponent).translate(RAISED)}"
    text = f"{rounded:,.{max(0, digits - 1 - exponent)}f}"
    return text.replace(",", "\u2009" if exponent > 3 else "")
