"""The peaks of a card's units."""

import math

import pandas as pd

from matmul_sweep.catalogue.architectures import peak_terms
from matmul_sweep.catalogue.entries import Kind
from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.operations.dtypes import UNITS

VECTOR, TENSOR = "vector units", "tensor cores"
FLOAT64 = {TENSOR: "tensor_float64", VECTOR: "multiply_add_float64"}


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


def binding_peak(results: Results, row: pd.Series) -> tuple[str, float] | None:
    """The units that limit a GPU kernel in float64, and their peak; None if it is not known.

    cuBLAS may use tensor cores if there are any; the catalogue says what a hand-written kernel
    uses.
    """
    layout = getattr(results.ran(row), "layout", None)
    tensor = layout is not None and layout.units == "tensor"
    tensor |= results.kind(row.kernel) is Kind.LIBRARY
    kinds = FLOAT64.items() if tensor else [(VECTOR, FLOAT64[VECTOR])]
    peaks = ((words, unit_peak(results, unit)) for words, unit in kinds)
    return next(((words, peak) for words, peak in peaks if peak), None)
