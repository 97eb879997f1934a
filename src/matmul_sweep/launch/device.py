"""The GPUs: found, and each opened, described and held by one job at a time."""

import atexit
import contextlib
import ctypes
import fcntl
import logging
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import pynvml
from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

from matmul_sweep.build import toolchain
from matmul_sweep.build.packages import TAKE_CUDA_12
from matmul_sweep.catalogue.architectures import peak_terms
from matmul_sweep.launch.occupancy import Limits
from matmul_sweep.operations.dtypes import UNITS
from matmul_sweep.process.errors import UserError

WAIT_S = 0.1  # between checks for a free card


class NoDevice(Exception):
    """There is no usable GPU here; the message says what is missing."""


@cache
def driver_library() -> ctypes.CDLL:
    """The driver's own interface. Raises NoDevice without a driver."""
    try:
        found = load_nvidia_dynamic_lib("cuda")
    except DynamicLibNotFoundError:
        raise NoDevice("there is no NVIDIA driver on this machine") from None
    # A tool that loaded the driver first (compute-sanitizer) kept its symbols to itself.
    return ctypes.CDLL(found.abs_path or "libcuda.so.1", mode=ctypes.RTLD_GLOBAL)


@cache
def driver() -> ModuleType:
    """`pycuda.driver`, initialised. Raises NoDevice without a driver or a GPU, and UserError if the
    driver is older than the toolkit.

    PyCUDA is built without a link to libcuda, so the driver must be open before the import.
    """
    library = driver_library()
    # Before the import, because an old driver lacks functions that PyCUDA needs.
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    check_driver(version.value, toolchain.toolkit_version())
    try:
        import pycuda.driver as drv
    except ModuleNotFoundError as missing:  # the packages of a class have none
        raise NoDevice(f"{missing}; `uv sync` installs what a GPU needs") from None
    try:
        drv.init()
        count = drv.Device.count()
    except drv.Error as error:
        raise NoDevice(f"the NVIDIA driver finds no usable GPU ({error})") from None
    if not count:
        raise NoDevice("the NVIDIA driver finds no GPU")
    return drv


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
    drv = driver()
    return [Gpu(drv, drv.Device(i)) for i in range(drv.Device.count())]


@contextmanager
def opened(shared: bool = False) -> Iterator["Gpu"]:
    """A GPU that no other job on this host holds, with its primary context current.

    A job that times nothing may share it with others like it (`shared`). If all GPUs are held, it
    waits for one. Raises NoDevice, UserError (old driver).
    """
    with first_free(gpus(), shared) as gpu:
        gpu.activate()
        logging.info("on %s, %s", gpu.device.name(), gpu.uuid)
        yield gpu


@contextmanager
def first_free(cards: Sequence["Gpu"], shared: bool = False) -> Iterator["Gpu"]:
    """The first card whose lock is free, held until the block ends."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with contextlib.ExitStack() as opened_files:
        locks = [(card, opened_files.enter_context(card.lock_file())) for card in cards]

        def free() -> Gpu | None:
            return next((card for card, file in locks if locked(file, kind)), None)

        card = free()
        if not card:
            logging.warning("waiting: other jobs hold every GPU of this machine")
        while not card:
            time.sleep(WAIT_S)
            card = free()
        yield card


def locked(file: TextIO, kind: int) -> bool:
    """Try to take a file's lock (fcntl.LOCK_EX or LOCK_SH), which closing the file releases; return
    whether that worked."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Gpu:
    """One GPU: its facts and its lock."""

    def __init__(self, drv: ModuleType, device: Any) -> None:
        self.drv = drv
        self.device = device
        self.nvml, self.nvml_reason = nvml_handle(device.pci_bus_id())

    def activate(self) -> None:
        """Make its primary context current, until the program ends. Raises NoDevice."""
        try:
            context = self.device.retain_primary_context()
            context.push()
        except self.drv.Error as error:
            raise NoDevice(f"{self.device.name()} cannot be used ({error})") from None
        # A context that is left on the stack aborts the interpreter at its exit.
        atexit.register(context.pop)

    def attribute(self, name: str) -> int:
        return self.device.get_attribute(getattr(self.drv.device_attribute, name))

    @property
    def compute_capability(self) -> str:
        return "{}.{}".format(*self.device.compute_capability())

    @property
    def architecture(self) -> str:
        """Its architecture as nvcc names it, such as sm_90."""
        return "sm_{}{}".format(*self.device.compute_capability())

    @property
    def limits(self) -> Limits:
        """The limits of one multiprocessor."""
        return Limits(
            threads=self.attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            blocks=self.attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
            registers=self.attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            shared_bytes=self.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        )

    @property
    def l2_bytes(self) -> int:
        return self.attribute("L2_CACHE_SIZE")

    @property
    def uuid(self) -> str:
        """The driver's UUID of the card, or its PCI address if NVML does not answer."""
        return pynvml.nvmlDeviceGetUUID(self.nvml) if self.nvml else self.device.pci_bus_id()

    def peak(self, units: str) -> float | None:
        """TFLOP/s of one kind of UNITS at the highest clock; None for an unknown card, or without
        them."""
        facts = {
            "compute_capability": self.compute_capability,
            "multiprocessors": self.attribute("MULTIPROCESSOR_COUNT"),
            "clock_mhz": self.clock_khz / 1000,
        }
        terms = peak_terms(facts, units)
        return math.prod(terms) if terms else None

    @property
    def clock_khz(self) -> int:
        return self.attribute("CLOCK_RATE")

    def facts(self) -> dict[str, Any]:
        """What a reader must know about the card to repeat a figure."""
        return {
            "gpu": self.device.name(),
            "uuid": self.uuid,
            "compute_capability": self.compute_capability,
            "multiprocessors": self.attribute("MULTIPROCESSOR_COUNT"),
            "clock_mhz": self.clock_khz // 1000,
            **{f"{units.rate}_peak_tflops": self.peak(units.rate) for units in UNITS.values()},
            "memory_bytes": self.device.total_memory(),
            "l2_bytes": self.l2_bytes,
            "driver": pynvml.nvmlSystemGetDriverVersion() if self.nvml else None,
            "driver_cuda": self.drv.get_driver_version(),
            "power_limit_w": (
                pynvml.nvmlDeviceGetPowerManagementLimit(self.nvml) / 1000 if self.nvml else None
            ),
            "nvml": self.nvml_reason,
        }

    def lock_file(self) -> TextIO:
        """The file whose lock a job on this card holds, for jobs of all users and folders."""
        path = Path(tempfile.gettempdir()) / f"matmul-sweep-{self.uuid.replace(':', '-')}.lock"
        with contextlib.suppress(FileExistsError):
            path.touch(mode=0o444, exist_ok=False)
        return path.open()  # read-only: another user may have created the file


def nvml_handle(pci_bus_id: str) -> tuple[Any, str]:
    """NVML's handle of a card, or None; and in words whether NVML answers."""
    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id), "available"
    except pynvml.NVMLError as error:
        return None, f"unavailable: {error}"
