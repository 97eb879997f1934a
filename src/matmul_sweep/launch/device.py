"""The GPUs, as the driver describes them."""

import ctypes
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_void_p
from functools import cache, cached_property

from matmul_sweep.build import toolchain
from matmul_sweep.build.packages import TAKE_CUDA_12
from matmul_sweep.launch.driver import DriverError, NoDevice, call, library
from matmul_sweep.process.errors import UserError

# CUdevice_attribute of cuda.h.
ATTRIBUTES = {
    "CLOCK_RATE": 13,
    "MULTIPROCESSOR_COUNT": 16,
    "L2_CACHE_SIZE": 38,
    "MAX_THREADS_PER_MULTIPROCESSOR": 39,
    "COMPUTE_CAPABILITY_MAJOR": 75,
    "COMPUTE_CAPABILITY_MINOR": 76,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 81,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 82,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 106,
}
NAME_BYTES = 256


def driver_version() -> int:
    """The newest CUDA that the driver speaks: 13000 for 13.0. Raises NoDevice without a driver."""
    version = c_int()
    library().cuDriverGetVersion(byref(version))
    return version.value


@cache
def count() -> int:
    """The number of GPUs that this process may use, at least one. Raises NoDevice without a driver
    or a GPU, and UserError if the driver is older than the toolkit."""
    check_driver(driver_version(), toolchain.toolkit_version())
    found = c_int()
    try:
        call("cuInit", 0)
        call("cuDeviceGetCount", byref(found))
    except DriverError as error:
        raise NoDevice(f"the NVIDIA driver finds no usable GPU ({error})") from None
    if not found.value:
        raise NoDevice("the NVIDIA driver finds no GPU")
    return found.value


def check_driver(driver_version: int, toolkit: tuple[int, int]) -> None:
    """Raise UserError if the driver (13000 for CUDA 13.0) has an older CUDA than the compiler."""
    if driver_version // 1000 < toolkit[0]:
        enough = driver_version // 1000 == 12
        remedy = TAKE_CUDA_12 if enough else "update the driver, to 525 or newer for CUDA 12"
        speaks = f"{driver_version // 1000}.{driver_version % 1000 // 10}"
        raise UserError(
            f"the NVIDIA driver speaks CUDA {speaks}, the compiler CUDA {toolkit[0]}.{toolkit[1]}: "
            f"{remedy}"
        )


def gpus() -> list["Gpu"]:
    """Every GPU that this process may use. Raises NoDevice, UserError (old driver)."""
    return [Gpu(ordinal) for ordinal in range(count())]


class Gpu:
    """One GPU, by its number among those that the driver shows."""

    def __init__(self, ordinal: int) -> None:
        """Raises NoDevice and UserError as count does, and DriverError, as all here do."""
        count()
        self.ordinal, self.device = ordinal, c_int()
        call("cuDeviceGet", byref(self.device), ordinal)

    @cached_property
    def context(self) -> c_void_p:
        """Its primary context, which other libraries share."""
        context = c_void_p()
        call("cuDevicePrimaryCtxRetain", byref(context), self.device)
        return context

    @contextmanager
    def current(self) -> Iterator[None]:
        """Its primary context is the thread's current one until the block ends."""
        call("cuCtxPushCurrent_v2", self.context)
        try:
            yield
        finally:
            call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def attribute(self, name: str) -> int:
        value = c_int()
        call("cuDeviceGetAttribute", byref(value), ATTRIBUTES[name], self.device)
        return value.value

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(NAME_BYTES)
        call("cuDeviceGetName", text, NAME_BYTES, self.device)
        return text.value.decode()

    @property
    def uuid(self) -> str:
        """Its UUID as nvidia-smi writes it."""
        data = (ctypes.c_ubyte * 16)()
        call("cuDeviceGetUuid_v2", data, self.device)
        return f"GPU-{uuid.UUID(bytes=bytes(data))}"

    @property
    def compute_capability(self) -> str:
        parts = (self.attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
        return "{}.{}".format(*parts)

    @property
    def architecture(self) -> str:
        """Its architecture as nvcc names it, such as sm_90."""
        return f"sm_{self.compute_capability.replace('.', '')}"

    @property
    def memory_bytes(self) -> int:
        size = c_size_t()
        call("cuDeviceTotalMem_v2", byref(size), self.device)
        return size.value

    @property
    def l2_bytes(self) -> int:
        return self.attribute("L2_CACHE_SIZE")
