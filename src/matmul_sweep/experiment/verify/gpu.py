"""A GPU as the experiment uses it: held by one job at a time, through PyCUDA, and described."""

import atexit
import contextlib
import fcntl
import logging
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import pynvml

from matmul_sweep.catalogue.architectures import peak_terms
from matmul_sweep.launch import device
from matmul_sweep.launch.driver import DriverError, NoDevice
from matmul_sweep.operations.dtypes import UNITS
from matmul_sweep.process.files import write_text

WAIT_S = 0.1  # between checks for a free card


def pycuda() -> ModuleType:
    """`pycuda.driver`, initialised. Raises NoDevice without the package.

    PyCUDA is built without a link to libcuda, so the driver must be open before the import.
    """
    device.count()
    try:
        import pycuda.driver as drv
    except ModuleNotFoundError as missing:  # the packages of a class have none
        raise NoDevice(f"{missing}; `uv sync` installs what a GPU needs") from None
    drv.init()
    return drv


@contextmanager
def opened(shared: bool = False, begun: Path | None = None) -> Iterator["Gpu"]:
    """A GPU that no other job on this host holds, with its primary context current.

    A job that times nothing may share it with others like it (`shared`). If all GPUs are held, it
    waits for one. begun: a file with the UUID of the card that the job began on, which it goes on
    with where that is there. Raises NoDevice, UserError (old driver).
    """
    with first_free([Gpu(ordinal) for ordinal in range(device.count())], shared, begun) as gpu:
        gpu.activate()
        logging.info("on %s, %s", gpu.name, gpu.uuid)
        yield gpu


@contextmanager
def first_free(
    cards: Sequence["Gpu"], shared: bool = False, begun: Path | None = None
) -> Iterator["Gpu"]:
    """The first card whose lock is free, held until the block ends."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    before = begun.read_text() if begun and begun.exists() else ""
    cards = [card for card in cards if card.uuid == before] or cards
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
        if begun:
            write_text(card.uuid, begun)
        yield card


def locked(file: TextIO, kind: int) -> bool:
    """Try to take a file's lock (fcntl.LOCK_EX or LOCK_SH), which closing the file releases; return
    whether that worked."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Gpu(device.Gpu):
    """One GPU: PyCUDA's driver, its facts and its lock."""

    def __init__(self, ordinal: int) -> None:
        super().__init__(ordinal)
        self.drv = pycuda()
        self.errors = (self.drv.Error, DriverError)  # of launches and of memory
        self.nvml, self.nvml_reason = nvml_handle(self.uuid)

    def activate(self) -> None:
        """Make its primary context current, until the program ends. Raises NoDevice."""
        try:
            context = self.drv.Device(self.ordinal).retain_primary_context()
            context.push()
        except self.drv.Error as error:
            raise NoDevice(f"{self.name} cannot be used ({error})") from None
        # A context that is left on the stack aborts the interpreter at its exit.
        atexit.register(context.pop)

    def peak(self, units: str) -> float | None:
        """TFLOP/s of one kind of units at the highest clock; None for an unknown card, or without
        them."""
        facts = {
            "compute_capability": self.compute_capability,
            "multiprocessors": self.attribute("MULTIPROCESSOR_COUNT"),
            "clock_mhz": self.attribute("CLOCK_RATE") / 1000,
        }
        terms = peak_terms(facts, units)
        return math.prod(terms) if terms else None

    def facts(self) -> dict[str, Any]:
        """What a reader must know about the card to repeat a figure."""
        return {
            "gpu": self.name,
            "uuid": self.uuid,
            "compute_capability": self.compute_capability,
            "multiprocessors": self.attribute("MULTIPROCESSOR_COUNT"),
            "clock_mhz": self.attribute("CLOCK_RATE") // 1000,
            **{f"{units.rate}_peak_tflops": self.peak(units.rate) for units in UNITS.values()},
            "memory_bytes": self.memory_bytes,
            "l2_bytes": self.l2_bytes,
            "driver": pynvml.nvmlSystemGetDriverVersion() if self.nvml else None,
            "driver_cuda": device.driver_version(),
            "power_limit_w": (
                pynvml.nvmlDeviceGetPowerManagementLimit(self.nvml) / 1000 if self.nvml else None
            ),
            "nvml": self.nvml_reason,
        }

    def lock_file(self) -> TextIO:
        """The file whose lock a job on this card holds, for jobs of all users and folders."""
        path = Path(tempfile.gettempdir()) / f"matmul-sweep-{self.uuid}.lock"
        with contextlib.suppress(FileExistsError):
            path.touch(mode=0o444, exist_ok=False)
        return path.open()  # read-only: another user may have created the file


def nvml_handle(uuid: str) -> tuple[Any, str]:
    """NVML's handle of a card, or None; and in words whether NVML answers."""
    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByUUID(uuid), "available"
    except pynvml.NVMLError as error:
        return None, f"unavailable: {error}"
