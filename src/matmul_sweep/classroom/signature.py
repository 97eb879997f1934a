"""What a kernel's parameters are: which pointer is A, B or C, and which number is m, n or k.

C = A·B has A of m×k, B of k×n and C of m×n; C = Aᵀ·A has A of m×n and C of n×n.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import gcd, lcm

from matmul_sweep.classroom.host import BINARY, Host
from matmul_sweep.classroom.source import Source, question, word_set
from matmul_sweep.classroom.syntax import Declared, Kernel, loops_of, places_of
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.operation import Operation
from matmul_sweep.process.errors import UserError

# The types of matrices, by the names that kernels give them.
ELEMENTS = {name: dtype.name for dtype in DTYPES.values() for name in dtype.names}
FRACTIONS = {name for name, dtype in ELEMENTS.items() if not dtype.startswith("int")}
WHOLE = word_set(
    "unsigned signed int long short char size_t ptrdiff_t ssize_t uint int8_t uint8_t int16_t "
    "uint16_t int32_t uint32_t int64_t uint64_t u_int8_t u_int16_t u_int32_t u_int64_t "
    "u_char u_short u_int u_long ushort ulong"
)
BITS = {8: r"char|8", 16: r"short|16", 64: r"long|64|size_t|ptrdiff_t", 32: ""}  # of those
# Words for rows and for columns, in the languages of classrooms.
ROWS = word_set(
    "r row rows h height hauteur heights line lines ligne lignes fil fila filas riga righe "
    "zeile zeilen linha linhas alto altura"
)
COLUMNS = word_set(
    "c col cols column columns w width widths weight largeur colonne colonnes columna columnas "
    "colonna spalte spalten coluna colunas ancho anchura"
)
ROW_LENGTH = word_set("ld lead leading stride pitch paso")  # of a matrix as it is stored
# Roles of numbers that are no dimension; a role that begins with UNUSED has a number behind it.
PRODUCTS = {3: "C = A·B with A of m×k, B of k×n", 2: "C = AᵀA with A of m×n"}
UNUSED, BATCH, LEADING = "unused ", "batch", "ld"
GIVEN = "given "  # begins that of a number which the file's launch tells, or a setting
# Words of a number about tiles.
TILED = word_set("tile tiles block blocks threads phases iter mem memory blocksize tilesize")
DIMENSIONS = {3: "mnk", 2: "kn"}  # of a product: a kernel may take its rows of C from the grid
ADDEND = "addend"  # C of D = alpha·A·B + beta·C or A·B + C, in a trial D before the launch
# Settings about how matrices are stored, and the value that is not the usual one.
CONVENTIONS = {"order": "columns"} | dict.fromkeys("abc", "transposed")
SMALLEST_SIZE, LARGEST_SIZE = 32, 128  # of a dimension that the file fixes, made small
TILES = 32 * 5  # has as divisors what sides of tiles mostly are
ON_DEVICE = word_set("d dev device gpu")
INNER = word_set("inner common shared depth mid middle kdim terms")
OUTPUT = word_set("c p r out output res result results prod product ans resultat dst dest")
TRANSPOSED = word_set("t tr trans transposed transpose at bt atrans btrans")
SIZE_NAME = re.compile(r"(?i)(?:mat(?:rix)?_?|m)?(?:n|size|dim|width|w|len|length|order|rank)|n")
BARE_LETTER = re.compile(
    r"(?i)(?:(?:num|n|dim|size|len)_?)?([mnk])|([mnk])_?(?:pad(?:ded)?|dim|size|len|total|global)"
)
ROW_AND_COLUMN = re.compile(r"\s*\(?\s*(\w+)\s*\*\s*(\w+)\s*\)?\s*\+\s*(\w+)\s*")  # of an index
LEAVES_UNLIKE = re.compile(r"\bif\s*\(\s*(\w+)\s*!=\s*(\w+)\s*\)\s*\{?\s*return\b")
SAID = re.compile(r"[\dmnk+*/()-]+")  # of a number by a setting
# The dimensions that rows and columns of each matrix are, by the number of matrices.
EXTENTS = {3: {"A": "mk", "B": "kn", "C": "mn"}, 2: {"A": "mn", "C": "nn"}}
OF_CUDA_TYPE = re.compile(r"dim3|u?(?:char|short|int|long|float|double)[1-4]|(?:cu|CU|__)\w+")
PACKED = re.compile(r"\bmma\.sync\S*\.(b?f16)\.b?f16\b")  # matrices of 16 bits
TAKEN = (
    "; a kernel takes (A, B, C, n), (A, B, C, m, n, k), (A, B, C, D, m, n, k, alpha, beta) or "
    "(A, C, m, n), where matrices are pointers or structs with one, A and B of one type; one "
    "that takes more, such as a workspace or a tensor map, cannot be tried alone"
)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel, a member of one, or a constant of the file that is a dimension.

    position: which parameter it is, or is a member of; -1 for a constant. member: its name there.
    role: A, B, C, m, n, k, alpha, beta, ldA, ldB, ldC, batch or addend, once it is known. value:
    the only one that it can have, or 0. text: what a number beside the dimensions gets.
    """

    name: str
    type: str
    pointer: bool
    constant: bool
    role: str = ""
    position: int = -1
    member: str = ""
    extents: tuple[str, ...] = ()
    value: int = 0
    text: str = ""


@dataclass(frozen=True)
class Signature:
    """The operation that a kernel computes, and its parameters in their order.

    columns: the matrices that are stored by columns. sizes: the constants of the file that fix
    dimensions. unsure: whether the names of the dimensions do not say which is which. again: a
    number that by its name is a dimension which others are already. settled: whether a setting says
    something of it; stored: or of how matrices are stored. tied: a dimension that is the
    same number as another one, where that is not so of all.
    """

    operation: Operation
    parameters: tuple[Parameter, ...]
    columns: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    unsure: bool = False
    again: str = ""
    settled: bool = False
    stored: bool = False
    tied: Mapping[str, str] = field(default_factory=dict)

    @property
    def square(self) -> bool:
        """Whether one number stands for all dimensions."""
        return len({p.name for p in self.parameters if p.role in ("m", "n", "k")}) == 1

    @property
    def exchanged(self) -> bool:
        """Whether names tell A from B in another order than that of the parameters."""
        inputs = [p.role for p in self.parameters if p.pointer and p.role in ("A", "B")]
        return inputs == ["B", "A"]

    @property
    def fixed(self) -> dict[str, int]:
        """The dimensions that can have one value only."""
        return {p.role: p.value for p in self.parameters if p.value}

    def row_length(self, matrix: str) -> str:
        """The dimension that is the length of a matrix's rows as it is stored."""
        if self.square:
            return "m"
        return EXTENTS[len(self.operation.matrices)][matrix][matrix not in self.columns]

    @property
    def accumulates(self) -> bool:
        """Whether it adds to a multiple of what C held: C = alpha·A·B + beta·C."""
        return any(p.role in ("beta", ADDEND) for p in self.parameters)

    @property
    def beta(self) -> float:
        """The only factor that it has of what C held, or 0."""
        return float({p.role for p in self.parameters} & {"beta", ADDEND} == {ADDEND})

    @property
    def terms_name(self) -> str:
        """The kernel's own name of the number of terms of a sum."""
        gemm = len(self.operation.shape.__match_args__) == 3
        return self.name_of("k" if gemm and not self.square else "m")

    def name_of(self, role: str) -> str:
        """The kernel's own name of A, B, C, m, n or k."""
        role = self.tied.get(role, role)
        unnamed = "rows" if role == "m" and self.open_rows else role
        return next((p.name for p in self.parameters if p.role == role), unnamed)

    @property
    def open_rows(self) -> bool:
        """Whether it takes the rows of C from the grid."""
        roles = {p.role for p in self.parameters} | self.tied.keys()
        roles |= {"m" for p in self.parameters if "trial_m" in p.text}  # in the size of a matrix
        return len(self.operation.matrices) == 3 and not self.square and "m" not in roles


def signature_of(
    source: Source, kernel: Kernel, settings: Mapping[str, str], sizes: Mapping[str, int],
    template: Mapping[str, str],
) -> Signature:  # fmt: skip
    """The signature of a kernel. sizes: the constants that the kernel uses; template: its
    arguments.

    Raises UserError for a signature that is no product's, or that could be several.
    """
    where = f"{source.path}: {kernel.name}"
    types = source.names | source.types | dict(settings) | dict(template)
    parameters = parameters_of(source, kernel, types, where)
    pointers, roles = matrices_among(parameters, kernel, where, source.bare)
    operation = operation_of(pointers, roles, where, source)
    code, letters = "".join(source.needed_by(kernel).values()), matrix_letters(pointers, roles)
    if operation.dtype.startswith("int") and (half := PACKED.search(code)):
        raise packed(half[1], pointers, roles, where)
    columns = {roles[p.name] for p in pointers if says_transposed(p.name)} & {"A", "B"}
    by_rows = EXTENTS[len(operation.matrices)].items()
    extents = {name: sides[:: -1 if name in columns else 1] for name, sides in by_rows}
    parameters = without_unused(parameters, letters, extents, kernel, code)
    roles |= {p.name: p.role for p in parameters if p.role}
    numbers = [p.name for p in parameters if not p.pointer and p.name not in roles]
    said = {n for n in numbers if SAID.fullmatch(settings.get(n, "")) and n not in ("m", "n", "k")}
    constants, by_index = constants_as_parameters(sizes, letters, operation, settings), {}
    if len(operation.matrices) == 3 > len(constants):  # of three, trials tell which is which
        by_index = by_index_of_rows(kernel, roles, sizes) | dict(settings)
        constants = constants_as_parameters(sizes, letters, operation, by_index)
    beside = {n: role for n in numbers if n not in said and (role := role_beside(n, letters))}
    alone = 0 < len(numbers) == len(beside) <= 3 and not constants  # these may be the dimensions
    roles |= {} if alone else beside
    numbers = [name for name in numbers if name not in roles]
    roles |= beside_dimensions(numbers, source, kernel, said, {one.name for one in constants})
    same = same_by_guard(kernel, {*numbers} - roles.keys(), settings)
    numbers = [name for name in numbers if name not in roles.keys() | same.keys()]
    in_macros = {*re.findall(r"\w+", " ".join(source.names.values()))}
    if constants and in_macros.isdisjoint(numbers) and all(map(kernel.leaves, numbers)):
        roles |= {name: f"{UNUSED}{name}" for name in numbers}
        parameters += constants
        numbers = [p.name for p in constants]
    said_too = inner_constant(numbers, sizes, letters, extents, kernel) | by_index | dict(settings)
    beside_numbers = constants_said(numbers, sizes, said_too)
    parameters += beside_numbers
    numbers += [p.name for p in beside_numbers]
    if not numbers:
        refuse_undefined(source, kernel, where)
    dimensional = dimensions(numbers, letters, extents, operation, said_too, where)
    again = next(iter(repeated(dimensional)), "")
    roles |= dimensional or dict(zip(numbers, DIMENSIONS[len(numbers)], strict=True))
    parameters = [replace(p, role=roles[same.get(p.name, p.name)]) for p in parameters]
    passed = passed_constants(source, kernel, sizes.keys(), any_of_them=bool(beside_numbers))
    parameters = [replace(p, value=p.value or sizes.get(passed.get(p.position, ""), 0))
                  for p in parameters]  # fmt: skip
    signature = Signature(
        operation, tuple(parameters), stored_by_columns(settings, columns, where),
        unsure=alone or not dimensional, again=again, tied=said_roles(said_too)[1],
        settled=not {"m", "n", "k", *CONVENTIONS}.isdisjoint(settings),
        stored=not CONVENTIONS.keys().isdisjoint(settings),
    )  # fmt: skip
    return with_sizes(signature, sizes, {*passed.values()})


def same_by_guard(kernel: Kernel, numbers: set[str], settings: Mapping[str, str]) -> dict[str, str]:
    """Those of the numbers without which a kernel has another one, because it leaves where the two
    differ; but none of which a setting speaks."""
    found = (two for two in LEAVES_UNLIKE.findall(kernel.body) if {*two} <= numbers)
    return dict(two[:: -1 if two[0] in settings.values() else 1] for two in found)


def parameters_of(
    source: Source, kernel: Kernel, types: Mapping[str, str], where: str
) -> list[Parameter]:
    """What a kernel takes, members of structs one by one, with the roles beside a product that its
    code tells."""
    found = [one for i, told in enumerate(kernel.parameters)
             for one in parsed(told, i, types, source, where)]  # fmt: skip
    found = with_addend(with_factors(found, kernel.body))
    refuse_factor(found, loops_of(kernel.node, source.bare), where)
    return with_batch(without_effect(found, kernel.body), kernel.body)


def packed(
    half: str, pointers: Sequence[Parameter], roles: Mapping[str, str], where: str
) -> UserError:
    """What is wrong with whole numbers that hold two halves each."""
    inputs = " and ".join(p.name for p in pointers if roles[p.name] != "C")
    holds = f"its mma.sync takes {half}, of which each number of {inputs} holds two"
    instead = f"take `half* {pointers[0].name}`, and pack it there"
    return UserError(f"{where}: {holds}, in an order that no trial knows: {instead}")


def passed_constants(
    source: Source, kernel: Kernel, sizes: Set[str], any_of_them: bool
) -> dict[int, str]:  # fmt: skip
    """Those of the constants that the program's launch passes, by the parameter's position: any, or
    those at which a loop of the kernel ends, and which are no side of an array."""
    sides = {*re.findall(r"\[\s*(\w+)", kernel.body)}
    ends = {*re.findall(r"<\s*(\w+)", kernel.conditions)} - sides
    known = sizes if any_of_them else sizes & ends
    own = Host(source, kernel, {}).launch() if known else None
    return {i: text for i, text in enumerate(own.arguments if own else ()) if text in known}


def matrices_among(
    parameters: Sequence[Parameter], kernel: Kernel, where: str, text: str
) -> tuple[list[Parameter], dict[str, str]]:
    """The pointers to the matrices, one each, and the roles of all that point to them. Raises
    UserError if they are no product's. text: of the file."""
    every = [p for p in parameters if p.pointer and not p.role]
    # A struct may have the place of a matrix on the host, too, which gets the same.
    several = len({p.position for p in every}) > 1  # one struct has all matrices
    last = sorted(every, key=lambda p: bool(ON_DEVICE & {*words_of(p.member)}))
    own = {p.position: p for p in last if p.member and several}
    pointers = [p for p in every if own.get(p.position, p) is p]
    if len(pointers) not in (2, 3):
        names = f" ({', '.join(p.name for p in pointers)})" if pointers else ""
        instead = of_file(kernel, text) or without(pointers, kernel)
        raise UserError(f"{where} has {len(pointers)} pointers{names}{instead}")
    roles = matrices(pointers, kernel.body)
    roles |= {p.name: roles[own.get(p.position, p).name] for p in every if p.member}
    return pointers, roles


def of_file(kernel: Kernel, text: str) -> str:
    """What a kernel should take in the place of arrays of the file, as the end of a sentence; or
    nothing."""
    declared = re.findall(
        r"\b__(?:device|constant|managed)__\s+(\w+)\s+([^;(){}=]*\[[^;={]*);", text
    )
    arrays = {name: f"{kind} {name}{extents}" for kind, names in declared
              for name, extents in re.findall(r"(\w+)\s*((?:\[[^]]*\]\s*)+)", names)
              if re.search(rf"\b{name}\s*\[", kernel.body)}  # fmt: skip
    said = f"; {', '.join(arrays)} are arrays of the file, which no trial fills: take them as "
    return said + f"parameters, {', '.join(arrays.values())}" if arrays else ""


def without(pointers: Sequence[Parameter], kernel: Kernel) -> str:
    """How a kernel does without pointers beside its matrices, as the end of a sentence."""
    kinds = [p.type for p in pointers]
    places = {p.name: places_of(p.name, kernel) for p in pointers}
    sizes = [name for name, found in places.items() if found and all(map(str.isdecimal, found))]
    if sizes:
        return f"; take what is in {' and '.join(sizes)} as numbers, such as int n"
    odd = max(map(kinds.count, kinds), default=0) >= max(PRODUCTS)
    beside = [p.name for p in pointers
              if "bias" in words_of(p.name) or (odd and kinds.count(p.type) < 3)]  # fmt: skip
    return f"; take {' and '.join(beside)} out: it cannot be judged" if beside else TAKEN


def only_counts(name: str, body: str) -> bool:
    """Whether a number does nothing but end a loop: a length of rows is in an index, too."""
    ends = len(re.findall(rf"<=?\s*{name}\s*;", body))
    return not SIZE_NAME.fullmatch(name) and ends == len(re.findall(rf"\b{name}\b", body)) > 0


def beside_dimensions(
    numbers: Sequence[str], source: Source, kernel: Kernel, said: set[str], constants: set[str]
) -> dict[str, str]:
    """The roles of those numbers that are no dimensions: how often a benchmark repeats, what the
    kernel has as a constant too, the size of a matrix, lengths of rows, and of what a setting
    says."""
    own, names = Host(source, kernel, {}).launch(), (one.name for one in kernel.parameters)
    passed = dict(zip(names, own.arguments if own else (), strict=False))
    repeats = len(numbers) == 1 and only_counts(numbers[0], kernel.body)
    if repeats or {passed.get(name) for name in numbers} <= constants:
        return {name: f"{GIVEN}{name}" for name in numbers}
    begins = source.host.constants_of(source.host.launchers.get(kernel.name))
    written = {name: begins.get(text, text) for name, text in passed.items()}
    areas = {*numbers} & products_among(written, source.host.names.keys())
    roles = {name: f"{GIVEN}{name}" for name in areas if len(numbers) > len(areas)}
    left = [name for name in numbers if name not in roles]
    lengths = [name for name in left if ROW_LENGTH & {*words_of(name)}]
    if len(lengths) == len(left) - 1:  # of all matrices, which are square
        roles |= dict.fromkeys(lengths, f"{LEADING}C")
        left = [name for name in left if name not in lengths]
    told = [name for name in left if name in said]
    if len(told) < len(left):  # a number beside the dimensions, such as a tile's side
        roles |= {name: f"{GIVEN}{name}" for name in told}
    return roles


def products_among(passed: Mapping[str, str], known: Set[str]) -> set[str]:
    """The parameters for which the program passes a product of two variables: the size of a matrix,
    and no dimension. known: names of macros and constants, which are none."""
    two = re.compile(r"[\w.>-]*[A-Za-z_]\w*\s*\*\s*[A-Za-z_][\w.>-]*")
    return {name for name, text in passed.items()
            if two.fullmatch(text) and known.isdisjoint(re.findall(r"\w+", text))}  # fmt: skip


def with_sizes(signature: Signature, sizes: Mapping[str, int], passed: Set[str]) -> Signature:
    """The signature with the dimensions that constants of the file, those that its program passes
    among them, or arrays of rows, fix."""
    rows = {extent: signature.row_length(p.role)
            for p in signature.parameters for extent in p.extents}  # fmt: skip
    only = {role: int(sizes.get(extent, extent)) for extent, role in rows.items()
            if extent in sizes or extent.isdecimal()}  # fmt: skip
    parameters = [replace(p, value=p.value or only.get(p.role, 0)) for p in signature.parameters]
    names = {p.name for p in parameters if p.position < 0} | rows.keys() | passed
    own = {name: value for name, value in sizes.items() if name in names}
    return replace(signature, parameters=tuple(parameters), sizes=own)


def small_sizes(
    sizes: Mapping[str, int], sides: Iterable[int], program: str = ""
) -> dict[str, int]:
    """The same dimensions, divided until none is larger than a CPU can try, so that each is a
    multiple of the same tiles as before, or else of the same power of two, and no two become alike,
    if that can be; and if it can, the program takes the same branches. sides: of the kernel's own
    tiles."""
    branches = [(sizes[name], BINARY[sign], int(limit))
                for name, sign, limit in re.findall(r"\b(\w+)\s*([<>]=?)\s*(\d+)", program)
                if name in sizes]  # fmt: skip

    def alike(value: int, less: int) -> bool:
        return all(holds(value, limit) == holds(less, limit)
                   for one, holds, limit in branches if one == value)  # fmt: skip

    values = {*sizes.values()}
    more = max(len(values), 1) - 1  # doublings of a tile's side, so that all may differ
    wide = [side for side in sides
            if side << more > LARGEST_SIZE and not any(one % side for one in values)]  # fmt: skip
    room = (side if side > LARGEST_SIZE else side << more for side in wide)
    largest, tiles = max([LARGEST_SIZE, *room]), lcm(TILES, *wide)
    if max(values, default=0) <= largest:
        return dict(sizes)
    small: dict[int, int] = {}
    for value in sorted(values, reverse=True):
        power = min(value & -value, largest)
        divided = (value // by for by in range(1, max(1, value // SMALLEST_SIZE) + 1)
                   if value % by == 0 and gcd(value, tiles) == gcd(value // by, tiles))  # fmt: skip
        found = {one for one in divided if one <= largest}
        usual = {*range(power, largest + 1, 2 * power)}
        same = ({one for one in some if alike(value, one)} for some in (found, usual))
        found = next(filter(None, same), found or usual)
        small[value] = max(found - {*small.values()}, default=max(found))
    return {name: small[value] for name, value in sizes.items()}


def operation_of(
    pointers: Sequence[Parameter], roles: Mapping[str, str], where: str, source: Source
) -> Operation:
    """The product of matrices of these types. Raises UserError."""
    inputs = {dtype_of(p.type) for p in pointers if roles[p.name] != "C"}
    (result,) = (dtype_of(p.type) for p in pointers if roles[p.name] == "C")
    if len(inputs) > 1 or not {*inputs, result} <= DTYPES.keys():
        types = " and ".join(sorted({element_of(p.type) for p in pointers}))
        named = ", ".join(name for name in ELEMENTS if not {*name.split()} <= WHOLE)
        unknown = {*inputs, result} - DTYPES.keys()
        if hint := next(filter(None, (origin(one, source) for one in unknown)), ""):
            raise UserError(f"{where}: matrices of {types}{hint}")
        raise UserError(f"{where}: matrices of {types}{TAKEN}: {named}, or whole numbers")
    dtype = inputs.pop()
    # C = A·Aᵀ is of no classroom: two matrices are A and AᵀA.
    taken = [one for one in OPERATIONS.values() if not one.right_transposed]
    alike = [one for one in taken if len(one.matrices) == len(pointers)]
    known = next((one for one in alike if (one.dtype, one.output) == (dtype, result)), alike[0])
    shortest = () if dtype.startswith("int") else ("float32",)  # what sums of 16 bits cost is told
    wide = max(dtype, result, *shortest, key=lambda name: DTYPES[name].mantissa)
    return replace(known, dtype=dtype, output=result, sums=wide)


def parsed(
    told: Declared, position: int, types: Mapping[str, str], source: Source, where: str,
    inside: bool = False,
) -> Iterator[Parameter]:  # fmt: skip
    """A parameter, or the members of one, those of their own among them; their roles, too, if they
    need no other to tell. inside: whether it is a member itself.

    Raises UserError.
    """
    kind, name = resolved(told.type, types), told.name or f"{UNUSED}{position}"
    template, _, listed = kind.partition("<")
    struct = source.structs.get(template.strip())
    if struct and told.pointers < (1 if inside else 2):
        if told.pointers and re.search(rf"\b{name}\s*\[", source.bare):
            several = "is an array of such structs: pass one for each matrix"
            raise UserError(f"{where}: parameter '{told.text}' {several}")
        given = [resolved(one, types) for one in listed.removesuffix(">").split(",")]
        own = {**types, **dict(zip(struct.template, given, strict=False))}
        reach = "->" if told.pointers else "."
        for one in struct.members:
            for part in parsed(one, position, own, source, where, inside=True):
                yield replace(
                    part, name=f"{name}{reach}{part.name}", member=part.name,
                    constant=told.constant or part.constant,
                )  # fmt: skip
        return
    constant, kind = told.constant or kind.startswith("const "), kind.removeprefix("const ")
    kind, *rows = re.split(r"\]?\s*\[", kind.removesuffix("]"))  # of `typedef float row[N]`
    if inside and re.search(rf"\b{told.name}\s*\[", told.text):
        instead = f"write `{kind} rows, columns` for extents, and `{kind}* data` for a matrix"
        raise UserError(f"{where}: a struct has the array '{told.text}'; {instead}")
    if told.pointers > 1:
        raise UserError(
            f"{where}: parameter '{told.text}' is a pointer to pointers; a matrix is in one piece: "
            f"pass `{kind}* {name}`"
        )
    if view := re.match(r"\w*TensorAccessor\w*\s*<\s*(\w+)", kind):
        instead = f"pass `{view[1]}* {name}, int n`, and write {name}[row * n + column] for"
        said = f"is a view of torch's: {instead} {name}[row][column], where n is a row's length"
        raise UserError(f"{where}: parameter '{told.text}' {said}")
    pointer, whole = bool(told.pointers), set(kind.split()) <= WHOLE | {"bool"}
    role = "" if pointer or whole else name.lower()
    if role not in ("", "alpha", "beta"):
        if kind not in ELEMENTS:
            unfilled = f"of no type that a trial fills{origin(kind, source) or TAKEN}"
            raise UserError(f"{where}: parameter '{told.text}' is {unfilled}")
        role = f"{GIVEN}{name}"
    if not pointer and not told.name:
        role = f"{UNUSED}{position}"
    elif not pointer and kind == "bool":
        role = f"{GIVEN}{name}"
    yield Parameter(name, kind, pointer, constant, role, position, extents=(*told.extents, *rows))


def origin(kind: str, source: Source) -> str:
    """Where a type that is not known may come from, as the end of a sentence; or nothing."""
    if OF_CUDA_TYPE.fullmatch(kind):
        return ""
    nowhere = kind.isidentifier() and not source.defines(kind)
    absent = f"; this file does not define {kind}: paste its definition in" * nowhere
    return source.perhaps_left_out or absent


def dtype_of(kind: str) -> str:
    """The number type of a matrix of such elements; the name itself, if that is none. Whole numbers
    with a sign and without one have the same bits, as long as they are small."""
    element = element_of(kind)
    if set(element.split()) <= WHOLE:
        return f"int{next(bits for bits, said in BITS.items() if re.search(said, element))}"
    return ELEMENTS.get(element, element)


def element_of(kind: str) -> str:
    """The type of the elements of a vector such as float4, or the type itself."""
    of_vector = kind[-1:] in ("2", "4") and kind[:-1] in ELEMENTS.keys() | WHOLE
    return kind[:-1] if of_vector else kind


def resolved(kind: str, types: Mapping[str, str]) -> str:
    """A type without namespaces and the word `struct`, by the name that no other stands for."""
    constant = ""
    for _ in range(8):  # names of names
        kind = " ".join(re.sub(r"\b(?:\w+\s*)?::\s*|\bstruct\s+", "", kind).split())
        if kind.startswith("const "):
            constant, kind = "const ", kind.removeprefix("const ")
        if kind not in types:
            break
        kind = types[kind]
    return constant + kind


def constants_as_parameters(
    sizes: Mapping[str, int], letters: Mapping[str, str], operation: Operation,
    settings: Mapping[str, str],
) -> list[Parameter]:  # fmt: skip
    """The constants of the file that are dimensions, if the kernel takes none: those whose names
    say so, or the only one that is called N, SIZE or the like, or is used at all."""
    said = {settings[role] for role in ("m", "n", "k") if role in settings}
    extents = EXTENTS[len(operation.shape.__match_args__)]
    names = [name for name in sizes if name in said or (
             role_of(name, letters, extents) and not TILED & {*words_of(name)}
             and sizes[name] > 1)]  # fmt: skip
    untiled = [name for name in sizes if sizes[name] > 1 and not TILED & {*words_of(name)}]
    alone = [name for name in untiled if SIZE_NAME.fullmatch(name)] or untiled
    lettered = [name for name in untiled if re.fullmatch(r"[A-Z]\d?", name)
                and sizes[name] >= SMALLEST_SIZE]  # fmt: skip
    if len(names) < 2 and len(lettered) == 3:
        names, alone = [], lettered
    if (len(names) < 2 and len(alone) == 1) or (not names and len(alone) == len(extents) == 3):
        names = alone
    values = {name: sizes[name] for name in names}  # or numbers in the text, which settings say
    values = values or {k: int(v) for k, v in settings.items() if k in extents["C"] + "k"
                        and v.isdecimal()}  # fmt: skip
    return [Parameter(name, "int", False, True, value=value) for name, value in values.items()]


def inner_constant(
    numbers: Sequence[str], sizes: Mapping[str, int], letters: Mapping[str, str],
    extents: Mapping[str, str], kernel: Kernel,
) -> dict[str, str]:  # fmt: skip
    """What k is, of a kernel whose numbers are m and n by their names: the constant of the file
    that ends a loop, the only one, if none of them does; of constants the only one that does."""
    ends = {*sizes, *numbers} & {*re.findall(r"<\s*(\w+)", kernel.conditions)}
    named = {role_of(name, letters, extents) or "": name for name in numbers}
    if "B" not in extents or named.keys() != {"m", "n"} or len(numbers) > 2 or len(ends) != 1:
        return {}
    free = {*numbers}.isdisjoint(re.findall(r"\w+", kernel.conditions))
    own = named if {*numbers} <= {*sizes} and ends <= {*numbers} else {}
    return own | {"k": ends.pop()} if own or free else {}


def by_index_of_rows(
    kernel: Kernel, roles: Mapping[str, str], sizes: Mapping[str, object]
) -> dict[str, str]:
    """What m, n and k are of a kernel that says it by its only index of each matrix, of which the
    lengths of rows are among these names, its loop, and the bound of a row; or nothing."""
    found = dict[str, Sequence[str]]()
    for name, role in roles.items():
        places = places_of(name, kernel)
        place = ROW_AND_COLUMN.fullmatch(places.pop()) if len(places) == 1 else None
        found |= {role: place.groups()} if place else {}
    if not found.keys() >= {*"AB"}:
        return {}
    (i, k, p), (q, n, j) = found["A"], found["B"]
    bounds = {*re.findall(rf"\b{i}\s*(?:<|>=)\s*([A-Za-z_]\w*)", kernel.body)}
    agree = q == p and found.get("C", (i, n, j)) == (i, n, j) and len(bounds) == 1
    if not agree or not {k, n} <= sizes.keys():
        return {}
    if not re.search(rf"\b{p}\s*<\s*{k}\b", kernel.body) or {k, n} == bounds:
        return {}
    return {"m": bounds.pop(), "n": n, "k": k}


def refuse_undefined(source: Source, kernel: Kernel, where: str) -> None:
    """Raises UserError for a name in capitals at which a loop of a kernel ends, and which no text
    here defines, if the file includes a header that is not here."""
    ends = re.findall(r"<\s*([A-Z][A-Z\d_]*)\b", kernel.conditions)
    known = source.names.keys() | {one.name for one in kernel.template}
    unknown = [one for one in ends if one not in known and not kernel.declares(one)]
    if unknown and source.left_out:
        lacking = f"uses {unknown[0]}, which is defined nowhere{source.perhaps_left_out}"
        asked = f"{where} {lacking}; or it is a number of the program's build: which"
        raise question(asked, f"{unknown[0]}=64")


def constants_said(
    numbers: Sequence[str], sizes: Mapping[str, int], settings: Mapping[str, str]
) -> list[Parameter]:
    """The constants of the file that settings say beside a kernel's own numbers, or the numbers, if
    those are no constants."""
    said, own = {settings.get(role, ""): role for role in ("m", "n", "k")}, {*numbers} - {*sizes}
    names = {text if text in sizes else role: sizes.get(text) or int(text) for text, role
             in said.items() if text in sizes or (own and text.isdecimal())}  # fmt: skip
    return [Parameter(name, "int", False, True, value=value)
            for name, value in names.items() if numbers and name not in numbers]  # fmt: skip


def rows_of_grid(sizes: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """The constant that is m by its name, if those of a kernel are n and k: it takes its rows of C
    from the grid."""
    rows = {name: value for name, value in known.items() if bare_letter(name) == "m"}
    lacking = {*map(bare_letter, sizes)} & {*"mnk"} == {"n", "k"}
    return rows if lacking and len(rows) == 1 else {}


def terms_of_file(sizes: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """The first constant that is k by its name, if those of a kernel are m and n: it may sum up
    fewer terms."""
    roles = {one: role_of(one, dict(zip("abc", "ABC", strict=True)), EXTENTS[3]) for one in known}
    lacking = {roles.get(name) for name in sizes} - {None} == {*"mn"}
    return dict([one for one in known.items() if lacking and roles[one[0]] == "k"][:1])


def without_effect(parameters: Sequence[Parameter], body: str) -> list[Parameter]:
    """The parameters; of more than three pointers those have the role of no use that a kernel never
    has, or only reads into variables that it never has again."""
    for kind, name, value in re.findall(r"\b(\w+)\s+(\w+)(\s*=[^=;][^;]*;)", body):
        if kind != "return" and len(re.findall(rf"\b{name}\b", body)) == 1:
            body = body.replace(value, ";")
    pointers = [p for p in parameters if p.pointer and not p.role and not p.member]
    vain = [p for p in pointers if not re.search(rf"\b{p.name}\b", body)]
    return [replace(p, role=f"{UNUSED}{p.name}")
            if p in vain and len(pointers) > max(PRODUCTS) else p for p in parameters]  # fmt: skip


def with_batch(parameters: Sequence[Parameter], body: str) -> list[Parameter]:
    """The parameters; one that is nothing but the end of blockIdx.z counts products, if its name
    says so or there are more than three numbers."""
    numbers = [p.name for p in parameters if not (p.pointer or p.role)]
    index = "|".join([r"blockIdx\.z", *re.findall(r"\b(\w+)\s*=\s*blockIdx\.z\s*[;,]", body)])
    ends = {*re.findall(rf"\b(?:{index})\s*(?:<|>=)\s*(\w+)\b", body)}
    ends = {name for name in ends if len(re.findall(rf"\b{name}\b", body)) == 1}
    return [replace(p, role=BATCH)
            if p.name in ends and (len(numbers) > 3 or BATCH in words_of(p.name)) else p
            for p in parameters]  # fmt: skip


def with_factors(parameters: Sequence[Parameter], body: str) -> list[Parameter]:
    """The parameters; of two fractions the one by which what C held is multiplied, where C is
    stored, is beta, and the other one alpha."""
    names = [p.name for p in parameters if p.role.startswith(GIVEN) and p.type in FRACTIONS]
    places = "|".join(p.name for p in parameters if p.pointer) or "-"
    old = rf"\b({places})\s*(\[[^][;]*\])\s*=[^;]*\b({'|'.join(names)})\s*\*\s*\1\s*\2"
    found = re.search(old, body) if len(names) == 2 else None
    return [replace(p, role="beta" if p.name == found[3] else "alpha")
            if found and p.name in names else p for p in parameters]  # fmt: skip


def refuse_factor(parameters: Sequence[Parameter], loops: Iterable[str], where: str) -> None:
    """Raises UserError for an addend that loops have beside a factor and not where D is stored."""
    names = [p.name for p in parameters if p.pointer and p.role != ADDEND]
    for name in [p.name for p in parameters if p.role == ADDEND]:
        for words in ({*re.findall(r"\w+", loop)} for loop in loops):
            if name in words and len(words & {*names}) == len(names) - 1:
                raise UserError(f"{where} multiplies three matrices: {name} is a factor, too")


def with_addend(parameters: Sequence[Parameter]) -> list[Parameter]:
    """The parameters; of four matrices the input that is called C has its role, if there is beta,
    or only D can be the output, or is called so."""
    pointers = [p for p in parameters if p.pointer]
    writable = [p for p in pointers if not p.constant]
    told = any(p.role == "beta" or p.name.lower() == "d" for p in parameters)
    if len(pointers) != 4 or (len(writable) > 1 and not told):
        return [*parameters]
    inputs = [p for p in pointers if p is not (writable if len(writable) == 1 else pointers)[-1]]
    addend = next((p for p in inputs if {"c", "cin"} & {*words_of(p.name)}), None)
    return [replace(p, role=ADDEND) if p is addend else p for p in parameters]


def without_unused(
    parameters: Sequence[Parameter], letters: Mapping[str, str], extents: Mapping[str, str],
    kernel: Kernel, code: str,
) -> list[Parameter]:  # fmt: skip
    """The parameters; a number that is a member, or one of several, has the role of no use if the
    code has its name only where it is declared, and no name that surely is a dimension's."""
    used = [p for p in parameters if not p.pointer and not p.role and not kernel.leaves(p.name)]
    found = []
    for one in parameters:
        sure = role_of(one.name, letters, extents) and not TILED & {*words_of(one.name)}
        alone = not one.member and len(used) < len(DIMENSIONS[3])
        seen = re.findall(rf"\b{one.member or one.name}\b", code)
        unused = not (sure or alone or one.pointer or one.role) and len(seen) < 2
        found.append(replace(one, role=f"{UNUSED}{one.name}") if unused else one)
    return found


def says_transposed(name: str) -> bool:
    """Whether a matrix's name says so; the t of t_B is that of a tensor."""
    words = words_of(name)
    return not TRANSPOSED.isdisjoint(words[words[:1] == ["t"] :])


def words_of(name: str) -> list[str]:
    """The words and numbers of widthAHeightB, num_cols_a, wA, Arows, numARows or cols1, in lower
    case."""
    words = map(str.lower, re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name))
    one = r"((?:ld|stride)(?![hw])|[hwrcmn](?=[abc]$)|[abc](?=rows|cols|[hw]$))"
    pairs = ((re.fullmatch(rf"{one}([abc]|rows|cols|[hw])", word), word) for word in words)
    return [part for pair, word in pairs for part in (pair.groups() if pair else [word])]


def matrices(pointers: Sequence[Parameter], body: str) -> dict[str, str]:
    """The role of each pointer: C is the only one that is not const, or is only written, or is
    called so, or is written, or is last."""
    writable = [p for p in pointers if not p.constant]
    named = [p for p in writable if OUTPUT & set(words_of(p.name))]
    stored = [p for p in writable
              if re.search(rf"\b{re.escape(p.name)}\s*\[[^;=]*\]\s*[-+]?=(?!=)", body)]  # fmt: skip
    alone = [p for p in stored if len(re.findall(rf"\b{re.escape(p.name)}\b", body)) == 1]
    told = (writable, alone, named, stored)
    output = next((one[0] for one in told if len(one) == 1), pointers[-1])
    inputs = [p for p in pointers if p is not output]
    last = [words_of(p.name)[-1:] for p in inputs]
    if last == [["b"], ["a"]] or last == [["n"], ["m"]]:
        inputs.reverse()
    return {output.name: "C"} | {p.name: role for p, role in zip(inputs, "AB", strict=False)}


def matrix_letters(pointers: Sequence[Parameter], roles: Mapping[str, str]) -> dict[str, str]:
    """What the names of dimensions may call each matrix, in lower case."""
    common = word_set("d dev device g gpu mat matrix ptr")
    own = {word: roles[p.name] for p in pointers for word in words_of(p.name)}
    return dict(zip("abc123", "ABCABC", strict=True)) | {w: own[w] for w in own if w not in common}


def role_beside(name: str, letters: Mapping[str, str]) -> str:
    """The role of a number that is the length of a matrix's rows, a switch, or about tiles; nothing
    for another one."""
    words = words_of(name)
    if TILED & set(words) or words[:1] == ["trans"]:
        return f"{GIVEN}{name}"
    found = [letters[word] for word in words if word in letters]
    return f"{LEADING}{found[0]}" if found and ROW_LENGTH & set(words) else ""


def dimensions(
    names: Sequence[str], letters: Mapping[str, str], extents: Mapping[str, str],
    operation: Operation, settings: Mapping[str, str], where: str,
) -> dict[str, str]:  # fmt: skip
    """The role of each number; none if the names do not say it, and trial can tell it.

    Raises UserError with the question if it cannot.
    """
    wanted = operation.shape.__match_args__
    said, tied = said_roles(settings)
    if unknown := said.keys() - set(names):
        raise UserError(
            f"{where} has no parameter {', '.join(sorted(unknown))}; its numbers are "
            f"{', '.join(names) or 'none'}"
        )
    if len(names) == 1:
        return {names[0]: wanted[0]}
    found = {name: said.get(name) or role_of(name, letters, extents) for name in names}
    from_grid = {"m"} if len(wanted) == 3 else set()  # some kernels take the rows of C from it
    if {*wanted} - {*found.values()} - from_grid:
        again = repeated(found)
        found = {name: None if name in again else role for name, role in found.items()}
    roles = {name: role for name, role in found.items() if role in wanted}
    rest_names = [name for name in names if name not in roles]
    rest_roles = [role for role in wanted if role not in roles.values()]
    if len(rest_names) == 1 and len(rest_roles) == 1:
        roles[rest_names[0]] = rest_roles[0]
    if not rest_roles:
        return roles | {name: f"{GIVEN}{name}" for name in rest_names}
    lacking = {*wanted} - {*roles.values()} - from_grid - tied.keys()
    if set(names) != roles.keys() or lacking:
        if len(names) in DIMENSIONS and len(wanted) == 3 and not said:
            return {}
        if said and set(names) == roles.keys():
            asked = f"{where}: which number, or which constant of the file, is {min(lacking)}"
            raise question(asked, f"{min(lacking)}=16")
        if names:
            raise question_of_roles(names, where, len(wanted))
        raise UserError(
            f"{where} takes no dimensions, and no constant of the file is one by its name: pass n, "
            "or write `#define N 64` and use N; if they are numbers in it, say m=64 n=64 k=64"
        )
    return roles


def said_roles(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The roles of numbers by settings, and those of one number that has another role already."""
    said: dict[str, str] = {}
    tied: dict[str, str] = {}
    for role in ("m", "n", "k"):
        if re.match(r"[A-Za-z_]\w*(?:(?:\.|->)\w+)?$", name := settings.get(role, "")):
            first = said.setdefault(name, role)
            tied |= {role: first} if first != role else {}
    return said, tied


def with_numbers(signature: Signature, told: Callable[[Parameter], str], where: str) -> Signature:
    """The signature with what `told` says of the numbers beside the dimensions: an expression of m,
    n and k. Raises UserError with the question for those of which it says nothing."""
    parameters, untold = [], {}
    for one in signature.parameters:
        if one.role.startswith(GIVEN):
            if not (text := told(one) or "0" * is_flag(one)):
                untold[one.name] = "1" if one.type in FRACTIONS else "16"
            one = replace(one, text=re.sub(r"\b([mnk])\b", r"trial_\1", text))
        parameters.append(one)
    if untold:
        raise question_of_more(untold, where)
    return replace(signature, parameters=tuple(parameters))


def is_flag(one: Parameter) -> bool:
    """Whether it is a switch beside the dimensions, which is off where nobody says otherwise."""
    given = one.role.startswith(GIVEN)
    return given and (one.type == "bool" or words_of(one.name)[:1] == ["trans"])


def question_of_more(examples: Mapping[str, str], where: str) -> UserError:
    """What the numbers beside the dimensions are, each with an example."""
    names, said = ", ".join(examples), " ".join(f"{one}={text}" for one, text in examples.items())
    asked = f"{where} takes {names} beside its dimensions: which number, or which product of m, n "
    return question(f"{asked}and k, does its program pass", said)


def question_of_roles(names: Sequence[str], where: str, count: int = 3) -> UserError:
    """Which of the numbers is m, which n and which k, of so many."""
    roles = DIMENSIONS.get(len(names), "mnk") if count == 3 else "mn"
    example = " ".join(f"{role}={name}" for role, name in zip(roles, names, strict=False))
    asked = f"{where} takes {', '.join(names)}: which is which in {PRODUCTS[count]}"
    return question(asked, example)


def stored_by_columns(settings: Mapping[str, str], named: set[str], where: str) -> frozenset[str]:
    """The matrices that are stored by columns, by settings or else by their names. Raises
    UserError."""
    for key, value in CONVENTIONS.items():
        if settings.get(key, value) not in (value, "rows"):
            raise UserError(f"{where}: {key}={settings[key]}: write {key}={value} or {key}=rows")
    found = {key.upper() for key in "abc" if settings.get(key) == CONVENTIONS[key]}
    if settings.get("order") == CONVENTIONS["order"]:
        return frozenset("ABC") - found
    return frozenset(found if CONVENTIONS.keys() & settings.keys() else named)


def repeated(roles: Mapping[str, str | None]) -> list[str]:
    """The names that are a letter, of which others spell out that they are this dimension."""
    spelled = {role for name, role in roles.items() if not bare_letter(name)}
    return [name for name, role in roles.items() if bare_letter(name) and role in spelled]


def bare_letter(name: str) -> str:
    """m, n or k if that is all that a name says."""
    found = BARE_LETTER.fullmatch(name)
    return (found[1] or found[2]).lower() if found else ""


def role_of(name: str, letters: Mapping[str, str], extents: Mapping[str, str]) -> str | None:
    """m, n or k if a name says it: by itself, or as the rows or columns of a matrix."""
    if letter := bare_letter(name):
        return letter
    words = words_of(name)
    if INNER & set(words):
        return "k"
    directions = [(i, int(w in COLUMNS)) for i, w in enumerate(words)
                  if w in ROWS | COLUMNS and not (w in letters and w in "rc")]  # fmt: skip
    found = set()
    for i, direction in directions:
        near = [(abs(i - j), letters[w]) for j, w in enumerate(words) if w in letters and j != i]
        matrix = min(near)[1] if near else "C" if "B" in extents else "A"
        found.add(extents[matrix][direction] if matrix in extents else None)
    return found.pop() if len(found) == 1 else None
