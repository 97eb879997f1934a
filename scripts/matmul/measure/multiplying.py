"""One product of host arrays, by whatever a variant runs on, its accesses watched."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from matmul.catalogue.entries import Variant
from matmul.cpu import emulation
from matmul.gpu.device import Gpu
from matmul.gpu.instruments import Instruments
from matmul.measure.products import cpu_product, gpu_product
from matmul.operations.shapes import Shape
from matmul.process.errors import HANG_SECONDS
from matmul.process.isolation import Crashed, run_apart, shared_array

GUARD = 1024  # elements behind each matrix: NaN before the product, unchanged after it

# (shape, inputs), all of the variant's dtype. Raises WrongAccess, and Unfinished, after which the
# function is not to be called again.
Multiply = Callable[..., np.ndarray]


class WrongAccess(Exception):
    """A product that failed to run, or wrote outside C; the message says how."""


def guarded(matrix: np.ndarray) -> np.ndarray:
    """The matrix's elements and, behind them, NaN, which a sum that takes one shows."""
    return np.concatenate([matrix.ravel(), np.full(GUARD, np.nan, matrix.dtype)])


def unguarded(c: np.ndarray, shape: Shape) -> np.ndarray:
    """C without the zone behind it. Raises WrongAccess where that was written to."""
    if not np.isnan(c[-GUARD:]).all():
        raise WrongAccess("it writes behind the end of C")
    return c[:-GUARD].reshape(shape.output)


def on_gpu(variant: Variant, gpu: Gpu, build: Path, seconds: float = HANG_SECONDS) -> Multiply:
    """Multiply on the GPU, with NaN behind the inputs and a watched zone behind C.

    Raises NotCompiled.
    """
    tools = Instruments(gpu, build, seconds)
    product = gpu_product(variant, tools)

    def multiply(shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        try:
            c = np.full(shape.elements[-1] + GUARD, np.nan, variant.kernel.dtype)
            arrays = [gpu.drv.to_device(array) for array in (*map(guarded, inputs), c)]
            product(shape, *arrays)
            tools.wait()
            gpu.drv.memcpy_dtoh(c, arrays[-1])
        except gpu.drv.Error as error:
            raise WrongAccess(f"the launch failed: {error}") from None
        return unguarded(c, shape)

    return multiply


def on_cpu(variant: Variant, build: Path, seconds: float = HANG_SECONDS) -> Multiply:
    """Multiply by a C or NumPy variant; by C in a process of its own, guarded as on the GPU.

    Raises NotCompiled.
    """
    product = cpu_product(variant, build, threads=len(os.sched_getaffinity(0)))

    def by_library(shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        c = np.full(shape.output, np.nan, variant.kernel.dtype)
        product(shape, *inputs, c)
        return c

    def by_c(shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        c = shared_array((shape.elements[-1] + GUARD,), variant.kernel.dtype)
        padded = [guarded(matrix)[:-GUARD].reshape(matrix.shape) for matrix in inputs]
        try:
            run_apart(lambda: product(shape, *padded, c[:-GUARD].reshape(shape.output)), seconds)
        except Crashed as failure:
            raise WrongAccess(f"the launch failed: {failure}") from None
        return unguarded(c, shape)

    return by_library if variant.kernel.language == "library" else by_c


def emulated(variant: Variant, folder: Path, seconds: float = HANG_SECONDS) -> Multiply:
    """Multiply by a CUDA kernel's source, run on the CPU. Raises EmulationError: no build."""
    for part in variant.parts(None):
        kernel = part.kernel
        emulation.build(
            kernel.source, kernel.function, kernel.operation, kernel.dtype,
            part.parameters, folder / part.slug,
        )  # fmt: skip

    def multiply(shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        c = np.full(shape.output, np.nan, variant.kernel.dtype)
        part = variant.part(shape, None)
        try:
            return emulation.launch(
                folder / part.slug, part.grid(shape), part.block, part.dynamic_shared_bytes,
                shape.dimensions, inputs, c, seconds,
            )  # fmt: skip
        except emulation.EmulationError as error:
            raise WrongAccess(str(error)) from None

    return multiply
