"""A kernel's product on the device: its functions, launches, workspace and tensor maps."""

import ctypes
import itertools
import math
from ctypes import c_char, c_float, c_int, c_uint64
from pathlib import Path
from typing import Any

from matmul_sweep.build.binaries import binary_of, digest
from matmul_sweep.catalogue.architectures import STATIC_SHARED, has_instructions
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.launch import tensor_maps
from matmul_sweep.launch.driver import Function, Launch, Memory, Module, OutOfMemory
from matmul_sweep.operations.shapes import Shape, ceil_div
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json

ALIGNMENT = 1024  # bytes, of the parts of a workspace
MOST_MAPS = 1024  # sets of tensor maps that are kept for a shape


class NotCompiled(RuntimeError):
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
    keeps the workspace for a shape between calls, so its products belong on one stream, and what is
    prepared, so they belong to one thread."""

    def __init__(self, variant: Variant, binaries: Path) -> None:
        """`binaries`: the folder of an architecture, which has its name. Raises NotCompiled and
        DriverError."""
        compile_record(variant, binaries)
        self.variant, self.arch = variant, binaries.name
        self.functions = functions(variant, self.arch, Module(binary_of(variant, binaries)))
        self.known: dict[Shape, Prepared] = {}
        self.shape: Shape | None = None
        self.memory: Memory | None = None

    def __call__(self, stream: int, shape: Shape, *matrices: int) -> None:
        """Raises NoRoom."""
        ready = self.known.get(shape) or self.known.setdefault(shape, self.prepared(shape))
        if ready.workspace_bytes and shape != self.shape:
            self.allocate(shape, ready.workspace_bytes)
        ready(stream, int(self.memory or 0), [*matrices])

    def prepared(self, shape: Shape) -> "Prepared":
        """Its launches for a shape, apart from those of any other call."""
        return Prepared(self.variant, shape, self.arch, self.functions)

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


class Prepared:
    """A function (stream, workspace, [*inputs, C]) that enqueues the launches of one product. They
    share their arguments, into which a call writes the addresses, so it belongs to one thread. A
    kernel with an epilogue stores alpha·product + beta·D; `addend` is D's address."""

    def __init__(
        self, variant: Variant, shape: Shape, arch: str, functions: list[Function]
    ) -> None:
        kernel, plan = variant.kernel, variant.plan(shape, arch)
        sizes = [ceil_div(size, ALIGNMENT) * ALIGNMENT for size in plan.workspace]
        *self.offsets, self.workspace_bytes = itertools.accumulate(sizes, initial=0)
        matrices = kernel.product.signature[0]
        self.addresses = (c_uint64 * (matrices + len(sizes)))()
        self.maps = plan.maps
        self.room_of_maps = [(c_char * tensor_maps.MAP_BYTES)() for _ in plan.maps]
        self.encoded: dict[tuple[int, ...], list[bytes]] = {}
        places = [c_uint64.from_buffer(self.addresses, 8 * i) for i in range(len(self.addresses))]
        numbers = [c_int(extent) for extent in shape.dimensions]
        self.alpha, self.beta, self.addend = c_float(1), c_float(0), c_uint64()
        epilogue = [self.alpha, self.beta, self.addend] if kernel.epilogue else []
        arguments = [
            *places[:matrices], *numbers, *epilogue, *places[matrices:], *self.room_of_maps
        ]  # fmt: skip
        overlaps = kernel.overlaps and has_instructions(arch, "9.0")
        self.launches = [
            Launch(function, each.grid, each.block, arguments, each.shared_bytes, overlaps)
            for function, each in zip(functions, plan.launches, strict=True)
            if math.prod(each.grid)
        ]

    def __call__(
        self, stream: int, workspace: int, matrices: list[int], alpha: float = 1, beta: float = 0,
        addend: int = 0,
    ) -> None:  # fmt: skip
        """Raises DriverError."""
        self.alpha.value, self.beta.value, self.addend.value = alpha, beta, addend
        pointers: list[Any] = matrices
        if self.offsets:
            pointers = [*matrices, *[workspace + offset for offset in self.offsets]]
        self.addresses[:] = pointers
        if self.maps:
            self.write_maps((*pointers, addend))
        for launch in self.launches:
            launch(stream)

    def write_maps(self, pointers: tuple[int, ...]) -> None:
        """Tensor maps of these arrays, encoded unless they are known."""
        found = self.encoded.get(pointers)
        if found is None:
            if len(self.encoded) == MOST_MAPS:
                self.encoded.clear()
            places = [pointers[each.pointer] for each in self.maps]
            found = [  # nothing is read of a D that is not there
                tensor_maps.encoded(each, place) if place else b""
                for each, place in zip(self.maps, places, strict=True)
            ]
            self.encoded[pointers] = found
        for room, own in zip(self.room_of_maps, found, strict=True):
            ctypes.memmove(room, own, len(own))


def functions(variant: Variant, arch: str, module: Module) -> list[Function]:
    """The kernel's functions in the order of their launches, allowed the shared memory that they
    take."""
    kernel = variant.kernel
    found = [module.function(name) for name in kernel.functions]
    plan = variant.plan(variant.fitted(kernel.product.parse(1)), arch)
    for function, launch in zip(found, plan.launches, strict=True):
        if launch.shared_bytes > STATIC_SHARED:
            function.allow_shared(launch.shared_bytes)
    return found
