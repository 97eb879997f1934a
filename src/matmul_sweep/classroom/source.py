"""Reading a hand-in: the kernel of a .cu file and what it uses, without the program around it.

Line numbers stay those of the file, because what is left out becomes blank.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from tree_sitter import Node

from matmul_sweep.classroom import notebooks, syntax
from matmul_sweep.classroom.syntax import Kernel, Struct, blank, part, text_of
from matmul_sweep.process.errors import UserError

PARAMETERS = re.compile(r"(__global__\s+[^;{()]*\b\w+\s*\(\s*)([A-Za-z_]\w*)(?=\s*\))")  # one word
MOST_BYTES = 1 << 20
MOST_HEADERS = 3  # that are named where one is missing
# Headers that say what a kernel may use; others are for the program around it.
KERNEL_HEADERS = re.compile(
    r"(?:mma|cuda_(?:fp16|bf16|fp8|pipeline\w*)|cooperative_groups|cooperative_groups/\w+"
    r"|assert|math|stdint|float|limits|cfloat|cmath|cstdint|cstddef|algorithm|utility|type_traits|(?:cub|cuda|cutlass|cute)/\S+?)"
    r"(?:\.\w+)?"
)
# Headers of CUDA; a project's own may be called cuda_matrix.h.
# What a program's names may be without any declaration in it.
OF_SYSTEM = re.compile(r"cu[a-z]+[A-Z]\w*|__\w+|(?:block|grid)Dim|(?:block|thread)Idx|warpSize"
                       r"|std(?:in|out|err)|errno|environ|opt(?:arg|ind)|this")  # fmt: skip
OF_CUDA = re.compile(
    r"cuda(?:\.h|Profiler|GL|/|_(?:runtime|device_runtime|fp\d|bf16|pipeline|awbarrier|profiler"
    r"|occupancy|texture_types|surface_types|gl_interop)\w*\.)|cu(?:blas|rand|sparse|solver|fft)"
    r"(?:_v2|_kernel|Lt|Xt|Dn)?\.h|device_(?:launch|functions|atomic|types|double)|mma\.h"
    r"|cooperative_groups|thrust/"
)
# Others' headers, which have no part of a kernel.
PUBLIC = re.compile(
    r"helper_|openssl|opencv|boost|torch|ATen|c10|pybind|cu(?:til|tlass|te)|windows|conio|mpi|omp"
    r"|\w*intrin"
)
LIBRARIES = {"cub", "cutlass", "cute"}  # whose headers serve only a kernel that names them
# Of headers in quotes, seen from the file.
HEADER_FOLDERS = (".", "include", "../include", "common", "../common", "..")
PROGRAMS = {".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp"}  # that may launch a kernel
# Namespaces that a kernel may use as a whole, beside those of its own file.
KERNEL_NAMESPACES = {"std", "nvcuda", "cooperative_groups", "cuda", "cub", "cute", "cutlass"}
# What belongs to the program that launches a kernel.
HOST_ONLY = re.compile(
    r"\b(?:cuda[A-Z]\w*|cublas\w*|curand\w*|CU(?:tensorMap\w+|_\w+)"
    r"|std\s*::\s*(?:\w*stream|vector|string|chrono|mt19937|random_device|thread"
    r"|function|unique_ptr|shared_ptr|runtime_error)"
    r"|cout|cerr|endl|[io]?f?stream|FILE|timeval|gettimeofday|clock_gettime)\b|<<\s*<"
)
FOR_EDGES = re.compile(
    r"(?i)edge(?!m[mv])|border|fringe|leftover|remainder|tail(?!or)"
)  # what another kernel leaves of C
WORD = re.compile(r"[A-Za-z_]\w*")
SETTING = re.compile(r"\w+(?:(?:\.|->)\w+)*")  # a number's name, or its place in a struct
ATTRIBUTES = re.compile(rf"(?:\s*(?:{syntax.UNKNOWN_WORDS.pattern}))+(?=\s*;)")
CONDITION = re.compile(r"\s*#\s*(if|el|endif)")


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True)
class Source:
    """A hand-in. text: as pasting left it, repaired line by line. values: of its constants and
    those of the headers beside it, in the place of their own; given: those that settings say.
    includer: the file that launches its kernels, if it does not do so itself."""

    path: Path
    text: str
    values: tuple[tuple[str, str], ...] = ()
    includer: "Source | None" = None
    given: tuple[tuple[str, str], ...] = ()

    @property
    def host(self) -> "Source":
        """The source of the program that launches its kernels."""
        return self.includer or self

    @cached_property
    def place(self) -> Path:
        """The path under which compilers know it: ptxas takes no quotes in it."""
        return Path(re.sub(r"[\"\\\\\n]", "_", str(self.path.resolve())))

    @cached_property
    def tree(self) -> Node:
        return syntax.parse(self.text)

    @cached_property
    def bare(self) -> str:
        """The text with comments blank, and texts in quotes, at the same places."""
        return syntax.without_comments(self.tree, self.text)

    @cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        """By name; of kernels of one name, the last."""
        return {one.name: one for one in syntax.kernels(self.tree, self.bare)}

    @property
    def overloaded(self) -> list[str]:
        """What is said of a kernel of which another one of its name is judged."""
        last = ((one, self.kernels[one.name]) for one in syntax.kernels(self.tree, self.bare))
        return [f"{one.name} of line {one.line}: line {other.line} has another of this name"
                for one, other in last if one.template != other.template
                and syntax.adds_products(one, self.tree, self.text)]  # fmt: skip

    @cached_property
    def launchers(self) -> Mapping[str, Node | None]:
        """The function around the first launch of each kernel that the file launches; or one that
        names it otherwise, and may launch it through a variable or another function."""
        found = syntax.launchers(self.tree, self.text)
        code = {one: part(one, "body", self.bare) for one in self.functions}
        host = sorted(code, key=lambda one: "<<<" not in code[one])
        naming = ((name, one) for name in self.kernels for one in host
                  if stand_ins(self, name).search(code[one]))  # fmt: skip
        return dict(reversed([*naming])) | found

    @cached_property
    def standing(self) -> dict[str, str]:
        """What names outside of functions stand for, and what functions return."""
        returned = {text_of(name, self.text): ",".join(
                        re.findall(r"\breturn\b([^;]*);", text_of(one, self.bare)))
                    for one in self.nodes["function_definition"]
                    for name in syntax.declared_names(one)[-1:]}  # fmt: skip
        return returned | {"".join(WORD.findall(k)[-1:]): text for k, text in self.names.items()}

    def launches(self, source: "Source") -> bool:
        """Whether it launches a kernel of another source, and not one of its own of that name."""
        others = (one for one in (self, *self.headers_beside) if one.place != source.place)
        own = set[str]().union(*(one.kernels for one in others))
        return bool(self.launchers.keys() & source.kernels.keys() - own)

    def launches_early(self, kernel: Kernel) -> int:
        """The line that launches a kernel before anything in the file names that, or 0."""
        names = syntax.of_type(self.tree, "identifier")
        first = next((one for one in names if text_of(one, self.text) == kernel.name), None)
        call = next(syntax.around(first, "call_expression"), None) if first else None
        others = self.includer or self.headers_beside or self.left_out
        if not call or others or call.start_byte > kernel.node.start_byte:
            return 0
        launches = syntax.launch_of(call) and self.path.suffix == ".cu"
        return syntax.line_of(call) if launches else 0

    def broken_around(self, kernel: Kernel) -> tuple[int, str]:
        """The line, and why it does not compile, of a name in a kernel's launch or what variables
        beside it begin with, that the file declares nowhere, or of a declaration without its end; 0
        and nothing without any, or if another file may have it."""
        function, others = self.launchers.get(kernel.name), self.includer or self.left_out
        if not function or others or self.path.suffix != ".cu":
            return 0, ""
        declared = set[str]().union(*(syntax.named(one.tree, one.bare) for one in self.sources))
        for node in syntax.of_type(function, "declaration"):  # `word MACRO(...);`, after a macro
            word, of = map(node.child_by_field_name, ("type", "declarator"))
            named = of and text_of(of.child_by_field_name("declarator"), self.bare)
            if word and word.type == "type_identifier" and f"{named}()" in self.macros:
                return syntax.line_of(word), f"{text_of(word, self.bare)} is declared nowhere"
        for node in syntax.of_type(function, "identifier", ";", "ERROR"):
            name, kind = text_of(node, self.bare), node.parent.type if node.parent else ""
            number = re.fullmatch(r"\d[\w.]*", name) and kind == "init_declarator"
            if number or (node.is_missing and kind == "declaration"):
                return syntax.line_of(node), 'expected a ";"'
            known = name in declared or name.isupper() or OF_SYSTEM.fullmatch(name)
            if node.type == "identifier" and not known and syntax.is_used(node, self.bare):
                return syntax.line_of(node), f"{name} is declared nowhere"
        return 0, ""

    @cached_property
    def settings(self) -> dict[str, str]:
        """key=value of the comments `// try: ...`."""
        comments = (text_of(one, self.text) for one in syntax.of_type(self.tree, "comment"))
        said = [one.partition("try:")[2] for one in comments if re.match(r"//\s*try:", one)]
        words = " ".join(said)
        with suppress(ValueError):  # a quote that is not closed
            return settings_of(shlex.split(words), str(self.path))
        return settings_of(words.split(), str(self.path))

    @cached_property
    def macros(self) -> dict[str, str]:
        """What stands for each macro; a name with () is of one with arguments."""
        return syntax.macros(self.tree, self.text)

    @cached_property
    def constants(self) -> dict[str, str]:
        """The values of constants outside of functions."""
        return syntax.constants(self.tree, self.text)

    @cached_property
    def names(self) -> dict[str, str]:
        """What stands for each macro and constant, those of the headers beside it too."""
        return {k: v for one in self.sources for k, v in (one.constants | one.macros).items()}

    def names_in(self, scope: str) -> dict[str, str]:
        """The same as they are within namespaces, each with `::`."""
        found = dict(self.names)
        for one in reversed(syntax.scopes(scope)[:-1]):
            found |= {k.removeprefix(one): v for k, v in self.names.items() if k.startswith(one)}
        return found

    @cached_property
    def types(self) -> dict[str, str]:
        """The types that it, or a header beside it, gives another name, by that name."""
        return {k: v for one in self.sources for k, v in syntax.types(one.tree, one.text).items()}

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """The names of the namespaces that it, or a header beside it, opens."""
        names = (part(node, "name", one.text) for one in self.sources
                 for node in syntax.of_type(one.tree, "namespace_definition"))  # fmt: skip
        return frozenset(WORD.findall(" ".join(names)))

    @cached_property
    def structs(self) -> dict[str, Struct]:
        """The structs that it, or a header beside it, has."""
        return {k: v for one in self.sources for k, v in syntax.structs(one.tree, one.text).items()}

    def constants_of(self, function: Node | None) -> dict[str, str]:
        """The values that a function's variables begin with."""
        body = function.child_by_field_name("body") if function else None
        return syntax.constants(body, self.text) if body else {}

    @cached_property
    def nodes(self) -> Mapping[str, list[Node]]:
        """The functions and calls of its tree, by their types: a trial reads it at every shape."""
        kinds = ("function_definition", "call_expression")
        found = [*syntax.of_type(self.tree, *kinds)]
        return {kind: [one for one in found if one.type == kind] for kind in kinds}

    @cached_property
    def functions(self) -> Sequence[Node]:
        """Those of its tree that are no kernels."""
        found = self.nodes["function_definition"]
        return [one for one in found if "__global__" not in text_of(one, self.bare).split("{")[0]]

    @cached_property
    def instantiations(self) -> dict[str, tuple[str, ...]]:
        """The arguments of explicit instantiations, by the template's name; of several, the
        last."""
        return dict(syntax.instantiations(self.tree, self.text))

    @property
    def asks_for_shared(self) -> bool:
        """Whether its program asks for more shared memory than a block has by itself."""
        return any("MaxDynamicSharedMemorySize" in one.bare for one in self.sources)

    def fixes(self, name: str) -> bool:
        """Whether it defines a macro or constant whatever was defined before."""
        asked = rf"#[ \t]*ifndef[ \t]+{name}\b|!\s*defined\b\W*{name}\b"
        return name in self.constants | self.macros and not re.search(asked, self.bare)

    def defines(self, name: str) -> bool:
        """Whether it, or a header beside it, defines a type of this name."""
        return any(name in one.names for each in self.sources for one in each.definitions)

    def line(self, number: int) -> str:
        lines = self.text.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def line_that_defines(self, name: str) -> int:
        """The first line that gives a macro or constant its value, or 0."""
        found = re.search(rf"\bdefine[ \t]+{name}\b|\b{name}\s*=", self.bare)
        return self.bare.count("\n", 0, found.end()) + 1 if found else 0

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name. Raises UserError."""
        if name not in self.kernels:
            raise UserError(f"{self.path}: kernel={name}: it has {', '.join(self.kernels)}")
        return self.kernels[name]

    def products(self, name: str | None = None, trusted: bool = True) -> Sequence[Kernel]:
        """The kernels that look like a product, or the one of that name; if none does, all; and if
        the file launches none of these, what it launches, or, trusted, what of that may be one.
        Raises UserError without any."""
        if not self.kernels:
            raise UserError(f"{self.path}: {self.lacking}")
        if name:
            return [self.kernel(name)]
        kernels = [*self.kernels.values()]
        found = self.likely_products or kernels
        found = [one for one in found if not FOR_EDGES.search(one.name)] or found
        other = self.launchers.keys().isdisjoint(one.name for one in found)  # that runs instead
        runs = [one for one in kernels if other and one.name in self.launchers]
        return [*found, *(one for one in runs if not trusted or syntax.may_be_product(one))]

    @cached_property
    def likely_products(self) -> Sequence[Kernel]:
        kernels = self.kernels.values()
        found = [one for one in kernels if syntax.adds_products(one, self.tree, self.text)]
        # A mistake may leave no sum in it.
        named = (one for one in kernels if syntax.SAYS_GRAM.search(one.name))
        return found or [one for one in named if syntax.takes_matrices(one)]

    @property
    def lacking(self) -> str:
        """Why it has no kernel."""
        if "__global__" in self.bare:
            return "no whole kernel in it: after the parameters of __global__ comes its body in { }"
        return "no kernel in it: one is a function `__global__ void name(...) {...}` in CUDA C++"

    @cached_property
    def includes(self) -> Sequence["Include"]:
        """The headers that it includes."""
        found = []
        for node in syntax.of_type(self.tree, "preproc_include"):
            written = part(node, "path", self.text)
            name, quoted = written.strip('<>"'), written.startswith('"')
            files = (self.path.parent / folder / name for folder in HEADER_FOLDERS if quoted)
            beside = next((file for file in files if file.is_file()), None)
            found.append(Include(name, quoted, beside, node))
        return found

    @cached_property
    def headers_beside(self) -> Sequence["Source"]:
        """The sources of the headers beside it, each before those that include it."""
        return [*headers_of(self, {self.place})]

    @cached_property
    def sources(self) -> Sequence["Source"]:
        """The headers beside it, and itself."""
        return [*self.headers_beside, self]

    @property
    def header_folders(self) -> Sequence[Path]:
        """Where compilers have to look for the headers beside it."""
        own = notebooks.file_of(self.path).resolve().parent
        return [folder for name in HEADER_FOLDERS if (folder := own / name).is_dir()]

    @cached_property
    def definitions(self) -> Sequence["Definition"]:
        return [Definition(self, node) for node in syntax.definitions(self.tree)]

    def needed_by(self, kernel: Kernel, arguments: str = "") -> Mapping["Source", str]:
        """The text of each header beside it, and its own last, with only the kernel and what it
        uses, and its template's arguments; the rest is blank."""
        sources = self.sources
        macros = {
            name.removesuffix("()"): value for one in sources for name, value in one.macros.items()
        }
        open_ones = [one for source in sources for one in source.definitions]
        more = [one for one in open_ones if one.opens_namespace or one.is_operator
                or one.is_misspelt or (one.source is self and one.holds(kernel))]  # fmt: skip
        kept, used = set(more), set[str]()
        while more:
            words = set(() if used else WORD.findall(arguments)).union(*(one.uses for one in more))
            while words - used:
                used |= words
                words = {w for name in words & macros.keys() for w in WORD.findall(macros[name])}
            more = [one for one in open_ones
                    if one not in kept and one.names & used and not one.host_only
                    and (one.on_device or kernel.name not in one.names)]  # fmt: skip
            kept |= {*more}
        return {source: source.only(kept) for source in sources}

    def only(self, kept: set["Definition"]) -> str:
        """The text with these definitions of all that it has; the rest is blank."""
        gone = [node for one in self.definitions
                for node in (one.host_members if one in kept else [one.node])]  # fmt: skip
        used = set[str]().union(*(one.words for one in kept))
        gone += [one.node for one in self.includes if not one.beside and not one.may_serve(used)]
        gone += [one for one in syntax.of_type(self.tree, "preproc_call")  # what a build has to say
                 if part(one, "directive", self.text) == "#error"]  # fmt: skip
        return without(self.text, gone)

    def with_values(self, values: Mapping[str, str]) -> "Source":
        """The same with other values of some macros and constants, in the same lines."""
        text, kinds = self.text, ("preproc_def", "init_declarator", "enumerator")
        for node in reversed([*syntax.of_type(self.tree, *kinds)]):
            name = part(node, "name", self.text) or part(node, "declarator", self.text)
            value = node.child_by_field_name("value")
            if value and name in values:
                text = text[: value.start_byte] + values[name] + text[value.end_byte :]
        includer = self.includer and self.includer.with_values(values)
        return replace(self, text=text, values=tuple(values.items()), includer=includer)

    def with_given(self, given: Mapping[str, str]) -> "Source":
        """The same with values that settings say."""
        includer = self.includer and self.includer.with_given(given)
        found = self.with_values(given)
        return replace(found, values=self.values, given=tuple(given.items()), includer=includer)

    @property
    def written(self) -> "Source":
        """The file as it stands but for what settings say."""
        return read(self.path).with_given(dict(self.given))

    @property
    def may_bring_halves(self) -> bool:
        """Whether a header that serves the program around it may bring the types of 16 bits."""
        own = re.compile(r"torch/|ATen/|c10/|cublas")
        return any(own.match(one.name) or (one.quoted and not one.beside) for one in self.includes)

    @cached_property
    def left_out(self) -> list[tuple[int, str]]:
        """Line and name of headers in quotes that are not there, or in <> like a project's own."""
        missing = [one for one in self.includes if not one.beside and (one.quoted or one.is_own)]
        found = [one for one in missing if not OF_CUDA.match(one.name)]
        own = [one for one in found if not PUBLIC.match(one.name)] or found
        return [(one.line, one.name) for one in own]

    @property
    def perhaps_left_out(self) -> str:
        """Where what is not known may come from, as the end of a sentence; or nothing."""
        told = [f'"{header}" of line {line}' for line, header in self.left_out[:MOST_HEADERS]]
        absent = "which is not here" if len(told) == 1 else "which are not here"
        return f"; perhaps {' or '.join(told)} has it, {absent}: paste it in" if told else ""


@dataclass(frozen=True)
class Include:
    """A line that includes a header. beside: its file, if that lies beside the source."""

    name: str
    quoted: bool
    beside: Path | None
    node: Node

    @property
    def line(self) -> int:
        return syntax.line_of(self.node)

    @property
    def is_own(self) -> bool:
        """Whether it is like a header of the program's own, and of no system or library."""
        system = "/" in self.name or (Path("/usr/include") / self.name).exists()
        others = system or KERNEL_HEADERS.fullmatch(self.name) or PUBLIC.match(self.name)
        return "." in self.name and not others

    def may_serve(self, words: Set[str]) -> bool:
        """Whether a kernel with these words may use what the header says."""
        library = self.name.split("/")[0]
        known = bool(KERNEL_HEADERS.fullmatch(self.name))
        return known and (library not in LIBRARIES or library in words)


@dataclass(frozen=True)
class Definition:
    """A definition or declaration of a source outside of functions."""

    source: Source
    node: Node

    @cached_property
    def text(self) -> str:
        return text_of(self.node, self.source.bare)

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(WORD.findall(self.text))

    @cached_property
    def uses(self) -> frozenset[str]:
        """The words that may be of other definitions: not its own variables."""
        own = (name for node in syntax.of_type(self.node, *syntax.OWN_VARIABLES)
               for one in node.children_by_field_name("declarator")
               for name in syntax.declared_names(one))  # fmt: skip
        return self.words - {text_of(one, self.source.text) for one in own}

    @cached_property
    def names(self) -> frozenset[str]:
        """What it defines that a kernel may use; another kernel is none."""
        if "__global__" in self.words or self.node.type == "template_instantiation":
            return frozenset()
        return frozenset(text_of(one, self.source.text) for one in syntax.declared_names(self.node))

    def holds(self, kernel: Kernel) -> bool:
        """Whether a kernel of the same source is defined in it."""
        return self.node.start_byte <= kernel.node.start_byte < self.node.end_byte

    @property
    def opens_namespace(self) -> bool:
        """Whether it is `using namespace` of one that a kernel may use, and of no part of std."""
        if self.node.type != "using_declaration" or "namespace" not in self.words:
            return False
        if re.search(r"\bstd\s*::", self.text):
            return False
        return bool(self.words & (KERNEL_NAMESPACES | self.source.namespaces))

    @property
    def on_device(self) -> bool:
        return "__device__" in self.words

    @property
    def is_operator(self) -> bool:
        """Whether it defines an operator, which kernels use without its name, and no type."""
        return self.on_device and "operator" in self.words and not (self.names or self.host_only)

    @property
    def is_misspelt(self) -> bool:
        """Whether it seems to be a kernel that no compiler can read: CUDA's is asked, unless a
        header that is not here may say what its words mean."""
        broken = self.node.has_error and not self.words & {"__global__", "__device__"}
        return broken and bool(self.words & {"threadIdx", "blockIdx"}) and not self.source.left_out

    @property
    def host_only(self) -> bool:
        """Whether it belongs to the program that launches the kernel."""
        own = self.text
        for member in self.host_members:
            own = own.replace(text_of(member, self.source.bare), "")
        return "main" in self.names or bool(not self.on_device and HOST_ONLY.search(own))

    @property
    def host_members(self) -> list[Node]:
        """The members of a type that only the host uses."""
        members = (one for listed in syntax.of_type(self.node, "field_declaration_list")
                   for one in listed.named_children)  # fmt: skip
        return [one for one in members if HOST_ONLY.search(text_of(one, self.source.bare))]


@cache
def stand_ins(source: Source, kernel: str) -> re.Pattern[str]:
    """What finds the name of a kernel, and those outside of functions that stand for it."""
    names = [kernel]
    for one in names:  # which grow
        own = re.compile(rf"(?<![\w.]){one}\b")
        names += [k for k in source.standing.keys() - names if own.search(source.standing[k])]
    return re.compile(rf"(?<![\w.])(?:{'|'.join(names)})\b")


def without(text: str, nodes: Iterable[Node]) -> str:
    """A text with blanks in the place of some nodes of its tree, but for an end of a condition that
    begins elsewhere, or a beginning: `#ifdef __cplusplus` around `extern "C" {`."""
    for node in nodes:
        start, end = node.start_byte, node.end_byte
        if behind := ATTRIBUTES.match(text, end):  # a type, before its semicolon
            end = behind.end()
        lines = text[start:end].splitlines(keepends=True)
        told = [found[1] for line in lines if (found := CONDITION.match(line))]
        apart = told.count("if") != told.count("endif")
        kept = "".join(one if apart and CONDITION.match(one) else blank(one) for one in lines)
        text = text[:start] + kept + text[end:]
    return text


def headers_of(source: Source, seen: set[Path]) -> Iterator[Source]:
    """The headers beside a source that are not among those seen, each before its includers."""
    for include in source.includes:
        if include.beside and include.beside.resolve() not in seen:
            seen.add(include.beside.resolve())
            header = read(include.beside).with_given(dict(source.given))
            header = header.with_values(dict(source.values))
            yield from headers_of(header, seen)
            yield header


def with_launcher(source: Source) -> Source:
    """A source that launches none of its kernels with the only file beside it that does; if there
    is none, with the only one in the folder above."""
    if not source.launchers.keys().isdisjoint(source.kernels) or not source.path.is_file():
        return source
    folder = source.path.resolve().parent
    found = [*launchers_in(folder, source)] or [*launchers_in(folder.parent, source)]
    return replace(source, includer=found[0]) if len(found) == 1 else source


def launchers_in(folder: Path, source: Source) -> Iterator[Source]:
    """The files of a folder that launch kernels of a source, as far as they can be read."""
    launch = re.compile(rf"\b(?:{'|'.join(source.kernels)})\b[^;]*<<\s*<")
    with suppress(OSError, UserError):
        for file in folder.iterdir():
            # The whole of a file is read only where a few words of it are promising.
            if file.suffix in PROGRAMS and launch.search(file.read_text(errors="replace")):
                program = read(file)
                if program.launches(source):
                    yield program


def question(asked: str, answer: str) -> UserError:
    """What has to be said by a setting, such as this one; what a shell would read is quoted."""
    answer = re.sub(r"(?<!\S)[^\s']*[<>][^\s']*", r"'\g<0>'", answer)
    return UserError(
        f"{asked}? Say for instance {answer} after the file's name, or in a comment "
        f"`// try: {answer}` at its top"
    )


def settings_of(words: Sequence[str], where: str) -> dict[str, str]:
    """key=value words as a mapping. Raises UserError."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not SETTING.fullmatch(key) or not value:
            wanted = "write key=value, such as block=16x16"
            raise UserError(f"{where}: '{word}' is no setting; {wanted}")
        found[key] = value
    return found


def read(path: Path) -> Source:
    """A hand-in. Raises UserError for what cannot be a CUDA source."""
    file = notebooks.file_of(path)
    if not file.is_file():
        raise UserError(f"{path}: there is no such file")
    if (size := file.stat().st_size) > MOST_BYTES:
        raise UserError(f"{path}: {size:,} bytes; a source has at most {MOST_BYTES:,}")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        text = file.read_text(encoding="latin-1")
    if "\0" in text:
        raise UserError(f"{path}: not a text; give a CUDA source, such as my_kernel.cu")
    return Source(path, with_own_headers(file.parent, repaired(notebooks.kernels_in(path, text))))


def with_own_headers(folder: Path, text: str) -> str:
    """A text with quotes in the place of <> where a header lies in its folder, and no system has
    it; with blanks in the place of namespaces before the name of a kernel's definition, and of
    concepts; and with the parameters, or the `<<<...>>>`, of a kernel that a macro stands for."""

    def quoted(found: re.Match[str]) -> str:
        others = OF_CUDA.match(found[2]) or (Path("/usr/include") / found[2]).exists()
        own = (folder / found[2]).is_file() and not others
        return f'{found[1]}"{found[2]}"' if own else found[0]

    text = re.sub(r"(#[ \t]*include[ \t]*)<([\w./-]+\.\w+)>", quoted, text)
    scope = r"(__global__\s+(?:[\w()]+\s+)*?)((?:\w+::)+)(?=\w+\s*\()"
    text = re.sub(scope, lambda found: found[1] + blank(found[2]), text)
    for concept in {*re.findall(r"\bconcept\s+(\w+)\s*=", text)}:
        defined = rf"template\s*<[^<>;]*>\s*concept\s+{concept}\s*=(?:[^;{{}}]|\{{[^{{}}]*\}})*;"
        text = re.sub(defined, lambda found: blank(found[0]), text)
        text = re.sub(rf"(?<=[<,])(\s*)\b{concept}\s+(?=\w)", r"\1typename ", text)
    for name in {*re.findall(r"#[ \t]*define[ \t]+(\w+)\([\w, \t]*\)[ \t]*<<<", text)}:
        launch = rf"\b{name}[ \t]*\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)(?=[ \t]*\()"
        text = re.sub(launch, r"<<<\1>>>", text)
    return re.sub(PARAMETERS, lambda found: found[1] + whole_macro(found[2], text), text)


def whole_macro(name: str, text: str) -> str:
    """What a text defines a name as, in one line; or the name."""
    found = re.search(rf"(?m)^[ \t]*#[ \t]*define[ \t]+{name}[ \t]((?:.*\\\n)*.*)", text)
    return " ".join(found[1].replace("\\\n", " ").split()) if found else name


def repaired(text: str) -> str:
    """What copying from a notebook or a PDF breaks, mended without moving a line: fences and cell
    magics, and numbers before the lines."""
    fence = re.compile(r"\s*(```|%%|In \[\d*\]:|Out\[)")
    # The grammar takes a line for the value of `#define NAME ` in the line before.
    lines = ["" if fence.match(line) else line.rstrip(" \t") for line in text.split("\n")]
    numbers = [re.match(r"\s*(\d+)(?=\s|$)", line) for line in lines if line.strip()]
    if len(numbers) > 4 and sum(map(bool, numbers)) > 0.6 * len(numbers):
        lines = [re.sub(r"^\s*\d+(?=\s|$)", "", line) for line in lines]
    return "\n".join(lines)
