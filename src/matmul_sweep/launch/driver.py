"""The CUDA driver through ctypes: its errors, memory, modules and launches.

A launch hands over a pointer to each parameter. In one packed buffer, as PyCUDA hands them over,
the tensor memory accelerator refuses tensor maps as an illegal instruction, even where their bytes
are right.
"""

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache, partial
from pathlib import Path
from typing import Any

from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

from matmul_sweep.process.errors import UserError

OVERLAPS = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION of cuda.h
MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


class NoDevice(UserError):
    """There is no usable GPU here; the message says what is missing."""


class DriverError(RuntimeError):
    """A call that the driver refuses."""


class OutOfMemory(DriverError, MemoryError):
    """Memory that the device has not."""


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
        raise failure(name, error)


def failure(name: str, error: int) -> DriverError:
    """What a function of the driver answered, in the driver's words."""
    text = c_char_p()
    library().cuGetErrorString(error, byref(text))
    said = f"{name} failed: {(text.value or b'unknown error').decode()}"
    return OutOfMemory(said) if error == OUT_OF_MEMORY else DriverError(said)


@contextlib.contextmanager
def outside_capture() -> Iterator[None]:
    """Let this thread load modules while a stream is captured, which has no part in that."""
    mode = c_int(RELAXED)
    call("cuThreadExchangeStreamCaptureMode", byref(mode))
    try:
        yield
    finally:
        call("cuThreadExchangeStreamCaptureMode", byref(mode))


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
                self.free()

    def free(self) -> None:
        call("cuMemFree_v2", self.address)


class StreamMemory(Memory):
    """Bytes that are a stream's: taken and freed where the stream comes to it, so nobody waits."""

    def __init__(self, size: int, stream: int) -> None:
        self.address, self.stream = c_uint64(), c_void_p(stream)
        call("cuMemAllocAsync", byref(self.address), c_size_t(size), self.stream)

    def free(self) -> None:
        call("cuMemFreeAsync", self.address, self.stream)


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

    def function(self, name: str) -> "Function":
        handle = c_void_p()
        call("cuModuleGetFunction", byref(handle), self.handle, name.encode())
        return Function(handle)


class Function:
    """A function of a module."""

    def __init__(self, handle: c_void_p) -> None:
        self.handle = handle

    def allow_shared(self, size: int) -> None:
        """Let its blocks have so many bytes of dynamic shared memory."""
        call("cuFuncSetAttribute", self.handle, MOST_SHARED, size)


class Launch:
    """A launch of which only the stream is open: it is enqueued when called with the handle of one.

    The arguments are ctypes' objects. What is written into them is what the next launch takes, so a
    launch belongs to one thread.
    """

    def __init__(
        self, function: Function, grid: tuple[int, ...], block: tuple[int, ...],
        arguments: Sequence[Any], shared_bytes: int = 0, overlaps: bool = False,
    ) -> None:  # fmt: skip
        """overlaps: it may begin before the launch before it ends (kernels/overlap.cuh)."""
        own = (Attribute * overlaps)(*[Attribute(id=OVERLAPS, value=1)] * overlaps)
        pointers = (c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        self.arguments = arguments  # which have to stay where they are
        self.wanted = Configuration(grid, block, shared_bytes, None, own, len(own))
        self.enqueue = partial(
            library().cuLaunchKernelEx, byref(self.wanted), function.handle, pointers, None
        )

    def __call__(self, stream: int) -> None:
        """Raises DriverError."""
        self.wanted.stream = stream
        if error := self.enqueue():
            raise failure("cuLaunchKernelEx", error)
