"""What the models of cards have that data sets are of, by the names that the driver gives them."""

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
    "Tesla V100-SXM2-16GB": Card("7.0", 80, 1530, 900, 16, 6, 300),
    "Tesla V100-SXM2-32GB": Card("7.0", 80, 1530, 900, 32, 6, 300),
    "Tesla T4": Card("7.5", 40, 1590, 320, 16, 4, 70),
    "NVIDIA A100-PCIE-40GB": Card("8.0", 108, 1410, 1555, 40, 40, 250),
    "NVIDIA A100-SXM4-40GB": Card("8.0", 108, 1410, 1555, 40, 40, 400),
    "NVIDIA A100 80GB PCIe": Card("8.0", 108, 1410, 1935, 80, 40, 300),
    "NVIDIA A100-SXM4-80GB": Card("8.0", 108, 1410, 2039, 80, 40, 400),
    "NVIDIA H100 PCIe": Card("9.0", 114, 1755, 2000, 80, 50, 350),
    "NVIDIA H100 80GB HBM3": Card("9.0", 132, 1980, 3350, 80, 50, 700),
    "NVIDIA H200": Card("9.0", 132, 1980, 4800, 141, 60, 700),
}
