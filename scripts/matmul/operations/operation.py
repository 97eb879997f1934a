"""An operation: what every module asks of one, so that none has to know which there are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from matmul.operations.dtypes import DTYPES, Dtype
from matmul.operations.shapes import Shape

TF32_ROUNDOFF = 2.0**-10  # of an input: 10 bits of fraction, the others dropped
OTHER = "other"  # a shape in none of an operation's series


@dataclass(frozen=True)
class Routine:
    """A library's function: where it runs, how it is called, and how much of C it writes.

    product: on the GPU (cublas, shape, *pointers), on the CPU (shape, *arrays); C comes last.
    arithmetics: full, and tf32 where float32 inputs may be rounded to TF32.
    """

    on_gpu: bool
    product: Callable[..., object]
    arithmetics: tuple[str, ...] = ("full",)
    writes: str = "full"


@dataclass(frozen=True)
class Document:
    """A chart of a document over squares: the figure's name, which document, its unit and title."""

    figure: str
    document: str
    unit: str
    title: str


@dataclass(frozen=True)
class Operation:
    """One kind of product: its shapes and matrices, its error's bound, its rivals, and its words.

    C = left·right, where both factors are inputs and the left one may be transposed.
    """

    name: str
    shape: type[Shape]
    dtype: str  # of the inputs and of C
    sums: str  # dtype in which an element of C is summed
    left_transposed: bool  # the left factor is input 0, or its transpose
    right: int  # the right factor: which input
    routines: Mapping[str, Routine]
    rivals: tuple[str, ...]  # library entries of the catalogue, in the order of reports
    shapes_around: Callable[[int, int], Sequence[Shape]]  # around a tile of rows and columns
    title: str  # the product as a formula
    work: str  # its count of operations as a formula
    units: Mapping[str, str]  # kinds of unit that may multiply, by ceilings.csv's names, in words
    symmetric: bool = False
    series: Mapping[str, float] = field(default_factory=dict)  # forms of A: rows per column
    documents: tuple[Document, ...] = ()
    known_from: str = ""  # the document whose kernels stand for their kind in crowded figures
    figure_prefix: str = ""

    def parse(self, text: int | str) -> Shape:
        """A shape from text. Raises UserError."""
        return self.shape.parse(text)

    def factors(self, *inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The left and the right factor of C, of m×k and k×n, as views of the inputs."""
        return inputs[0].T if self.left_transposed else inputs[0], inputs[self.right]

    @property
    def signature(self) -> tuple[int, int]:
        """How many matrices a kernel takes, C included, and how many dimensions."""
        shape = self.shape.parse(1)
        return len(shape.elements), len(shape.dimensions)

    @property
    def element(self) -> Dtype:
        """The type of a matrix's elements."""
        return DTYPES[self.dtype]

    def error_scale(self, terms: int, arithmetic: str = "full") -> float:
        """What an element may err by at most before it is rounded to C's dtype, as a share of its
        Σ|a||b|, for a sum of `terms` products in any order.

        t·u (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 3.13). TF32 rounds
        both inputs first, and its units drop bits of the sums instead of rounding them.
        """
        unit = DTYPES[self.sums].roundoff
        if arithmetic == "tf32":
            return 2 * TF32_ROUNDOFF + 2 * terms * unit
        return terms * unit

    @property
    def rounding(self) -> float:
        """What rounding C to its dtype adds at most, as a share of the element itself; nothing
        where the sums are of that dtype."""
        return 0.0 if self.dtype == self.sums else self.element.roundoff

    def series_of(self, shape: Shape) -> str:
        """The one of its series, or OTHER, that a shape belongs to; empty where there are none."""
        if not self.series:
            return ""
        forms = (name for name, ratio in self.series.items() if shape.m == ratio * shape.n)
        return next(forms, OTHER)

    def axis_value(self, shape: Shape) -> float:
        """Where a shape lies on an axis of sizes: n, or of a shape in no series the n of the square
        product that sums as many terms in all."""
        if shape.square or self.series_of(shape) not in ("", OTHER):
            return shape.n
        rows, columns = shape.output
        return round((rows * columns * shape.terms) ** (1 / 3), 1)


def matmul_into(left: Any, right: Any, c: Any) -> object:
    """C = left·right by NumPy, into C."""
    return np.matmul(left, right, out=c)
