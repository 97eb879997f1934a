"""How each kind of catalogue entry runs: cubins and cuBLAS on the GPU, C and NumPy on the CPU."""

import ctypes
import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from matmul_sweep.build.binaries import binary_of, digest
from matmul_sweep.build.recipes import HOST
from matmul_sweep.catalogue.architectures import STATIC_SHARED
from matmul_sweep.catalogue.entries import Kernel, Kind, Variant
from matmul_sweep.catalogue.plans import Plan, TensorMap
from matmul_sweep.experiment.measure.instruments import Instruments
from matmul_sweep.launch import tensor_maps
from matmul_sweep.launch.direct import Module
from matmul_sweep.operations.shapes import Shape, ceil_div
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json

GpuProduct = Callable[..., None]  # (shape, device pointers to the inputs and to C)
CpuProduct = Callable[..., object]  # (shape, arrays of the inputs and C)
ALIGNMENT = 1024  # bytes, of the parts of a workspace
MOST_MAPS = 1024  # sets of tensor maps that a product keeps


class NotCompiled(Exception):
    """A variant without a binary, because it did not compile; the message says why."""


class NoRoom(MemoryError):
    """A workspace that does not fit; the message says how many bytes it has."""


def compile_record(variant: Variant, binaries: Path) -> dict[str, Any]:
    """compile.py's record of the variant in a folder of binaries.

    Raises NotCompiled, or UserError if the record is of other sources: they changed while a job was
    in a queue, or the folder is from another configuration.
    """
    file = binary_of(variant, binaries).with_suffix(".json")
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
    functions, prepared = load(variant, tools), Preparation(variant, tools)

    def launch(shape: Shape, *arrays: int) -> None:
        pointers = tuple(map(int, arrays))
        plan, parts, maps = prepared(shape, pointers)
        arguments = (*pointers, *shape.dimensions, *parts, *maps)
        for function, each in zip(functions, plan.launches, strict=True):
            function.prepared_async_call(
                each.grid, each.block, tools.stream, *arguments, shared_size=each.shared_bytes
            )

    return launch


class Preparation:
    """What a caller of a kernel prepares before a launch and keeps: the workspace for a shape, and
    the tensor maps for pointers."""

    def __init__(self, variant: Variant, tools: Instruments) -> None:
        self.variant, self.tools = variant, tools
        self.plan = functools.cache(lambda shape: variant.plan(shape, tools.binaries.name))
        self.maps = functools.lru_cache(MOST_MAPS)(self.encode)
        self.shape: Shape | None = None
        self.memory: Any = None

    def __call__(
        self, shape: Shape, pointers: tuple[int, ...]
    ) -> tuple[Plan, tuple[int, ...], tuple[bytes, ...]]:
        """The plan, the addresses of the workspace's parts, and the tensor maps.

        Raises NoRoom.
        """
        plan = self.plan(shape)
        sizes = [ceil_div(size, ALIGNMENT) * ALIGNMENT for size in plan.workspace]
        if sizes and shape != self.shape:
            self.allocate(shape, sum(sizes))
        parts = tuple(int(self.memory) + sum(sizes[:i]) for i in range(len(sizes)))
        return plan, parts, self.maps(plan.maps, pointers + parts)

    def allocate(self, shape: Shape, size: int) -> None:
        """Memory for the workspace in place of that for the last shape. Raises NoRoom."""
        self.shape = self.memory = None  # which frees it
        try:
            self.memory = self.tools.drv.mem_alloc(size)
        except self.tools.drv.MemoryError:
            raise NoRoom(
                f"{self.variant.name} at {shape} needs a workspace of {size} bytes, more than the "
                "GPU has left"
            ) from None
        self.shape = shape

    @staticmethod
    def encode(maps: tuple[TensorMap, ...], pointers: tuple[int, ...]) -> tuple[bytes, ...]:
        return tuple(tensor_maps.encoded(each, pointers[each.pointer]) for each in maps)


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


def load(variant: Variant, tools: Instruments) -> list[Any]:
    """The kernel's functions from its cubin in the order of their launches, ready for prepared
    calls. Raises NotCompiled."""
    compile_record(variant, tools.binaries)
    kernel = variant.kernel
    cubin = binary_of(variant, tools.binaries)
    # PyCUDA's parameters are no place for tensor maps, and its launches never overlap.
    direct = bool(kernel.tensor_maps) or kernel.overlaps
    module = Module(tools.drv, cubin) if direct else tools.drv.module_from_file(str(cubin))
    functions = [module.get_function(name) for name in kernel.functions]
    attribute = tools.drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
    plan = variant.plan(variant.fitted(kernel.product.parse(1)), tools.binaries.name)
    for function, launch in zip(functions, plan.launches, strict=True):
        if launch.shared_bytes > STATIC_SHARED:
            function.set_attribute(attribute, launch.shared_bytes)
        if kernel.overlaps:
            function.overlap()
    arguments = parameter_format(kernel)
    return [function.prepare(arguments) for function in functions]


def parameter_format(kernel: Kernel) -> str:
    """The parameters of a kernel's functions, a letter each."""
    arrays, dimensions = kernel.product.signature
    numbers = "P" * arrays + "i" * dimensions + "P" * len(kernel.workspace)
    return numbers + "M" * len(kernel.tensor_maps)


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
