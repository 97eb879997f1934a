"""Functions that the driver's own interface loads and launches, with PyCUDA's names.

PyCUDA hands the parameters over in one packed buffer. The tensor memory accelerator refuses the
maps of such a buffer as an illegal instruction, even where their bytes are right. The driver also
takes a pointer to each parameter, and puts the maps where the accelerator finds them.
"""

import ctypes
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_uint, c_void_p
from pathlib import Path
from types import ModuleType
from typing import Any

from matmul_sweep.launch import tensor_maps
from matmul_sweep.launch.device import driver_library

KINDS = {"P": c_void_p, "i": c_int, "M": ctypes.c_char * tensor_maps.BYTES}  # of parameters
OVERLAPS = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION of cuda.h


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

    def __init__(self, drv: ModuleType, cubin: Path) -> None:
        self.drv, self.handle = drv, c_void_p()
        self.call("cuModuleLoad", byref(self.handle), str(cubin).encode())

    def get_function(self, name: str) -> "Function":
        """Raises the driver's errors, as all here do."""
        handle = c_void_p()
        self.call("cuModuleGetFunction", byref(handle), self.handle, name.encode())
        return Function(self, handle)

    def call(self, name: str, *arguments: Any) -> None:
        """Call the driver. Raises `pycuda.driver.LaunchError`."""
        if error := getattr(driver_library(), name)(*arguments):
            text = c_char_p()
            driver_library().cuGetErrorString(error, byref(text))
            said = (text.value or b"unknown error").decode()
            raise self.drv.LaunchError(f"{name} failed: {said}")


class Function:
    """A function of a module."""

    def __init__(self, module: Module, handle: c_void_p) -> None:
        self.module, self.handle = module, handle
        self.kinds: list[Any] = []
        self.attributes = (Attribute * 0)()

    def set_attribute(self, attribute: int, value: int) -> None:
        self.module.call("cuFuncSetAttribute", self.handle, int(attribute), value)

    def prepare(self, parameters: str) -> "Function":
        """Say what its parameters are: addresses (P), numbers (i), tensor maps (M)."""
        self.kinds = [KINDS[letter] for letter in parameters]
        return self

    def overlap(self) -> None:
        """Let its launches begin before the one before them has ended (kernels/overlap.cuh)."""
        self.attributes = (Attribute * 1)(Attribute(id=OVERLAPS, value=1))

    def prepared_async_call(
        self, grid: tuple[int, ...], block: tuple[int, ...], stream: Any, *arguments: Any,
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
        self.module.call("cuLaunchKernelEx", byref(wanted), self.handle, pointers, None)
