"""Shapes of a product, their operation counts, and the grid of blocks that covers one."""

import re
from dataclasses import dataclass

from matmul.errors import UserError

LARGEST = 2**31 - 1  # kernels take 32-bit dimensions


@dataclass(frozen=True, order=True)
class Shape:
    """C = A·B with A of m×k, B of k×n and C of m×n (operation gemm)."""

    m: int
    n: int
    k: int

    @property
    def square(self) -> bool:
        return self.m == self.n == self.k

    @property
    def elements(self) -> tuple[int, int, int]:
        """Elements of A, B and C."""
        return self.m * self.k, self.k * self.n, self.m * self.n

    @property
    def operations(self) -> int:
        """Floating-point operations: 2mnk, a multiplication and an addition per term."""
        return 2 * self.m * self.n * self.k

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


def parse_shape(text: int | str) -> Shape:
    """`640` is the square product, `3200x2400x1600` is m×n×k. Raises UserError for other text."""
    match = re.fullmatch(r"(\d{1,10})(?:[x×](\d{1,10})[x×](\d{1,10}))?", str(text))
    if isinstance(text, bool) or not match:
        raise UserError(f"shape '{text}': write a whole number, or MxNxK such as 3200x2400x1600")
    m, n, k = (int(part) for part in (match.groups() if match[2] else match.groups()[:1] * 3))
    if not all(1 <= extent <= LARGEST for extent in (m, n, k)):
        raise UserError(f"shape '{text}': every dimension lies between 1 and {LARGEST}")
    return Shape(m, n, k)


def ceil_div(a: int, b: int) -> int:
    """The smallest whole number not below a/b, for positive a and b."""
    return -(-a // b)


def grid_of(shape: Shape, tile: tuple[int, int]) -> tuple[int, int, int]:
    """Blocks in x, y and z that cover C (m×n), one block per tile of `tile` = (rows, columns)."""
    rows, columns = tile
    return ceil_div(shape.n, columns), ceil_div(shape.m, rows), 1
