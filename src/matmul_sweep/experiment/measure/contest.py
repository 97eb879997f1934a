"""The contenders at a point, on the same inputs, and the look at what a last timed launch wrote."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.measure.bench import Block, error_columns
from matmul_sweep.experiment.measure.launches import Action
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.products import GpuProduct
from matmul_sweep.experiment.verify.reference import Reference

Timed = TypeVar("Timed", float, Block)


@dataclass(frozen=True, eq=False)
class Contender:
    """A variant, a launch of it and the C that this writes; algorithm: the one of those that the
    library offers."""

    variant: Variant
    launch: Action
    c: int
    algorithm: str = ""


@dataclass(frozen=True)
class Contest:
    """The product that all contenders are to compute, and the inputs."""

    tools: Instruments
    wanted: Reference
    inputs: Sequence[int]

    def contender(
        self, variant: Variant, product: GpuProduct, c: int, algorithm: str = ""
    ) -> Contender:
        """A contender that writes its product to `c`."""
        launch = partial(product, self.wanted.shape, *self.inputs, c)
        return Contender(variant, launch, c, algorithm)

    def looked_at(
        self, contender: Contender, timed: Callable[[Action, Action], Timed], factor: int = 2
    ) -> tuple[Timed, dict[str, float]]:
        """Timed launches of a contender, the last ones or, with a factor of 1, the first ones; and
        the columns of its errors. C is NaN before them, and verified as they leave it. A is so many
        times what it was before, so that no answer of an earlier launch is right; others find it as
        it was, also after a failure.

        timed: times a launch, and enqueues an action directly behind the last. factor: a power of
        two. Raises Wrong.
        """
        kind, shape, scale = self.wanted.operation, self.wanted.shape, self.tools.scale
        a, c = self.inputs[0], contender.c
        of_c = factor**2 if kind.symmetric else factor  # A is both factors, or one
        scale(a, shape.elements[0], kind.dtype, factor)
        self.tools.poison(c, shape.elements[-1], kind.output)
        scaled_back = partial(scale, c, shape.elements[-1], kind.output, 1 / of_c)
        try:
            found = timed(contender.launch, scaled_back)
        finally:
            scale(a, shape.elements[0], kind.dtype, 1 / factor)
        [errors] = self.wanted.errors([c], [contender.variant.kernel])
        when = " in its last timed launch" if factor > 1 else ""
        return found, error_columns(contender.variant, errors, when)
