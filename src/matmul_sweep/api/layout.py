"""How matrices lie in memory, and which of them a product takes as they are.

Kernels take row-major matrices without gaps, from addresses that are multiples of 16. The same
memory read in column-major order is the transpose, so where A and B are column-major, BᵀAᵀ = Cᵀ is
a product of row-major matrices. What fits neither way is copied.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from matmul_sweep.api.kinds import ALIGNMENT
from matmul_sweep.operations.shapes import Extent


@dataclass(frozen=True)
class Matrices:
    """A matrix, or a stack of them: rows and columns, strides in elements, the number of matrices
    and the elements from one to the next, and whether each begins where kernels need it."""

    extent: Extent
    strides: tuple[int, int]
    count: int = 1
    apart: int = 0
    aligned: bool = True

    @classmethod
    def of(
        cls, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int = 0, odd: int = 0
    ) -> "Matrices":
        """Of an array with two dimensions or three. odd: its address beyond a multiple of
        ALIGNMENT."""
        count = shape[0] if len(shape) == 3 else 1
        apart = strides[0] if count > 1 else 0
        aligned = not (odd or apart * itemsize % ALIGNMENT)
        return cls(shape[-2:], strides[-2:], count, apart, aligned)  # type: ignore[arg-type]

    @classmethod
    def dense(cls, shape: tuple[int, ...]) -> "Matrices":
        """Of a new array in row-major order."""
        return cls.of(shape, (math.prod(shape[-2:]), shape[-1], 1)[-len(shape) :])

    @property
    def elements(self) -> int:
        return math.prod(self.extent)

    @property
    def transposed(self) -> "Matrices":
        return replace(self, extent=self.extent[::-1], strides=self.strides[::-1])

    @property
    def by_rows(self) -> bool:
        """Whether kernels take it as it is."""
        (rows, columns), (down, right) = self.extent, self.strides
        whole = (columns == 1 or right == 1) and (rows == 1 or down == columns)
        return self.aligned and whole

    @property
    def steps(self) -> list[tuple[int, int]]:
        """The stride and the extent of each dimension that has more than one place."""
        every = [*zip(self.strides, self.extent, strict=True), (self.apart, self.count)]
        return [(stride, extent) for stride, extent in every if extent > 1]

    @property
    def distinct(self) -> bool:
        """Whether no two elements lie in one place, as far as strides tell."""
        reach = 0
        for stride, extent in sorted((abs(stride), extent) for stride, extent in self.steps):
            if stride <= reach:
                return False
            reach += stride * (extent - 1)
        return True

    @property
    def span(self) -> tuple[int, int]:
        """The first element and the one behind the last, as seen from its address."""
        ends = [stride * (extent - 1) for stride, extent in self.steps]
        return sum(end for end in ends if end < 0), sum(end for end in ends if end > 0) + 1

    def merged(self) -> "Matrices":
        """A stack as one tall matrix, if its rows lie at even distances; else itself."""
        rows, columns = self.extent
        if self.count == 1 or not self.aligned or self.apart != rows * self.strides[0]:
            return self
        return Matrices((self.count * rows, columns), self.strides)


def share_memory(itemsize: int, one: tuple[int, Matrices], other: tuple[int, Matrices]) -> bool:
    """Whether two arrays, each with its address, have an element in one place."""

    def as_numpy(address: int, each: Matrices) -> np.ndarray:
        # NumPy compares places, and reads nothing.
        strides = tuple(itemsize * stride for stride in (each.apart, *each.strides))
        described = {"shape": (each.count, *each.extent), "strides": strides, "version": 3,
                     "typestr": f"|V{itemsize}", "data": (address, True)}  # fmt: skip
        return np.asarray(SimpleNamespace(__array_interface__=described))

    return np.shares_memory(as_numpy(*one), as_numpy(*other))


@dataclass(frozen=True)
class Arrangement:
    """A product as its kernel computes it. order: the factors, as places among the arrays given.
    addend: D, if it has a place of its own. by_columns: a new C is to be column-major."""

    inputs: Sequence[Matrices]
    output: Matrices
    order: Sequence[int]
    addend: Matrices | None = None
    by_columns: bool = False


def arranged_gram(a: Matrices, output: Matrices, addend: Matrices | None) -> Arrangement:
    """AᵀA, whose transpose is the same."""
    if output.by_rows:
        return Arrangement([a], output, [0], addend)
    return Arrangement([a], output.transposed, [0], addend and addend.transposed)


def arranged_gemm(
    inputs: Sequence[Matrices], output: Matrices, order: Sequence[int], free: bool,
    addend: Matrices | None,
) -> Arrangement:  # fmt: skip
    """AB, or Cᵀ = BᵀAᵀ where fewer elements are then copied; a stack times one matrix is one tall
    matrix, if memory allows. free: C is new and may be column-major."""
    left, right = inputs
    tall, result = left.merged(), output.merged()
    if right.count == tall.count == result.count == 1 and tall.extent[0] == result.extent[0]:
        free, left, output = free and result is output, tall, result
        addend = addend and addend.merged()
    given = [left, right] if free else [left, right, output]
    straight = sum(each.elements for each in given if not each.by_rows)
    turned = sum(each.elements for each in given if not each.transposed.by_rows)
    if straight <= turned:
        return Arrangement([left, right], output, order, addend)
    output, addend = output.transposed, addend and addend.transposed
    if free:
        output = Matrices.dense((output.count, *output.extent))
    turned_inputs, turned_order = [right.transposed, left.transposed], [*reversed(order)]
    return Arrangement(turned_inputs, output, turned_order, addend, free)
