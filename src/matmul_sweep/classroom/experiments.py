"""Launches of a hand-in on the CPU: at which shapes it is right, and what goes wrong at others."""

import math
import operator
import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.catalogue import plans
from matmul_sweep.classroom import launching, strict
from matmul_sweep.classroom.cuda_on_cpu import watched
from matmul_sweep.classroom.cuda_on_cpu.contained import MOST_BYTES
from matmul_sweep.classroom.cuda_on_cpu.emulation import Extents
from matmul_sweep.classroom.cuda_on_cpu.watched import Watched
from matmul_sweep.classroom.file_launch import ZERO, place_in, zeroes
from matmul_sweep.classroom.launching import (
    COLUMNS_FIRST,
    EVERYTHING,
    LINEAR,
    PADDED,
    ROWS_FIRST,
    Launch,
)
from matmul_sweep.classroom.program import Program
from matmul_sweep.classroom.signature import ROW_LENGTH, Signature, small_sizes, words_of
from matmul_sweep.classroom.syntax import places_of
from matmul_sweep.operations import fills
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import Shape, ceil_div

SEED = 2026
LAUNCH_SECONDS = 3.0  # of processor time, and one more for so many operations of its blocks
PATIENCE = 4  # times as long for a slow launch
OPERATIONS_A_SECOND = 4e6
OPERATIONS_A_THREAD = 16  # take as long as beginning and ending a thread
# Rows and columns of a C at which the tile of a block is found out. The larger one costs more.
PROBES = (192, 512)
PROBE_TERMS = 64
SLOW = 1e7  # operations of a product in more than float64
# A dimension beyond the 8 bits of a char; its square is beyond the 16 of a short. It is prime.
LONG = 257
WHOLE = 7  # times a digit: sums of LONG products of whole numbers are beyond 16 bits
COSTLY = 1e6  # operations of a launch that is not repeated: others show what is right only once
MANY = 4e6  # operations of a launch of which only a part of the blocks run, if they do not meet
LARGEST, MOST = 3e9, 2e7  # operations of a product, and of the blocks of it that run
HALF_ARITHMETIC = r"\b__h(?:mul|add|sub|fma)\w*\s*\("
OBLONG = 300  # tiles of a C that is one element high, or wide
WIDEST = 512  # of a tile two of which are tried in each direction
ALONE = (1.0, 0.0)  # alpha and beta of C = A·B
SCALED = (3.0, -2.0)  # whole, for products of whole numbers; no two of 1, a, b, a², ab are alike


@dataclass(frozen=True, eq=False)
class Run:
    """A launch at a shape, and mostly once more. before: what C held; factors: alpha and beta;
    expected: C in higher precision; wrong: which elements of C are, as far as the launch ended, and
    wrong_again after the second one; columns: the matrices that were stored by columns; padding:
    that of A; sampled: whether only some of the blocks ran, such as those at the corners of the
    grid and in its middle."""

    shape: Shape
    launch: Launch
    inputs: tuple[np.ndarray, ...]
    result: Watched
    before: np.ndarray | None = None
    factors: tuple[float, float] = ALONE
    launched: plans.Launch = field(default=plans.Launch((1, 1, 1), (1, 1, 1)))
    columns: frozenset[str] = frozenset()
    padding: int = 0
    sampled: bool = False
    expected: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    wrong: np.ndarray = field(default_factory=lambda: np.empty((0, 0), bool))
    wrong_again: np.ndarray | None = None

    def cell(self, array: str, element: int) -> tuple[int, int]:
        """Row and column of an element of A, B or C, as they are stored."""
        extents = dict(zip("AB", self.shape.inputs, strict=False)) | {"C": self.shape.output}
        if array not in self.columns:
            return divmod(element, extents[array][1] + self.padding * (array == "A"))
        column, row = divmod(element, extents[array][0])
        return row, column

    @property
    def right(self) -> bool:
        """Whether nothing about it is a mistake."""
        fine = self.result.ended and not self.wrong.any() and not self.mistaken
        return fine and not self.only_once

    @property
    def only_once(self) -> bool:
        """Whether the first launch leaves a right C, and the second one does not."""
        again = self.wrong_again is not None and bool(self.wrong_again.any())
        return again and not self.wrong.any()

    @cached_property
    def mistaken(self) -> list[Mapping[str, Any]]:
        """The findings that are mistakes whatever C holds. A read of an element that was not
        written is one only if C is wrong: threads beyond the edge of C may compute anything."""
        return [one for one in self.result.findings if one["kind"] != "unwritten"]

    @property
    def slow(self) -> bool:
        """Whether it was given up, although a single thread comes to its end."""
        return not (self.result.ended or self.result.findings)

    @property
    def endless(self) -> bool:
        return any(one["kind"] == "endless" for one in self.result.findings)

    @cached_property
    def unwritten(self) -> np.ndarray:
        """Which elements of C no thread wrote."""
        return self.result.writers["thread"] < 0

    @cached_property
    def first_wrong(self) -> tuple[int, int]:
        """Row and column of the first wrong element, after the second launch if only that one's C
        has any."""
        again = self.wrong_again
        wrong = self.wrong if again is None or self.wrong.any() else again
        row, column = np.argwhere(wrong)[0]
        return int(row), int(column)


@dataclass(frozen=True)
class Bench:
    """A hand-in's program for the CPU, and how to launch it. probes: the launches that found its
    tile. narrow: whether sums may be of C's own type, if that is the shorter one. zeros:
    whether C holds them before a launch, whatever the program in the file sees to. built: the
    signature for which the executable was compiled, if the program's is another by now.
    squares: whether only square shapes are tried."""

    program: Program
    executable: Path
    launch: Launch
    probes: tuple[Run, ...] = ()
    zeros: bool | None = None
    built: Signature | None = None
    seed: int | None = None  # of strict grading
    narrow: bool = False
    squares: bool = False

    @property
    def square(self) -> bool:
        """Whether all its shapes are square."""
        return self.signature.square or self.squares

    @property
    def signature(self) -> Signature:
        return self.program.signature

    def passed(self, shape: Shape) -> Extents:
        """What the executable gets: under the dimensions of the signature that it was built for
        those that the kernel's parameters have by now."""
        built = (self.built or self.signature).parameters
        roles = {old.role: p.role for old, p in zip(built, self.signature.parameters, strict=True)}
        names = shape.__match_args__
        dimensions = tuple(getattr(shape, roles.get(name, name)) for name in names)
        a, *others = shape.elements
        return Extents((a + self.padding * shape.inputs[0][0], *others), dimensions)

    @cached_property
    def padding(self) -> int:
        """The elements between two rows of A that belong to none: the kernel has for their length a
        constant of the file, or a sum with one, that is more than its dimension."""
        source, kernel, signature = self.program.source, self.program.kernel, self.signature
        a, k = map(signature.name_of, ("A", signature.row_length("A")))
        rows = re.findall(r"\*\s*(\w+|\([^()]*[A-Za-z]\w*\s*\))", " ".join(places_of(a, kernel)))
        sums = (PADDED.fullmatch(source.names.get(one, one)) for one in rows)
        values = launching.known_values(source, kernel, {})
        more = (launching.valued(one[2], values) for one in sums if one and one[1] == k in values)
        return 0 if "A" in signature.columns else next(more, 0) or 0

    def run(
        self, shape: Shape, grid: tuple[int, int, int] | None = None,
        factors: tuple[float, float] = ALONE, whole: bool = False, patience: int = 1,
    ) -> Run:  # fmt: skip
        """Launches at a shape. With `grid` C is right where that many blocks write it; whole: or
        they have to write all.

        Raises EmulationError if the launch is impossible.
        """
        operation = self.signature.operation
        fill, times = ("digits", WHOLE) if operation.dtype.startswith("int") else ("uniform", 1)
        seed = self.seed or SEED
        inputs = tuple(times * one for one in fills.inputs(fill, seed, shape, operation.dtype))
        if operation.output in ("int8", "int16"):  # which are to hold the sums
            inputs = tuple(one % 3 - 1 for one in inputs)
        before = np.full(shape.output, self.poison, operation.output)
        if factors != ALONE:
            before = fills.matrix(fill, seed, 2, *shape.output, operation.output)
        columns = self.signature.columns
        stored = [array.T if name in columns else array
                  for name, array in zip("AB", inputs, strict=False)]  # fmt: skip
        stored[0] = np.pad(stored[0], ((0, 0), (0, self.padding)), "edge")
        launched = self.launch.at(shape, grid)
        work, share = self.cost(shape, launched, apart=not grid)
        seconds = patience * (LAUNCH_SECONDS + share * work / OPERATIONS_A_SECOND)
        held = before.T if "C" in columns else before
        done = self.refused(shape, held) or watched.launch(
            self.executable, plans.Plan((self.once(launched),)), self.passed(shape), stored,
            held, seconds,
            factors=factors, corners=share < 1, twice=not grid and work < COSTLY,
        )  # fmt: skip
        if "C" in columns:
            again = None if done.again is None else done.again.T
            done = replace(done, c=done.c.T, again=again, writers=done.writers.T)
        done = replace(done, findings=tuple(filter(self.counts, done.findings)))
        found = Run(
            shape, self.launch.alone, inputs, done, before, factors, launched, columns,
            padding=self.padding, sampled=(bool(grid) and not whole) or share < 1,
        )  # fmt: skip
        thread = plans.Launch((1, 1, 1), (1, 1, 1), launched.shared_bytes)
        if found.endless and launched != thread:  # whose time is that of all threads together
            alone = replace(self, launch=replace(self.launch, mended=lambda *_: thread))
            if not alone.run(shape, (1, 1, 1), factors, patience=PATIENCE).endless:
                found = replace(found, result=replace(done, findings=()))
        return self.compared(found)

    @cached_property
    def idle(self) -> str:
        """The axes of the grid along which all blocks store the same."""
        code = launching.code_of(self.program.source, self.program.kernel)
        code += self.program.code
        other = r"gridDim|\batomic|ctaid|this_grid|group_index|\bblockIdx\b(?!\s*\.)"
        if self.adds or self.reads_c or re.search(other, code):
            return ""
        idle = "".join(one for one in "xyz" if not launching.uses(code, "blockIdx", one))
        return idle if idle != "xyz" else ""  # of which each should have a part

    def once(self, launched: plans.Launch) -> plans.Launch:
        """A launch without blocks that only repeat what others do."""
        x, y, z = (min(1, side) if axis in self.idle else side
                   for axis, side in zip("xyz", launched.grid, strict=True))  # fmt: skip
        return replace(launched, grid=(x, y, z))

    def cost(self, shape: Shape, launched: plans.Launch, apart: bool) -> tuple[float, float]:
        """The operations of a launch, and the share of them that run: of a large one, if blocks
        are apart, those of the blocks at the corners and in the middle."""
        threads = math.prod((*launched.grid, *launched.block))
        work = max(shape.operations, OPERATIONS_A_THREAD * threads)
        corners = apart and work > MANY and self.blocks_apart
        return work, math.prod(min(3, n) / max(1, n) for n in launched.grid) if corners else 1

    @property
    def own_shape(self) -> Shape | None:
        """The size that the file's own program has."""
        return self.launch.program.own_shape if self.launch.program else None

    @property
    def like_own(self) -> Shape | None:
        """The same, or one of such multiples that is cheap to try, if the program has its grid."""
        own, program = self.own_shape, self.launch.program
        if not own or not program or program.constant or self.is_cheap(own):
            return own
        sides = dict(zip(own.__match_args__, own.dimensions, strict=True))
        return type(own)(**small_sizes(sides, self.launch.tile or ()))

    @property
    def guesses_launch(self) -> bool:
        """Whether the file launches the kernel by what cannot be read, and no setting says."""
        launch, own, source = self.launch, self.launch.program, self.program.source
        told = (own.own, own.far) if own else ()
        known = launch.grid or launch.blocks or any(one and one.grid and one.block for one in told)
        unsaid = not known and (own or "block" in launch.guessed)
        return bool(unsaid) and self.program.kernel.name in source.host.launchers

    @property
    def has_one_block(self) -> bool:
        """Whether the file launches one block, as large as C."""
        return bool(self.launch.program and self.launch.program.one_block)

    @property
    def has_own_grid(self) -> bool:
        """Whether the file's launch has extents for its own size only."""
        program = self.launch.program
        return bool(program and program.constant and program.own.grid)

    @property
    def is_for_one_size(self) -> bool:
        """Whether such a kernel is for one block, or goes over no number of terms. A part of a
        block would hide what a whole shows."""
        own, body = self.own_shape, self.program.kernel.body
        if not own or not self.has_own_grid:
            return False
        x, y, _ = self.launch.block  # a line of threads says nothing about a tile
        part = y > 1 and any(side % max(x, y) for side in own.output)
        terms = re.escape(self.signature.terms_name)
        counts = "|".join([terms, *re.findall(rf"(\w+)\s*=[^=;]*\b{terms}\b", body)])
        goes_over = re.search(rf"\b(?:for|while)\s*\([^{{}}]*?\b(?:{counts})\b", body)
        whole = math.prod(self.launch.at(own).grid) > 1 or not part
        return whole and ("blockIdx" not in body or not goes_over)

    def is_cheap(self, shape: Shape) -> bool:
        """Whether a launch is no more work than others."""
        work = math.prod(self.cost(shape, self.launch.at(shape), apart=True))
        told = watched.WRITER.itemsize * shape.elements[-1]  # bytes, of who wrote C
        return shape.operations < LARGEST and work < MOST and told <= MOST_BYTES

    def seen(self, run: Run, columns: frozenset[str]) -> Run:
        """What a run of some blocks comes to if these matrices are stored by columns: the bytes are
        the same."""

        def restored(name: str, array: np.ndarray) -> np.ndarray:
            flat = (array.T if name in run.columns else array).ravel()
            turned = name in columns
            return flat.reshape(array.shape[::-1]).T if turned else flat.reshape(array.shape)

        inputs = tuple(map(restored, "AB", run.inputs))
        c, writers = (restored("C", array) for array in (run.result.c, run.result.writers))
        again = None if run.result.again is None else restored("C", run.result.again)
        done = replace(run.result, c=c, writers=writers, again=again)
        return self.compared(replace(run, inputs=inputs, result=done))

    def compared(self, run: Run) -> Run:
        """A run with its C held against the product, within the bound of this bench."""
        expected, bound = self.reference(run.shape, run.inputs, run.before, run.factors)
        wrong, again = (
            None if c is None else off(c, expected, bound, run.result, run.sampled)
            for c in (run.result.c, run.result.again)
        )
        assert wrong is not None
        return replace(run, expected=expected, wrong=wrong, wrong_again=again)

    def refused(self, shape: Shape, c: np.ndarray) -> Watched | None:
        """What the launch of the file comes to if a GPU refuses it, or if it cannot be meant."""
        program = self.launch.program
        told = program.at(shape) if program else None
        finding = program.refusal(told) if program and told else None
        if finding is None:
            return None
        nobody = np.full(c.shape, watched.NOBODY)
        return Watched(self.executable, c, (finding,), nobody, "", ended=False)

    @property
    def blocks_apart(self) -> bool:
        """Whether each block does its part of C whatever others do."""
        fixed = self.launch.blocks or self.launch.fixed
        return not fixed and not re.search(r"\bgridDim\b|\batomic\w+\s*\(", self.program.code)

    def first_block(self, shape: Shape) -> plans.Grid:
        """A grid of one block, or the file's if blocks depend on it."""
        return (not self.blocks_apart and self.launch.grid_of_file(shape)) or (1, 1, 1)

    @property
    def rounds_to(self) -> str:
        """The type that the kernel rounds float inputs to for tensor cores, or nothing."""
        said = r"\b(tf32)\b|\b__floats?22?(half|bfloat16)(?s:.*)\bmma[_.]sync"
        found = re.search(said, self.program.code)
        floats = self.signature.operation.dtype == "float32"
        return str(found[found.lastindex or 0]) if found and floats else ""

    @property
    def beside(self) -> Iterator[str]:
        """What is to be said of a kernel that is right."""
        lengths = [p.name for p in self.signature.parameters if ROW_LENGTH & {*words_of(p.name)}]
        if vain := " and ".join(filter(self.program.kernel.leaves, lengths)):
            yield f"it never uses {vain}, and is right only where rows are as long as in a trial"
        if self.rounds_to == "tf32" and not re.search(r"_to_tf32\b|\.tf32\.f32", self.program.code):
            yield "mma cuts the lower bits of floats to tf32: round by __float_to_tf32 or cvt.rna"

    @property
    def rounding(self) -> float:
        """By what sums in C's own 16 bits are off, or those of the kernel's arithmetic in the bits
        of A and B."""
        operation, halves = self.signature.operation, re.search(HALF_ARITHMETIC, self.program.code)
        return operation.rounding or (DTYPES[operation.dtype].roundoff if halves else 0)

    @cached_property
    def names_of_c(self) -> str:
        """The name of C, and those of pointers that begin at it, as a pattern."""
        c = re.escape(self.signature.name_of("C"))
        others = re.findall(rf"\*\s*(\w+)\s*=\s*{c}\b", self.program.kernel.body)
        return f"(?:{'|'.join([c, *others])})"

    @property
    def adds(self) -> bool:
        """Whether the kernel adds to C, so that the launch has to find zeros there."""
        c = self.names_of_c
        added = rf"\batomicAdd\s*\(\s*&?\s*\(?{c}\b|{place_in(c)}\s*\+="
        return bool(re.search(added, self.program.kernel.body))

    @property
    def reads_c(self) -> bool:
        """Whether the kernel begins its sums with what C holds."""
        c = self.names_of_c
        read = rf"(?<![=!<>])=[^;={{}}]*{place_in(c)}|\bload_matrix_sync\s*\([^;,]*,[^;,]*\b{c}\b"
        return bool(re.search(read, self.program.kernel.body))

    @property
    def finds_zeros(self) -> bool:
        """Whether the file's program clears C before it launches, or its caller has to."""
        if self.zeros is not None:
            return self.zeros
        program = self.program.in_file
        said = zeroes(self.program.source.host, program.text_of_c if program else "")
        return ((self.adds or self.reads_c) and said) or self.is_given_zeros

    @property
    def is_given_zeros(self) -> bool:
        """Whether whoever calls the file's functions, or launches its kernel, has to clear C."""
        program = self.program.in_file
        given = program is None or program.is_given_c
        points = re.search(rf"=\s*&\s*{self.signature.name_of('C')}\b", self.program.kernel.body)
        adds = (self.adds or (self.reads_c and not points)) and not self.signature.accumulates
        clears = re.search(rf"{place_in(self.names_of_c)}\s*=\s*{ZERO}", self.program.kernel.body)
        return bool(adds and not clears and self.seed is None and given)

    @property
    def poison(self) -> float:
        """What C holds before a launch: no number, unless the kernel is to add to it."""
        if self.finds_zeros or self.signature.beta:
            return 0.0
        numbers = self.signature.accumulates or self.signature.operation.output.startswith("int")
        return 1e4 if numbers else np.nan

    def counts(self, finding: Mapping[str, Any]) -> bool:
        """Whether a finding is one at all: some kernels are to read what C held."""
        reads_c = finding["kind"] == "unwritten" and finding["array"] == "C"
        return not (reads_c and (self.signature.accumulates or self.finds_zeros))

    def reference(
        self, shape: Shape, inputs: Sequence[np.ndarray], before: np.ndarray | None = None,
        factors: tuple[float, float] = ALONE,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """C in higher precision, and the largest error of each element that rounding explains.
        before: what C held, if it counts."""
        operation = self.signature.operation
        # A large C of float64 has a reference that is no better than it is.
        longer = operation.sums == "float64" and shape.operations < SLOW
        wide = np.longdouble if longer else np.float64
        left, right = operation.factors(*(array.astype(wide) for array in inputs))
        alpha, beta = factors
        expected, magnitude = alpha * (left @ right), abs(alpha) * (np.abs(left) @ np.abs(right))
        if beta and before is not None:
            expected, magnitude = expected + beta * before, magnitude + np.abs(beta * before)
        roundings = shape.terms + (1 if factors == ALONE else 4)
        # TF32 has as many bits as half.
        scale = operation.error_scale(roundings, "tf32" if self.rounds_to else "full")
        scale *= not operation.sums.startswith("int")  # which are exact
        if self.rounds_to == "bfloat16":
            scale += 2 * DTYPES["bfloat16"].roundoff
        bound = scale * magnitude + (operation.rounding + 1e-300) * np.abs(expected)
        if self.narrow and (rounding := self.rounding):  # grows like a random walk
            partial = np.sqrt(np.square(left) @ np.square(right))  # what sums are on their way
            most = np.maximum(np.abs(expected), abs(alpha) * partial).max(initial=0)
            bound += rounding * (2 + math.sqrt(roundings) / 2) * most
        return expected, bound

    def with_tile(self, terms: int = PROBE_TERMS) -> "Bench":
        """The bench whose launch knows the tile of C that a block computes, by what a block
        writes of a large C with so many terms and what a second one beside or below it adds.

        It is the block's own extents if that is no tile.
        """
        if self.launch.tile:
            return self
        found, probes, own, guessed = None, list[Run](), self.launch.program, {"grid"}
        start = self.launch.with_tile(self.launch.block[1::-1], COLUMNS_FIRST)
        bench = replace(self, launch=start)
        # A block of a kernel that goes over the grid may compute all of the larger C.
        text = self.program.source, self.program.kernel
        sizes = PROBES[:1] if launching.strides(*text) else PROBES
        counts = self.launch.blocks or launching.counts_grid(*text)
        code = launching.code_of(*text)
        known = self.launch.grid or (own and own.own.grid)
        # A product of a batch may be one of any axis.
        deeper = {"z": (1, 1, 2)} if not known and launching.uses(code, "blockIdx", "z") else {}
        for size in () if counts else sizes:
            # A kernel of which m is not known may have only squares right.
            square = size <= terms or self.signature.open_rows
            shape = self.shape(size, size, size if square else PROBE_TERMS)
            depth = start.at(shape).grid[2]
            probes = [bench.run(shape, (1, 1, depth))]
            if probes[0].endless:
                break
            if probes[0].result.ended and probes[0].unwritten.any():
                grids = {"x": (2, 1, depth), "y": (1, 2, depth)} | deeper
                more = {axis: bench.run(shape, grid) for axis, grid in grids.items()}
                found = tile_of(probes[0], more) or found
                probes += [more["x"], more["y"]]
                if "z" in more and all(f["kind"] != "outside" for f in more["z"].result.findings):
                    guessed |= {"depth"}
            if not found and own and own.sides:  # a larger C costs more
                sides, along_x = own.sides
                found, probes = (sides, COLUMNS_FIRST if along_x else ROWS_FIRST), []
            if found and EVERYTHING not in found[0]:
                break
        columns, rows, _ = self.launch.block
        axes = [launching.uses(code, "blockIdx", axis) for axis in "xy"]
        tile = (EVERYTHING if axes == [True, False] else rows, columns)
        in_file = self.program.in_file
        if in_file and in_file.own.grid == (1, 1, 1) and "blockIdx" not in code:
            tile = EVERYTHING, EVERYTHING  # of one block, like which others would be
        tile, order = found or (tile, COLUMNS_FIRST)
        launch = self.launch.with_tile(tile, order)
        guessed -= {"depth"} if "z" in order else {"grid"} if found else set()
        launch = replace(launch, guessed=launch.guessed | guessed)
        if order == LINEAR and not own and starts_a_row(*probes[:2]):
            most = EVERYTHING, probes[0].launched.block[0]
            launch = replace(self.launch.with_tile((1, EVERYTHING), ROWS_FIRST), most=most)
        # More blocks than C has tiles may repeat work, which is no race of the kernel's.
        kept = (
            replace(one, launch=launch.alone, result=replace(one.result, findings=()))
            for one in probes
            if found and one.wrong.any() and self.blocks_apart and not probes[0].mistaken
            and (order != LINEAR or one.launched.grid[1] == 1)
            and all(axes[i] or one.launched.grid[i] == 1 for i in (0, 1))
        )  # fmt: skip
        return replace(self, launch=launch, probes=tuple(kept))

    def shape(self, m: int, n: int, k: int) -> Shape:
        """A shape of the operation that the kernel takes; of C = AᵀA the terms are rows of A."""
        kind: Any = self.signature.operation.shape
        m, n, k = (ceil_div(d, self.launch.multiple) * self.launch.multiple for d in (m, n, k))
        if self.signature.open_rows and self.launch.tile and self.launch.tile[0] < EVERYTHING:
            m = ceil_div(m, self.launch.tile[0]) * self.launch.tile[0]  # all that blocks compute
        m, n = min(m, self.launch.most[0]), min(n, self.launch.most[1])
        names, fixed = kind.__match_args__, self.signature.fixed
        if self.square:
            return kind(*[fixed.get("m", min(max(m, n, k), *self.launch.most))] * len(names))
        sides = dict(zip(names, (m, n, k) if len(names) == 3 else (k, n), strict=True)) | fixed
        return kind(*(sides[self.signature.tied.get(name, name)] for name in names))

    def shapes(self) -> list[Shape]:
        """Tiny, ragged, prime and square shapes around the tile, two blocks of the whole tile in
        each direction, and long thin ones; those with few terms first."""
        assert self.launch.tile
        rows, columns = (min(side, 64) for side in self.launch.tile)
        high, across = (1 if side == EVERYTHING else min(side, WIDEST) for side in self.launch.tile)
        wide = max(rows, columns)
        found: list[tuple[int, ...]] = [
            (1, 1, 1), (2, 2, 2), (3, 2, 5), (1, 1, wide + 1), (3, columns + 2, 2), (5, 3, 13),
            (8, 8, 8), (12, 12, 12), (8, 12, 24), (12, 24, 8), (24, 8, 12),
            (rows, columns, wide), (rows + 1, columns, wide), (rows, columns + 1, wide),
            (rows, columns, wide + 1),
            (rows + 3, 1, 7), (rows + 1, columns - 1, 1), (wide + 1, wide + 1, wide + 1),
            (rows - 1, columns + 1, wide + 1), (2 * rows, 2 * columns, wide + 1),
            (2 * rows, columns, 3 * wide), (rows, 2 * columns, 2 * wide),
            (2 * rows, 2 * columns, 2 * wide), (53, 97, 71), (67, 31, 37),
            # Whole tiles, and those of warps that lie in a line.
            (min(high, 256), min(across, 256), 64), (64, 128, 64), (128, 64, 128),
            (high + 1, 3, 9), (3, across + 1, 9), (high + 1, across + 1, 5),
            (2 * high, 2 * across, 3),
        ]  # fmt: skip
        if self.signature.square:
            found.append((LONG, LONG, LONG))
        else:
            thin = (one for one in product((1, LONG), repeat=3) if 1 in one)
            found += [one for one in thin if self.work(*one) < MANY or one.count(1) > 1]
        if self.seed is not None:
            found += strict.secret_shapes(self.seed, self.signature.square)
        shapes = dict.fromkeys(self.shape(m, n, k) for m, n, k in found if min(m, n, k) > 0)
        if self.own_shape and self.own_shape.operations < MANY:
            shapes[self.own_shape] = None
        most = 2 * LONG**3  # operations; a wide tile of a square C would take many more
        return sorted(
            (one for one in shapes if one.operations <= most), key=lambda one: one.operations
        )

    def work(self, m: int, n: int, k: int) -> int:
        """Products that whole tiles compute at a shape."""
        assert self.launch.tile
        rows, columns = (min(side, WIDEST) for side in self.launch.tile)
        return ceil_div(m, rows) * rows * ceil_div(n, columns) * columns * k

    @cached_property
    def trials(self) -> list[tuple[Shape, tuple[float, float]]]:
        """Every shape with alpha and beta, as far as the kernel takes them: 1 and 0, and others at
        two of the shapes."""
        assert self.launch.tile
        trials = [(shape, ALONE) for shape in self.shapes()]
        roles = {p.role for p in self.signature.parameters}
        alpha = SCALED[0] if "alpha" in roles else ALONE[0]
        beta = SCALED[1] if "beta" in roles else self.signature.beta
        factors = alpha, beta
        if factors != ALONE:
            rows, columns = (min(side, 64) + 1 for side in self.launch.tile)
            any_two = self.shape(3, 2, 5), self.shape(rows, columns, 9)
            trials += [(one, factors) for one in any_two]
        return trials

    def runs(self, seconds: float) -> Iterator[Run]:
        """A launch for each trial; after an endless or slow one, or after so many seconds of
        processor time, no more."""
        end = processor_seconds() + seconds
        for shape, factors in self.trials:
            run = self.run(shape, factors=factors)
            if run.slow:
                run = self.run(shape, factors=factors, patience=PATIENCE)
            yield run
            if run.slow or run.endless or processor_seconds() > end:
                return

    def covers(self, shape: Shape) -> bool:
        """Whether the program's grid covers C, of which some blocks do not show all."""
        grid = self.launch.at(shape).grid
        return bool(self.launch.blocks) or all(map(operator.ge, grid, self.launch.covering(shape)))

    def reaches(self, shape: Shape) -> bool:
        """The same, or whether all blocks run, so that what they leave of C shows."""
        _, share = self.cost(shape, self.launch.at(shape), apart=True)
        return share == 1 or self.covers(shape)

    def uncovered(self) -> Iterator[Run]:
        """Launches at the smallest oblong C, in each direction, that the program's grid does not
        cover with tiles: one that is too large elsewhere may have its sides exchanged. Its blocks
        beyond those that cover C do not run."""
        own, tile = self.launch.program, np.minimum(self.launch.tile or (1, 1), WIDEST)
        if not own or own.constant or self.signature.square or not self.blocks_apart:
            return
        for high, across in np.diag(tile).tolist():
            sides = [(tiles * high + 1, tiles * across + 1, 1) for tiles in range(OBLONG)]
            first = bisect_left(sides, True, key=lambda one: not self.covers(self.shape(*one)))
            if first < OBLONG:
                shape = self.shape(*sides[first])
                launched, most = self.launch.at(shape), self.launch.covering(shape)
                x, y, z = map(min, launched.grid, most)
                yield replace(self.run(shape, (x, y, z), whole=True), launched=launched)

    def beyond(self, runs: Sequence[Run]) -> Iterator[Run]:
        """Launches with a grid that ends a block beyond C, or that seems not to cover it, in the
        place of those of some of its blocks; none where the tile of a block is a guess."""

        def cut(launched: plans.Launch, shape: Shape) -> plans.Launch:
            ends = (1 + side for side in self.launch.covering(shape))
            x, y, z = map(min, launched.grid, ends)
            return replace(launched, grid=(x, y, z))

        bench = replace(self, launch=replace(self.launch, mended=cut))
        guess = self.launch.blocks or "grid" in self.launch.guessed
        for run in (run for run in runs if run.sampled and not guess):
            if run.shape.operations < MOST and not self.covers(run.shape):
                yield self.run(run.shape, run.launched.grid, whole=True)
            elif self.launch.at(run.shape) != bench.launch.at(run.shape):
                yield replace(bench.run(run.shape), launched=run.launched)

    def smaller(self, shape: Shape) -> Iterator[Shape]:
        """The shapes that differ from this one by a smaller dimension, smallest first."""
        names = shape.__match_args__
        for name in names:
            fixed = name in {*self.signature.fixed, *self.signature.tied}
            fixed |= name == "m" and self.signature.open_rows
            for less in () if fixed else self.candidates(getattr(shape, name)):
                tied = [one for one, other in self.signature.tied.items() if other == name]
                alike = names if self.signature.square else (name, *tied)
                yield replace(shape, **dict.fromkeys(alike, less))
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


def off(
    c: np.ndarray, expected: np.ndarray, bound: np.ndarray, done: Watched, part: bool
) -> np.ndarray:
    """Which elements of C are wrong after a launch that ended; of a part of the blocks, those that
    these write, or all if they write none."""
    with np.errstate(invalid="ignore"):
        right = np.abs(c.astype(expected.dtype) - expected) <= bound
    written = done.writers["thread"] >= 0
    return ~right & done.ended & (written | (not part or not written.any()))


def starts_a_row(alone: Run, beside: Run) -> bool:
    """Whether a block has the first elements of a row of C, and the next block those of the next
    row."""
    more = corner(~beside.unwritten & alone.unwritten)
    return more == (1, 0) and bool(alone.unwritten[0].any())


def tile_of(alone: Run, more: Mapping[str, Run]) -> tuple[tuple[int, int], str] | None:
    """The tile, and the order of blocks, as a square C shows it: what one block writes of it, and
    what a second one adds, beside the first along each axis of the grid."""
    if len(more) > 2:  # one of them may be of other products, which nobody has
        more = {axis: run for axis, run in more.items() if run.result.ended and not run.mistaken}
    if not all(run.result.ended for run in more.values()):
        return None
    found = {axis: corner(~run.unwritten & alone.unwritten) for axis, run in more.items()}
    added = {axis: first for axis, first in found.items() if first}
    if len(added) == 1:
        ((axis, _),) = added.items()
        return line_of_tiles(~alone.unwritten, ~more[axis].unwritten, axis)
    for columns, rows in permutations(added, 2):
        (no_row, width), (height, no_column) = added[columns], added[rows]
        # Rows before columns: unless it is the store that has them the wrong way round.
        turned = columns > rows and (more[rows].wrong & ~more[rows].unwritten).any()
        if no_row == no_column == 0 < min(width, height) and not turned:
            return (height, width), columns + rows
    return None


def processor_seconds() -> float:
    """What this process and those that it waited for took, however busy the machine is."""
    return sum(os.times()[:4])


def corner(mask: np.ndarray) -> tuple[int, int] | None:
    """The first row and column of the elements in a mask; None without any."""
    rows, columns = np.nonzero(mask)
    return (int(rows.min()), int(columns.min())) if len(rows) else None


def line_of_tiles(
    first: np.ndarray, two: np.ndarray, axis: str
) -> tuple[tuple[int, int], str] | None:
    """The same for blocks in a line along an axis of the grid, of which the first one, and the
    first two, compute these elements."""
    if not first.any():
        return None
    rows, columns = (int(first.any(axis=side).sum()) for side in (1, 0))
    other = "y" if axis == "x" else "x"
    if first[:rows].all():
        return (rows, EVERYTHING), other + axis
    if first[:, :columns].all():
        return (EVERYTHING, columns), axis + other
    count = int(first.sum())
    if axis == "x" and first.ravel()[:count].all():
        return (1, count), LINEAR
    alike = axis == "x" and rows * columns == count and int(two.sum()) == 2 * count
    return ((rows, columns), LINEAR) if alike else None
