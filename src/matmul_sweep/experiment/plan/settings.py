"""What is measured at a time, how, and where a kernel runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    """How the samples of a variant are taken; config.yaml says what each key means.

    copy_seconds: 0 if copies, end to end and unified memory are not timed.
    """

    sample_seconds: float = 0
    copy_seconds: float = 0
    warm_seconds: float = 0
    load_seconds: float = 0

    @classmethod
    def of(cls, section: Mapping[str, Any], on_gpu: bool, copied: bool) -> "Sampling":
        """The section `sampling` of a sweep, as far as it is about such a variant."""
        own = dict(section)
        on_cpu = own.pop("cpu_seconds", own["seconds"])
        if not on_gpu:
            own["seconds"] = on_cpu
        return cls(**own if copied else own | {"copy_seconds": 0})

    @property
    def copies(self) -> Rule | None:
        """When the samples of copies are enough; None if there are none."""
        return Rule(5, 50, 0.02, self.copy_seconds) if self.copy_seconds else None

    def warming(self, mode: str) -> float:
        """Seconds of launches before the samples, the first one included."""
        return self.load_seconds if mode == "sustained" else self.warm_seconds


@dataclass(frozen=True)
class Limits:
    """What a job waits for, skips and gives up; config.yaml says what each key means.

    launch_seconds: its gpu_seconds or cpu_seconds.
    """

    launch_seconds: float
    hang_seconds: float
    memory_share: float
    cool_celsius: float
    cool_seconds: float

    @classmethod
    def of(cls, section: Mapping[str, Any], on_gpu: bool) -> "Limits":
        """The section `limits` of a sweep, as far as it is about such a variant."""
        own = dict(section)
        on_gpu_s, on_cpu_s = own.pop("gpu_seconds"), own.pop("cpu_seconds")
        return cls(launch_seconds=on_gpu_s if on_gpu else on_cpu_s, **own)


@dataclass(frozen=True)
class Settings:
    """How the points of a variant are measured; after a change they are measured again."""

    seed: int
    caches: tuple[str, ...]
    sampling: Sampling
    limits: Limits


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
