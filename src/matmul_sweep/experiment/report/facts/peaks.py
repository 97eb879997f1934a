"""What a card can do at most: the peaks of its units, and the ceilings measured on it."""

from matmul_sweep.experiment.dataset.selection import Results, row_of
from matmul_sweep.operations.dtypes import UNITS


def unit_peak(results: Results, unit: str) -> float | None:
    """The peak of a kind of unit of the card in TFLOP/s; None if it is not known."""
    return results.device.get(f"{UNITS[unit].rate}_peak_tflops") or None if unit in UNITS else None


def ceiling(results: Results, name: str) -> float | None:
    """A measured ceiling, or else the peak by units and clock; None if neither is known."""
    row = row_of(results.ceilings, name, "name")
    return unit_peak(results, name) if row is None else float(row.value)
