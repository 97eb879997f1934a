"""What is measured at a time, how, and where a kernel runs."""

from dataclasses import dataclass, replace

from matmul_sweep.catalogue.entries import Kernel
from matmul_sweep.experiment.dataset.intervals import Rule
from matmul_sweep.operations.shapes import Shape

GPU, CPU, EMULATION, NOWHERE = "gpu", "cpu", "emulation", "nowhere"


def place_of(kernel: Kernel, device: str) -> str:
    """Where a kernel runs: GPU, CPU, EMULATION (a CUDA source on the CPU) or NOWHERE.

    device: gpu or cpu, what the run measures on.
    """
    if not kernel.on_gpu:
        return CPU
    if device == GPU:
        return GPU
    return EMULATION if kernel.hand_written else NOWHERE


@dataclass(frozen=True)
class Sampling(Rule):
    """The configuration's `sampling` of a sweep; config.yaml says what each key means."""

    sample_seconds: float = 0
    copy_seconds: float = 0
    warm_seconds: float = 0
    load_seconds: float = 0
    cpu_seconds: float | None = None

    @property
    def copies(self) -> Rule:
        """When the samples of copies, end to end and unified memory are enough."""
        return Rule(minimum=5, maximum=50, interval=0.02, seconds=self.copy_seconds)

    @property
    def on_cpu(self) -> "Sampling":
        """The same for a variant of the CPU."""
        own = self.cpu_seconds
        return self if own is None else replace(self, seconds=own)

    def warming(self, mode: str) -> float:
        """Seconds of launches before the samples, the first one included."""
        return self.load_seconds if mode == "sustained" else self.warm_seconds


@dataclass(frozen=True)
class Limits:
    """The configuration's `limits` of a sweep."""

    gpu_seconds: float
    cpu_seconds: float
    hang_seconds: float
    memory_share: float
    cool_celsius: float
    cool_seconds: float


@dataclass(frozen=True)
class Settings:
    """How the points of a variant are measured; after a change they are measured again.

    copied: whether copies, end to end and unified memory are timed.
    """

    seed: int
    caches: tuple[str, ...]
    sampling: Sampling
    limits: Limits
    copied: bool


@dataclass(frozen=True)
class Case:
    """What is measured at a time: a shape, the fill of its inputs, and the mode.

    mode: burst or sustained, how long the product is launched before it is timed.
    """

    shape: Shape
    fill: str
    mode: str

    def __str__(self) -> str:
        return f"{self.shape} {self.fill} {self.mode}"
