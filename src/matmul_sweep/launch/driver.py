"""The CUDA driver through ctypes: its errors, memory, modules and launches.

Modules and functions have PyCUDA's names, so that a product takes PyCUDA's too. PyCUDA hands the
parameters over in one packed buffer. The tensor memory accelerator refuses the maps of such a
buffer as an illegal instruction, even where their bytes are right. The driver also takes a pointer
to each parameter, and puts the maps where the accelerator finds them.
"""

import contextlib
import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

from matmul_sweep.process.errors import UserError

MAP_BYTES = 128  # of a tensor map, which is a kernel's parameter
KINDS = {"P": c_void_p, "i": c_int, "M": c_char * MAP_BYTES}  # of parameters
OVERLAPS = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION of cuda.h
MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


class NoDevice(UserError):
    """There is no usable GPU here; the message says what is missing."""


class DriverError(Exception):
    """A call that the driver refuses."""


class OutOfMemory(DriverError, MemoryError):
    """Memory that the device has not."""


class Stream(Protocol):
    """A stream of the driver, as PyCUDA's streams are."""

    handle: int


@cache
def library() -> ctypes.CDLL:
    """The driver's own interface. Raises NoDevice without a driver."""
    try:
        found = load_nvidia_dynamic_lib("cuda")
    except DynamicLibNotFoundError:
        raise NoDevice("there is no NVIDIA driver on this machine") from None
    # A tool that loaded the driver first (compute-sanitizer) kept its symbols to itself.
    return ctypes.CDLL(found.abs_path or "libcuda.so.1", mode=ctypes.RTLD_GLOBAL)


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver. Raises DriverError with its name and the driver's words."""
    if error := getattr(library(), name)(*arguments):
        text = c_char_p()
        library().cuGetErrorString(error, byref(text))
        said = f"{name} failed: {(text.value or b'unknown error').decode()}"
        raise OutOfMemory(said) if error == OUT_OF_MEMORY else DriverError(said)


class Memory:
    """Bytes on the device in the current context, which it frees when nobody refers to it."""

    def __init__(self, size: int) -> None:
        """Raises OutOfMemory."""
        self.address = c_uint64()
        call("cuMemAlloc_v2", byref(self.address), c_size_t(size))

    def __int__(self) -> int:
        return self.address.value

    def __del__(self) -> None:
        with contextlib.suppress(DriverError):  # after a failed launch nothing can be freed
            if self.address.value:
                call("cuMemFree_v2", self.address)


class Attribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h; its value is a union of 64 bytes."""

    _fields_ = (("id", c_int), ("pad", c_char * 4), ("value", c_int), ("rest", c_char * 60))


class Configuration(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = (
        ("grid", c_uint * 3), ("block", c_uint * 3), ("shared_bytes", c_uint),
        ("stream", c_void_p), ("attributes", POINTER(Attribute)), ("count", c_uint),
    )  # fmt: skip


class Module:
    """A cubin in the current context, where it stays."""

    def __init__(self, cubin: Path) -> None:
        """Raises DriverError, as all here do."""
        self.handle = c_void_p()
        call("cuModuleLoad", byref(self.handle), str(cubin).encode())

    def get_function(self, name: str) -> "Function":
        handle = c_void_p()
        call("cuModuleGetFunction", byref(handle), self.handle, name.encode())
        return Function(handle)


class Function:
    """A function of a module."""

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle
        self.kinds: list[Any] = []
        self.attributes = (Attribute * 0)()

    def set_attribute(self, attribute: int, value: int) -> None:
        call("cuFuncSetAttribute", self.handle, attribute, value)

    def prepare(self, parameters: str) -> "Function":
        """Say what its parameters are: addresses (P), numbers (i), tensor maps (M)."""
        self.kinds = [KINDS[letter] for letter in parameters]
        return self

    def overlap(self) -> None:
        """Let its launches begin before the one before them ends (kernels/instructions.cuh)."""
        self.attributes = (Attribute * 1)(Attribute(id=OVERLAPS, value=1))

    def prepared_async_call(
        self, grid: tuple[int, ...], block: tuple[int, ...], stream: Stream, *arguments: Any,
        shared_size: int = 0,
    ) -> None:  # fmt: skip
        """Enqueue a launch."""
        values = [
            kind.from_buffer_copy(value) if isinstance(value, bytes) else kind(value)
            for kind, value in zip(self.kinds, arguments, strict=True)
        ]
        pointers = (c_void_p * len(values))(*map(ctypes.addressof, values))
        wanted = Configuration(
            grid, block, shared_size, stream.handle, self.attributes, len(self.attributes)
        )
        call("cuLaunchKernelEx", byref(wanted), self.handle, pointers, None)
