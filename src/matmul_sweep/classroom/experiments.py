"""Launches of a hand-in on the CPU: at which shapes it is right, and what goes wrong at others."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.classroom.cuda_on_cpu import watched
from matmul_sweep.classroom.cuda_on_cpu.emulation import Extents
from matmul_sweep.classroom.cuda_on_cpu.watched import Watched
from matmul_sweep.classroom.launching import COLUMNS_FIRST, EVERYTHING, LINEAR, ROWS_FIRST, Launch
from matmul_sweep.classroom.program import Program, build_for_cpu
from matmul_sweep.classroom.signature import Signature
from matmul_sweep.operations import fills
from matmul_sweep.operations.shapes import Shape, ceil_div

SEED = 2026
LAUNCH_SECONDS = 3.0  # of processor time
# Rows and columns of a C at which the tile of a block is found out. The larger one costs more.
PROBES = (192, 384)
PROBE_TERMS = 64
SLOW = 1e7  # operations of a product in more than float64


@dataclass(frozen=True)
class Run:
    """A launch at a shape. expected: C in higher precision; wrong: which elements of C are, as far
    as the launch ended; columns: the matrices that were stored by columns."""

    shape: Shape
    launch: Launch
    inputs: tuple[np.ndarray, ...]
    expected: np.ndarray
    result: Watched
    wrong: np.ndarray
    columns: frozenset[str] = frozenset()

    def cell(self, array: str, element: int) -> tuple[int, int]:
        """Row and column of an element of A, B or C, as they are stored."""
        extents = dict(zip("AB", self.shape.inputs, strict=False)) | {"C": self.shape.output}
        if array not in self.columns:
            return divmod(element, extents[array][1])
        column, row = divmod(element, extents[array][0])
        return row, column

    @property
    def right(self) -> bool:
        """Whether nothing about it is a mistake."""
        return self.result.ended and not self.wrong.any() and not self.mistaken

    @cached_property
    def mistaken(self) -> list[Mapping[str, Any]]:
        """The findings that are mistakes whatever C holds. A read of an element that was not
        written is one only if C is wrong: threads beyond the edge of C may compute anything."""
        return [one for one in self.result.findings if one["kind"] != "unwritten"]

    @property
    def endless(self) -> bool:
        return any(one["kind"] == "endless" for one in self.result.findings)

    @cached_property
    def unwritten(self) -> np.ndarray:
        """Which elements of C no thread wrote."""
        return self.result.writers["thread"] < 0

    @cached_property
    def first_wrong(self) -> tuple[int, int]:
        """Row and column of the first wrong element."""
        row, column = np.argwhere(self.wrong)[0]
        return int(row), int(column)


@dataclass(frozen=True)
class Bench:
    """A hand-in's program for the CPU, and how to launch it. built: the signature for which the
    executable was compiled, if the program's is another by now."""

    program: Program
    executable: Path
    launch: Launch
    built: Signature | None = None

    @property
    def signature(self) -> Signature:
        return self.program.signature

    def rebuilt(self, folder: Path) -> "Bench":
        """The same with its program compiled anew, into `folder`."""
        return replace(self, executable=build_for_cpu(self.program, folder), built=None)

    def passed(self, shape: Shape) -> Extents:
        """What the executable gets: under the dimensions of the signature that it was built for
        those that the kernel's parameters have by now."""
        built = (self.built or self.signature).parameters
        roles = {old.role: p.role for old, p in zip(built, self.signature.parameters, strict=True)}
        names = shape.__match_args__
        dimensions = tuple(getattr(shape, roles.get(name, name)) for name in names)
        return Extents(shape.elements, dimensions)

    def run(self, shape: Shape, grid: tuple[int, int, int] | None = None) -> Run:
        """Raises EmulationError if the launch is impossible."""
        operation = self.signature.operation
        fill = "digits" if operation.dtype == "int32" else "uniform"
        inputs = tuple(fills.inputs(fill, SEED, shape, operation.dtype))
        columns = self.signature.columns
        stored = [array.T if name in columns else array
                  for name, array in zip("AB", inputs, strict=False)]  # fmt: skip
        c = np.full(shape.output, self.poison, operation.output)
        plan = self.launch.plan(grid or self.launch.grid(shape))
        done = watched.launch(
            self.executable, plan, self.passed(shape), stored, c.T if "C" in columns else c,
            LAUNCH_SECONDS,
        )  # fmt: skip
        if "C" in columns:
            done = replace(done, c=done.c.T, writers=done.writers.T)
        done = replace(done, findings=tuple(filter(self.counts, done.findings)))
        expected, bound = self.reference(shape, inputs)
        with np.errstate(invalid="ignore"):
            right = np.abs(done.c.astype(expected.dtype) - expected) <= bound
        wrong = ~right & done.ended
        return Run(shape, self.launch, inputs, expected, done, wrong, columns)

    @property
    def adds(self) -> bool:
        """Whether the kernel adds to C by atomics, so that the launch has to find zeros there."""
        output = re.escape(self.signature.name_of("C"))
        return bool(re.search(rf"\batomicAdd\s*\(\s*&?\s*\(?{output}\b", self.program.kernel.body))

    @property
    def poison(self) -> float:
        """What C holds before a launch: no number, unless the kernel is to add to it."""
        if self.adds:
            return 0.0
        numbers = self.signature.accumulates or self.signature.operation.output == "int32"
        return 1e4 if numbers else np.nan

    def counts(self, finding: Mapping[str, Any]) -> bool:
        """Whether a finding is one at all: some kernels are to read what C held."""
        reads_c = finding["kind"] == "unwritten" and finding["array"] == "C"
        return not (reads_c and self.signature.accumulates)

    def reference(
        self, shape: Shape, inputs: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """C in higher precision, and the largest error of each element that rounding explains."""
        operation = self.signature.operation
        # A large C of float64 has a reference that is no better than it is.
        longer = operation.sums == "float64" and shape.operations < SLOW
        wide = np.longdouble if longer else np.float64
        left, right = operation.factors(*(array.astype(wide) for array in inputs))
        expected, magnitude = left @ right, np.abs(left) @ np.abs(right)
        scale = operation.error_scale(shape.terms + 1)
        return expected, scale * magnitude + (operation.rounding + 1e-300) * np.abs(expected)

    def with_tile(self, terms: int = PROBE_TERMS) -> "Bench":
        """The bench whose launch knows the tile of C that a block computes, by what a block
        writes of a large C with so many terms and what a second one beside or below it adds.

        It is the block's own extents if that is no tile.
        """
        if self.launch.tile:
            return self
        tile, order = self.launch.block[1::-1], COLUMNS_FIRST
        for size in () if self.launch.blocks else PROBES:
            shape = self.shape(size, size, terms)
            alone = self.run(shape, (1, 1, 1))
            if alone.endless:
                break
            if found := self.tile_at(shape, alone):
                tile, order = found
                break
        return replace(self, launch=replace(self.launch, tile=tile, order=order))

    def tile_at(self, shape: Shape, alone: Run) -> tuple[tuple[int, int], str] | None:
        """The tile, and the order of blocks, as a square C shows it, and what one block writes."""
        if not (alone.result.ended and alone.unwritten.any()):
            return None
        beside, below = (self.run(shape, grid) for grid in ((2, 1, 1), (1, 2, 1)))
        if not (beside.result.ended and below.result.ended):
            return None
        x, y = (corner(~run.unwritten & alone.unwritten) for run in (beside, below))
        if x and y:
            return tile_between(x, y, beside)
        return line_of_tiles(~alone.unwritten, bool(x)) if x or y else None

    def shape(self, m: int, n: int, k: int) -> Shape:
        """A shape of the operation that the kernel takes; of C = AᵀA the terms are rows of A."""
        kind: Any = self.signature.operation.shape
        m, n, k = (ceil_div(d, self.launch.multiple) * self.launch.multiple for d in (m, n, k))
        m, n = min(m, self.launch.most[0]), min(n, self.launch.most[1])
        names, fixed = kind.__match_args__, self.signature.fixed
        if self.signature.square:
            return kind(*[fixed.get("m", max(m, n, k))] * len(names))
        sides = (m, n, k) if len(names) == 3 else (k, n)
        return kind(*(fixed.get(*pair) for pair in zip(names, sides, strict=True)))

    def shapes(self) -> list[Shape]:
        """Tiny, ragged, prime and square shapes around the tile, those with few terms first."""
        assert self.launch.tile
        rows, columns = (min(side, 64) for side in self.launch.tile)
        wide = max(rows, columns)
        found = (
            (1, 1, 1), (2, 2, 2), (3, 2, 5), (1, 1, wide + 1), (3, columns + 2, 2),
            (rows, columns, wide), (rows + 1, columns, wide), (rows, columns + 1, wide),
            (rows, columns, wide + 1),
            (rows + 3, 1, 7), (rows + 1, columns - 1, 1), (wide + 1, wide + 1, wide + 1),
            (rows - 1, columns + 1, wide + 1), (2 * rows, 2 * columns, wide + 1),
            (2 * rows, columns, 3 * wide), (rows, 2 * columns, 2 * wide),
            (2 * rows, 2 * columns, 2 * wide), (53, 97, 71), (67, 31, 37),
        )  # fmt: skip
        shapes = dict.fromkeys(self.shape(*one) for one in found if min(one) > 0)
        return sorted(shapes, key=lambda shape: shape.operations)

    def runs(self, seconds: float) -> Iterator[Run]:
        """A launch at each shape; after an endless one, or after so many seconds, no more."""
        end = time.monotonic() + seconds
        for shape in self.shapes():
            run = self.run(shape)
            yield run
            if run.endless or time.monotonic() > end:
                return

    def smaller(self, shape: Shape) -> Iterator[Shape]:
        """The shapes that differ from this one by a smaller dimension, smallest first."""
        names = shape.__match_args__
        for name in names:
            for less in self.candidates(getattr(shape, name)):
                yield replace(
                    shape, **dict.fromkeys(names if self.signature.square else [name], less)
                )
            if self.signature.square:
                return

    def candidates(self, extent: int) -> list[int]:
        """Smaller extents worth trying: the smallest, those around the tile, the next smaller
        one."""
        assert self.launch.tile
        step, edges = self.launch.multiple, (*self.launch.tile, *self.launch.block[:2])
        tried = {1, 2, 3, extent // 2, extent - step, *(e + by for e in edges for by in (-1, 0, 1))}
        found = {max(step, less // step * step) for less in tried if less > 0}
        return sorted(less for less in found if less < extent)


def corner(mask: np.ndarray) -> tuple[int, int] | None:
    """The first row and column of the elements in a mask; None without any."""
    rows, columns = np.nonzero(mask)
    return (int(rows.min()), int(columns.min())) if len(rows) else None


def tile_between(
    x: tuple[int, int], y: tuple[int, int], beside: Run
) -> tuple[tuple[int, int], str] | None:
    """The tile, and the order of blocks, if the second block in x begins at `x` and in y at `y`."""
    if x[0] == 0 and y[1] == 0 and x[1] and y[0]:
        return (y[0], x[1]), COLUMNS_FIRST
    # Rows along x: unless it is the store that has them the wrong way round.
    if x[1] == 0 and y[0] == 0 and x[0] and y[1] and not (beside.wrong & ~beside.unwritten).any():
        return (x[0], y[1]), ROWS_FIRST
    return None


def line_of_tiles(first: np.ndarray, along_x: bool) -> tuple[tuple[int, int], str] | None:
    """The same for blocks in a line along x or y of the grid, of which the first one computes
    these elements."""
    rows, columns = (int(first.any(axis=axis).sum()) for axis in (1, 0))
    if first[:rows].all():
        return (rows, EVERYTHING), ROWS_FIRST if along_x else COLUMNS_FIRST
    if first[:, :columns].all():
        return (EVERYTHING, columns), COLUMNS_FIRST if along_x else ROWS_FIRST
    count = int(first.sum())
    return ((1, count), LINEAR) if along_x and first.ravel()[:count].all() else None
