"""What the models of cards have of which there are published sets, by the names that the driver
gives them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """A model's compute capability, its multiprocessors, the highest clock of these in MHz, the
    GB/s and GiB of its memory, the MiB of its L2 cache, and the highest power limit in W, by
    NVIDIA's data sheet of the model; an H200 says of itself that its L2 has 60 MiB.
    """

    compute_capability: str
    multiprocessors: int
    clock_mhz: int
    memory_gb_s: int
    memory_gib: int
    l2_mib: int
    power_w: int

    @property
    def at_most(self) -> dict[str, float]:
        """What device.json can say at most: of memory the system keeps some, and a limit may be
        lowered."""
        return {
            "memory_bytes": self.memory_gib << 30,
            "l2_bytes": self.l2_mib << 20,
            "power_limit_w": self.power_w,
        }


CARDS = {
    "NVIDIA H100 80GB HBM3": Card("9.0", 132, 1980, 3350, 80, 50, 700),
    "NVIDIA H200": Card("9.0", 132, 1980, 4800, 141, 60, 700),
}
