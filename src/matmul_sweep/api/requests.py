"""What is asked of arrays that lie in a given way: checked, its kernel chosen, compiled and loaded,
and its launches prepared."""

import threading
import warnings
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

from matmul_sweep.api.calls import ADDED, EMPTY, PLAIN, Call, Copy
from matmul_sweep.api.cards import card, check_accuracy, chosen, operation_for
from matmul_sweep.api.kinds import Kind, Seen
from matmul_sweep.api.layout import Matrices, arranged_gemm, arranged_gram, share_memory
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.operation import Operation
from matmul_sweep.operations.shapes import LARGEST, Shape

MOST_STREAMS = 64  # for which calls are kept
PER_THREAD = 2  # the handle of each thread's own default stream


class Question(NamedTuple):
    """A product as it is asked for. added: D is given, behind the inputs. new: C is to be made,
    else it is the last array. looks: the fields of Seen of each array."""

    kind: Kind
    symmetric: bool
    kernel: str | None
    accuracy: str
    way: int
    added: bool
    new: bool
    looks: tuple[tuple[Any, ...], ...]

    @property
    def seen(self) -> list[Seen]:
        return [Seen(*look) for look in self.looks]

    @property
    def arrays(self) -> list[Matrices]:
        """How they lie. Raises the kind's error for dimensions that are not two or three."""
        for each in self.seen:
            if len(each.shape) not in (2, 3):
                raise self.kind.wrong(f"a matrix or a stack is wanted, not {tuple(each.shape)}")
        return [
            Matrices.of(each.shape, self.kind.strides(each), self.itemsize, each.odd)
            for each in self.seen
        ]

    @property
    def itemsize(self) -> int:
        return DTYPES[self.kind.dtype(self.seen[0].dtype)].bytes


class Request:
    """The answer: how C is made, and for each stream a call that does the rest."""

    def __init__(self, question: Question) -> None:
        """Raises what gemm does."""
        self.kind, (self.number_type, self.device, *_) = question.kind, question.looks[0]
        self.operation, self.given = operation_of(question), question.arrays
        self.factors = 1 if question.symmetric else 2  # arrays that are multiplied
        inputs = self.given[: self.factors]
        order = [0, 0] if question.symmetric else [0, 1]
        if question.symmetric and not self.operation.symmetric:
            inputs = [inputs[0].transposed, inputs[0]]
        self.shape = shape_of(question, self.operation, inputs)
        output = Matrices.dense(self.shape) if question.new else self.given[-1]
        self.addend = self.given[self.factors] if question.added else None
        if question.added:
            check_addend(question, self.shape)
        if not question.new:
            check_output(question, self.shape, output)
        if self.operation.symmetric:
            left = inputs[0].transposed if self.operation.right_transposed else inputs[0]
            self.arranged = arranged_gram(left, output, self.addend)
        else:
            free = question.new and self.kind.has_views
            self.arranged = arranged_gemm(inputs, output, order, free, self.addend)
        self.straight = list(self.arranged.order) in ([0], [0, 1])
        self.itemsize = question.itemsize
        self.spans = [[self.itemsize * end for end in each.span] for each in self.given]
        self.way = question.way if inputs[-1].extent[0] else EMPTY
        self.calls: dict[int, Call] = {}
        self.empty = not all(self.shape)
        self.question = question
        self.variant = None if self.empty or self.way == EMPTY else self.choice(question)
        # How C lies.
        self.c = self.arranged.output.transposed if self.arranged.by_columns else output

    def choice(self, question: Question) -> Variant:
        """The kernel. Raises what gemm does."""
        shape, arch = self.product_shape, card(self.device).architecture
        scales = self.way != PLAIN
        return chosen(question.kernel, question.accuracy, self.operation, shape, arch, scales)

    @cached_property
    def spare(self) -> "Request | None":
        """The same by the kernel of "ieee", for calls that find too little memory for a workspace;
        None if it is this one, or if a kernel was named."""
        if self.question.kernel:
            return None
        exact = Request(self.question._replace(accuracy="ieee"))
        return None if exact.variant == self.variant else exact

    @property
    def product_shape(self) -> Shape:
        """As the kernel has it."""
        inputs, output = self.arranged.inputs, self.arranged.output
        sides = (
            inputs[0].extent if self.operation.symmetric else output.extent + inputs[1].extent[:1]
        )
        return self.operation.shape(*sides)

    def prepared(self, stream: int) -> Call:
        """The call for a stream, whose kernel is loaded. Raises what gemm does."""
        product, gpu, arranged = None, card(self.device), self.arranged
        if self.variant:
            owner = (stream, threading.get_ident()) if stream == PER_THREAD else stream
            product = gpu.product(self.variant, owner).prepared(self.product_shape)
        epilogue = self.variant and self.variant.kernel.epilogue and self.way != PLAIN
        in_store, dtype = bool(epilogue) and arranged.output.by_rows, self.operation.dtype
        beside = self.beside(in_store)
        stays = beside or self.way not in (ADDED, EMPTY) or (in_store and self.addend == self.c)
        move = None if not self.addend or stays else Copy(gpu, dtype, self.addend, self.c)
        call = Call(gpu, dtype, arranged, self.way, product, in_store, beside, move)
        if any(call.copies):
            tell_of_copies()
        if len(self.calls) == MOST_STREAMS:
            self.calls.clear()
        return self.calls.setdefault(stream, call)

    def beside(self, in_store: bool) -> Matrices | None:
        """D, if it is added from its own place to a product that is in C by then."""
        d, c = self.arranged.addend, self.arranged.output
        able = self.way == EMPTY or (self.way == ADDED and not in_store and c.by_rows)
        return d if d and able and (d.extent, d.count) == (c.extent, c.count) else None

    def new(self) -> Any:
        """A new C."""
        if not self.arranged.by_columns:
            return self.kind.empty(self.shape, self.number_type, self.device)
        *stack, rows, columns = self.shape
        made = self.kind.empty((*stack, columns, rows), self.number_type, self.device)
        return made.swapaxes(-1, -2)

    def launch(self, given: Sequence[Any], addresses: list[int], alpha: float, beta: float) -> None:
        """Enqueue the product of arrays at these addresses, C's the last."""
        if self.empty:
            return
        if self.way != EMPTY and not all(addresses):
            raise self.kind.wrong("an array without memory of its own: give its local array")
        if self.kind.allocates:
            self.enqueue(given, addresses, alpha, beta)
        else:
            with card(self.device).current():
                self.enqueue(given, addresses, alpha, beta)

    def enqueue(
        self, given: Sequence[Any], addresses: list[int], alpha: float, beta: float
    ) -> None:
        kind, stream = self.kind, self.kind.stream(self.device, given)
        call = self.calls.get(stream) or self.prepared(stream)
        size = call.scratch_bytes
        try:
            _memory, scratch = kind.scratch(size, self.device, stream) if size else (None, 0)
        except kind.no_memory:
            if self.spare is None:
                raise
            tell_of_memory(size)
            return self.spare.enqueue(given, addresses, alpha, beta)
        *inputs, output = addresses
        addend = inputs[self.factors] if self.addend else output
        own = inputs[: self.factors] if self.straight else [inputs[i] for i in self.arranged.order]
        call(stream, scratch, [*own, output], addend, alpha, beta)
        kind.finish(stream)

    def check_apart(self, addresses: list[int]) -> None:
        """Raise the kind's error if C shares memory with another array."""
        if self.empty:
            return
        target, (low, high) = addresses[-1], self.spans[-1]
        c = target, self.given[-1]
        for i, (at, own, (first, end)) in enumerate(
            zip(addresses, self.given, self.spans[:-1], strict=False)
        ):
            near = at + first < target + high and target + low < at + end
            if not near or not share_memory(self.itemsize, (at, own), c):
                continue
            if i < self.factors:
                raise self.kind.wrong("out shares memory with an input: give it its own")
            raise self.kind.wrong("out shares memory with a part of d: give it its own, or d")


def operation_of(question: Question) -> Operation:
    """What is computed. Raises the kind's errors for number types and devices, and ValueError."""
    kind, seen = question.kind, question.seen
    check_accuracy(question.accuracy)
    types = [kind.dtype(each.dtype) for each in seen]
    if len(set(types)) > 1:
        raise kind.wrong_type(f"arrays of several number types: {', '.join(types)}")
    devices = [each.device for each in seen]
    if len(set(devices)) > 1 or min(devices) < 0:
        places = ", ".join("the CPU" if each < 0 else f"GPU {each}" for each in sorted({*devices}))
        raise kind.wrong(f"arrays of one GPU are wanted, not ones on {places}")
    symmetric = question.symmetric and operation_for(types[0], True)
    operation = symmetric or operation_for(types[0], False)
    if not operation:
        ways = (False, True) if question.symmetric else (False,)
        able = [name for name in DTYPES if any(operation_for(name, way) for way in ways)]
        raise kind.wrong_type(f"no kernel multiplies {types[0]}, but {', '.join(able)}")
    return operation


def shape_of(question: Question, operation: Operation, inputs: list[Matrices]) -> tuple[int, ...]:
    """The shape of C. Raises the kind's error for inputs that do not fit each other."""
    shapes = [tuple(each.shape) for each in question.seen]
    wrong, left, right = question.kind.wrong, inputs[0], inputs[-1]
    if operation.symmetric:
        left = left.transposed
    counts = {each.count for each in inputs} - {1}
    if left.extent[1] != right.extent[0] or len(counts) > 1:
        raise wrong(f"inputs that do not fit: {shapes[0]} and {shapes[1]}")
    if max(left.extent + right.extent) > LARGEST:
        raise wrong(f"an extent over {LARGEST}: {', '.join(map(str, shapes))}")
    stack = [counts.pop() if counts else 1] if max(map(len, shapes[: len(inputs)])) == 3 else []
    return *stack, left.extent[0], right.extent[1]


def check_addend(question: Question, shape: tuple[int, ...]) -> None:
    """Raise the kind's error for a `d` that cannot be added to C."""
    own = tuple(question.seen[1 if question.symmetric else 2].shape)
    if own != shape:
        raise question.kind.wrong(f"d has the shape {own}, and the product {shape}")


def check_output(question: Question, shape: tuple[int, ...], output: Matrices) -> None:
    """Raise the kind's error for an `out` that cannot take C."""
    if not question.kind.writable:
        raise question.kind.wrong_type("arrays of this kind cannot be written to: leave out `out`")
    own = tuple(question.seen[-1].shape)
    if own != shape:
        raise question.kind.wrong(f"out has the shape {own}, and the product {shape}")
    if all(shape) and not output.distinct:
        raise question.kind.wrong("several elements of out share their memory: give it its own")


@cache
def tell_of_copies() -> None:
    """Warn, once."""
    warnings.warn(
        "matmul_sweep copies a matrix before it multiplies, because its rows have gaps or begin at "
        "odd addresses, or because one factor is row-major and the other column-major; the product "
        "is right, and this is said once",
        stacklevel=7,
    )


@cache
def tell_of_memory(size: int) -> None:
    """Warn, once for a size."""
    warnings.warn(
        f"matmul_sweep finds no {size} bytes of GPU memory for the time of the call, and takes the "
        "kernel that needs less; the product is right",
        stacklevel=7,
    )
