"""Rates by the operations that a program executes, and the peaks of a card's units."""

import math

import pandas as pd

from matmul_sweep.catalogue.architectures import peak_terms
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.operations.shapes import Shape

# The units of the table of architectures by the names of ceilings.csv.
LANES = {
    "multiply_add_float32": "fp32",
    "multiply_add_float64": "fp64",
    "tensor_float64": "fp64_tensor",
    "tensor_bfloat16": "bf16_tensor",
}
VECTOR, TENSOR = "vector units", "tensor cores"
FLOAT64 = {TENSOR: "tensor_float64", VECTOR: "multiply_add_float64"}


def executed(shape: Shape, part: str) -> int:
    """Operations of AᵀA: `full` if all of C is computed, `half` if symmetry is used."""
    m, n = shape.dimensions
    if part == "full":
        return 2 * m * n * n
    return shape.operations


def rate(operations: float, time_ms: float) -> float:
    """In TFLOP/s."""
    return (operations / time_ms) * 1e-9


def unit_peak(results: Results, unit: str) -> float | None:
    """The peak of a kind of unit of the card in TFLOP/s; None if it is not known. A set that was
    measured before the project knew the units has the facts that it follows from."""
    if unit not in LANES:
        return None
    device, fact = results.device, f"{LANES[unit]}_peak_tflops"
    if fact in device:
        return device[fact] or None
    terms = peak_terms(device, LANES[unit])
    return None if terms is None else math.prod(terms)


def float64_peak(results: Results, units: str) -> float | None:
    """The same for VECTOR or TENSOR units in float64."""
    return unit_peak(results, FLOAT64[units])


def binding_peak(results: Results, row: pd.Series) -> tuple[str, float] | None:
    """The units that limit a GPU kernel, and their peak; None if it is not known.

    cuBLAS may use tensor cores if there are any; the catalogue says what a hand-written kernel
    uses.
    """
    library = results.kind(row.kernel) is Kind.LIBRARY
    tensor = library or any(map(uses_tensor_cores, may_have_run(results, row)))
    for units in FLOAT64 if tensor else (VECTOR,):
        if peak := float64_peak(results, units):
            return units, peak
    return None


def may_have_run(results: Results, row: pd.Series) -> list[Variant]:
    """The variant that ran in a row; if that is not on record, all variants of the dispatch, which
    use the same units."""
    ran = results.ran(row) or results.variant(row.kernel)
    return ran.parts(results.architecture) if ran else []


def uses_tensor_cores(variant: Variant) -> bool:
    return variant.layout is not None and variant.layout.units == "tensor"
