"""How each kind of catalogue entry runs: cubins and cuBLAS on the GPU, C and NumPy on the CPU."""

import ctypes
import functools
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from matmul_sweep.build.binaries import binary_of
from matmul_sweep.build.recipes import HOST
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.experiment.verify.cublaslt import configured
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.launch.products import Product, compile_record
from matmul_sweep.operations.operation import Operation
from matmul_sweep.operations.shapes import Shape

GpuProduct = Callable[..., None]  # (shape, device pointers to the inputs and to C)
CpuProduct = Callable[..., object]  # (shape, arrays of the inputs and C)


def gpu_product(
    variant: Variant, tools: Instruments, shapes: Iterable[Shape] | None = None
) -> GpuProduct:
    """A function (shape, *inputs, C) that enqueues one product on the instruments' stream. With
    `shapes`, a dispatch loads only the kernels for these.

    Raises NotCompiled.
    """
    kernel = variant.kernel
    if kernel.kind is Kind.LIBRARY:
        return library_product(variant, tools)
    if kernel.kind is Kind.DISPATCH:
        return dispatched_product(variant, tools, shapes)
    product = Product(variant, tools.binaries)
    return lambda shape, *arrays: product(tools.stream.handle, shape, *map(int, arrays))


def dispatched_product(
    variant: Variant, tools: Instruments, shapes: Iterable[Shape] | None
) -> GpuProduct:
    """The same for a dispatch, which chooses a variant for the shape."""
    arch = tools.binaries.name
    products = {part.slug: gpu_product(part, tools) for part in variant.parts(arch, shapes)}
    part = functools.cache(lambda shape: products[variant.part(shape, arch).slug])
    return lambda shape, *arrays: part(shape)(shape, *arrays)


def library_product(variant: Variant, tools: Instruments) -> GpuProduct:
    """The same for cuBLAS; one triangle is mirrored if the entry writes the full matrix."""
    kernel, routine, cublas = variant.kernel, variant.kernel.routine, tools.cublas

    def full(shape: Shape, *arrays: int) -> None:
        routine.product(cublas, shape, *map(int, arrays))

    def reduced(shape: Shape, *arrays: int) -> None:
        with cublas.arithmetic(kernel.arithmetic):
            full(shape, *arrays)

    def mirrored(shape: Shape, *arrays: int) -> None:
        full(shape, *arrays)
        tools.mirror(arrays[-1], shape.n)

    if kernel.arithmetic != "full":
        return reduced
    return full if routine.writes == kernel.writes else mirrored


def offers(operation: Operation, tools: Instruments, shape: Shape) -> dict[str, GpuProduct]:
    """What the library offers for a product, by name: its routine in the default mode, and the
    algorithms of cublasLt's heuristics. Raises CublasError."""
    lt, cublas = tools.cublas.lt, tools.cublas

    def routine(shape: Shape, *arrays: int) -> None:
        with cublas.arithmetic("default"):
            operation.routine.product(cublas, shape, *map(int, arrays))

    def algorithm(which: int, shape: Shape, *arrays: int) -> None:
        lt.matmul(which, shape, *map(int, arrays))

    algorithms = {
        configured(own): functools.partial(algorithm, which)
        for which, own in enumerate(lt.offered(shape))
    }
    return {"routine, default mode": routine} | algorithms


def cpu_product(variant: Variant, build: Path, threads: int) -> CpuProduct:
    """A function (shape, *inputs, C) that computes one product on the CPU; libraries use `threads`
    cores. Raises NotCompiled."""
    kernel = variant.kernel
    if kernel.kind is Kind.LIBRARY:
        threadpool_limits(threads)  # here, because finding the thread pools takes milliseconds
        return kernel.routine.product
    compile_record(variant, build / HOST)
    library = ctypes.CDLL(str(binary_of(variant, build / HOST).resolve()))
    function = getattr(library, kernel.function)
    arrays = [
        np.ctypeslib.ndpointer(dtype.name, ndim=2, flags="C_CONTIGUOUS")
        for dtype in kernel.product.dtypes
    ]
    function.argtypes = arrays + [ctypes.c_int] * kernel.product.signature[1]
    function.restype = None
    return lambda shape, *matrices: function(*matrices, *shape.dimensions)
