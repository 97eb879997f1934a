"""The rate that a kernel's hot loop allows, predicted from its machine code.

A multiprocessor starts one load of a warp in a clock, and issues one instruction in each of its
four quarters. The multiply-adds of a warp take what its units need. The slowest of the three bounds
the loop. Everything else in the loop is left out: a guarded copy may lie in the code and not run.
"""

from typing import Any

import pandas as pd

from matmul_sweep.catalogue.architectures import WARP, WARP_UNIT, architecture
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.selection import Results, row_of
from matmul_sweep.experiment.report.facts.held_back import GROUPS
from matmul_sweep.experiment.report.facts.peaks import ceiling, unit_peak
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.shapes import Shape

# Instructions that multiply: their units in the table of architectures, and the units' peak.
UNITS = {"ffma": ("fp32", "multiply_add_float32"), "dfma": ("fp64", "multiply_add_float64")}
# Products of 16-bit numbers in whose time tensor cores form all that makes one product: three of
# halves (kernels/gemm_split), or 14 of bytes, which take half as long (kernels/gram/residues.cu).
PRODUCTS = {"halves": 3, "residues": 7}


def predicted(
    results: Results, variant: Variant | None, shape: Shape, reached: float | None
) -> dict[str, Any] | None:
    """The bound of a variant at a shape: the share of its units' peak, what bounds it (loads,
    issue, arithmetic, or tensor), that as a rate in TFLOP/s if the peak is known, and the share of
    it that a measured rate has. None if neither its machine code nor a peak of tensor cores says
    one."""
    row = row_of(results.instructions, variant.name) if variant else None
    if variant is None or row is None:
        return None
    if row.tensor > 0:
        share, what, peak = 1.0, "tensor", tensor_peak(results, variant)
    else:
        multiply = max(UNITS, key=lambda name: row[name])
        unit, name = UNITS[multiply]
        lanes, peak = getattr(architecture(row.architecture), unit), peak_of(results, name)
        if not row[multiply] or not lanes:
            return None
        share, what = share_of_peak(row, float(row[multiply]), lanes)
    if what == "tensor" and not peak:
        return None
    # A kernel that computes both triangles of a symmetric C executes twice what rates count.
    executed = 2 * shape.terms * shape.elements[-1]
    if shape.operations < executed and not variant.kernel.half:
        share *= shape.operations / executed
    rate = peak and share * peak
    of_bound = reached / rate if rate and reached else None
    return {"share": share, "what": what, "rate": rate, "reached": of_bound}


def tensor_peak(results: Results, variant: Variant) -> float | None:
    """The peak of the tensor cores that a variant uses, for the products that count."""
    if products := PRODUCTS.get(variant.kernel.arithmetic):  # float16 is as fast as bfloat16
        peak = peak_of(results, "tensor_bfloat16")
        return peak and peak / products
    units = OPERATIONS[variant.kernel.operation].units
    return next((peak_of(results, unit) for unit in units if unit.startswith("tensor_")), None)


def peak_of(results: Results, unit: str) -> float | None:
    """The peak of a kind of unit in TFLOP/s, by its clock or else as measured."""
    return unit_peak(results, unit) or ceiling(results, unit)


def share_of_peak(row: pd.Series, multiplied: float, lanes: int) -> tuple[float, str]:
    """The share of the units' peak that a loop allows, and what takes longest in it."""
    loads = float(row[GROUPS["shared"]].sum() or row[GROUPS["global"]].sum())
    clocks = {
        "arithmetic": multiplied / (lanes // WARP),
        "loads": loads,
        "issue": (multiplied + loads) / WARP_UNIT,
    }
    longest = max(clocks, key=lambda what: clocks[what])
    return clocks["arithmetic"] / clocks[longest], longest
