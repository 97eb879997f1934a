"""The contenders at a point, on the same inputs, and the look at what a last timed launch wrote."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.measure.bench import Block, error_columns
from matmul_sweep.experiment.measure.launches import Action, Launches
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.reference import Reference

Timed = TypeVar("Timed", float, Block)


@dataclass(frozen=True, eq=False)
class Contender:
    """A variant and its launches; algorithm: the one of those that the library offers."""

    variant: Variant
    launches: Launches
    algorithm: str = ""


@dataclass(frozen=True)
class Contest:
    """A variant, then its rivals, and the product that all are to compute."""

    tools: Instruments
    contenders: Sequence[Contender]
    wanted: Reference
    random: np.random.Generator

    def looked_at(self, contender: Contender, timed: Callable[[Action, Action], Timed]) -> Timed:
        """The last timed launches of a contender. C is NaN before them, and verified as they leave
        it. A is twice what it was before, so that no answer of an earlier launch is right; others
        find it as it was, also after a failure.

        timed: times a launch, and enqueues an action directly behind the last. Raises Wrong.
        """
        kind, shape, scale = self.wanted.operation, self.wanted.shape, self.tools.scale
        (a, *_, c), launch = contender.launches.here()
        times_c = 4 if kind.right == 0 else 2  # of C where A is both factors, and where it is one
        scale(a, shape.elements[0], kind.dtype, 2)
        self.tools.poison(c, shape.elements[-1], kind.output)
        try:
            found = timed(launch, partial(scale, c, shape.elements[-1], kind.output, 1 / times_c))
        finally:
            scale(a, shape.elements[0], kind.dtype, 1 / 2)
        [errors] = self.wanted.errors([c], [contender.variant.kernel])
        error_columns(contender.variant, errors, " in its last timed launch")
        return found
