"""Shapes of products: sizes, operation counts, and the grid of blocks that covers C."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import Field
from typing import Any, ClassVar

from matmul_sweep.process.errors import UserError

LARGEST = 2**31 - 1  # kernels take 32-bit dimensions
Extent = tuple[int, int]  # rows and columns


class Shape(ABC):
    """What the shapes of all operations share; each defines its inputs and output."""

    # Each is a dataclass of its dimensions.
    __match_args__: ClassVar[tuple[str, ...]]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
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
        return tuple(getattr(self, name) for name in self.__match_args__)

    @property
    def square(self) -> bool:
        return len(set(self.dimensions)) == 1

    @property
    def elements(self) -> tuple[int, ...]:
        """Elements of each input, then of C."""
        return tuple(math.prod(extent) for extent in (*self.inputs, self.output))

    @classmethod
    def parse(cls, text: int | str) -> "Shape":
        """`640` has all dimensions equal, else each is written, such as 3200x2400x1600.

        Raises UserError for other text.
        """
        count = len(cls.__match_args__)
        parts = re.split("[x×]", str(text))
        numbers = [int(part) for part in parts if re.fullmatch(r"[0-9]{1,10}", part)]
        if len(numbers) != len(parts) or len(parts) not in (1, count):
            wanted = f"write a whole number, or {cls.pattern}"
            raise UserError(f"{cls.operation} shape {str(text)!r}: {wanted}")
        if not all(1 <= extent <= LARGEST for extent in numbers):
            raise UserError(f"shape '{text}': every dimension must be between 1 and {LARGEST}")
        return cls(*(numbers if len(parts) > 1 else numbers * count))

    @classmethod
    @abstractmethod
    def around(cls, rows: int, columns: int) -> Sequence["Shape"]:
        """Tiny, ragged and prime shapes around a tile of C of rows×columns; of the large ones only
        one has many terms, so that all can run thread by thread on a processor."""

    @classmethod
    def of_row(cls, row: Any) -> "Shape":
        """The shape of a table's row, by its columns m, n and k."""
        return cls(*(int(getattr(row, name)) for name in cls.__match_args__))

    def __str__(self) -> str:
        return "x".join(map(str, self.dimensions))


class SymmetricShape(Shape):
    """A shape of one matrix times its own transpose."""

    @property
    def inputs(self) -> tuple[Extent, ...]:
        rows, columns = self.dimensions
        return ((rows, columns),)

    @property
    def operations(self) -> int:
        """Of a side of s, and of t terms, ts(s+1): 2t for each of the s(s+1)/2 elements that
        symmetry leaves to compute."""
        side = self.output[0]
        return self.terms * side * (side + 1)


def ceil_div(a: int, b: int) -> int:
    """a/b rounded up, for positive a and b."""
    return -(-a // b)


def grid_of(shape: Shape, tile: Extent) -> tuple[int, int, int]:
    """Blocks in x, y and z that cover C, one block per tile of `tile` = (rows, columns)."""
    (height, width), (rows, columns) = shape.output, tile
    return ceil_div(width, columns), ceil_div(height, rows), 1


def triangle_of(shape: Shape, tile: Extent) -> tuple[int, int, int]:
    """Blocks in x, y and z, one per tile of a triangle of C, folded to a rectangle."""
    tiles = ceil_div(shape.output[1], tile[1])
    return tiles | 1, ceil_div(tiles, 2), 1
