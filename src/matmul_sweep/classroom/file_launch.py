"""The launch that a hand-in's own program has, as a function of m, n and k."""

import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations_with_replacement, product
from typing import Any

from tree_sitter import Node

from matmul_sweep.catalogue.architectures import MAXIMUM_THREADS, STATIC_SHARED
from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.classroom.host import Extents, Host, Launched, Value
from matmul_sweep.classroom.signature import BATCH, EXTENTS, Parameter, Signature
from matmul_sweep.classroom.source import FOR_EDGES, Source
from matmul_sweep.classroom.syntax import Kernel, text_of
from matmul_sweep.operations.shapes import Shape, ceil_div

CAST = re.compile(
    r"^\(\s*[\w:]+[\s*]*\)\s*(?=[\w(])|^(?:static|reinterpret)_cast\s*<[^>]*>\s*"
    r"|^(?:int|size_t|unsigned)\s*(?=\()"
)
BRACKETS = re.compile(r"^\(((?:[^()]|\([^()]*\))*)\)$")
# The last of the values of `x = y = z`, if that is a name, or what `x = f(z, ...)` begins with.
ASSIGNED = (r"(?<![\w.>]){}\s*=\s*(?:[\w.>-]+\s*=\s*)*(?:(?!\w*rans)\w+\(\s*)?"
            r"([A-Za-z_][\w.>:-]*)\s*[;,)]")  # fmt: skip
# An array that the host fills with zeros, as managed memory may be, and a container that has them.
ZERO = r"(?:\(\w+\)\s*)?0(?:\.0*)?f?\s*;"
BEGUN_AT_ZERO = (r"\b(\w+)\s*=\s*(?:torch|at)::zeros\w*\s*\(",
                 rf"\b(\w+)\s*\[[^]=;]*\]\s*=\s*{ZERO}",
                 rf"\*\s*\(\s*(\w+)\s*\+[^;=]*\)\s*=\s*{ZERO}",
                 r"\bdevice_vector\s*<[^>]*>\s*(\w+)\s*\([^;()]*,\s*0(?:\.0*)?f?\s*\)")  # fmt: skip
# A way out for sizes that are no multiples.
REFUSES_OTHERS = re.compile(
    r"\bif\s*\([^;{]*%[^;{]*\)\s*\{?\s*(?:throw|return|(?:std::)?exit|abort)\b|\bassert\s*\([^;]*%"
)
# What goes on only where two sizes are the same one.
REFUSES_UNLIKE = re.compile(
    r"\bif\s*\(([^;{}]*!=[^;{}]*)\)\s*(?:\{[^{}]*)?\b(?:throw|return|exit|abort)\b"
)
GRID_FIRST = "kernel<<<grid, block>>>: the grid comes first"
# What people call a block, and a grid.
LIKE_BLOCK = re.compile(r"(?i)(?!.*grid)(?!n_|num)\w*(?:thread|block(?!s))\w*")
LIKE_GRID = re.compile(r"(?i)(?!.*thread)\w*(?:grid|blocks)\w*|(?:n_?|num_?)block")
COPY = r"\bcudaMemcpy(?:2D)?(?:Async)?\s*\(\s*"
MOST_BLOCKS = (2**31 - 1, 65535, 65535)
MOST_SHARED = 227 << 10  # bytes of a block that asks for them, on compute capability 9.0
# Sizes far from those that programs have, so that no grid is that of a program's own by chance.
PRIMES, OTHERS = (70001, 80021, 90001), (100003, 60013, 75011)
SMALL_PRIMES = (37, 41, 43)  # for a program that refuses large sizes


@dataclass(frozen=True)
class FileLaunch:
    """The launch of a kernel in its file. own: at the file's own sizes; roles: texts and what they
    are there: m, n or k, or a number. A text of several is one of a program for squares. of: which
    file, in words, if it is not the kernel's. rows: of C at its own grid, for a kernel that takes
    them from that."""

    source: Source
    kernel: Kernel
    signature: Signature
    own: Launched
    roles: tuple[tuple[str, str], ...]
    of: str = ""
    rows: int | None = None
    read: dict[Shape, Launched | None] = field(default_factory=dict, repr=False, compare=False)

    def under(self, signature: Signature) -> "FileLaunch":
        """The same if the kernel's numbers are other dimensions."""
        numbers = (one for one in self.roles if one[1].isdecimal())
        return replace(
            self, signature=signature, read={},
            roles=(*roles_of(self.source, self.kernel, signature, self.own), *numbers),
        ).with_alike  # fmt: skip

    def with_threads(self, block: Extents) -> "FileLaunch":
        """The same with such a block, if nothing else of its launch is unknown."""
        launch = rf"\b{self.kernel.name}\s*<<<[^;]*,\s*(\w+)\s*>>>"
        found = re.search(launch, self.around)
        if not found or (self.far and self.far.block):
            return self
        begins = self.source.constants_of(self.function).get(found[1], found[1])
        extents = re.match(r"(?:dim3\s*)?\((.*)\)$", begins)
        names = re.split(r"\s*,\s*", extents[1]) if extents else [found[1], begins]
        sides = zip(names, block if extents else (block[0],) * 2, strict=False)
        known = tuple((name, str(side)) for name, side in sides if not name.isdecimal())
        wider = replace(self, roles=(*self.roles, *known), read={})
        return wider if wider.far and wider.far.block and wider.far.grid else self

    @property
    def with_alike(self) -> "FileLaunch":
        """The same where variables that begin as the same number as the only size are that size, if
        without them a side of the grid is the same at all sizes."""
        begins = self.source.constants_of(self.function)
        values = {begins[text] for text, _ in self.roles if begins.get(text, "").isdecimal()}
        alike = tuple((name, "m") for name, value in begins.items() if value in values)
        if not (self.signature.square and alike and (self.constant or self.stays)):
            return self
        wider = replace(self, roles=(*self.roles, *alike), read={})
        known = wider.far and wider.far.grid and wider.far.block
        return wider if known and (self.constant or not wider.stays) else self

    @property
    def stays(self) -> str:
        """The axes along which its grid has several blocks, as many at all sizes."""
        own, far = self.own.grid or (), self.far.grid if self.far else None
        sides = zip("xy", own, far or (), strict=False)
        return "".join(axis for axis, side, other in sides if side == other > 1)

    def at(self, shape: Shape) -> Launched | None:
        """The launch at a shape; None where the file's own sizes are no such shape's, or the
        template gets other arguments."""
        if shape not in self.read:
            self.read[shape] = self.read_at(shape)
        return self.read[shape]

    def read_at(self, shape: Shape) -> Launched | None:
        values = dict(zip(shape.__match_args__, shape.dimensions, strict=True))
        sizes: dict[str, int] = {}
        for text, role in self.roles:
            value = (
                int(role) if role.isdecimal() else values["m" if self.signature.square else role]
            )
            if sizes.setdefault(text, value) != value:
                return None
        found = Host(self.source, self.kernel, sizes).launch()
        if found and (sides := self.like(sizes)):
            other = Host(self.source, self.kernel, sizes | sides).launch()
            found = other if other and other.block == found.block else found
        return found if found and found.template == self.own.template else None

    def like(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Other constants of the value that the program has for a square's size: its other side."""
        names = self.source.names
        values = {names[text] for text in sizes if text in names} if self.signature.square else ()
        return {name: next(iter(sizes.values())) for name, value in names.items()
                if value in values and name not in sizes and self.kernel.leaves(name)}  # fmt: skip

    @property
    def function(self) -> Node | None:
        """The function that launches."""
        return self.source.launchers.get(self.kernel.name)

    @property
    def around(self) -> str:
        """Its text."""
        return text_of(self.function, self.source.bare)

    def place(self, line: int) -> tuple[int, str]:
        """A line of the program in the kernel's file; if it lies in another one, 0, and which."""
        return (0, f" (line {line}{self.of})") if self.of else (line, "")

    @property
    def multiple(self) -> int:
        """Of which the sizes are for which the program gets to the launch, and of which no kernel
        for the edges has a part."""
        tile = self.sides[0] if self.for_edges and self.sides else ()
        return math.lcm(self.allowed[1], *tile, *(self.padded(text) for text, _ in self.roles))

    def padded(self, text: str) -> int:
        """Of which a variable of the program, or a member, begins as a multiple."""
        of_member = rf"(?<![\w.>]){re.escape(text)}\s*=([^;=]+);" if "." in text else "$^"
        set_to = re.search(of_member, self.around)
        begins = set_to[1] if set_to else self.source.constants_of(self.function).get(text, "")
        names = re.findall(r"[A-Za-z_][\w.>-]*\b(?!\s*\()", begins)
        free = [one for one in names if one not in self.source.names]
        for sides in filter(None, (free[:1], free)):
            given = (dict.fromkeys(sides, size) for size in OTHERS)
            hosts = (Host(self.source, self.kernel, own) for own in given)
            values = [one.read(begins, self.function) for one in hosts]
            whole = [one for one in values if isinstance(one, int)]
            if len(whole) == len(values):
                return math.gcd(*whole)
        return 1

    @property
    def refuses_unknown(self) -> bool:
        """Whether the program goes on with multiples only of what the file does not say."""
        return self.allowed[1] == 1 and bool(REFUSES_OTHERS.search(self.around))

    @property
    def for_edges(self) -> str:
        """The kernel that the same function launches for what this one leaves of C, or nothing."""
        found = (one for one, at in self.source.launchers.items() if at == self.function)
        return next(filter(FOR_EDGES.search, found), "")

    @cached_property
    def allowed(self) -> tuple[Shape, int]:
        """Such a shape, and such a number."""
        for multiple, sides in product((1 << i for i in range(9)), (PRIMES, SMALL_PRIMES)):
            shape = self.shape_of([multiple * side for side in sides])
            if self.at(shape):
                return shape, multiple
        return self.shape_of(PRIMES), 1

    def shape_of(self, primes: Sequence[int]) -> Shape:
        """A shape of such sides, or a square one if the program is for squares."""
        kind = self.signature.operation.shape
        texts = [text for text, role in self.roles if not role.isdecimal()]
        square = self.signature.square or len({*texts}) < len(texts)
        count = len(kind.__match_args__)
        return kind(*([primes[0]] * count if square else primes[:count]))

    def expression(self, position: int) -> str:
        """What the program passes for a number beside the dimensions: a constant, a product of two
        dimensions, or one over a tile, rounded down or up; nothing if it is none of these."""
        shapes = [self.shape_of([self.multiple * side for side in primes])
                  for primes in (PRIMES, OTHERS)]  # fmt: skip
        launched = [one.values[position : position + 1] for one in map(self.at, shapes) if one]
        told = [value for (value,) in filter(None, launched) if isinstance(value, int)]
        if len(told) < len(shapes) or not all(told):
            return "0" if told == [0, 0] else ""
        names, first = shapes[0].__match_args__, told[0]
        sides = {side // first for side in shapes[0].dimensions} - {0}  # of tiles, or one less
        texts = [str(first), *("*".join(pair) for pair in combinations_with_replacement(names, 2))]
        texts += [f"{name}*{first // side}" for name, side
                  in zip(names, shapes[0].dimensions, strict=True)]  # fmt: skip
        for side in sorted({one + more for one in sides for more in (0, 1)}):
            texts += [text for name in names
                      for text in (f"{name}//{side}", f"({name}+{side - 1})//{side}")]  # fmt: skip
        sizes = [dict(zip(names, shape.dimensions, strict=True)) for shape in shapes]
        found = (one for one in texts if [evaluate(one, each) for each in sizes] == told)
        return next(found, "").replace("//", "/")

    @property
    def far(self) -> Launched | None:
        """The launch at a shape of sizes that no program has of its own."""
        return self.at(self.allowed[0])

    @property
    def sides(self) -> tuple[tuple[int, int], bool] | None:
        """Rows and columns of C that a block has, if y and x of the grid cover C with tiles, or x
        and y, and whether x runs along the columns: so that the sides are the rounder ones."""
        if self.far is None or self.far.grid is None or self.constant or 0 in self.far.grid:
            return None
        x, y, _ = self.far.grid
        found = []
        for along_x, blocks in ((True, (y, x)), (False, (x, y))):
            rows, columns = map(side_between, self.allowed[0].output, blocks)
            if max(rows, columns) <= MAXIMUM_THREADS:
                found.append(((rows, columns), along_x))
        return max(found, key=lambda one: min(map(roundness, one[0])), default=None)

    @property
    def constant(self) -> bool:
        """Whether its grid is the same at all sizes."""
        return self.far is not None and self.own.grid == self.far.grid

    @property
    def one_block(self) -> bool:
        """Whether its only block grows with C."""
        return self.constant and self.far is not None and self.far.block != self.own.block

    @property
    def follows(self) -> bool:
        """Whether its grid or its only block changes with constants of the file that were made
        small: one of literals is for their own values."""
        twice = {name: str(2 * int(value)) for name, value in self.source.values
                 if value.isdecimal()}  # fmt: skip
        other = Host(self.source.with_values(twice), self.kernel, {}).launch() if twice else None
        grows = other and other.block != self.own.block and self.own.grid == (1, 1, 1)
        return not (self.constant and other and other.grid == self.own.grid and not grows)

    @cached_property
    def own_shape(self) -> Shape | None:
        """The shape of the file's own sizes, if it has them."""
        sizes = {p.role: value for p, _, value in passed(self.signature, self.own)
                 if p.role in ("m", "n", "k")}  # fmt: skip
        sizes |= self.signature.fixed | ({"m": self.rows} if self.signature.open_rows else {})
        sizes |= {one: sizes.get(other) for one, other in self.signature.tied.items()}
        kind = self.signature.operation.shape
        if self.signature.square:
            sizes = dict.fromkeys(kind.__match_args__, next(iter(sizes.values()), None))
        found = [sizes.get(role) for role in kind.__match_args__]
        whole = [one for one in found if isinstance(one, int) and one > 0]
        return kind(*whole) if len(whole) == len(found) else None

    @property
    def written_shape(self) -> Shape | None:
        """The shape of the file's own sizes before they were made small, if they are numbers."""
        host, kind = Host(self.source.written, self.kernel, {}), self.signature.operation.shape
        names = [self.signature.name_of("m" if self.signature.square else role)
                 for role in kind.__match_args__]  # fmt: skip
        sides = [value for value in map(host.read, names) if isinstance(value, int)]
        return kind(*sides) if len(sides) == len(names) else None

    @property
    def refused_at_own(self) -> Mapping[str, Any] | None:
        """A finding about the launch at the file's own sizes, before they were made small."""
        host = Host(self.source.written, self.kernel, {}) if self.source.values else None
        launched = host.launch() if host else self.own
        return (self.refusal(launched, axes="xyz") if launched else None) or self.too_short

    @property
    def too_short(self) -> Mapping[str, Any] | None:
        """A finding about a matrix for which the program allocates less than the kernel takes at
        the program's own sizes."""
        operation, shape = self.signature.operation, self.own_shape
        texts = {p.role: text for p, text, _ in passed(self.signature, self.own)}
        taken = operation.sizes(shape) if shape else ()
        for matrix, wanted in zip(operation.matrices, taken, strict=False):
            text, names = texts.get(matrix, ""), EXTENTS[len(operation.matrices)][matrix]
            held = self.own.members.get(f"&{text}")
            size = r"((?:[^;(),]|\([^;()]*\))+)\)"  # up to the end of the call
            asked = re.search(rf"&\s*{re.escape(text)}\s*,\s*{size}", self.source.bare)
            if asked and isinstance(held, int) and held < wanted:
                name, *sides = map(self.signature.name_of, (matrix, *names))
                what = f"the program allocates `{asked[1]}`, {held} bytes, "
                what += f"for {name}; the kernel takes {'×'.join(sides)} elements, {wanted} bytes"
                cure = f"allocate as much, or pass the kernel the sizes of {name}"
                line = 1 + self.source.bare.count("\n", 0, asked.start())
                if self.signature.open_rows:  # which end where the program's threads do
                    line, cure = self.own.lines[1], "let threads beyond the last row do nothing"
                return self.refused("out of bounds", line, what, cure)
        return None

    @cached_property
    def of_host(self) -> str:
        """A matrix that lies in the host's memory, as the launch's function copies it to or from
        what cudaMalloc gave; or nothing."""
        code, host = self.source.bare, set[str]()
        allocated = {*map(variable, re.findall(r"\bcudaMalloc\w*\s*\(([^,;]+)", code))}
        for to, of in re.findall(rf"{COPY}([^,;]+),([^,;]+),[^;]*Host", self.around):
            both = {variable(to), variable(of)}
            host |= both if both & allocated else set()
        found = (text for p, text, _ in passed(self.signature, self.own) if p.role in {*"ABC"})
        shared = re.search("cudaMallocManaged|cudaHost|cudaMallocHost", code)
        return next((one for one in found if variable(one) in host - allocated and not shared), "")

    @property
    def text_of_c(self) -> str:
        """What the launch passes for C; of a tensor, its name."""
        text = {p.role: text for p, text, _ in passed(self.signature, self.own)}.get("C", "")
        tensor = re.search(r"(\w+)\s*\.\s*data_ptr\b", text)
        return tensor[1] if tensor else copied(text, self.around) or text

    @property
    def is_given_c(self) -> bool:
        """Whether the function that launches is given C in a file that allocates and clears
        nothing: who calls it may have cleared C."""
        own = re.search("cudaM(?:alloc|emset)", self.source.bare)
        return not own and self.text_of_c in re.findall(r"\w+", self.around.partition("{")[0])

    def refusal(self, launched: Launched, axes: str = "z") -> Mapping[str, Any] | None:
        """A finding about a launch that no kernel can be right with: its kind, its line, in words
        and what mends it; or None. axes: along which it has to have blocks."""
        for written, sides, line in zip(
            self.own.commas, (launched.grid, launched.block), launched.lines[1:], strict=False
        ):  # fmt: skip
            if written and sides:
                what = f"`{written}` is a comma expression of C, of which the last value counts"
                what += f": {'×'.join(map(str, sides))}"
                return self.refused("comma for dim3", line, what, f"write dim3{written}")
        if self.exchanged and launched.grid and launched.block:
            grid, block = ("×".join(map(str, one)) for one in (launched.grid, launched.block))
            what = f"`<<<{', '.join(self.extents)}>>>` launches {grid} blocks of {block} threads"
            return self.refused("grid and block exchanged", launched.lines[0], what, GRID_FIRST)
        threads = math.prod(launched.block or (1,))
        most = min(self.bound or MAXIMUM_THREADS, MAXIMUM_THREADS)
        if threads > most:
            of = "__launch_bounds__ allows" if most < MAXIMUM_THREADS else "a block has at most"
            what = f"the program launches blocks of {threads} threads; {of} {most}"
            return self.refused("too many threads", launched.lines[2], what, "launch fewer")
        asked = self.source.asks_for_shared
        if self.of_host:
            what = f"the program passes {self.of_host}, which its copies say is the host's"
            cure = "pass what cudaMalloc gave"
            return self.refused("matrix of the host", launched.lines[0], what, cure)
        empty = [axis for axis, side in zip("xyz", launched.grid or (), strict=False) if not side]
        if told := [axis for axis in empty if axis in axes]:
            what = f"the program launches 0 blocks along {' and '.join(told)}"
            return self.refused("no blocks", launched.lines[1], what, "launch one at least")
        if threads < 1:
            what = "the program launches blocks of 0 threads"
            return self.refused("no threads", launched.lines[2], what, "launch one at least")
        grid = "×".join(map(str, launched.grid or ()))
        if any(map(operator.gt, launched.grid or (), MOST_BLOCKS)):
            what = f"the program launches {grid} blocks; y and z have at most {MOST_BLOCKS[1]}"
            return self.refused("too many blocks", launched.lines[1], what, "launch fewer")
        bytes_, most = launched.shared or 0, MOST_SHARED if asked else STATIC_SHARED
        if bytes_ > most:
            what = f"the program asks for {bytes_} bytes of shared memory; a block has {most}"
            more = ", or ask for cudaFuncAttributeMaxDynamicSharedMemorySize" * (not asked)
            cure = f"make the tiles smaller{more}"
            return self.refused("too much shared memory", launched.lines[3], what, cure)
        return None

    def refused(self, kind: str, line: int, what: str, cure: str) -> Mapping[str, Any]:
        line, where = self.place(line)
        return {"kind": "refused", "mistake": kind, "line": line, "what": what + where,
                "cure": cure}  # fmt: skip

    @property
    def extents(self) -> tuple[str, ...]:
        """The names of its grid and its block, if they are variables."""
        launch = rf"\b{self.kernel.name}\s*(?:<[^<>]*>)?\s*<<<\s*(\w+)\s*,\s*(\w+)\s*[,>]"
        found = re.search(launch, self.around)
        return (found[1], found[2]) if found else ()

    @cached_property
    def exchanged(self) -> bool:
        """Whether by their names its grid is a block, and its block a grid, and the first one does
        not grow with C."""
        grows = self.far and self.far.grid != self.own.grid
        pairs = zip((LIKE_BLOCK, LIKE_GRID), self.extents, strict=False)
        return not grows and [bool(like.fullmatch(name)) for like, name in pairs] == [True, True]

    @cached_property
    def bound(self) -> int | None:
        """The threads of __launch_bounds__."""
        value = Host(self.source, self.kernel, {}).read(self.kernel.bounds or "0")
        return value if isinstance(value, int) and value else None


def variable(text: str) -> str:
    """The first name in the text of an argument, behind a cast."""
    return "".join(re.findall(r"[A-Za-z_]\w*", re.sub(r"\([\w\s]*\*+\s*\)", "", text))[:1])


def side_between(extent: int, blocks: int) -> int:
    """The side of the tiles of which so many are an extent, rounded up or down: the rounder one."""
    return max(ceil_div(extent, blocks), extent // blocks, key=roundness)


def roundness(side: int) -> int:
    """The power of two of which it is a multiple."""
    return side & -side


def uncast(text: str) -> str:
    """The text of an argument without casts, and brackets around it."""
    bare = BRACKETS.sub(r"\1", CAST.sub("", text).strip())
    return bare if bare == text else uncast(bare)


def passed(signature: Signature, own: Launched) -> Iterator[tuple[Parameter, str, Value]]:
    """Each parameter with the text and the value that a launch gives it."""
    for one in signature.parameters:
        if 0 <= one.position < len(own.arguments):
            text, value = uncast(own.arguments[one.position]), own.values[one.position]
            reach = "->" if "->" in one.name else "."
            member = f"{text}{reach}{one.member}"
            yield (one, member, own.members.get(member)) if one.member else (one, text, value)


def place_in(name: str) -> str:
    """An element of an array of this name, or pattern, as a pattern."""
    return rf"(?:\b{name}\s*\[[^;=]*\]|\*\s*\(\s*{name}\s*\+[^;=]*\))"


def zeroes(source: Source, c: str) -> bool:
    """Whether a program clears the array of this name, or one whose name is not known."""
    host = source.bare
    for kernel in source.kernels.values():
        host = host.replace(kernel.body, "")
    memset = r"\bcudaMemset(2D)?(?:Async)?\s*\(\s*([^,]+),(?(1)[^,]+,)\s*0"  # behind the pitch
    cleared = [name for _, name in re.findall(memset, host)]
    copied = re.findall(rf"{COPY}([^,]+),[^;]*HostToDevice", host)
    names = [re.sub(r"\([^()]*\)", "", one).strip(" &") for one in (*cleared, *copied)]
    names += cleared_by_kernels(source, host)
    begun = [name for pattern in BEGUN_AT_ZERO for name in re.findall(pattern, host)]
    declared = not re.search(rf"\b{re.escape(c)}\b", host) if c else True
    begins = not {*begun}.isdisjoint(re.findall(r"\w+", c))
    return c in names or begins or (bool(cleared) and declared)


def cleared_by_kernels(source: Source, host: str) -> Iterator[str]:
    """What the program passes to kernels, which are no products, for an array that they clear."""
    for kernel in source.kernels.values():
        launches = re.findall(rf"\b{kernel.name}\s*<<<[^;]*>>>\s*\(([^;]*)\)\s*;", host)
        for given in () if kernel in source.products() else launches:
            for one, text in zip(kernel.parameters, given.split(","), strict=False):
                if re.search(rf"{place_in(one.name)}\s*=\s*{ZERO}", kernel.body):
                    yield text.strip()


def file_launch(source: Source, kernel: Kernel, signature: Signature) -> FileLaunch | None:
    """The kernel's launch in its file; None if there is none."""
    own, host = Host(source, kernel, {}).launch(), source.host
    if own is None:
        return None
    of = "" if host is source else f" of {host.path.name}"
    roles = roles_of(host, kernel, signature, own)
    return FileLaunch(host, kernel, signature, own, roles, of).with_alike


def roles_of(
    source: Source, kernel: Kernel, signature: Signature, own: Launched
) -> tuple[tuple[str, str], ...]:
    """The texts of a launch, and of what they begin with, that are m, n or k, or a number that a
    setting gives."""
    roles: list[tuple[str, str]] = []
    function = source.launchers.get(kernel.name)
    begins = source.names | source.constants_of(function)
    around = text_of(function, source.bare)
    for parameter, text, _ in passed(signature, own):
        role = parameter.text if parameter.text.isdecimal() else parameter.role
        role = "1" if BATCH in role else role  # of which one product is tried
        if role not in ("m", "n", "k", "1", parameter.text):
            continue
        seen: set[str] = set()
        while text not in seen:
            seen.add(text)
            text = uncast(text)
            if re.fullmatch(r"[A-Za-z_][\w.>:-]*", text):
                roles.append((text, role))
            text = begins.get(text) or copied(text, around) or text
    known, sides = dict(reversed(roles)), signature.operation.shape.__match_args__
    conditions = (one for found in REFUSES_UNLIKE.findall(around) for one in found.split("||"))
    before = re.findall(rf"\bif\s*\(([^;{{}}]*)\)\s*\{{?\s*{kernel.name}\s*<", around)
    alike = pairs((one for found in before for one in found.split("&&")), "==")
    unlike = pairs(conditions, "!=")
    same = [(one, known[other]) for one, other in (*unlike, *alike) if other in known]
    left = {*sides} - {*known.values()}
    # The sizes of matrices, or the threads of one block that are the elements of C.
    block = re.findall(rf"\b{kernel.name}\s*<<<\s*1\s*,\s*([^,>]*)>>>", around)
    areas = pairs([*block, *(text for _, text, _ in passed(signature, own))], "*")
    same += [(one, min(left)) for one, other in areas if other in known and len(left) == 1]
    fresh = [one for one in same if one[0] not in known.keys() | source.names.keys()]
    return (*roles, *fresh)


def pairs(texts: Iterable[str], sign: str) -> Iterator[tuple[str, str]]:
    """The two names, in both orders, of each text that is nothing but them and a sign."""
    for text in texts:
        two = [one.strip() for one in text.split(sign)]
        if len(two) == 2 and all(re.fullmatch(r"[A-Za-z_][\w.>-]*", one) for one in two):
            yield from ((two[0], two[1]), (two[1], two[0]))


def copied(text: str, function: str) -> str:
    """What a function assigns to a variable or member, or to its struct, or makes that of."""
    of, dot, member = text.rpartition(".")
    found = re.search(ASSIGNED.format(re.escape(text)), function)
    if found and "(" not in found[0]:
        return found[1]
    found = re.search(ASSIGNED.format(re.escape(of)), function) if of else None
    return f"{found[1]}{dot}{member}" if found else ""
