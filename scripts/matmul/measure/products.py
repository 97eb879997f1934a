"""How each kind of catalogue entry is run: cubins and cuBLAS on the GPU, C and NumPy on the CPU."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from matmul.build.binaries import HOST, digest
from matmul.catalogue.architectures import STATIC_SHARED
from matmul.catalogue.entries import Variant
from matmul.dataset.tables import read_json
from matmul.gpu.instruments import Instruments
from matmul.operations.shapes import Gemm, Gram, Shape
from matmul.process.errors import UserError

PARAMETERS = {"gemm": (3, 3), "gram": (2, 2)}  # of a kernel: pointers, then dimensions

GpuProduct = Callable[..., None]  # (shape, device pointers to the inputs and to C)
CpuProduct = Callable[..., object]  # (shape, arrays of the inputs and C)


class NotCompiled(Exception):
    """A variant without a binary, because it did not compile; the message says why."""


def compile_record(variant: Variant, binaries: Path) -> dict[str, Any]:
    """What compile.py recorded of the variant in a folder of binaries.

    Raises NotCompiled, and UserError where it is of other sources: they have changed while a job
    was in a queue, or the folder is left from another configuration.
    """
    file = binaries / f"{variant.slug}.json"
    record = read_json(file) if file.exists() else {"sha256": None}
    if record["sha256"] != digest(variant):
        raise UserError(
            f"{variant.name} is not compiled for {binaries.name} from the present sources: give "
            f"the command again, with {binaries.name} among `architectures` of the configuration"
        )
    if record["reason"]:
        raise NotCompiled(record["reason"])
    return record


def gpu_product(variant: Variant, tools: Instruments) -> GpuProduct:
    """A function (shape, *inputs, C) that enqueues one product on the instruments' stream.

    Raises NotCompiled.
    """
    if variant.kernel.language == "library":
        return library_product(variant, tools)
    if variant.kernel.language == "table":
        return table_product(variant, tools)
    function = load(variant, tools)

    def launch(shape: Shape, *arrays: int) -> None:
        function.prepared_async_call(
            variant.grid(shape), variant.block, tools.stream, *arrays, *shape.dimensions,
            shared_size=variant.dynamic_shared_bytes,
        )  # fmt: skip

    return launch


def table_product(variant: Variant, tools: Instruments) -> GpuProduct:
    """The same by the variant that the table has for the shape."""
    arch = tools.binaries.name
    products = {part.slug: gpu_product(part, tools) for part in variant.parts(arch)}
    part = functools.cache(lambda shape: products[variant.part(shape, arch).slug])
    return lambda shape, *arrays: part(shape)(shape, *arrays)


def library_product(variant: Variant, tools: Instruments) -> GpuProduct:
    """The same by cuBLAS; one triangle is mirrored where the entry writes the full matrix."""
    cublas = tools.cublas

    def sgemm(shape: Gemm, a: int, b: int, c: int) -> None:
        cublas.gemm("float32", shape.m, shape.n, shape.k, int(a), int(b), int(c))

    def reduced_sgemm(shape: Gemm, a: int, b: int, c: int) -> None:
        with cublas.arithmetic(variant.kernel.arithmetic):
            sgemm(shape, a, b, c)

    def dgemm(shape: Gram, a: int, c: int) -> None:
        n = shape.n
        cublas.gemm_transposed("float64", n, n, shape.m, int(a), n, int(a), int(c))

    def dsyrk(shape: Gram, a: int, c: int) -> None:
        cublas.syrk(shape.m, shape.n, int(a), int(c))
        if variant.kernel.writes == "full":
            tools.mirror(c, shape.n)

    full = variant.kernel.arithmetic == "full"
    products = {
        "cublasSgemm": sgemm if full else reduced_sgemm,
        "cublasDgemm": dgemm,
        "cublasDsyrk": dsyrk,
    }
    return products[variant.kernel.function]


def load(variant: Variant, tools: Instruments) -> Any:
    """The kernel's function, from its cubin, ready for prepared calls. Raises NotCompiled."""
    compile_record(variant, tools.binaries)
    module = tools.drv.module_from_file(str(tools.binaries / f"{variant.slug}.cubin"))
    function = module.get_function(variant.kernel.function)
    if variant.dynamic_shared_bytes > STATIC_SHARED:
        function.set_attribute(
            tools.drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, variant.dynamic_shared_bytes
        )
    arrays, dimensions = PARAMETERS[variant.kernel.operation]
    return function.prepare("P" * arrays + "i" * dimensions)


def cpu_product(variant: Variant, build: Path, threads: int) -> CpuProduct:
    """A function (shape, *inputs, C) that computes one product on the CPU; libraries use `threads`
    cores. Raises NotCompiled."""
    kernel = variant.kernel
    if kernel.function == "numpy.matmul":
        threadpool_limits(threads)  # here, because finding the thread pools takes milliseconds
        if kernel.operation == "gram":
            return lambda shape, a, c: np.matmul(a.T, a, out=c)  # NumPy calls BLAS's syrk for it
        return lambda shape, a, b, c: np.matmul(a, b, out=c)
    compile_record(variant, build / HOST)
    library = ctypes.CDLL(str((build / HOST / f"{variant.slug}.so").resolve()))
    function = getattr(library, kernel.function)
    arrays, dimensions = PARAMETERS[kernel.operation]
    array = np.ctypeslib.ndpointer(kernel.dtype, ndim=2, flags="C_CONTIGUOUS")
    function.argtypes = [array] * arrays + [ctypes.c_int] * dimensions
    function.restype = None
    return lambda shape, *matrices: function(*matrices, *shape.dimensions)
