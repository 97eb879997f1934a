"""One product of host arrays on whatever a variant runs on, with its accesses watched.

This is the one place that chooses between the GPU, the CPU, and a CUDA source run on the CPU.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from matmul_sweep.build.recipes import HOST
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.experiment.plan.settings import CPU, EMULATION, GPU
from matmul_sweep.experiment.verify.gpu import Gpu, opened
from matmul_sweep.experiment.verify.instruments import Instruments, as_bytes
from matmul_sweep.experiment.verify.products import CpuProduct, cpu_product, gpu_product
from matmul_sweep.launch.products import NoRoom
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.isolation import Crashed, result_of, shared_array

GUARD = 1024  # elements behind each matrix: NaN before the product, unchanged after it


class WrongAccess(Exception):
    """A product that failed to run, or wrote outside C; the message says how."""


def guarded(matrix: np.ndarray) -> np.ndarray:
    """The elements of a matrix followed by NaN, which shows up in every sum that reads one."""
    return np.concatenate([matrix.ravel(), np.full(GUARD, np.nan, matrix.dtype)])


def unguarded(c: np.ndarray, shape: Shape) -> np.ndarray:
    """C without the zone behind it. Raises WrongAccess if the zone was written to."""
    if not np.isnan(c[-GUARD:]).all():
        raise WrongAccess("it writes past the end of C")
    return c[:-GUARD].reshape(shape.output)


class Runner(ABC):
    """Multiplies host arrays of a variant's dtype.

    architecture: that of its binaries; None if a CUDA source is compiled for the CPU.
    """

    place: str
    architecture: str | None

    def __init__(self, build: Path, seconds: float) -> None:
        self.build, self.seconds = build, seconds

    @abstractmethod
    def multiply(self, variant: Variant, shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        """C. Raises NotCompiled, EmulationError (no build), WrongAccess, or Unfinished, after which
        nothing more may run."""


class GpuRunner(Runner):
    """On the GPU, with NaN behind the inputs and a watched zone behind C."""

    place = GPU

    def __init__(self, build: Path, seconds: float, gpu: Gpu) -> None:
        super().__init__(build, seconds)
        self.gpu, self.architecture = gpu, gpu.architecture
        self.product = cache(lambda variant: gpu_product(variant, self.tools))

    @cached_property
    def tools(self) -> Instruments:
        """Loaded at the first product, because they may not be compiled before."""
        return Instruments(self.gpu, self.build, self.seconds)

    def multiply(self, variant: Variant, shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        drv, product = self.gpu.drv, self.product(variant)
        try:
            c = np.full(shape.elements[-1] + GUARD, np.nan, variant.kernel.product.output)
            arrays = [drv.to_device(as_bytes(array)) for array in (*map(guarded, inputs), c)]
            product(shape, *arrays)
            self.tools.wait()
            drv.memcpy_dtoh(as_bytes(c), arrays[-1])
        except NoRoom as error:
            raise WrongAccess(str(error)) from None
        except self.gpu.errors as error:
            raise WrongAccess(f"the launch failed: {error}") from None
        return unguarded(c, shape)


class CpuRunner(Runner):
    """By C or NumPy; C runs in its own process, guarded as on the GPU."""

    place = CPU
    architecture = HOST

    def multiply(self, variant: Variant, shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        product, dtype = self.product(variant), variant.kernel.product.output
        if variant.kernel.kind is Kind.LIBRARY:
            c = np.full(shape.output, np.nan, dtype)
            product(shape, *inputs, c)
            return c
        c = shared_array((shape.elements[-1] + GUARD,), dtype)
        padded = [guarded(matrix)[:-GUARD].reshape(matrix.shape) for matrix in inputs]
        inside = c[:-GUARD].reshape(shape.output)
        try:
            result_of(lambda: product(shape, *padded, inside), self.seconds)
        except Crashed as failure:
            raise WrongAccess(f"the launch failed: {failure}") from None
        return unguarded(c, shape)

    def product(self, variant: Variant) -> CpuProduct:
        return cpu_product(variant, self.build, threads=len(os.sched_getaffinity(0)))


class EmulationRunner(Runner):
    """By a CUDA kernel's source, run on the CPU thread by thread."""

    place = EMULATION
    architecture = None

    def multiply(self, variant: Variant, shape: Shape, *inputs: np.ndarray) -> np.ndarray:
        part = variant.part(shape, None)
        executable = self.build / part.slug
        if not executable.exists():
            emulation.build_variant(part, executable)
        c = np.full(shape.output, np.nan, variant.kernel.product.output)
        try:
            return emulation.launch(executable, part.plan(shape), shape, inputs, c, self.seconds)
        except emulation.EmulationError as error:
            raise WrongAccess(str(error)) from None


@contextmanager
def runner(place: str, build: Path, seconds: float, shared: bool = False) -> Iterator[Runner]:
    """The runner for a place that place_of names (not NOWHERE). It holds the GPU alone, or shares
    it with others that time nothing (`shared`).

    It takes binaries from `build` and puts emulators there. It gives up a launch after `seconds`.
    Raises NoDevice.
    """
    if place == GPU:
        with opened(shared) as gpu:
            yield GpuRunner(build, seconds, gpu)
    else:
        yield {CPU: CpuRunner, EMULATION: EmulationRunner}[place](build, seconds)
