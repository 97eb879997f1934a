"""A product of matrices that lie in a given way, prepared: what is left of a call is to write
addresses and to launch."""

from collections.abc import Sequence
from ctypes import byref, c_void_p
from functools import partial

from matmul_sweep.api.cards import Card
from matmul_sweep.api.layout import Matrices
from matmul_sweep.launch import driver
from matmul_sweep.launch.combine import Combine
from matmul_sweep.launch.products import ALIGNMENT, Prepared
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import ceil_div

PLAIN, SCALED, ADDED, EMPTY = range(4)  # C = AB, alpha·AB, alpha·AB + beta·C, beta·C


def way_of(alpha: float, beta: float) -> int:
    """Which of these a call is."""
    if alpha == 1 and beta == 0:
        return PLAIN
    if alpha == 0:
        return EMPTY
    return ADDED if beta != 0 else SCALED


class Call:
    """A function (stream, scratch, addresses, alpha, beta) that enqueues a product of matrices at
    these addresses, C's the last, with memory `scratch` for the time of the call. It belongs to one
    thread."""

    def __init__(
        self, card: Card, dtype: str, inputs: Sequence[Matrices], output: Matrices, way: int,
        product: Prepared | None,
    ) -> None:  # fmt: skip
        """product: the kernel's, None where nothing is multiplied."""
        self.card, self.dtype, self.product, self.count = card, dtype, product, output.count
        self.scratch_bytes = product.workspace_bytes if product else 0
        self.steps = [each.apart * DTYPES[dtype].bytes for each in (*inputs, output)]
        self.copies = [None if each.by_rows or not product else self.copy(each) for each in inputs]
        # The product goes elsewhere first, and from there to C.
        self.apart = bool(product) and (way == ADDED or not output.by_rows)
        dense = Matrices.dense(output.extent)
        self.place = self.room_for(dense) if self.apart else 0
        source = dense if self.apart else output
        self.last = self.combine(source, output) if self.apart or way != PLAIN else None
        alone = not (any(self.copies) or self.last or self.count > 1)
        self.direct = product if alone else None
        self.context, self.now = card.context.value, c_void_p()
        self.find_current = partial(driver.library().cuCtxGetCurrent, byref(self.now))

    def copy(self, each: Matrices) -> tuple[Combine, int]:
        """What copies a matrix, and to which offset."""
        dense = Matrices.dense(each.extent)
        return self.combine(each, dense), self.room_for(dense)

    def combine(self, source: Matrices, target: Matrices) -> Combine:
        function = self.card.combining[self.dtype]
        return Combine(function, target.extent, source.strides, target.strides)

    def room_for(self, each: Matrices) -> int:
        """The offset of room for a matrix."""
        offset, size = self.scratch_bytes, each.elements * DTYPES[self.dtype].bytes
        self.scratch_bytes += ceil_div(size, ALIGNMENT) * ALIGNMENT
        return offset

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
        *inputs, output = addresses
        result = scratch + self.place if self.apart else output
        if self.product:
            for i, made in enumerate(self.copies):
                if made:
                    copy, offset = made
                    if first or self.steps[i]:
                        copy(stream, inputs[i], scratch + offset)
                    inputs[i] = scratch + offset
            self.product(stream, scratch, [*inputs, result])
        if self.last:
            self.last(stream, result, output, alpha if self.product else 0, beta)
