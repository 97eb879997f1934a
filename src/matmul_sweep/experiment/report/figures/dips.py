"""Why a product is slow at one shape: what the catalogue and the card say of its tiles and rows."""

import pandas as pd

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.sharing import shares_of
from matmul_sweep.dispatch.cost import ACCESS_BYTES
from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.operations import shape_of
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import Shape

DEEP = 0.85  # of both neighbours: a lower rate is a dip
LIGHT = 0.5  # a last wave that is filled less than this costs
FEW = 4  # waves up to which the last one counts


def dips(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, of one kernel by size, whose rate is lower than both their neighbours'."""
    neighbours = pd.concat([rows.tflops.shift(), rows.tflops.shift(-1)], axis=1).min(
        axis=1, skipna=False
    )
    return rows[rows.tflops < DEEP * neighbours]


def reason(results: Results, row: pd.Series) -> str:
    """Why the product of a row is slower than its neighbours; empty if it is not known."""
    variant, shape = results.ran(row), shape_of(row)
    if variant is None or variant.layout is None:
        return ""
    if unaligned(variant, shape):
        return f"rows not at {ACCESS_BYTES} bytes"
    filled = last_wave(variant, shape, results.device.get("multiprocessors") or 0)
    return f"last wave {filled:.0%} full" if 0 < filled < LIGHT else ""


def unaligned(variant: Variant, shape: Shape) -> bool:
    """Whether rows of C begin where no load or store of 16 bytes can: a kernel with slabs then
    copies word by word."""
    bytes_ = DTYPES[variant.kernel.dtype].bytes
    return (
        bool(variant.layout and variant.layout.slab) and shape.output[1] * bytes_ % ACCESS_BYTES > 0
    )


def last_wave(variant: Variant, shape: Shape, multiprocessors: int) -> float:
    """The share of the card's places for blocks that the last wave of a grid takes; 0 where that is
    not known, or blocks share out the work evenly, or there are many waves."""
    places = variant.at_once * multiprocessors
    if variant.resident or not places:
        return 0.0
    waves, left = divmod(shares_of(variant, shape, multiprocessors).blocks, places)
    return left / places if 0 < waves < FEW else 0.0
