"""What a run verifies: which variant at which shapes, and under whose name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.experiment.plan.settings import GPU
from matmul_sweep.experiment.verify.verification import verification_shapes
from matmul_sweep.operations.shapes import Shape

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """A variant at its shapes, or what a dispatch, the owner, chooses at some."""

    owner: Variant
    variant: Variant
    shapes: tuple[Shape, ...]

    def __str__(self) -> str:
        return str(self.variant)

    @property
    def file(self) -> str:
        """The name of its record."""
        return f"{self.owner.slug}.{self.variant.slug}.json"

    def named(self, rows: Rows) -> Rows:
        """The rows under the owner's name."""
        if self.owner == self.variant:
            return rows
        own = {"kernel": self.owner.kernel.name, "variant": self.owner.name}
        reasons = [row["reason"] and f"{self.variant.name}: {row['reason']}" for row in rows]
        return [row | own | {"reason": why} for row, why in zip(rows, reasons, strict=True)]


def tasks_of(experiment: Experiment, operation: str) -> list[Task]:
    """What is verified of an operation: each variant once, and then what the dispatches choose."""
    every = experiment.operations[operation]
    tasks: list[Task] = []
    for variant in sorted(every, key=lambda variant: variant.kernel.kind is Kind.DISPATCH):
        tasks += chosen(experiment, variant, {task.variant.slug for task in tasks})
    return tasks


def chosen(experiment: Experiment, owner: Variant, known: set[str]) -> Iterator[Task]:
    """A variant at its shapes. Of a dispatch, variants that nobody else verifies (not `known`) at
    their own shapes, and each at the built-in shapes for which it is chosen."""
    arch, extra = architecture_of(experiment), experiment.verify_shapes(owner)
    new = [part for part in experiment.parts(owner, arch) if part.slug not in known]
    at = {part: verification_shapes(part, extra) for part in new}
    ready = known | {part.slug for part in new}
    for shape in verification_shapes(owner, extra):
        part = owner.part(shape, arch)
        if part.slug in ready:
            at.setdefault(part, []).append(shape)
    for part, shapes in at.items():
        yield Task(owner, part, tuple(dict.fromkeys(shapes)))


def unchosen(experiment: Experiment, tasks: Sequence[Task], dispatch: Variant) -> list[Shape]:
    """The built-in shapes of a variant for which it, a dispatch, chooses what is not verified
    here."""
    done = {shape for task in tasks if task.owner == dispatch for shape in task.shapes}
    shapes = verification_shapes(dispatch, experiment.verify_shapes(dispatch))
    return [shape for shape in shapes if shape not in done]


def planned(experiment: Experiment, operation: str) -> Iterator[tuple[Variant, Shape]]:
    """The variant and the shape of each row of verification.csv."""
    tasks = tasks_of(experiment, operation)
    for variant in experiment.operations[operation]:
        own = [task.shapes for task in tasks if task.owner == variant]
        for shape in chain(*own, unchosen(experiment, tasks, variant)):
            yield variant, shape


def needed(experiment: Experiment, tasks: Sequence[Task], variant: Variant) -> list[Task]:
    """What has to be right before a variant is timed: itself or, of a dispatch, what it chooses at
    the shapes that are measured. A job has the binaries of these only."""
    parts = experiment.parts(variant, architecture_of(experiment))
    return [task for task in tasks if task.variant in parts]


def architecture_of(experiment: Experiment) -> str | None:
    """The architecture whose table a dispatch uses: the GPU's, or that of the emulation."""
    return experiment.architectures[0] if experiment.device == GPU else None
