"""A dispatch: which variant of other kernels runs at which shape, by what it costs there."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from matmul_sweep.catalogue.architectures import architecture
from matmul_sweep.catalogue.entries import Kernel, Variant
from matmul_sweep.dispatch.cost import Cost
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError

SURELY = 1.1  # predictions err by up to a tenth, those of two tables in different ways


@dataclass(frozen=True, kw_only=True)
class Dispatch(Kernel):
    """An entry that chooses among the variants of other entries."""

    costs: tuple[Cost, ...]  # the rows of its own table
    others: tuple[Cost, ...] = ()  # of the dispatch that `otherwise` names

    @cached_property
    def variants(self) -> list[Variant]:
        """Its one variant."""
        return [Choice(self, "", {})]


@dataclass(frozen=True)
class Choice(Variant):
    """The variant of a dispatch."""

    kernel: Dispatch

    def tables(self, arch: str | None) -> list[list[Cost]]:
        """The rows for an architecture, of its own table and of the other dispatch's."""
        return [rows_for(arch, rows) for rows in (self.kernel.costs, self.kernel.others) if rows]

    def parts(self, arch: str | None, shapes: Iterable[Shape] | None = None) -> list[Variant]:
        if shapes is None:
            used = [row.variant for rows in self.tables(arch) for row in rows]
        else:
            used = [variant for shape in shapes if (variant := self.fastest(shape, arch))]
        return list({variant.slug: variant for variant in used}.values())

    def part(self, shape: Shape, arch: str | None) -> Variant:
        variant = self.fastest(shape, arch)
        if variant is None:
            raise UserError(f"{self.kernel.dispatch}: no row's variant takes {shape}")
        return variant

    def fastest(self, shape: Shape, arch: str | None) -> Variant | None:
        """Its own choice, unless the other dispatch, to which it may leave a shape, is not
        predicted to be SURELY slower; None if no variant takes the shape."""
        of_card = architecture(arch).multiprocessors
        choices = [least_of(rows, shape, of_card) for rows in self.tables(arch)]
        (least, variant), *others = choices
        return next((other for time, other in others if not least * SURELY < time), variant)

    @property
    def choices(self) -> list[tuple[tuple[object, ...], Variant]]:
        return [(row.identity, row.variant) for row in self.kernel.costs]

    @property
    def launch_identity(self) -> str:
        rows = (*self.kernel.costs, *self.kernel.others)
        return f"{super().launch_identity}{[row.identity for row in rows]}"


def rows_for(arch: str | None, rows: Sequence[Cost]) -> list[Cost]:
    """The rows of a table for an architecture. A card that it was not fitted on takes as a guess
    those rows of the first card that name variants that run there."""
    first = rows[0].architecture
    wanted = arch or first
    return [row for row in rows if row.architecture == wanted] or [
        row for row in rows if row.architecture == first and row.variant.runs_on(wanted)
    ]


def least_of(
    rows: Sequence[Cost], shape: Shape, multiprocessors: int
) -> tuple[float, Variant | None]:
    """The least microseconds that a table's rows predict, and the variant that was the fastest when
    this shape was measured, else the one with that time; infinite and None if none takes it."""
    able = [row for row in rows if row.variant.may_be_chosen(shape)]
    predicted: list[tuple[float, Variant | None]] = [
        (math.inf, None),  # before all others, so that none that is infinite is chosen
        *((row.microseconds(shape, multiprocessors), row.variant) for row in able),
    ]
    least, variant = min(predicted, key=lambda found: found[0])
    known = [row.variant for row in able if shape in row.shapes]
    return least, known[0] if known else variant
