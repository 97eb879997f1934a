"""Shapes of a product, one class per operation: sizes, operation counts, and the grid of blocks."""

import math
import re
from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

from matmul.process.errors import UserError

LARGEST = 2**31 - 1  # kernels take 32-bit dimensions
Extent = tuple[int, int]  # rows and columns


class Shape(ABC):
    """What the operations' shapes share; each says which matrices it takes and makes."""

    operation: ClassVar[str]
    pattern: ClassVar[str]  # how a shape is written that is not square
    m: int
    n: int
    k: int | None

    @property
    @abstractmethod
    def inputs(self) -> tuple[Extent, ...]:
        """Rows and columns of each input."""

    @property
    @abstractmethod
    def output(self) -> Extent:
        """Rows and columns of C."""

    @property
    @abstractmethod
    def terms(self) -> int:
        """Products that each element of C sums."""

    @property
    @abstractmethod
    def operations(self) -> int:
        """Floating-point operations that the product takes."""

    @property
    def dimensions(self) -> tuple[int, ...]:
        """As kernels take them."""
        return astuple(self)

    @property
    def square(self) -> bool:
        return len(set(self.dimensions)) == 1

    @property
    def elements(self) -> tuple[int, ...]:
        """Elements of each input, then of C."""
        return tuple(math.prod(extent) for extent in (*self.inputs, self.output))

    def __str__(self) -> str:
        return "x".join(map(str, self.dimensions))


@dataclass(frozen=True)
class Gemm(Shape):
    """C = A·B with A of m×k, B of k×n and C of m×n."""

    m: int
    n: int
    k: int
    operation: ClassVar[str] = "gemm"
    pattern: ClassVar[str] = "MxNxK such as 3200x2400x1600"
    __str__ = Shape.__str__

    @property
    def inputs(self) -> tuple[Extent, ...]:
        return (self.m, self.k), (self.k, self.n)

    @property
    def output(self) -> Extent:
        return self.m, self.n

    @property
    def terms(self) -> int:
        return self.k

    @property
    def operations(self) -> int:
        """2mnk: a multiplication and an addition per term."""
        return 2 * self.m * self.n * self.k


@dataclass(frozen=True)
class Gram(Shape):
    """C = Aᵀ·A with A of m×n and C of n×n, symmetric (BLAS: SYRK)."""

    m: int
    n: int
    k: ClassVar[None] = None
    operation: ClassVar[str] = "gram"
    pattern: ClassVar[str] = "MxN such as 10250x20500"
    __str__ = Shape.__str__

    @property
    def inputs(self) -> tuple[Extent, ...]:
        return ((self.m, self.n),)

    @property
    def output(self) -> Extent:
        return self.n, self.n

    @property
    def terms(self) -> int:
        return self.m

    @property
    def operations(self) -> int:
        """mn(n+1): 2m for each of the n(n+1)/2 elements that symmetry leaves to compute."""
        return self.m * self.n * (self.n + 1)


OPERATIONS: dict[str, type[Gemm] | type[Gram]] = {"gemm": Gemm, "gram": Gram}


def parse_shape(text: int | str, operation: str) -> Shape:
    """A shape of `operation`: `640` has all dimensions equal, else each is written, such as
    3200x2400x1600. Raises UserError for other text."""
    kind = OPERATIONS[operation]
    count = len(kind.__match_args__)
    parts = re.split("[x×]", str(text))
    numbers = [int(part) for part in parts if re.fullmatch(r"[0-9]{1,10}", part)]
    if isinstance(text, bool) or len(numbers) != len(parts) or len(parts) not in (1, count):
        raise UserError(f"{operation} shape {str(text)!r}: write a whole number, or {kind.pattern}")
    if not all(1 <= extent <= LARGEST for extent in numbers):
        raise UserError(f"shape '{text}': every dimension lies between 1 and {LARGEST}")
    return kind(*(numbers if len(parts) > 1 else numbers * count))


def shape_of(row: Any) -> Shape:
    """The shape of a table's row, by its columns operation, m, n and k."""
    kind = OPERATIONS[row.operation]
    return kind(*(int(getattr(row, name)) for name in kind.__match_args__))


def ceil_div(a: int, b: int) -> int:
    """The smallest whole number not below a/b, for positive a and b."""
    return -(-a // b)


def grid_of(shape: Shape, tile: Extent) -> tuple[int, int, int]:
    """Blocks in x, y and z that cover C, one block per tile of `tile` = (rows, columns)."""
    (height, width), (rows, columns) = shape.output, tile
    return ceil_div(width, columns), ceil_div(height, rows), 1
