"""A product of matrices that lie in a given way, prepared: what is left of a call is to write
addresses and to launch."""

import itertools
import math
from ctypes import byref, c_void_p
from dataclasses import dataclass
from functools import partial

from matmul_sweep.api.cards import Card
from matmul_sweep.api.layout import Matrices
from matmul_sweep.launch import driver
from matmul_sweep.launch.combine import Combine
from matmul_sweep.launch.products import ALIGNMENT, Prepared
from matmul_sweep.operations.shapes import ceil_div

PLAIN, SCALED, ADDED, EMPTY = range(4)  # C = AB, alpha·AB, alpha·AB + beta·C, beta·C


def way_of(alpha: float, beta: float) -> int:
    """Which of these a call is."""
    if alpha == 1 and beta == 0:
        return PLAIN
    if alpha == 0:
        return EMPTY
    return ADDED if beta != 0 else SCALED


@dataclass(frozen=True)
class Task:
    """The factors and C of a product, as its kernel takes them; of the number type `dtype`."""

    dtype: str
    itemsize: int
    inputs: tuple[Matrices, ...]
    output: Matrices
    way: int

    @property
    def copied(self) -> list[bool]:
        """Which of the inputs are multiplied, and not taken as they lie."""
        return [self.way != EMPTY and not each.by_rows for each in self.inputs]

    @property
    def apart(self) -> bool:
        """Whether the product goes elsewhere first, and from there to C."""
        return self.way == ADDED or (self.way != EMPTY and not self.output.by_rows)


class Call:
    """A function (stream, scratch, addresses, alpha, beta) that enqueues what a task takes, with
    memory `scratch` for the time of the call. It belongs to one thread."""

    def __init__(self, task: Task, card: Card, product: Prepared | None) -> None:
        """product: its kernel; None where nothing is multiplied."""
        self.product, self.card, self.count = product, card, task.output.count
        self.steps = [each.apart * task.itemsize for each in (*task.inputs, task.output)]
        dense = [Matrices.dense(each.extent).strides for each in (*task.inputs, task.output)]
        self.copies = [
            Combine(card.combining[task.dtype], each.extent, each.strides, own) if copied else None
            for each, own, copied in zip(task.inputs, dense, task.copied, strict=False)
        ]
        self.apart, self.last = task.apart, None
        if task.apart or task.way != PLAIN:
            source = dense[-1] if task.apart else task.output.strides
            self.last = Combine(
                card.combining[task.dtype], task.output.extent, source, task.output.strides
            )
        alone = not any(task.copied) and self.last is None and self.count == 1
        self.direct = product if alone else None
        self.offsets, self.scratch_bytes = parts(task, product)
        self.context, self.now = card.context.value, c_void_p()
        self.find_current = partial(driver.library().cuCtxGetCurrent, byref(self.now))

    def __call__(
        self, stream: int, scratch: int, addresses: list[int], alpha: float, beta: float
    ) -> None:
        """Raises DriverError."""
        self.find_current()
        if self.now.value != self.context:
            with self.card.current():
                self.launch(stream, scratch, addresses, alpha, beta)
        elif self.direct:
            self.direct(stream, scratch, addresses)
        else:
            self.launch(stream, scratch, addresses, alpha, beta)

    def launch(
        self, stream: int, scratch: int, addresses: list[int], alpha: float, beta: float
    ) -> None:
        for which in range(self.count):
            own = [each + which * step for each, step in zip(addresses, self.steps, strict=True)]
            self.launch_one(stream, scratch, own, alpha, beta, which == 0)

    def launch_one(
        self, stream: int, scratch: int, addresses: list[int], alpha: float, beta: float,
        first: bool,
    ) -> None:  # fmt: skip
        """One matrix of a stack; the `first` copies what all of them share."""
        places = [scratch + offset for offset in self.offsets]
        output, result = addresses[-1], places[-1] if self.apart else addresses[-1]
        if self.product:
            for i, copy in enumerate(self.copies):
                if copy:
                    if first or self.steps[i]:
                        copy(stream, addresses[i], places[i])
                    addresses[i] = places[i]
            self.product(stream, scratch, [*addresses[:-1], result])
        if self.last:
            self.last(stream, result, output, alpha if self.product else 0, beta)


def parts(task: Task, product: Prepared | None) -> tuple[list[int], int]:
    """Behind the kernel's workspace, the offsets of copies of the inputs and of C, and the bytes of
    all that."""
    needed = [*task.copied, task.apart]
    bytes_of = [math.prod(each.extent) * task.itemsize for each in (*task.inputs, task.output)]
    sizes = [size if used else 0 for size, used in zip(bytes_of, needed, strict=True)]
    whole = [ceil_div(size, ALIGNMENT) * ALIGNMENT for size in sizes]
    start = product.workspace_bytes if product else 0
    *offsets, end = itertools.accumulate(whole, initial=start)
    return offsets, end
