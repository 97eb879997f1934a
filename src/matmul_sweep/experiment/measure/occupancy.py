"""The share of a multiprocessor that a kernel can keep busy."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matmul_sweep.catalogue.architectures import REGISTER_UNIT, RESERVED_SHARED, WARP, WARP_UNIT
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.verify.gpu import Gpu
from matmul_sweep.operations.shapes import ceil_div


@dataclass(frozen=True)
class Limits:
    """The limits of one multiprocessor: threads, blocks, registers, shared memory in bytes."""

    threads: int
    blocks: int
    registers: int
    shared_bytes: int


def limits_of(gpu: Gpu) -> Limits:
    """Those of a card."""
    names = ("THREADS", "BLOCKS", "REGISTERS", "SHARED_MEMORY")
    return Limits(*(gpu.attribute(f"MAX_{name}_PER_MULTIPROCESSOR") for name in names))


def occupancy(threads: int, registers: int, shared_bytes: int, limits: Limits) -> float:
    """Resident threads over the most that a multiprocessor holds, between 0 and 1.

    `threads` and `shared_bytes` (static and dynamic) are per block, `registers` per thread. The
    rules are those of NVIDIA's occupancy calculator (CUDA C++ Best Practices Guide, section
    Occupancy).
    """
    warps = ceil_div(threads, WARP)
    of_warp = ceil_div(max(registers, 1) * WARP, REGISTER_UNIT) * REGISTER_UNIT
    by_registers = limits.registers // of_warp // WARP_UNIT * WARP_UNIT // warps
    by_shared = limits.shared_bytes // (shared_bytes + RESERVED_SHARED)
    blocks = min(limits.blocks, limits.threads // (warps * WARP), by_registers, by_shared)
    return blocks * warps * WARP / limits.threads


def occupancy_of(variant: Variant, gpu: Gpu, record: Mapping[str, Any]) -> float:
    """The share of a multiprocessor's threads that can be resident with the compiled kernel."""
    shared = record["shared_bytes"] + variant.dynamic_shared_bytes
    return occupancy(math.prod(variant.block), record["registers"], shared, limits_of(gpu))
