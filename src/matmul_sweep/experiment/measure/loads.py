"""How many elements of A and B the threads of each kernel read from global memory in one product.

The CPU runs the kernel and counts every access of a thread, so no GPU is needed. The product is a
square of whole tiles.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.classroom.cuda_on_cpu import emulation, watched
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.experiment.dataset.tables import product_of
from matmul_sweep.experiment.verify.verification import accuracy
from matmul_sweep.operations import fills
from matmul_sweep.operations.shapes import ceil_div

SEED = 2026
LEAST = 128  # rows and columns of C, at least
LAUNCH_SECONDS = 60


def row_of(variant: Variant, folder: Path) -> dict[str, Any]:
    """The row of loads.csv of a variant: the loads of a right product, or why there is none."""
    kernel, executable = variant.kernel, folder / variant.slug
    side = math.lcm(*variant.tile, variant.slab)
    shape = kernel.product.parse(ceil_div(LEAST, side) * side)
    row = product_of(kernel.dtype, shape) | {"kernel": kernel.name, "variant": variant.name}
    inputs = fills.inputs("uniform", SEED, shape, kernel.dtype)
    c = np.full(shape.output, np.nan, kernel.product.output)
    try:
        emulation.build_variant(variant, executable, watch=True)
        done = watched.launch(executable, variant.plan(shape), shape, inputs, c, LAUNCH_SECONDS)
    except EmulationError as error:
        return row | {"status": "failed", "reason": str(error)}
    if not done.ended or accuracy(kernel, done.c, *inputs).share > 1:
        return row | {"status": "failed", "reason": f"no right result at {shape}"}
    return row | {"loads": done.loads, "multiply_adds": shape.operations // 2, "status": "ok"}
