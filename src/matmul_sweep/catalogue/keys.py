"""The keys of an entry of the catalogue, described here once.

A description stands in the docstring of the key's class, and in the line that refuses a value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from matmul_sweep.process.models import Must

FORBID = {"extra": "forbid"}  # for pydantic


def text(pattern: str, wanted: str, kind: Any = str) -> Must:
    return Must(lambda value: isinstance(value, kind) and re.fullmatch(pattern, str(value)), wanted)


def number(pattern: str, names: str) -> Must:
    def right(value: Any) -> object:
        if isinstance(value, str):
            return re.fullmatch(pattern, value)
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1

    return Must(right, f"a whole number from 1 on, or an expression of {names} with + - * // ()")


Whole = Annotated[int, Must(lambda n: type(n) is int and n >= 0, "a whole number from 0 on")]
Expression = Annotated[int | str, number("[A-Z0-9_+*/() -]+", "the parameters")]
Sized = Annotated[int | str, number("[A-Zmnk0-9_+*/() -]+", "the parameters, m, n and k")]
Extent = tuple[Expression, Expression]  # rows and columns
Sides = tuple[Sized, ...]  # of each dimension, in C's order
Function = Annotated[str, text("[A-Za-z_][A-Za-z0-9_]{0,199}", "the name of a function")]
Parameter = Annotated[str, text("[A-Z][A-Z0-9_]*", "a name in capital letters")]
Argument = Annotated[str, text("[a-z][a-z0-9_]*", "a name in small letters")]
Values = Mapping[Parameter, Whole]
Tiling = Annotated[
    str,  # YAML takes 32 for a number
    text("[0-9A-Za-z][0-9A-Za-z-]{0,119}", "a name of letters, digits and hyphens", str | int),
]
Name = Annotated[
    str, text("[a-z][a-z0-9_]{0,47}", "a name of at most 48 small letters, digits and _")
]
Sentence = Annotated[str, text("(?s).+", "text")]


@dataclass(frozen=True)
class OwnLaunch:
    """A launch before or after the one that multiplies.

    function: A function of the source, which takes the same parameters.
    blocks: Blocks of the grid; with none of them there is no launch.
    cluster: Blocks of a cluster, as __cluster_dims__ of the source says.
    threads: Threads of a block: blockDim.y and blockDim.x.
    dynamic_shared_bytes: Dynamic shared memory of a block.
    """

    __pydantic_config__ = FORBID
    function: Function
    blocks: Sized
    threads: Extent
    dynamic_shared_bytes: Expression = 0
    cluster: Expression = 1


@dataclass(frozen=True)
class OwnMap:
    """How the tensor memory accelerator sees an array.

    of: A matrix, a part of the workspace, or D of an epilogue.
    extents: Elements along each dimension, the last one contiguous.
    box: Elements along each dimension that one copy moves.
    dtype: Of its elements; by default the operation's.
    strides: Elements from one index to the next of each dimension but the last; by default
        without gaps.
    swizzle: Bytes of a row of the box within which 16-byte pieces are permuted; by default
        none.
    """

    __pydantic_config__ = FORBID
    of: str
    extents: Sides
    box: Sides
    dtype: Literal["int8", "bfloat16", "float16", "float32", "float64"] | None = None
    strides: Sides | None = None
    swizzle: Literal[0, 32, 64, 128] = 0


@dataclass(frozen=True)
class OwnLayout:
    """Which thread computes which part of a block's tile.

    slab: Terms of the sum that a block stages in shared memory at a time.
    stages: Slabs in shared memory at once.
    teams: Groups of warps that each compute the whole tile for a share of the terms.
    producers: Threads of a block that only copy.
    warp: Rows and columns of C that a warp computes.
    thread: Rows and columns of C that a thread computes.
    piece: Results of a thread that lie together; its pieces are spread evenly over the warp's
        part.
    units: The units that multiply.
    """

    __pydantic_config__ = FORBID
    slab: Expression = 0
    stages: Expression = 1
    teams: Expression = 1
    producers: Expression = 0
    warp: Extent | None = None
    thread: Extent | None = None
    piece: Extent = (1, 1)
    units: Literal["vector", "tensor"] = "vector"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry of the catalogue. Paths are relative to the catalogue's file.

    operation: One of src/matmul_sweep/operations, which gives dtypes and rivals.
    title: Name in figures, tables and sentences, so without a comma; by default the entry's name.
    source: A kernel's file, .cu for nvcc or .c for gcc.
    function: The function in the source; by default the entry's name.
    library: A library's routine, such as cublasSgemm.
    dispatch: A table of variants, their parameters and what their work costs, by which it
        chooses one for a shape.
    otherwise: Another dispatch of the same operation, above this entry: it chooses where it
        predicts a shorter time, and where no row of the table takes a shape.
    parameters: Compile-time parameters of all tilings that do not override them, one value
        each; name variants in `tilings: {32: {TILE_WIDTH: 32}}`.
    tilings: Variants by name, with the parameters that differ from the shared ones; the first
        is the default. Those of a search are in the tables of the dispatches.
    multiples: Parameters that must be a multiple of an expression of the others.
    optimization: Optimisation level of ptxas, 1 to 3, if not nvcc's default; from 2 on ptxas
        reorders a kernel's multiply-adds.
    tile: Rows and columns of C that one block computes.
    threads: Threads of a block: blockDim.y and blockDim.x.
    blocks: Blocks of the grid for every shape; by default one for each tile of C.
    cluster: Blocks of a cluster, neighbours in x, as __cluster_dims__ of the source says; the
        grid has whole clusters.
    before: Launches before the one that multiplies, in their order.
    after: Launches after it.
    workspace: Memory that a product needs beside its matrices: bytes of each part, by the names
        of the arguments behind the dimensions.
    tensor_maps: How the tensor memory accelerator sees matrices, parts of the workspace and D, by
        the names of the arguments behind these.
    epilogue: Whether it stores alpha·product + beta·D where ADDS is 1: its functions take alpha,
        beta and D, of the extents and type of C, behind the dimensions.
    overlaps: Whether its launches may begin before the launch before them has ended: each
        function waits for that before it touches memory (overlap.cuh).
    shares: What the blocks of a grid with `blocks` take: whole tiles and equal stretches of
        slabs (stream_k.cuh), of each tile an equal split, or whole tiles only; cluster: there
        is a cluster for each tile, and its blocks take equal splits.
    least: The fewest slabs worth a stretch or a split; without slabs, terms of the sums.
    fewest_terms: Terms of a sum below which no dispatch chooses it, since it would err more
        than the library; it is right there too.
    at_once: Blocks that a multiprocessor holds at once, if the grid has one for each tile: a
        dispatch then counts waves.
    since: The compute capability from which it compiles; with an a, the only one, whose own
        instructions it uses.
    schedule: The tiles of a symmetric C that it computes: all, those of one triangle, those of
        one triangle with a block for each and no other block, or those of one triangle, of which
        three blocks compute four on the diagonal (kernels/gram_bf16/corners.cu).
    writes: The part of C that it writes: all, or the diagonal and above.
    arithmetic: full: as precise as its dtype, by its units; tf32: float32 inputs rounded to 10
        bits of fraction (cublasSgemm); halves: as precise as float32, by products of halves on
        tensor cores; residues: as precise as float64, by products of whole numbers of a byte.
    registers: The fewest 32-bit registers that a thread needs for its results and operands.
    shared_bytes: Static shared memory of a block.
    dynamic_shared_bytes: Dynamic shared memory of a block.
    layout: Which thread computes which part of a block's tile, for the pictures and counts of
        the report; empty if each thread reads its own operands.
    accepts: any, square, a parameter of which every dimension must be a multiple, or for some
        dimensions of what: {k: 8}.
    most_rows: Most rows of C that it takes, for a kernel made for few.
    most_columns: Most columns of C that it takes, for a kernel made for few.
    documents: Documents that describe it, by the keys of reports/documents.yaml.
    named_only: Whether it is measured only where the configuration names it.
    classroom: Whether it is a step of the ladder on which scripts/try.py places a student's
        kernel.
    lesson: What it teaches, one sentence in tables.
    idea: How it works, a paragraph in the report.
    adds: What it adds to the step before it, in a word or three, below its bar in the
        ladder's picture.
    missed: Why the kernel falls short of its bound, for the report.
    """

    __pydantic_config__ = FORBID
    operation: str
    title: Annotated[str, text("[^,\n]{1,80}", "1 to 80 characters on one line, no comma")] = ""
    source: Annotated[
        Path | None, text("[A-Za-z0-9_/-]+[.](c|cu)", "a file whose name ends in .c or .cu")
    ] = None
    function: Function = ""
    library: str | None = None
    dispatch: Annotated[
        Path | None, text("[A-Za-z0-9_/-]+[.]csv", "a file whose name ends in .csv")
    ] = None
    otherwise: str | None = None
    parameters: Values = field(default_factory=dict, hash=False)
    tilings: Mapping[Tiling, Values] = field(default_factory=dict, hash=False)
    multiples: Mapping[Parameter, Expression] = field(default_factory=dict, hash=False)
    optimization: Expression | None = None
    tile: Extent | None = None
    threads: Extent | None = None
    blocks: Expression = 0
    cluster: Expression = 1
    before: tuple[OwnLaunch, ...] = ()
    after: tuple[OwnLaunch, ...] = ()
    workspace: Mapping[Argument, Sized] = field(default_factory=dict, hash=False)
    tensor_maps: Mapping[Argument, OwnMap] = field(default_factory=dict, hash=False)
    epilogue: bool = False
    overlaps: bool = False
    shares: Literal["stretches", "splits", "tiles", "cluster"] = "stretches"
    least: Expression = 1
    fewest_terms: Expression = 0
    at_once: Expression = 0
    since: Annotated[str, text("[0-9]+[.][0-9]a?", "a compute capability such as 9.0")] = "6.0"
    schedule: Literal["full", "upper", "triangle", "corners"] = "full"
    writes: Literal["full", "upper"] = "full"
    arithmetic: Literal["full", "tf32", "halves", "residues"] = "full"
    registers: Expression = 0
    shared_bytes: Expression = 0
    dynamic_shared_bytes: Expression = 0
    layout: OwnLayout | None = None
    accepts: str | Mapping[str, Expression] = field(default="any", hash=False)
    most_rows: Expression = 0
    most_columns: Expression = 0
    documents: tuple[str, ...] = ()
    named_only: bool = False
    classroom: bool = False
    lesson: Sentence = ""
    idea: Sentence = ""
    adds: Annotated[str, text(".{1,24}", "1 to 24 characters")] = ""
    missed: Sentence = ""
