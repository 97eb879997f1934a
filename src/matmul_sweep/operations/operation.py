"""An operation: everything that other modules need to know about it, so that they name none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from matmul_sweep.operations.dtypes import DTYPES, Dtype
from matmul_sweep.operations.shapes import Shape

TF32_ROUNDOFF = 2.0**-10  # of an input: 10 bits of fraction, the others dropped
OTHER = "other"  # a shape in none of an operation's series
COMPACT = "compact"  # a shape in none of an operation's classes
# Terms of the sums at which kernels are verified: a few slabs, and more than fill the longest ring
# of slabs in shared memory.
FEW_TERMS, MANY_TERMS = 129, 641
MUCH = 4  # a dimension stands out if it is this many times as long as another


@dataclass(frozen=True)
class Routine:
    """A library's function: where it runs, how it is called, and how much of C it writes.

    product: on the GPU (cublas, shape, *pointers), on the CPU (shape, *arrays); C comes last.
    arithmetics: full, and tf32 where float32 inputs may be rounded to TF32. tuned: at each shape it
    is the fastest of the algorithms that the library offers, where it is timed alone.
    """

    on_gpu: bool
    product: Callable[..., object]
    arithmetics: tuple[str, ...] = ("full",)
    writes: str = "full"
    tuned: bool = False


def cublas_gemm_ex(cublas: Any, shape: Shape, *pointers: int) -> None:
    cublas.gemm_ex(shape, *pointers)


def cublaslt(cublas: Any, shape: Shape, *pointers: int) -> None:
    """A product by the algorithm that cublasLt itself would choose."""
    cublas.lt.matmul(0, shape, *pointers)


TUNED = {"cublasLtMatmul": Routine(True, cublaslt, tuned=True)}
SIXTEEN_BITS = {"cublasGemmEx": Routine(True, cublas_gemm_ex)} | TUNED


@dataclass(frozen=True)
class Operation:
    """One kind of product: its shapes and matrices, error bound, rivals and words.

    C = left·right, where both factors are inputs, or the transpose of one.
    """

    shape: type[Shape]
    dtype: str  # of the inputs
    output: str  # dtype of C
    sums: str  # dtype in which an element of C is summed
    routines: Mapping[str, Routine]
    rivals: tuple[str, ...]  # library entries of the catalogue, in the order of reports
    title: str  # the product as a formula
    work: str  # its count of operations as a formula
    symmetric: bool = False
    left_transposed: bool = False  # the left factor is the first input, or its transpose
    right_transposed: bool = False  # the right factor is the last input, or its transpose
    # Words for shapes by the dimension that stands out; the first that holds is the class.
    classes: Mapping[str, Callable[[Any], bool]] = field(default_factory=dict)
    series: Mapping[str, float] = field(default_factory=dict)  # forms of A: rows per column
    figure_prefix: str = ""

    @property
    def name(self) -> str:
        return self.shape.operation

    @property
    def routine(self) -> Routine:
        """The library's own for all of C, in full arithmetic."""
        return next(r for r in self.routines.values() if r.on_gpu and r.writes == "full")

    def parse(self, text: int | str) -> Shape:
        """A shape from text. Raises UserError."""
        return self.shape.parse(text)

    def factors(self, *inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The left and the right factor of C, of m×k and k×n, as views of the inputs."""
        left, right = inputs[0], inputs[-1]
        return left.T if self.left_transposed else left, right.T if self.right_transposed else right

    @property
    def matrices(self) -> tuple[str, ...]:
        """The names of its matrices, C last."""
        return *"AB"[: len(self.shape.parse(1).inputs)], "C"

    @property
    def signature(self) -> tuple[int, int]:
        """The number of matrices that a kernel takes, including C, and of dimensions."""
        shape = self.shape.parse(1)
        return len(shape.elements), len(shape.dimensions)

    @property
    def dtypes(self) -> tuple[Dtype, ...]:
        """The types of its matrices' elements, C's last."""
        return *[DTYPES[self.dtype]] * (len(self.matrices) - 1), DTYPES[self.output]

    def sizes(self, shape: Shape) -> tuple[int, ...]:
        """The bytes of its matrices, C's last."""
        pairs = zip(self.dtypes, shape.elements, strict=True)
        return tuple(dtype.bytes * count for dtype, count in pairs)

    @property
    def units(self) -> Mapping[str, str]:
        """The kinds of units that may multiply, by ceilings.csv's names, in words."""
        return {units.name: units.words for units in DTYPES[self.dtype].units}

    def error_scale(self, terms: int, arithmetic: str = "full") -> float:
        """The largest error of an element before it is rounded to C's dtype, as a share of its
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
        """The largest error of rounding C to its dtype, as a share of the element itself; 0 if the
        sums have that dtype."""
        return 0.0 if self.output == self.sums else DTYPES[self.output].roundoff

    def series_of(self, shape: Shape) -> str:
        """The series that a shape belongs to, or OTHER; empty if the operation has no series."""
        if not self.series:
            return ""
        forms = (name for name, ratio in self.series.items() if shape.m == ratio * shape.n)
        return next(forms, OTHER)

    def class_of(self, shape: Shape) -> str:
        """The class of a shape, or COMPACT."""
        return next((name for name, holds in self.classes.items() if holds(shape)), COMPACT)


def matmul_into(left: Any, right: Any, c: Any) -> object:
    """C = left·right by NumPy, into C."""
    return np.matmul(left, right, out=c)
