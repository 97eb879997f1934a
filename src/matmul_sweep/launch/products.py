"""A kernel's product on the device: its functions, launches, workspace and tensor maps."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matmul_sweep.build.binaries import binary_of, digest
from matmul_sweep.catalogue.architectures import STATIC_SHARED
from matmul_sweep.catalogue.entries import Kernel, Variant
from matmul_sweep.catalogue.plans import Plan, TensorMap
from matmul_sweep.launch import driver, tensor_maps
from matmul_sweep.launch.driver import Memory, OutOfMemory, Stream
from matmul_sweep.operations.shapes import Shape, ceil_div
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json

ALIGNMENT = 1024  # bytes, of the parts of a workspace
MOST_MAPS = 1024  # sets of tensor maps that a product keeps


class NotCompiled(Exception):
    """A variant without a binary, because it did not compile; the message says why."""


class NoRoom(MemoryError):
    """A workspace that does not fit; the message says how many bytes it has."""


def compile_record(variant: Variant, binaries: Path) -> dict[str, Any]:
    """The compiler's record of the variant in a folder of binaries.

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


class Product:
    """A function (stream, shape, *inputs, C) that enqueues one product, of device pointers. It
    keeps the workspace for a shape and the tensor maps for pointers between calls, so its products
    belong on one stream."""

    def __init__(
        self, variant: Variant, binaries: Path, module: Callable[[Path], Any] = driver.Module
    ) -> None:
        """`binaries`: the folder of an architecture, which has its name. `module` loads a cubin and
        gives functions as driver.Module does. Raises NotCompiled and the driver's errors."""
        compile_record(variant, binaries)
        self.variant, arch = variant, binaries.name
        self.plan = functools.cache(lambda shape: variant.plan(shape, arch))
        self.maps = functools.lru_cache(MOST_MAPS)(encoded)
        self.functions = functions(variant, arch, module(binary_of(variant, binaries)))
        self.shape: Shape | None = None
        self.memory: Memory | None = None

    def __call__(self, stream: Stream, shape: Shape, *pointers: int) -> None:
        """Raises NoRoom."""
        plan, parts, maps = self.prepared(shape, pointers)
        arguments = (*pointers, *shape.dimensions, *parts, *maps)
        for function, each in zip(self.functions, plan.launches, strict=True):
            function.prepared_async_call(
                each.grid, each.block, stream, *arguments, shared_size=each.shared_bytes
            )

    def prepared(
        self, shape: Shape, pointers: tuple[int, ...]
    ) -> tuple[Plan, tuple[int, ...], tuple[bytes, ...]]:
        """The plan, the addresses of the workspace's parts, and the tensor maps. Raises NoRoom."""
        plan = self.plan(shape)
        sizes = [ceil_div(size, ALIGNMENT) * ALIGNMENT for size in plan.workspace]
        if sizes and shape != self.shape:
            self.allocate(shape, sum(sizes))
        parts = tuple(int(self.memory or 0) + sum(sizes[:i]) for i in range(len(sizes)))
        return plan, parts, self.maps(plan.maps, pointers + parts)

    def allocate(self, shape: Shape, size: int) -> None:
        """Memory for the workspace in place of that for the last shape. Raises NoRoom."""
        self.shape = self.memory = None  # which frees it
        try:
            self.memory = Memory(size)
        except OutOfMemory:
            raise NoRoom(
                f"{self.variant.name} at {shape} needs a workspace of {size} bytes, more than the "
                "GPU has left"
            ) from None
        self.shape = shape


def encoded(maps: tuple[TensorMap, ...], pointers: tuple[int, ...]) -> tuple[bytes, ...]:
    return tuple(tensor_maps.encoded(each, pointers[each.pointer]) for each in maps)


def functions(variant: Variant, arch: str, module: Any) -> list[Any]:
    """The kernel's functions in the order of their launches, ready for prepared calls."""
    kernel = variant.kernel
    found = [module.get_function(name) for name in kernel.functions]
    plan = variant.plan(variant.fitted(kernel.product.parse(1)), arch)
    for function, launch in zip(found, plan.launches, strict=True):
        if launch.shared_bytes > STATIC_SHARED:
            function.set_attribute(driver.MOST_SHARED, launch.shared_bytes)
        if kernel.overlaps:
            function.overlap()
    return [function.prepare(parameter_format(kernel)) for function in found]


def parameter_format(kernel: Kernel) -> str:
    """The parameters of a kernel's functions, a letter each."""
    arrays, dimensions = kernel.product.signature
    numbers = "P" * arrays + "i" * dimensions + "P" * len(kernel.workspace)
    return numbers + "M" * len(kernel.tensor_maps)
