"""How much of a multiprocessor a kernel can keep busy."""

from dataclasses import dataclass

from matmul.shapes import ceil_div

WARP = 32
REGISTER_UNIT = 256  # registers are handed out to warps in units of this many
WARP_UNIT = 4  # each quarter of a multiprocessor has its own register file
# Threads that a multiprocessor holds, by compute capability (CUDA C++ Programming Guide, table of
# technical specifications).
MOST_THREADS = {
    "7.5": 1024, "8.0": 2048, "8.6": 1536, "8.7": 1536, "8.9": 1536, "9.0": 2048, "10.0": 2048,
    "10.3": 2048, "12.0": 1536,
}  # fmt: skip
RESERVED_SHARED = 1024  # bytes that the system keeps of each block's shared memory, since cc 8.0


@dataclass(frozen=True)
class Limits:
    """Of one multiprocessor: threads, blocks, registers, shared memory in bytes."""

    threads: int
    blocks: int
    registers: int
    shared_bytes: int


def occupancy(threads: int, registers: int, shared_bytes: int, limits: Limits) -> float:
    """Resident threads over the most that a multiprocessor holds, between 0 and 1.

    `threads` and `shared_bytes` (static and dynamic) of a block, `registers` of a thread; by the
    rules of NVIDIA's occupancy calculator (CUDA C++ Best Practices Guide, section Occupancy).
    """
    warps = ceil_div(threads, WARP)
    of_warp = ceil_div(max(registers, 1) * WARP, REGISTER_UNIT) * REGISTER_UNIT
    by_registers = limits.registers // of_warp // WARP_UNIT * WARP_UNIT // warps
    by_shared = limits.shared_bytes // (shared_bytes + RESERVED_SHARED)
    blocks = min(limits.blocks, limits.threads // (warps * WARP), by_registers, by_shared)
    return blocks * warps * WARP / limits.threads
