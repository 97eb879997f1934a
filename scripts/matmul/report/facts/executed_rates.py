"""Rates by the operations that a program executes, and the card's float64 peaks to hold them to."""

import pandas as pd

from matmul.catalogue.entries import Kind, Variant
from matmul.operations.gram import Gram
from matmul.report.selection import Results
from matmul.report.sourced_numbers import Number

VECTOR, TENSOR = "vector units", "tensor cores"
FACTS = {TENSOR: "fp64_tensor_peak_tflops", VECTOR: "fp64_peak_tflops"}


def executed(shape: Gram, part: str) -> Number:
    """Operations of AᵀA: `full` where all of C is computed, `half` where symmetry is used."""
    m, n = shape.dimensions
    if part == "full":
        return Number(2 * m * n * n, f"2 * {m} * {n} * {n}")
    return Number(shape.operations, f"{m} * {n} * ({n} + 1)")


def rate(operations: Number, time_ms: Number) -> Number:
    """In TFLOP/s."""
    return (operations / time_ms).times(1e-9)


def float64_peak(results: Results, units: str) -> Number | None:
    """What these units of the card could do at most, in TFLOP/s; None where it is not known."""
    peak = results.device.get(FACTS[units])
    return Number(peak, f"device.json:{FACTS[units]}") if peak else None


def binding_peak(results: Results, row: pd.Series) -> tuple[str, Number] | None:
    """The units that bound a GPU's kernel, and their peak; None where it is not known.

    cuBLAS may use tensor cores where there are any; a kernel written here says what it uses.
    """
    ran = results.ran(row)
    if ran is None and results.is_dispatch(row.kernel):
        # Which variant ran is not on record; all of a table's use the same units.
        tensor = any(
            map(uses_tensor_cores, results.variant(row.kernel).parts(results.architecture))
        )
    else:
        tensor = results.kind(row.kernel) is Kind.LIBRARY if ran is None else uses_tensor_cores(ran)
    for units in FACTS if tensor else (VECTOR,):
        if peak := float64_peak(results, units):
            return units, peak
    return None


def uses_tensor_cores(variant: Variant) -> bool:
    return variant.layout is not None and variant.layout.units == "tensor"
