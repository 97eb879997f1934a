"""A product of matrices that lie in a given way, prepared: what is left of a call is to write
addresses and to launch."""

from ctypes import byref, c_void_p
from functools import partial

from matmul_sweep.api.cards import Card
from matmul_sweep.api.layout import Arrangement, Matrices
from matmul_sweep.launch import driver
from matmul_sweep.launch.combine import Combine
from matmul_sweep.launch.products import ALIGNMENT, Prepared
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import ceil_div

PLAIN, SCALED, ADDED, EMPTY = range(4)  # C = AB, alpha·AB, alpha·AB + beta·D, beta·D


def way_of(alpha: float, beta: float) -> int:
    """Which of these a call is."""
    if alpha == 1 and beta == 0:
        return PLAIN
    if alpha == 0:
        return EMPTY
    return ADDED if beta != 0 else SCALED


class Copy:
    """A function (stream, source, target) that enqueues a copy of a matrix, or of a stack of them,
    at these addresses. It belongs to one thread."""

    def __init__(self, card: Card, dtype: str, source: Matrices, target: Matrices) -> None:
        function, size = card.combining[dtype], DTYPES[dtype].bytes
        self.combine = Combine(function, target.extent, source.strides, target.strides)
        self.count, self.steps = target.count, (source.apart * size, target.apart * size)

    def __call__(self, stream: int, source: int, target: int) -> None:
        """Raises DriverError."""
        from_one, to_one = self.steps
        for which in range(self.count):
            self.combine(stream, source + which * from_one, target + which * to_one)


class Call:
    """A function (stream, scratch, addresses, addend, alpha, beta) that enqueues a product of
    matrices at these addresses, C's the last, with memory `scratch` for the time of the call.
    addend: D's address. It belongs to one thread."""

    def __init__(
        self, card: Card, dtype: str, arranged: Arrangement, way: int, product: Prepared | None,
        in_store: bool = False, beside: Matrices | None = None, move: Copy | None = None,
    ) -> None:  # fmt: skip
        """product: the kernel's, None where nothing is multiplied. in_store: it scales and adds
        itself, a D that lies as C does. beside: D, if it is added from its own place to C. move: of
        D to C, which is D then."""
        inputs, output = arranged.inputs, arranged.output
        self.card, self.dtype, self.product, self.count = card, dtype, product, output.count
        self.in_store, self.beside, self.move = in_store, beside, move
        self.scratch_bytes = product.workspace_bytes if product else 0
        self.steps = [each.apart * DTYPES[dtype].bytes for each in (*inputs, output)]
        self.step_of_d = (beside or output).apart * DTYPES[dtype].bytes
        self.copies = [None if each.by_rows or not product else self.copy(each) for each in inputs]
        # The product goes elsewhere first, and from there to C.
        in_the_way = not output.by_rows or (way == ADDED and not beside)
        self.apart = bool(product) and not in_store and in_the_way
        dense = Matrices.dense(output.extent)
        self.place = self.room_for(dense) if self.apart else 0
        source = beside or (dense if self.apart else output)
        combines = self.apart or (way != PLAIN and not in_store)
        self.last = self.combine(source, output) if combines else None
        alone = not (any(self.copies) or self.last or move or self.count > 1)
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
        self, stream: int, scratch: int, addresses: list[int], addend: int, alpha: float,
        beta: float,
    ) -> None:  # fmt: skip
        """Raises DriverError."""
        self.find_current()
        if self.now.value != self.context:
            with self.card.current():
                self.launch(stream, scratch, addresses, addend, alpha, beta)
        elif self.direct:
            self.direct(stream, scratch, addresses, alpha, beta, addend)
        else:
            self.launch(stream, scratch, addresses, addend, alpha, beta)

    def launch(
        self, stream: int, scratch: int, addresses: list[int], addend: int, alpha: float,
        beta: float,
    ) -> None:  # fmt: skip
        if self.move:
            self.move(stream, addend, addresses[-1])
            addend = addresses[-1]
        for which in range(self.count):
            own = [each + which * step for each, step in zip(addresses, self.steps, strict=True)]
            added = addend + which * self.step_of_d
            self.launch_one(stream, scratch, own, added, alpha, beta, which == 0)

    def launch_one(
        self, stream: int, scratch: int, addresses: list[int], addend: int, alpha: float,
        beta: float, first: bool,
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
            factors = (alpha, beta, addend) if self.in_store else ()
            self.product(stream, scratch, [*inputs, result], *factors)
        if self.last:
            scale = alpha if self.product else 0
            if self.beside:
                self.last(stream, addend, output, beta, scale)
            else:
                self.last(stream, result, output, scale, beta)
