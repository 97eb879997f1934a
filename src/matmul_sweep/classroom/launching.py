"""How a hand-in is launched: its constants, its block, its tile of C, and its shared memory.

Each comes from a setting (behind the file's name, or in a comment `// try: ...`), or else from the
source: its macros, the launch in its own program, the extents of its shared arrays.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from matmul_sweep.catalogue import plans
from matmul_sweep.catalogue.architectures import MAXIMUM_THREADS, STATIC_SHARED, WARP
from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.classroom import syntax
from matmul_sweep.classroom.file_launch import MOST_SHARED, FileLaunch
from matmul_sweep.classroom.host import BYTES, Host
from matmul_sweep.classroom.source import Source, question, word_set
from matmul_sweep.classroom.syntax import (
    Kernel,
    TemplateParameter,
    around,
    text_of,
)
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.shapes import Shape, ceil_div
from matmul_sweep.process.errors import UserError

# Settings that are no constants of the source.
OWN = word_set(
    "kernel block blocks grid tile shared multiple most_rows most_columns m n k order a b c"
)
# The axes of the grid along which blocks have other columns of C, and other rows.
COLUMNS_FIRST, ROWS_FIRST, LINEAR = "xy", "yx", "linear"
EVERYTHING = 1 << 30  # of a tile: all columns of C
TILE_NAME = re.compile(r"(?i).*(tile|block|width|size|bs|ts|dim|bm|bn|bk|tm|tn|step).*|[A-Z]{1,3}")
DEFAULT_BLOCK = (16, 16, 1)  # of a kernel that takes any
OBLONG_BLOCK = (16, 8, 1)  # of one that may have taken one side of its block for the other
LINE_BLOCK = (128, 1, 1)  # of one that takes any, and counts its threads by x alone
# Those of a kernel whose text allows several, the commonest first; they are tried.
USUAL_LINES = ((256, 1, 1), (128, 1, 1), (64, 1, 1), (512, 1, 1), (1024, 1, 1), (32, 1, 1))
USUAL_BOXES = ((32, 2, 2), (32, 4, 2), (32, 2, 4), (16, 16, 2), (8, 8, 8))
USUAL_WARPS = ((128, 4, 1), (32, 4, 1), (32, 8, 1), (64, 4, 1), (32, 2, 1), (32, 32, 1))
USUAL_SQUARES = ((16, 16, 1), (32, 32, 1), (8, 8, 1), (32, 8, 1), (32, 4, 1))
STRIDING_BLOCKS = 8  # of a grid whose threads go on by its size: few, so that they do go on
# Arguments of public ladders of SGEMM kernels, whose loads fit the threads of a block only so.
LADDERS = (
    {"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 64, "WNITER": 4, "TM": 8, "TN": 4,
     "NUM_THREADS": 128},
    {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8},
    {"BM": 64, "BN": 64, "BK": 8, "TM": 8},
)  # fmt: skip
# Types of matrices, by the names of kernels for them.
TYPE_NAMES = {"__nv_bfloat16": re.compile("(?i)bf(?:loat)?16|bgemm"),
              "half": re.compile("(?i)hgemm|half|fp?16"),
              "double": re.compile("(?i)dgemm|double|fp?64")}  # fmt: skip
PADDED = re.compile(r"\(?\s*([A-Za-z_]\w*)\s*\+\s*(\w+)\s*\)?")  # a dimension, and more
BY_WARPS = re.compile(r"threadIdx\s*\.\s*x\s*\)?\s*/")  # whose number along x is counted
TYPICAL = 16  # of another template's argument
SHARED = re.compile(r"__shared__\s+(?:volatile\s+)?\w+(?:\s+\w+)?\s+([^;=]+)")
BLOCK = re.compile(
    r"\bdim3\s+(?:\w*[bB]lock(?:_?[dD]im|_?[sS]ize)?|[tT]hread\w*)\s*[({]([^;{}]*)[)}]\s*;"
)
ARRAY = re.compile(r"\w+\s*((?:\[[^\]]*\]\s*)+)")
ALIAS = re.compile(r"(\w+)\s*=\s*((?:threadIdx|blockIdx|blockDim)\s*\.\s*[xyz])\s*[,;]")
# The index of a block along one axis times its side along the other.
CROSSED = "|".join(
    rf"blockIdx\s*\.\s*{one}\s*\*\s*blockDim\s*\.\s*{other}\b"
    rf"|blockDim\s*\.\s*{one}\s*\*\s*blockIdx\s*\.\s*{other}\b" for one, other in ("xy", "yx")
)  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """block: extents (x, y, z). tile: rows and columns of C per block, or None if it is to be found
    by experiment. shared_bytes: dynamic shared memory. multiple: of which all dimensions are.
    blocks: of the grid at every shape, or 0. grid: what a setting says of its extents, as functions
    of m, n and k. most: rows and columns of C that it takes at most.

    order: axes of the grid, that along the columns of C and that along its rows; LINEAR if
    x runs along its elements, or along tiles of its rows. program: the launch in the file, which
    then is the launch. fixed: its grid, if that does not depend on the shape. depth: blocks along z
    of another grid. mended: what is tried in the place of a launch that may be wrong. guessed: what
    neither the file nor a setting says, nor a trial the grid. possible: the blocks that the text
    allows, if it is several.
    """

    block: tuple[int, int, int]
    tile: tuple[int, int] | None
    shared_bytes: int
    multiple: int
    constants: Mapping[str, str]
    order: str = COLUMNS_FIRST
    blocks: int = 0
    grid: tuple[str, ...] = ()
    most: tuple[int, int] = (EVERYTHING, EVERYTHING)
    program: FileLaunch | None = None
    fixed: plans.Grid | None = None
    depth: int = 1
    mended: Callable[[plans.Launch, Shape], plans.Launch] | None = None
    guessed: frozenset[str] = frozenset()
    possible: tuple[tuple[int, int, int], ...] = ()

    @property
    def alone(self) -> "Launch":
        """The same without the file."""
        return replace(self, program=None, mended=None)

    def grid_of_file(self, shape: Shape) -> plans.Grid | None:
        """The grid that the file's program launches at a shape, as far as that is known: one that
        does not depend on the shape is for the program's own sizes."""
        told = self.program.at(shape) if self.program else None
        if self.program is None or told is None or told.block is None:
            return None
        own = shape == self.program.own_shape and self.program.follows
        known = not self.program.constant or self.program.one_block
        by_grid = self.program.signature.open_rows and "m" not in dict(self.program.roles).values()
        return told.grid if own or (known and not by_grid) else self.fixed

    def at(self, shape: Shape, grid: plans.Grid | None = None) -> plans.Launch:
        """The launch at a shape, or with another grid."""
        told = self.program.at(shape) if self.program else None
        block, shared = self.block, self.shared_bytes
        if told:
            block, shared = told.block or block, shared if told.shared is None else told.shared
        grid = grid or self.grid_of_file(shape) or self.covering(shape)
        found = plans.Launch(grid, block, shared)
        return self.mended(found, shape) if self.mended else found

    def covering(self, shape: Shape) -> plans.Grid:
        """The grid that covers C with tiles."""
        assert self.tile
        if self.grid:
            return in_three(sides_of_grid(self.grid, shape))
        if self.blocks:
            return self.blocks, 1, self.depth
        rows, columns = (ceil_div(*pair) for pair in zip(shape.output, self.tile, strict=True))
        if self.order == LINEAR:
            whole = ceil_div(shape.elements[-1], self.tile[1])  # of parts of rows
            return whole if self.tile[0] == 1 else rows * columns, 1, self.depth
        sides = {"z": self.depth, **dict(zip(self.order, (columns, rows), strict=True))}
        return sides.get("x", 1), sides.get("y", 1), sides["z"]

    def with_tile(self, tile: tuple[int, int], order: str) -> "Launch":
        """The same with a tile. A grid of the file that does not depend on the shape is for the
        file's own sizes, if these are known; or its blocks go on over any C."""
        known = replace(self, tile=tile, order=order)
        program, far = self.program, self.program.far if self.program else None
        if program is None or far is None or far.grid is None:
            return known
        own = program.own.grid
        if own and order != LINEAR and tile[0] < EVERYTHING:
            turned = program.signature.open_rows and program.stays == order[0]
            program = replace(program, rows=own["xyz".index(order[not turned])] * tile[turned])
        known = replace(known, depth=far.grid[2], program=program)
        if not program.constant:
            return known
        goes_on = self.blocks or strides(program.source, program.kernel)
        return replace(known, fixed=far.grid) if goes_on else known


def launch_of(
    source: Source, kernel: Kernel, settings: Mapping[str, str], sizes: Iterable[str] = ()
) -> Launch:
    """How to launch a kernel. sizes: the names of constants that are dimensions, and no tiles.

    Raises UserError, with the question, for what nothing says.
    """
    where = str(source.path)
    constants, guessed = template_arguments(source, kernel, settings)
    constants |= {name: value for name, value in settings.items()
                  if name not in OWN and not kernel.declares(name)}  # fmt: skip
    refuse_fixed(source, {name: constants[name] for name in settings.keys() & constants.keys()})
    values = known_values(source, kernel, constants)
    own = Host(source, kernel, {}).launch()
    said = extents(settings, "block", where)
    if known := said or (own.block if own else None):
        blocks = [in_three(known)]
    else:
        guessed |= {"block"}
        tilings = {name: value for name, value in values.items() if name not in sizes}
        blocks = likely_blocks(source, kernel, tilings)
    x, y, z = blocks[0]
    if said and not 1 <= (threads := x * y * z) <= MAXIMUM_THREADS:
        wanted = f"has {threads} threads; a block has 1 to {MAXIMUM_THREADS}"
        raise UserError(f"{where}: block {x}×{y}×{z} {wanted}")
    shared: int | str | None = settings.get("shared") or (own.shared if own else None)
    if said and own and own.shared and own.block != (x, y, z) and "shared" not in settings:
        shared = max(own.shared, STATIC_SHARED)  # the file's bytes may be for its own block only
        guessed |= {"shared"}
    if shared is None and re.search(r"\bextern\s+__shared__", kernel.body):
        shared = STATIC_SHARED if own and not source.host.asks_for_shared else MOST_SHARED
        guessed |= {"shared"}

    def count(key: str, unsaid: int) -> int:
        if key not in settings:
            return unsaid
        if (told := number(settings[key], values, f"{where}: {key}")) < 1:
            raise UserError(f"{where}: {key}={settings[key]}: write a whole number from 1 on")
        return told

    tile = extents(settings, "tile", where)
    return Launch(
        (x, y, z), (tile[0], tile[-1]) if tile else None, number(str(shared or 0), values, where),
        count("multiple", 1), constants,
        blocks=count("blocks", 0 if tile else striding_blocks(source, kernel)),
        most=(count("most_rows", EVERYTHING), count("most_columns", EVERYTHING)), guessed=guessed,
        possible=tuple(blocks) if len(blocks) > 1 else (), grid=said_grid(settings, where),
    )  # fmt: skip


def said_grid(settings: Mapping[str, str], where: str) -> tuple[str, ...]:
    """The extents of the grid that a setting says. Raises UserError."""
    texts = tuple(settings["grid"].split(",")) if "grid" in settings else ()
    try:
        if len(texts) > 3 or min(sides_of_grid(texts, Gemm(1024, 1024, 1024)), default=1) < 1:
            raise UserError("no grid")
    except UserError:
        example = "such as grid=(n+15)/16,(m+15)/16"
        said = f"grid={settings['grid']}: write up to three extents by m, n and k, {example}"
        raise UserError(f"{where}: {said}") from None
    return texts


def sides_of_grid(texts: Sequence[str], shape: Shape) -> list[int]:
    """The extents of a grid at a shape, one at least. Raises UserError."""
    sizes = dict(zip(shape.__match_args__, shape.dimensions, strict=True))
    return [max(1, evaluate(text.replace("/", "//"), sizes)) for text in texts]


def refuse_fixed(source: Source, settings: Mapping[str, str]) -> None:
    """Raise UserError for a setting that the file defines otherwise, which counts if it is graded
    strictly."""
    for name, value in settings.items():
        if source.fixes(name) and source.names[name] != value:
            line = source.line_that_defines(name)
            has = f"line {line} has `{source.line(line)}`, which --strict keeps"
            cure = "change it there, or leave the setting out"
            raise UserError(f"{source.path}: {name}={value}, but {has}: {cure}")


def question_of_guess(source: Source, launch: Launch, said: str) -> UserError | None:
    """What the program gives for the arguments of a template that are a guess, if some are: with
    them, something is as it cannot be meant."""
    told = {one: launch.constants[one] for one in sorted(launch.guessed & launch.constants.keys())}
    given = " ".join(map("=".join, told.items()))
    asked = f"with {given}, which is a guess, {said}. What does the program give"
    other = {"0": "1", "true": "false", "false": "true"}  # of a switch
    example = " ".join(f"{k}={other.get(v, '32' if v.isdecimal() else 'double')}"
                       for k, v in told.items())  # fmt: skip
    return question(f"{source.path}: {asked}", example) if told else None


def known_values(source: Source, kernel: Kernel, constants: Mapping[str, str]) -> dict[str, int]:
    """The whole numbers among macros and constants, by the names that a kernel has for them, those
    of headers beside too."""
    texts = source.names_in(kernel.scope) | dict(constants)
    values = dict[str, int]()
    for _ in range(4):  # macros of macros
        found = {name: valued(text, values) for name, text in texts.items()}
        values |= {name: value for name, value in found.items() if value is not None}
    return values


def number(text: str, values: Mapping[str, int], where: str) -> int:
    try:
        return evaluate(text, values)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def extents(settings: Mapping[str, str], key: str, where: str) -> tuple[int, ...] | None:
    """16x16 or 256 as numbers."""
    if key not in settings:
        return None
    if not re.fullmatch(r"\d{1,9}(?:[x×]\d{1,9}){0,2}", settings[key]):
        raise UserError(f"{where}: {key}={settings[key]}: write whole numbers, such as {key}=16x16")
    return tuple(int(part) for part in re.split("[x×]", settings[key]))


def in_three(sides: Sequence[int]) -> tuple[int, int, int]:
    """A block of one, two or three extents with all three."""
    x, y, z, *_ = (*sides, 1, 1)
    return x, y, z


def used_constants(kernel: Kernel, values: Mapping[str, int]) -> list[str]:
    """The names of known values that a kernel uses, in the rows of its arrays too; of its
    parameters none, as it has their names for them."""
    texts = [kernel.body, *(one.name for one in kernel.template)]
    texts += [extent for one in kernel.parameters for extent in one.extents]
    words = {*re.findall(r"[A-Za-z_]\w*", " ".join(texts))}
    return [name for name in values if name in words - {one.name for one in kernel.parameters}]


def shared_arrays(kernel: Kernel) -> list[list[str]]:
    """The extents of each of its arrays in shared memory, as they are written."""
    return [re.findall(r"\[([^\]]*)\]", array) for declared in SHARED.findall(kernel.body)
            for array in ARRAY.findall(declared)]  # fmt: skip


def likely_blocks(
    source: Source, kernel: Kernel, values: Mapping[str, int]
) -> list[tuple[int, int, int]]:
    """The blocks that a kernel's own text allows, the likeliest first: if none is certain, the
    usual ones too, of so many threads if __launch_bounds__ says it."""
    if told := block_without_launch(source.host, values):
        return [told]
    found, sure = guessed_block(source, kernel, values)
    first = [in_three(found)] if found else []
    if sure:
        return first
    usual, bound = usual_blocks(source, kernel), valued(kernel.bounds, values)
    bounded = [one for one in usual if math.prod(one) == bound]
    return [*dict.fromkeys((*first, *(bounded or usual)))]


def block_without_launch(source: Source, values: Mapping[str, int]) -> tuple[int, int, int] | None:
    """The only block that a file declares which launches nothing."""
    written = [] if source.launchers else re.findall(BLOCK, source.bare)
    sides = {tuple(valued(one, values) or 0 for one in text.split(",")) for text in written}
    found = in_three(sides.pop()) if len(sides) == 1 else (0, 0, 0)
    return found if 1 <= math.prod(found) <= MAXIMUM_THREADS else None


def usual_blocks(source: Source, kernel: Kernel) -> tuple[tuple[int, int, int], ...]:
    """Those of kernels that use the same axes of threadIdx, the commonest first."""
    code = code_of(source, kernel)
    if uses(code, "threadIdx", "z"):
        return USUAL_BOXES
    if "mma" in code and uses(code, "threadIdx", "y") and BY_WARPS.search(code):
        return USUAL_WARPS
    return USUAL_LINES if counts_by_x(source, kernel) else (*USUAL_SQUARES, *USUAL_LINES)


def other_blocks(
    source: Source, kernel: Kernel, launch: Launch
) -> tuple[tuple[int, int, int], ...]:
    """Those that a kernel may take if it is right nowhere with that which its tiles in shared
    memory make likely."""
    guessed = "block" in launch.guessed and not launch.possible and shared_arrays(kernel)
    usual = usual_blocks(source, kernel) if guessed else ()
    return tuple(one for one in usual if one != launch.block)


def counts_by_x(source: Source, kernel: Kernel) -> bool:
    """Whether a kernel's threads are in a line."""
    return not uses(code_of(source, kernel), "threadIdx", "[yz]")


def guessed_block(
    source: Source, kernel: Kernel, values: Mapping[str, int]
) -> tuple[tuple[int, ...] | None, bool]:
    """The block that a kernel's own text makes likely, if there is one, and whether no other one
    is as likely."""
    code, bound = code_of(source, kernel), valued(kernel.bounds, values)
    any_block = "blockDim" in code or "blockIdx" not in code  # if not, it is one of its numbers
    used = {name: values[name] for name in used_constants(kernel, values)}
    ladder, by_warps = block_of_ladder(used), "mma" in code  # each of which has a tile
    tiles = {value for name, value in used.items() if TILE_NAME.fullmatch(name)}
    arrays = [[valued(text, values) or 0 for text in one] for one in shared_arrays(kernel)]
    if counts_by_x(source, kernel):
        if not uses(code, "threadIdx", "x"):
            return (WARP if by_warps else 1,), True
        if told := bound or math.prod(ladder or (0,)):
            return (told,), True
        if threads := side_beside(kernel, "x", values) or line_of(arrays, tiles):
            return (threads,), False
        of_tile = tiles or arrays or by_warps or re.search(r"threadIdx\s*\.\s*x\s*[/%]", code)
        return (None, False) if of_tile else (LINE_BLOCK, any_block)
    if not uses(code, "threadIdx", "x"):
        return LINE_BLOCK[1::-1], True
    sides = [side_beside(kernel, axis, values) for axis in "xy"]
    if 0 < math.prod(sides) <= MAXIMUM_THREADS:  # else of the block's tile
        return tuple(sides), True
    if ladder:
        return ladder, True
    squares = {one[0] for one in arrays if len(one) == 2 and 0 <= one[1] - one[0] <= 1}
    if by_warps and BY_WARPS.search(code):
        return None, False
    if not tiles and not arrays:
        crossed = re.search(CROSSED, without_aliases(kernel.body))
        usual = OBLONG_BLOCK if crossed else DEFAULT_BLOCK
        return square_of(bound) or usual, bool(bound) or any_block
    side = min(squares or (tiles if len(tiles) == 1 else {0}))
    found = (side, side) if 0 < side <= 32 else square_of(bound)
    return found, found is not None and not by_warps


def line_of(arrays: Sequence[Sequence[int]], tiles: set[int]) -> int:
    """The threads of a block in a line, one for each element of a square tile, or of an array; 0 if
    there could be several."""
    sizes = {side**2 for side in tiles} if len(tiles) == 1 else {math.prod(one) for one in arrays}
    return sizes.pop() if len(sizes) == 1 and max(sizes) <= MAXIMUM_THREADS else 0


def square_of(threads: int | None) -> tuple[int, int] | None:
    """The square block of so many threads."""
    side = math.isqrt(threads or 0)
    return (side, side) if side and side * side == threads else None


def block_of_ladder(values: Mapping[str, int]) -> tuple[int, int] | None:
    """The block where each thread computes a tile of TM×TN, or a column of TM."""
    own_last = sorted(values, key=lambda name: name == short(name))  # BM before BLOCK_M
    named = {short(name): values[name] for name in own_last}
    if {"BM", "BN", "TM"} <= named.keys() and "WM" not in named:
        return named["BN"] // named.get("TN", 1), named["BM"] // named["TM"]
    return (named["NUM_THREADS"], 1) if "NUM_THREADS" in named else None


def side_beside(kernel: Kernel, axis: str, values: Mapping[str, int]) -> int:
    """The extent of a block whose threads count as blockIdx.x * extent + threadIdx.x, or go on by
    it; or 0."""
    body, thread = without_aliases(kernel.body), rf"threadIdx\s*\.\s*{axis}\b"
    counted = rf"blockIdx\s*\.\s*{axis}\s*\*\s*(\w+)\s*\)?\s*\+\s*{thread}(?!\s*\*)"
    goes_on = rf"\b(\w+)\s*=\s*{thread}\s*;[^;]*;\s*\1\s*\+=\s*(\w+)\s*\)"
    found = re.search(counted, body) or re.search(goes_on, body)
    return (valued(found[found.lastindex or 0], values) or 0) if found else 0


def without_aliases(body: str) -> str:
    """A kernel's text with threadIdx.x in the place of `tx` and the like."""
    for name, index in ALIAS.findall(body):
        if not re.search(rf"\b{name}\s*\+=", body):
            body = re.sub(rf"\b{name}\b(?!\s*=[^=])", index, body)
    return body


def code_of(source: Source, kernel: Kernel) -> str:
    """What a kernel uses of its file, without comments and the macros that it does not name."""
    left_out = r"(?m)^[ \t]*#[ \t]*define\b(?:.*\\\n)*.*|//.*|/\*(?s:.*?)\*/"
    own = re.sub(left_out, "", source.needed_by(kernel)[source])
    code, texts = own, {name.removesuffix("()"): text for name, text in source.names.items()}
    for _ in range(4):  # macros of macros
        named = {*re.findall(r"\w+", code)} & texts.keys()
        code = " ".join([own, *(texts[name] for name in sorted(named))])
    return code


def uses(code: str, index: str, axis: str) -> bool:
    """Whether code takes an axis of threadIdx or blockIdx."""
    return bool(re.search(rf"\b{index}\s*\.\s*{axis}\b", code))


def striding_blocks(source: Source, kernel: Kernel) -> int:
    """The blocks of a grid in a line whose threads go on by the size of the grid, 1 for a kernel
    whose threads all do the same, or 0."""
    code = code_of(source, kernel)
    if not uses(code, "(?:threadIdx|blockIdx)", "[xyz]"):
        return 1
    goes_on = "gridDim" in kernel.body and strides(source, kernel)
    return 0 if uses(code, "blockIdx", "[yz]") else STRIDING_BLOCKS * goes_on


def strides(source: Source, kernel: Kernel) -> bool:
    """Whether a kernel's threads go on by the size of the grid, or by that of grid and block as its
    launch has them."""
    size = r"\bgridDim\s*\.\s*[xyz]\b"
    launch = rf"\b{kernel.name}\s*<<<\s*(\w+)\s*,\s*(\w+)"
    for x, y in re.findall(launch, source.host.bare):
        block = rf"(?:{y}|blockDim\s*\.\s*x)"
        size += rf"|\b{x}\s*\*\s*{block}\b|\b{block}\s*\*\s*{x}\b"
    names = re.findall(rf"(\w+)\s*=[^=;]*(?:{size})", kernel.body)
    steps = "|".join([size, *(rf"\b{name}\b" for name in names)])
    return bool(re.search(rf"\+=[^;{{\[]*(?:{steps})", kernel.body))


def counts_grid(source: Source, kernel: Kernel) -> bool:
    """Whether a kernel takes a size from the threads of its whole grid."""
    product = r"=\s*(?=[^;,]*\bgridDim)(?:(?:block|grid)Dim\s*\.\s*[xyz]\s*\*?\s*){2}[;,]"
    return bool(re.search(product, kernel.body)) and not strides(source, kernel)


def valued(text: str, values: Mapping[str, int]) -> int | None:
    """The value of an expression of C, or None."""
    plain = " ".join(text.strip().removeprefix("{").removesuffix("}").split())
    plain = re.sub(r"sizeof\s*\(\s*(\w+)\s*\)", lambda one: str(BYTES.get(one[1], one[0])), plain)
    plain = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", plain)
    plain = re.sub(r"\b(?:true|false)\b", lambda one: str(int(one[0] == "true")), plain)
    plain = re.sub(r"\b1 ?<< ?(\d{1,2})\b", lambda one: str(1 << int(one[1])), plain)
    try:
        return evaluate(plain.replace("/", "//"), values)
    except UserError:
        return None


def template_arguments(
    source: Source, kernel: Kernel, settings: Mapping[str, str]
) -> tuple[dict[str, str], frozenset[str]]:
    """The arguments of the kernel's template, by the parameter's name, and those that are a guess.

    Each is that of a setting, of the kernel's first launch, of an explicit instantiation, the
    default, float for a type, or else a usual one.
    """
    source = source.host
    own = Host(source, kernel, {}).launch()
    given = own.template if own else source.instantiations.get(kernel.name, ())
    known = known_values(source, kernel, {})
    told, guessed = {}, set()
    texts, open_ones = [*given, *[""] * len(kernel.template)], open_names(source, kernel)
    for one, text in zip(kernel.template, texts, strict=False):
        text = source.types.get(text, text)
        is_open = one.is_type and not open_ones.isdisjoint(re.findall(r"\w+", text))
        said = "" if is_open else argument(one, text, known)
        chosen = settings.get(one.name) or said or argument(one, one.default, known)
        if not chosen:
            refuse_struct(one, text, source, kernel)
            guessed |= {one.name}
            named = (kind for kind, name in TYPE_NAMES.items() if name.search(kernel.name))
            chosen = {"typename": next(named, "float"), "bool": "true"}.get(one.kind, "")
            chosen = chosen or str(typical(one.name, kernel))
        told[one.name] = chosen
        if chosen.isdecimal():
            known[one.name] = int(chosen)
    return told, frozenset(guessed)


def refuse_struct(one: TemplateParameter, text: str, source: Source, kernel: Kernel) -> None:
    """Raise UserError with the question for a type that has constants of its own. text: what the
    program gives for it, or nothing."""
    if one.is_type and re.search(rf"\b{one.name}\s*::\s*\w", text_of(kernel.node, source.bare)):
        made = re.search(rf"\b(?:{'|'.join(source.structs) or '-'})\s*<[\d\s,]+>", source.bare)
        example = made[0] if made else re.sub(r"(?<=[<,])\s*(?!\d)\w+", "64", text) or "MyTiling"
        asked = f"{source.path}: {kernel.name} takes constants of {one.name}: which type is it"
        raise question(asked, f"{one.name}='{re.sub(' ', '', example)}'")


def argument(one: TemplateParameter, text: str, known: Mapping[str, int]) -> str:
    """A template's argument without the names of the function that gives it, or nothing."""
    if one.is_type:
        return "" if re.fullmatch(r"[A-Z]\w?|scalar_t|decltype.*", text) else text
    value = valued(text, known) if text else None
    return text if text in ("true", "false") else "" if value is None else str(value)


def open_names(source: Source, kernel: Kernel) -> set[str]:
    """The names of the template of the function that launches a kernel."""
    function = source.launchers.get(kernel.name)
    template = next(around(function, "template_declaration"), None) if function else None
    return {one.name for one in syntax.template_parameters(template, source.text)}


def typical(name: str, kernel: Kernel) -> int:
    """A usual value of a template's parameter."""
    names = {short(one.name) for one in kernel.template if not one.is_type}
    fitting = (one for one in LADDERS if len(names & one.keys()) > 2)
    ranked = sorted(fitting, key=lambda one: (-len(names & one.keys()), len(one)))
    return ranked[0].get(short(name), TYPICAL) if ranked else TYPICAL


def short(name: str) -> str:
    """BM for BLOCK_TILE_SIZE_Y, TILE_WIDTH_M and the like."""
    own = re.sub(r".*_(?=(?:[BWT][MNK]|WNITER|NUM_THREADS)$)", "", name.upper())
    whole = r"(BLOCK|TILE|WARP|THREAD)_?(?:TILE_?)?(?:SIZE_?|WIDTH_?|DIM_?)?([MNKXY])"
    found = re.fullmatch(whole, own)
    if not found:
        return own
    level = "B" if found[1] == "TILE" else found[1][0]
    return level + {"X": "N", "Y": "M"}.get(found[2], found[2])
