"""The rate that a kernel's hot loop allows, predicted from its machine code.

A multiprocessor starts one load of a warp in a clock, and issues one instruction in each of its
four quarters. The multiply-adds of a warp take what its units need. The slowest of the three bounds
the loop. Everything else in the loop is left out: a guarded copy may lie in the code and not run.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from matmul_sweep.catalogue.architectures import WARP, WARP_UNIT, architecture
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.experiment.report.facts.cards import ceiling
from matmul_sweep.experiment.report.facts.executed_rates import unit_peak
from matmul_sweep.experiment.report.facts.machine_code import GROUPS
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.shapes import Shape


@dataclass(frozen=True)
class Unit:
    """An instruction that multiplies: its units in the table of architectures, and their peak."""

    lanes: str
    peak: str


UNITS = {
    "ffma": Unit("fp32", "multiply_add_float32"),
    "dfma": Unit("fp64", "multiply_add_float64"),
}
TENSOR = "tensor_"  # begins the names of tensor cores
HALF_PRODUCTS = 3  # that make a product of floats (kernels/gemm_split)


@dataclass(frozen=True)
class Bound:
    """What a variant can reach: a share of its units' peak, and that as a rate in TFLOP/s if the
    peak is known."""

    share: float
    what: str  # of what bounds it: loads, issue, arithmetic, or tensor
    rate: float | None

    def facts(self, reached: float | None) -> dict[str, Any]:
        """With the share of the bound that a measured rate has."""
        return {
            "share": self.share,
            "what": self.what,
            "rate": self.rate,
            "reached": self.rate and reached and reached / self.rate,
        }


def predicted(results: Results, variant: Variant | None, shape: Shape) -> Bound | None:
    """The bound of a variant at a shape; None if neither its machine code nor a peak of tensor
    cores says one."""
    rows = results.instructions
    rows = rows[(rows.variant == (variant and variant.name)) & (rows.status == "ok")]
    if variant is None or rows.empty:
        return None
    row = rows.iloc[0]
    if row.tensor > 0:
        peak = tensor_peak(results, variant)
        return bound("tensor", 1, peak, variant, shape) if peak else None
    name = max(UNITS, key=lambda name: row[name])
    lanes = getattr(architecture(row.architecture), UNITS[name].lanes)
    if not row[name] or not lanes:
        return None
    share, what = share_of_peak(row, name, lanes)
    return bound(what, share, peak_of(results, UNITS[name].peak), variant, shape)


def tensor_peak(results: Results, variant: Variant) -> float | None:
    """The peak of the tensor cores that a variant uses, for the products that count."""
    if variant.kernel.arithmetic == "halves":  # half the bits, in float16 as fast as in bfloat16
        peak = peak_of(results, TENSOR + "bfloat16")
        return peak and peak / HALF_PRODUCTS
    units = OPERATIONS[variant.kernel.operation].units
    return next((peak_of(results, unit) for unit in units if unit.startswith(TENSOR)), None)


def peak_of(results: Results, unit: str) -> float | None:
    """The peak of a kind of unit in TFLOP/s, by its clock or else as measured."""
    return unit_peak(results, unit) or ceiling(results, unit)


def share_of_peak(row: pd.Series, multiply: str, lanes: int) -> tuple[float, str]:
    """The share of the units' peak that a loop allows, and what takes longest in it."""
    multiplied = float(row[multiply])
    where = "shared" if any(row[column] for column in GROUPS["shared"]) else "global"
    loads = sum(float(row[column]) for column in GROUPS[where])
    clocks = {
        "arithmetic": multiplied / (lanes // WARP),
        "loads": loads,
        "issue": (multiplied + loads) / WARP_UNIT,
    }
    longest = max(clocks, key=lambda what: clocks[what])
    return clocks["arithmetic"] / clocks[longest], longest


def bound(what: str, share: float, peak: float | None, variant: Variant, shape: Shape) -> Bound:
    """The bound by the operations that rates count: a kernel that computes both triangles of a
    symmetric C executes twice as many."""
    executed = 2 * shape.terms * shape.elements[-1]
    if shape.operations < executed and not variant.kernel.half:
        share *= shape.operations / executed
    return Bound(share, what, peak and share * peak)
