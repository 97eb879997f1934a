"""The limits of a thread, a block and a multiprocessor, for each architecture."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WARP = 32
# These hold for every compute capability from 6.0 on (CUDA C++ Programming Guide, table of
# technical specifications).
MAXIMUM_GRID_Y = 65535
MAXIMUM_THREADS = 1024  # of a block
MAXIMUM_CLUSTER = 8  # blocks, on every card that has clusters
MAXIMUM_REGISTERS = 255  # of a thread, 32 bits each
REGISTER_FILE = 65536  # registers that a block's threads share
STATIC_SHARED = 48 << 10  # bytes of a block; a kernel must ask for more than that when launched
RESERVED_SHARED = 1024  # bytes that the system keeps of each block's shared memory, since 8.0
REGISTER_UNIT = 256  # registers are allocated to warps in units of this many
WARP_UNIT = 4  # each quarter of a multiprocessor has its own register file


@dataclass(frozen=True)
class Architecture:
    """One multiprocessor: resident threads, KB of shared memory that a block may ask for, how many
    of them a card has, and multiply-adds per clock for each kind of unit. None where a card has no
    such units, or where they differ between products of the architecture.

    Threads and shared memory: CUDA C++ Programming Guide, table of technical specifications.
    Multiply-adds: its table "Throughput of Native Arithmetic Instructions"; tensor cores: NVIDIA's
    white papers on the V100, the A100 and the H100, for dense matrices. Multiprocessors: those of
    the architecture's largest product, by its white paper (GP100, GP102, V100, TU102, A100, GA102,
    AD102, H100 SXM, B200, RTX PRO 6000); where we know of none, the H100's.
    """

    threads: int
    shared: int = 227
    multiprocessors: int = 132
    fp32: int | None = 128
    fp64: int | None = 2
    fp64_tensor: int | None = None
    fp16_tensor: int | None = None
    bf16_tensor: int | None = None


ARCHITECTURES = {
    "6.0": Architecture(2048, 48, 56, 64, 32),
    "6.1": Architecture(2048, 48, 30, 128, 4),
    "7.0": Architecture(2048, 96, 80, 64, 32, None, 512),
    "7.5": Architecture(1024, 64, 72, 64, 2, None, 512),
    "8.0": Architecture(2048, 163, 108, 64, 32, 64, 1024, 1024),
    "8.6": Architecture(1536, 99, 84),
    "8.7": Architecture(1536, 163),
    "8.9": Architecture(1536, 99, 144),
    "9.0": Architecture(2048, 227, 132, 128, 64, 128, 2048, 2048),
    "10.0": Architecture(2048, 227, 148, 128, 64),
    "10.3": Architecture(2048, 227, 132, 128, None),
    "11.0": Architecture(1536, 227, 132, 128, None),
    "12.0": Architecture(1536, 99, 188),
    "12.1": Architecture(1536, 99),
}
DEFAULT = "9.0"  # of what is emulated, or compiled for an architecture that is not listed


def capability(name: str) -> tuple[int, int]:
    """The compute capability that `sm_90`, `sm_90a` or `9.0` names, such as (9, 0)."""
    digits = re.sub(r"\D", "", name)
    return int(digits[:-1]), int(digits[-1])


def architecture(arch: str | None) -> Architecture:
    """The multiprocessor of `arch` (sm_90); the default one for None and for what is not listed."""
    if arch is None:
        return ARCHITECTURES[DEFAULT]
    return ARCHITECTURES.get("{}.{}".format(*capability(arch)), ARCHITECTURES[DEFAULT])


def has_instructions(arch: str, since: str) -> bool:
    """Whether an architecture has the instructions that a compute capability brought. Those of 9.0a
    (wgmma, setmaxnreg) are 9.0's own: later ones do without them."""
    if since.endswith("a"):
        return capability(arch) == capability(since)
    return capability(arch) >= capability(since)


def target(arch: str, since: str) -> str:
    """The architecture to compile for: sm_90a where a source needs 9.0a on sm_90."""
    own = since.endswith("a") and has_instructions(arch, since)
    return f"{arch.rstrip('a')}a" if own else arch


def peak_terms(device: Mapping[str, Any], units: str) -> tuple[float, ...] | None:
    """The factors of the peak of one kind of units in TFLOP/s, from the facts of a card:
    multiprocessors, operations of each per clock, and the highest clock in MHz. None for an unknown
    card, or one without them."""
    known = ARCHITECTURES.get(str(device.get("compute_capability")))
    count = getattr(known, units) if known else None
    if count is None or "clock_mhz" not in device:
        return None
    return device["multiprocessors"], 2 * count, device["clock_mhz"], 1e-6
