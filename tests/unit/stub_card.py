"""A card that computes nothing: a clock that launches move, and kernels that are right in their own
ways."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from matmul_sweep.experiment.plan.settings import Limits, Sampling, Settings
from matmul_sweep.experiment.verify.verification import Accuracy
from matmul_sweep.operations.gemm import GEMM, Gemm

NEUTRAL_MS = 0.002
MS = {"own": 0.004, "library": 0.05}  # of a launch


class Card:
    """A stream whose clock only launches move, and memory: arrays by their pointers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.holds: list[list[str]] = []  # the launches of each hold
        self.arrays = {which: np.eye(4) * (which + 1) for which in range(4)}  # A, B and two C
        self.done: set[int] = set()  # C of kernels that were right once
        self.late: list[Any] = []  # what another stream does when all else is done
        self.tools: Any = SimpleNamespace(
            clear_l2=lambda: None,
            empty=self.empty,
            scale=self.scale,
            poison=self.poison,
            inputs=lambda *_: (0, 1),
            poisoned=lambda *_: 2,
        )

    def seat(self, kind: Any, cache: str, sampling: Sampling, shape: Gemm) -> tuple[Any, Any]:
        """A bench of a kind that measures here, and the reference of its products."""
        bench = kind.__new__(kind)
        bench.settings = Settings(1, (cache,), sampling, Limits(5, 9, 0.8, 75, 60))
        bench.tools, bench.stream, bench.random = self.tools, self, np.random.default_rng(1)
        bench.recorder = SimpleNamespace(now=lambda: [], span=lambda start, end: [])
        wanted = {"operation": GEMM, "shape": shape, "errors": self.errors}
        return bench, SimpleNamespace(**wanted, spot_check=lambda *_: None)

    def empty(self) -> None:
        self.now += NEUTRAL_MS

    def scale(self, which: int, count: int, dtype: str, factor: float) -> None:
        self.arrays[which] *= factor

    def poison(self, which: int, count: int, dtype: str) -> None:
        self.arrays[which] = np.full((4, 4), np.nan)

    def product(self, name: str, ms: float, write: Any) -> Any:
        """One that takes a time, and writes in its own way."""

        def product(shape: Gemm, a: int, b: int, c: int) -> None:
            self.now += ms
            if self.holds:
                self.holds[-1].append(name)
            write(self, self.arrays[a] @ self.arrays[b], c)

        return product

    def times(self, rows: Any, before: Any = None, behind: Any = None) -> list[float]:
        self.holds.append([])
        return [self.running(row, 0, 1, behind if row is rows[-1] else None) for row in rows]

    def running(self, launch: Any, first: int, count: int, behind: Any) -> float:
        for _ in range(first):
            launch()
        start = self.now
        for _ in range(count):
            launch()
        found = self.now - start
        if behind:
            behind()
        while self.late:
            self.late.pop()()
        return found

    def errors(self, cs: Any, kernels: Any) -> list[Accuracy]:
        """How far each C is from A·B."""
        right = [np.array_equal(self.arrays[c], self.arrays[0] @ self.arrays[1]) for c in cs]
        return [Accuracy(0.5 if own else np.inf, 0.1, 0.1) for own in right]


def at_once(card: Card, product: np.ndarray, c: int) -> None:
    card.arrays[c] = product


def nothing_again(card: Card, product: np.ndarray, c: int) -> None:
    """Right once: what says that all is done is never reset."""
    if c not in card.done:
        card.done.add(c)
        card.arrays[c] = product


def kept(card: Card, product: np.ndarray, c: int) -> None:
    """An answer of before, again and again."""
    card.arrays[c] = card.arrays.setdefault(10 + c, product).copy()


def late(card: Card, product: np.ndarray, c: int) -> None:
    card.late.append(lambda: at_once(card, product, c))
