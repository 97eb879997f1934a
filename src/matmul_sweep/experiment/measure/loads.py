"""How many elements of A and B the threads of each kernel read from global memory in one product.

The CPU runs the kernel and counts every access, so no GPU is needed. The product is a square of
whole tiles.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.classroom.cuda_on_cpu import emulation, watched
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError, NotRunnable
from matmul_sweep.experiment.dataset.tables import product_of
from matmul_sweep.experiment.verify.verification import accuracy
from matmul_sweep.operations import fills
from matmul_sweep.operations.shapes import Shape, ceil_div

SEED = 2026
LEAST = 128  # rows and columns of C, at least
LAUNCH_SECONDS = 60
# Headers of copies by the tensor memory accelerator, which are no accesses of a thread; other such
# copies go by tensor maps.
UNSEEN = {"bulk_copy.cuh"}


def uncountable(variant: Variant) -> str | None:
    """Why the accesses of its threads are not all its loads, or None if they are."""
    kernel = variant.kernel
    if kernel.tensor_maps or UNSEEN & {file.name for file in source_files(kernel.code)}:
        return "a unit of the hardware copies for its threads, and the CPU counts theirs only"
    return None


def whole_tiles(variant: Variant) -> Shape:
    """The smallest square of at least LEAST that tiles and slabs fill, or of it as many rows and
    columns as the variant takes."""
    side = math.lcm(*variant.tile, variant.slab)
    return variant.fitted(variant.kernel.product.parse(ceil_div(LEAST, side) * side))


def counted(variant: Variant, shape: Shape, folder: Path) -> dict[str, Any]:
    """The loads of a right product, or why there is none."""
    kernel, executable = variant.kernel, folder / variant.slug
    inputs = fills.inputs("uniform", SEED, shape, kernel.dtype)
    c = np.full(shape.output, np.nan, kernel.product.output)
    try:
        emulation.build_variant(variant, executable, emulation.WATCH)
        done = watched.launch(executable, variant.plan(shape), shape, inputs, c, LAUNCH_SECONDS)
    except NotRunnable as error:
        return {"status": "skipped", "reason": str(error)}
    except EmulationError as error:
        return {"status": "failed", "reason": str(error)}
    if not done.ended:
        return {"status": "failed", "reason": f"its launch ends: {done.findings[0]['kind']}"}
    if accuracy(kernel, done.c, *inputs).share > 1:
        return {"status": "failed", "reason": f"wrong result at {shape}"}
    return {"loads": done.loads, "status": "ok"}


def row_of(variant: Variant, folder: Path) -> dict[str, Any]:
    """The row of loads.csv of a variant."""
    kernel = variant.kernel
    row = {"kernel": kernel.name, "variant": variant.name, "operation": kernel.operation}
    if reason := uncountable(variant):
        return row | {"status": "skipped", "reason": reason}
    shape = whole_tiles(variant)
    row |= product_of(kernel.dtype, shape) | {"multiply_adds": shape.operations // 2}
    return row | counted(variant, shape, folder)
