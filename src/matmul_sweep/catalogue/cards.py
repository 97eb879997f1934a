"""What the models of cards have that data sets are of, by the names that the driver gives them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """A model's compute capability, its multiprocessors, the highest clock of these in MHz, and
    what its memory gives in GB/s, by NVIDIA's data sheet of the model."""

    compute_capability: str
    multiprocessors: int
    clock_mhz: int
    memory_gb_s: int


CARDS = {
    "Tesla V100-SXM2-16GB": Card("7.0", 80, 1530, 900),
    "Tesla V100-SXM2-32GB": Card("7.0", 80, 1530, 900),
    "Tesla T4": Card("7.5", 40, 1590, 320),
    "NVIDIA A100-PCIE-40GB": Card("8.0", 108, 1410, 1555),
    "NVIDIA A100-SXM4-40GB": Card("8.0", 108, 1410, 1555),
    "NVIDIA A100 80GB PCIe": Card("8.0", 108, 1410, 1935),
    "NVIDIA A100-SXM4-80GB": Card("8.0", 108, 1410, 2039),
    "NVIDIA H100 PCIe": Card("9.0", 114, 1755, 2000),
    "NVIDIA H100 80GB HBM3": Card("9.0", 132, 1980, 3350),
    "NVIDIA H200": Card("9.0", 132, 1980, 4800),
}
