"""One product of host arrays, by whatever a variant runs on, its accesses watched."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from matmul import emulation
from matmul.catalogue import Variant
from matmul.device import Gpu
from matmul.instruments import Instruments
from matmul.products import cpu_product, gpu_product
from matmul.shapes import Shape

GUARD = 1024  # elements behind each matrix: NaN before the product, unchanged after it

Multiply = Callable[..., np.ndarray]  # (shape, inputs), all of the variant's dtype


class WrongAccess(Exception):
    """A product that failed to run, or wrote outside C; the message says how."""


def on_gpu(variant: Variant, gpu: Gpu, build: Path) -> Multiply:
    """Multiply on the GPU, with NaN behind the inputs and a watched zone behind C.

    Raises NotCompiled.
    """
    tools = Instruments(gpu, build)
    product = gpu_product(variant, tools)

    def guarded(matrix: np.ndarray) -> Any:
        padded = np.concatenate([matrix.ravel(), np.full(GUARD, np.nan, matrix.dtype)])
        return gpu.drv.to_device(padded)

    def multiply(shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        try:
            c = np.full(shape.elements[-1] + GUARD, np.nan, variant.kernel.dtype)
            device_c = gpu.drv.to_device(c)
            product(shape, *map(guarded, inputs), device_c)
            tools.stream.synchronize()
            gpu.drv.memcpy_dtoh(c, device_c)
        except gpu.drv.Error as error:
            raise WrongAccess(f"the launch failed: {error}") from None
        if not np.isnan(c[-GUARD:]).all():
            raise WrongAccess("it writes behind the end of C")
        return c[:-GUARD].reshape(shape.output)

    return multiply


def on_cpu(variant: Variant, build: Path) -> Multiply:
    """Multiply by a C or NumPy variant. Raises NotCompiled."""
    product = cpu_product(variant, build, threads=len(os.sched_getaffinity(0)))

    def multiply(shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        c = np.full(shape.output, np.nan, variant.kernel.dtype)
        product(shape, *inputs, c)
        return c

    return multiply


def emulated(variant: Variant, folder: Path) -> Multiply:
    """Multiply by a CUDA kernel's source, run on the CPU. Raises EmulationError: no build."""
    executable = folder / "kernel"
    kernel = variant.kernel
    emulation.build(
        kernel.source, kernel.function, kernel.operation, kernel.dtype,
        variant.parameters, executable,
    )  # fmt: skip

    def multiply(shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        c = np.full(shape.output, np.nan, kernel.dtype)
        try:
            return emulation.launch(
                executable, variant.grid(shape), variant.block, variant.dynamic_shared_bytes,
                shape.dimensions, inputs, c,
            )  # fmt: skip
        except emulation.EmulationError as error:
            raise WrongAccess(str(error)) from None

    return multiply
