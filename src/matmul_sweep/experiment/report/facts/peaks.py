"""What a card can do at most: the peaks of its units, and the ceilings measured on it."""

import math

from matmul_sweep.catalogue.architectures import peak_terms
from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.operations.dtypes import UNITS


def unit_peak(results: Results, unit: str) -> float | None:
    """The peak of a kind of unit of the card in TFLOP/s; None if it is not known. A set that was
    measured before the project knew the units has the facts that it follows from."""
    if unit not in UNITS:
        return None
    device, fact = results.device, f"{UNITS[unit].rate}_peak_tflops"
    if fact in device:
        return device[fact] or None
    terms = peak_terms(device, UNITS[unit].rate)
    return None if terms is None else math.prod(terms)


def ceiling(results: Results, name: str) -> float | None:
    """A measured ceiling, or else the peak by units and clock; None if neither is known."""
    rows = results.ceilings
    rows = rows[(rows.name == name) & (rows.status == "ok")]
    return unit_peak(results, name) if rows.empty else float(rows.iloc[0].value)
