"""What a kernel's parameters are: which pointer is A, B or C, and which number is m, n or k.

C = A·B has A of m×k, B of k×n and C of m×n; C = Aᵀ·A has A of m×n and C of n×n.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from matmul_sweep.classroom.source import question, word_set
from matmul_sweep.classroom.syntax import Kernel
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.operation import Operation
from matmul_sweep.process.errors import UserError

# The types of matrices, by the names that kernels give them.
ELEMENTS = {name: dtype.name for dtype in DTYPES.values() for name in dtype.names}
WHOLE = word_set("unsigned signed int long short size_t int32_t uint32_t int64_t uint64_t uint")
# Words for rows and for columns, in the languages of classrooms.
ROWS = word_set(
    "r row rows h height hauteur heights line lines ligne lignes fila filas riga righe "
    "zeile zeilen linha linhas alto altura"
)
COLUMNS = word_set(
    "c col cols column columns w width widths largeur colonne colonnes columna columnas "
    "colonna spalte spalten coluna colunas ancho anchura ld"
)
UNUSED = "unused "  # begins the role of a number without a name
INNER = word_set("inner common shared depth mid middle kdim terms")
OUTPUT = word_set("c p r out output res result results prod product ans resultat")
# The dimensions that rows and columns of each matrix are, by the number of matrices.
EXTENTS = {3: {"A": "mk", "B": "kn", "C": "mn"}, 2: {"A": "mn", "C": "nn"}}
TAKEN = (
    "takes (A, B, C, n), (A, B, C, m, n, k) or (A, C, m, n), where matrices are pointers to one "
    "type; one that takes more, such as a workspace or a tensor map, cannot be tried alone"
)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel. role: A, B, C, m, n, k, alpha or beta, once it is known."""

    name: str
    type: str
    pointer: bool
    constant: bool
    role: str = ""


@dataclass(frozen=True)
class Signature:
    """The operation that a kernel computes, and its parameters in their order."""

    operation: Operation
    parameters: tuple[Parameter, ...]

    @property
    def square(self) -> bool:
        """Whether one number stands for all dimensions."""
        return sum(p.role in ("m", "n", "k") for p in self.parameters) == 1

    @property
    def accumulates(self) -> bool:
        """Whether it adds to a multiple of what C held: C = alpha·A·B + beta·C."""
        return any(p.role == "beta" for p in self.parameters)

    @property
    def terms_name(self) -> str:
        """The kernel's own name of the number of terms of a sum."""
        gemm = len(self.operation.shape.__match_args__) == 3
        return self.name_of("k" if gemm and not self.square else "m")

    def name_of(self, role: str) -> str:
        """The kernel's own name of A, B, C, m, n or k."""
        return next((p.name for p in self.parameters if p.role == role), role)


def signature_of(kernel: Kernel, settings: Mapping[str, str], path: object) -> Signature:
    """Raises UserError for a signature that is no product's, or that could be several."""
    where = f"{path}: {kernel.name}"
    parameters = [parsed(text, i, settings, where) for i, text in enumerate(kernel.parameters)]
    pointers = [p for p in parameters if p.pointer]
    if len(pointers) not in (2, 3):
        raise UserError(f"{where} has {len(pointers)} pointers; a kernel {TAKEN}")
    types = {p.type for p in pointers}
    if len(types) > 1 or not types <= ELEMENTS.keys():
        raise UserError(
            f"{where}: matrices of {' and '.join(sorted(types))}; a kernel {TAKEN}: "
            f"{', '.join(ELEMENTS)}"
        )
    dtype = ELEMENTS[types.pop()]
    alike = [one for one in OPERATIONS.values() if len(one.matrices) == len(pointers)]
    known = next((one for one in alike if one.dtype == one.output == dtype), alike[0])
    operation = replace(known, dtype=dtype, output=dtype, sums=dtype)
    roles = matrices(pointers) | {p.name: p.role for p in parameters if p.role}
    numbers = [p.name for p in parameters if not p.pointer and p.name not in roles]
    letters = matrix_letters(pointers, roles)
    roles |= dimensions(numbers, letters, operation, settings, where)
    return Signature(operation, tuple(replace(p, role=roles[p.name]) for p in parameters))


def parsed(text: str, position: int, types: Mapping[str, str], where: str) -> Parameter:
    """A parameter; its role, too, if it needs no other to tell. Raises UserError."""
    text = " ".join(text.split())
    declaration = re.sub(r"__restrict__|__restrict|\brestrict\b|\bvolatile\b", " ", text)
    declaration = declaration.partition("=")[0]
    if set(declaration.split()) - {"const"} <= WHOLE:
        name = f"{UNUSED}{position}"
        return Parameter(name, "int", False, False, name)
    constant = bool(re.search(r"\bconst\b", declaration.partition("*")[0]))
    declaration = re.sub(r"\bconst\b", " ", declaration)
    found = re.fullmatch(r"\s*([\w ]+?)\s*([*&]?)\s*\b(\w+)\s*(\[\s*\])?\s*", declaration)
    if not found or found[2] == "&":
        raise UserError(f"{where}: parameter '{text}'; a kernel {TAKEN}")
    name, kind = found[3], " ".join(found[1].split())
    kind, pointer = types.get(kind, kind), bool(found[2] or found[4])
    factor = name.lower() if not pointer and not set(kind.split()) <= WHOLE else ""
    if factor not in ("", "alpha", "beta"):
        raise UserError(f"{where}: parameter '{kind} {name}'; a kernel {TAKEN}")
    return Parameter(name, kind, pointer, constant, factor)


def words_of(name: str) -> list[str]:
    """The words of widthAHeightB, num_cols_a, wA or numARows, in lower case."""
    words = map(str.lower, re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name))
    pairs = ((re.fullmatch(r"(ld|[hwrcmn])([abc])", word), word) for word in words)
    return [part for pair, word in pairs for part in (pair.groups() if pair else [word])]


def matrices(pointers: Sequence[Parameter]) -> dict[str, str]:
    """The role of each pointer: C is the only one that is not const, or is called so, or is
    last."""
    writable = [p for p in pointers if not p.constant]
    named = [p for p in pointers if OUTPUT & set(words_of(p.name)) and not p.constant]
    output = writable[0] if len(writable) == 1 else named[0] if len(named) == 1 else pointers[-1]
    inputs = [p for p in pointers if p is not output]
    last = [words_of(p.name)[-1:] for p in inputs]
    if last == [["b"], ["a"]] or last == [["n"], ["m"]]:
        inputs.reverse()
    return {output.name: "C"} | {p.name: role for p, role in zip(inputs, "AB", strict=False)}


def matrix_letters(pointers: Sequence[Parameter], roles: Mapping[str, str]) -> dict[str, str]:
    """What the names of dimensions may call each matrix, in lower case."""
    common = word_set("d dev device g gpu mat matrix ptr")
    own = {word: roles[p.name] for p in pointers for word in words_of(p.name)}
    return {"a": "A", "b": "B", "c": "C"} | {w: own[w] for w in own if w not in common}


def dimensions(
    names: Sequence[str], letters: Mapping[str, str], operation: Operation,
    settings: Mapping[str, str], where: str,
) -> dict[str, str]:  # fmt: skip
    """The role of each number. Raises UserError with the question if the names do not say it."""
    wanted = operation.shape.__match_args__
    said = {settings[role]: role for role in ("m", "n", "k") if role in settings}
    if unknown := said.keys() - set(names):
        raise UserError(
            f"{where} has no parameter {', '.join(sorted(unknown))}; its numbers are "
            f"{', '.join(names) or 'none'}"
        )
    if len(names) == 1:
        return {names[0]: wanted[0]}
    extents = EXTENTS[len(wanted)]
    found = {name: said.get(name) or role_of(name, letters, extents) for name in names}
    roles = {name: role for name, role in found.items() if role in wanted}
    rest_names = [name for name in names if name not in roles]
    rest_roles = [role for role in wanted if role not in roles.values()]
    if len(rest_names) == 1 and len(rest_roles) == 1:
        roles[rest_names[0]] = rest_roles[0]
    # Some kernels take the rows of C from the grid.
    lacking = set(wanted) - set(roles.values()) - ({"m"} if len(wanted) == 3 else set())
    if set(names) != roles.keys() or lacking:
        matrix = "C = A·B with A of m×k, B of k×n" if len(wanted) == 3 else "C = AᵀA with A of m×n"
        told = ", ".join(names) or "no numbers"
        example = " ".join(f"{role}={name}" for role, name in zip(wanted, names, strict=False))
        raise question(f"{where} takes {told}: which is which in {matrix}", example)
    return roles


def role_of(name: str, letters: Mapping[str, str], extents: Mapping[str, str]) -> str | None:
    """m, n or k if a name says it: by itself, or as the rows or columns of a matrix."""
    bare = re.sub(r"^(?:num|n|dim|size|len)_?(?=[MNKmnk]$)", "", name)
    if bare.lower() in ("m", "n", "k"):
        return bare.lower()
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
