"""How each kind of catalogue entry runs: cubins and cuBLAS on the GPU, C and NumPy on the CPU."""

import ctypes
import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from matmul.build.binaries import HOST, digest
from matmul.catalogue.architectures import STATIC_SHARED
from matmul.catalogue.entries import Kind, Variant
from matmul.dataset.tables import read_json
from matmul.gpu.instruments import Instruments
from matmul.operations.shapes import Shape
from matmul.process.errors import UserError

GpuProduct = Callable[..., None]  # (shape, device pointers to the inputs and to C)
CpuProduct = Callable[..., object]  # (shape, arrays of the inputs and C)


class NotCompiled(Exception):
    """A variant without a binary, because it did not compile; the message says why."""


def compile_record(variant: Variant, binaries: Path) -> dict[str, Any]:
    """compile.py's record of the variant in a folder of binaries.

    Raises NotCompiled, or UserError if the record is of other sources: they changed while a job was
    in a queue, or the folder is from another configuration.
    """
    file = binaries / f"{variant.slug}.json"
    record = read_json(file) if file.exists() else {"sha256": None}
    if record["sha256"] != digest(variant):
        raise UserError(
            f"{variant.name} is not compiled for {binaries.name} from the present sources: run "
            f"the command again, with {binaries.name} in `architectures` of the configuration"
        )
    if record["reason"]:
        raise NotCompiled(record["reason"])
    return record


def gpu_product(
    variant: Variant, tools: Instruments, shapes: Iterable[Shape] | None = None
) -> GpuProduct:
    """A function (shape, *inputs, C) that enqueues one product on the instruments' stream. With
    `shapes`, a dispatch loads only the kernels for these.

    Raises NotCompiled.
    """
    if variant.kernel.kind is Kind.LIBRARY:
        return library_product(variant, tools)
    if variant.kernel.kind is Kind.DISPATCH:
        return dispatched_product(variant, tools, shapes)
    function, arch = load(variant, tools), tools.binaries.name

    def launch(shape: Shape, *arrays: int) -> None:
        function.prepared_async_call(
            variant.grid(shape, arch), variant.block, tools.stream, *arrays, *shape.dimensions,
            shared_size=variant.dynamic_shared_bytes,
        )  # fmt: skip

    return launch


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


def load(variant: Variant, tools: Instruments) -> Any:
    """The kernel's function from its cubin, ready for prepared calls. Raises NotCompiled."""
    compile_record(variant, tools.binaries)
    module = tools.drv.module_from_file(str(tools.binaries / f"{variant.slug}.cubin"))
    function = module.get_function(variant.kernel.function)
    if variant.dynamic_shared_bytes > STATIC_SHARED:
        function.set_attribute(
            tools.drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, variant.dynamic_shared_bytes
        )
    arrays, dimensions = variant.kernel.product.signature
    return function.prepare("P" * arrays + "i" * dimensions)


def cpu_product(variant: Variant, build: Path, threads: int) -> CpuProduct:
    """A function (shape, *inputs, C) that computes one product on the CPU; libraries use `threads`
    cores. Raises NotCompiled."""
    kernel = variant.kernel
    if kernel.kind is Kind.LIBRARY:
        threadpool_limits(threads)  # here, because finding the thread pools takes milliseconds
        return kernel.routine.product
    compile_record(variant, build / HOST)
    library = ctypes.CDLL(str((build / HOST / f"{variant.slug}.so").resolve()))
    function = getattr(library, kernel.function)
    arrays, dimensions = kernel.product.signature
    array = np.ctypeslib.ndpointer(kernel.dtype, ndim=2, flags="C_CONTIGUOUS")
    function.argtypes = [array] * arrays + [ctypes.c_int] * dimensions
    function.restype = None
    return lambda shape, *matrices: function(*matrices, *shape.dimensions)
