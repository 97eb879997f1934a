"""What the models of cards have of which there are published sets, by the names that the driver
gives them."""

from dataclasses import dataclass

GIB, MIB = 1 << 30, 1 << 20


@dataclass(frozen=True)
class Card:
    """A model's compute capability, its multiprocessors, the highest clock of these in MHz, and the
    GB/s of its memory, by NVIDIA's data sheet of the model. What device.json can say at most: bytes
    of memory, of which the system keeps some, and of L2 cache, and W of a power limit, which may be
    lowered; an H200 says of itself that its L2 has 60 MiB.
    """

    compute_capability: str
    multiprocessors: int
    clock_mhz: int
    memory_gb_s: int
    memory_bytes: int
    l2_bytes: int
    power_limit_w: int


CARDS = {
    "NVIDIA H100 80GB HBM3": Card("9.0", 132, 1980, 3350, 80 * GIB, 50 * MIB, 700),
    "NVIDIA H200": Card("9.0", 132, 1980, 4800, 141 * GIB, 60 * MIB, 700),
}
