"""The parts of a CUDA source that a verdict rests on: kernels, launches, constants, definitions.

They come from a tree of tree-sitter's CUDA grammar, which goes on behind a mistake. Offsets in the
tree are those of characters in the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

PARSER = Parser(Language(tree_sitter_cuda.language()))
# What the grammar does not know: attributes, which say nothing that a verdict needs.
UNKNOWN_WORDS = re.compile(
    r"__(?:cluster_dims|block_size|maxnreg|align|attribute)__"
    r"\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|__grid_constant__"
)
# A condition among the strings of an expression, behind a line that ends with one.
CONDITION_IN_STRINGS = re.compile(
    r'^((?![ \t]*#)[^\n]*"[ \t]*\n)([ \t]*#[ \t]*(?:if|el|endif)(?:[^\n]*\\\n)*[^\n]*)',
    re.MULTILINE,
)
LOOPS = ("for_statement", "while_statement", "do_statement")
# Two branches that begin a statement each, whose rest is behind them.
HEAD = r"[ \t]*(?:for|while|if)\b[^\n{}]*\)[ \t]*\{?[ \t]*\n"
TWO_HEADS = re.compile(
    rf"^([ \t]*#[ \t]*if[^\n]*\n{HEAD}[ \t]*#[ \t]*else[^\n]*\n)({HEAD})([ \t]*#[ \t]*endif[^\n]*)",
    re.MULTILINE,
)
# Nodes whose parts are definitions of their own: namespaces, `extern "C"`, parts under a condition.
CONTAINERS = {
    "translation_unit", "namespace_definition", "linkage_specification", "declaration_list",
    "preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif", "preproc_elifdef",
}  # fmt: skip
DEFINITIONS = {
    "function_definition", "declaration", "template_declaration", "template_instantiation",
    "type_definition", "alias_declaration", "struct_specifier", "class_specifier",
    "union_specifier", "enum_specifier", "using_declaration", "namespace_alias_definition",
    "static_assert_declaration", "expression_statement", "ERROR",
}  # fmt: skip
NAMES = {"identifier", "type_identifier", "namespace_identifier", "field_identifier"}
# Others with a name in a field: of a specialisation its template's.
NAMED = {"alias_declaration", "namespace_alias_definition", "template_type", "template_function"}
TYPES = {"struct_specifier", "class_specifier", "union_specifier", "enum_specifier"}
# Of what a name is a part that is declared elsewhere.
USES = re.compile(r"\w+_(?:expression|statement)|\w*argument_list|kernel_call_syntax|init\w+_list")
OWN_VARIABLES = ("parameter_declaration", "declaration", "field_declaration")
# A member that is none of each object's own: a function, a type, or one for all.
SHARED_MEMBER = re.compile(r"(?:static|using|typedef|friend|template)\b|[^=]*\(")
GOES_ON = re.compile(r"[^;{}]*\b(?:blockDim|gridDim)\b[^;{})]*[;)]")  # over a grid
DIFFERENCE = re.compile(r"\b(\w+)\s*=(?!=)[^;]*[\w)\]]\s*-(?![->=])[^;]*;")
SUBSCRIPT = re.compile(r"\[[^\[\]]*\]")
# The index of a thread or block along one axis, or of a warp.
ONE_COORDINATE = re.compile(
    r"(?=.*Idx)(?!.*threadIdx\.x\s*\*.*\+\s*blockIdx\.x\s*$)"  # a row and a column
    r"(?:[\s()*+\d]|blockIdx\.(?:x|y(?!.*Idx\.x))|blockDim\.[xyz]|threadIdx\.[xyz]"
    r"|\w*(?:TILE|BLOCK|THREAD|WARPS|ROWS)\w*|\b[TB]\b|/\s*(?:32|warpSize|WARP_SIZE)\b)+"
)
CAST = re.compile(r"\bstatic_cast\s*<[^<>]*>|\(\s*(?:unsigned|int|size_t)\s*\)")
SAYS_GRAM = re.compile(r"(?:^|_)[ds]?(?:gram|Gram|syrk|ata|AtA|ATA)(?![a-z]|_?[sS]chmidt)")
VECTOR = re.compile(r"(?<![a-z])(?:[vV]ec(?:tor)?|[fF]ilter|[kK]ernel|[mM]ask)(?![a-z])")
# What a declaration in shared memory says beside its type.
NO_TYPE = re.compile(r"\b(?:extern|__shared__)\b|\b(?:__align__|alignas)\s*\([^()]*\)")


@dataclass(frozen=True)
class TemplateParameter:
    """kind: `typename`, or the type of a value. default: its text, or nothing."""

    name: str
    kind: str
    default: str

    @property
    def is_type(self) -> bool:
        return self.kind == "typename"


@dataclass(frozen=True)
class Declared:
    """A parameter of a function, or a member of a type. type: without const. pointers: how many
    stars, or empty brackets, its name has. extents: of the rows that it points to. constant:
    whether what it points to is. text: all of it, in one line."""

    name: str
    type: str
    pointers: int
    extents: tuple[str, ...]
    constant: bool
    text: str


@dataclass(frozen=True)
class Kernel:
    """A kernel as its source declares it. scope: its namespaces, each with `::`. bounds: the
    threads of __launch_bounds__, as it is written, or nothing. line: of its name."""

    name: str
    scope: str
    template: tuple[TemplateParameter, ...]
    parameters: tuple[Declared, ...]
    bounds: str
    line: int
    body: str
    node: Node = field(repr=False)

    def leaves(self, name: str) -> bool:
        """Whether it never uses a parameter of this name."""
        return not re.search(rf"\b{re.escape(name)}\b", self.body) or self.declares(name)

    def declares(self, name: str) -> bool:
        """Whether it has a variable of this name."""
        return bool(re.search(rf"\b(?!return\b)[A-Za-z_]\w*\s+{name}\s*[=;,{{\[]", self.body))

    @property
    def conditions(self) -> str:
        """The conditions of its `for` loops."""
        return " ".join(re.findall(r"\bfor\s*\([^{}]*?;([^;]*);", self.body))

    @property
    def path(self) -> str:
        """Its name as code outside its namespaces writes it."""
        return self.scope + self.name


def parse(text: str) -> Node:
    """The root of a source's tree."""
    known = UNKNOWN_WORDS.sub(lambda found: blank(found[0]), text)
    known = CONDITION_IN_STRINGS.sub(lambda found: found[1] + blank(found[2]), known)
    known = TWO_HEADS.sub(lambda found: blank(found[1]) + found[2] + blank(found[3]), known)
    return PARSER.parse(re.sub(r"[^\x00-\x7f]", "_", known).encode("ascii")).root_node


def blank(text: str) -> str:
    """White space with the same lines."""
    return re.sub(r"[^\n]", " ", text)


def walk(node: Node, outside: Sequence[str] = ()) -> Iterator[Node]:
    """The node and all below it, but what is in nodes of some types, in the order of the text."""
    ahead = [node]
    while ahead:
        yield (one := ahead.pop())
        ahead += (child for child in reversed(one.children) if child.type not in outside)


def of_type(node: Node, *types: str) -> Iterator[Node]:
    return (one for one in walk(node) if one.type in types)


def around(node: Node, *types: str) -> Iterator[Node]:
    """The nodes of these types around a node, the nearest first."""
    while node := node.parent:  # type: ignore[assignment]
        if node.type in types:
            yield node


def text_of(node: Node | None, text: str) -> str:
    return text[node.start_byte : node.end_byte] if node else ""


def part(node: Node, name: str, text: str) -> str:
    """The text of a field of a node; nothing without it."""
    return text_of(node.child_by_field_name(name), text)


def texts(node: Node | None, text: str) -> tuple[str, ...]:
    """The named parts of a list in brackets."""
    parts = node.named_children if node else []
    return tuple(text_of(one, text) for one in parts if one.type != "comment")


def line_of(node: Node) -> int:
    return int(node.start_point.row) + 1


def kernels(root: Node, text: str) -> Iterator[Kernel]:
    """Every kernel with a body. One whose only line lacks its semicolon is a declaration with a
    list of values for the grammar."""
    for mark in of_type(root, "__global__"):
        whole = mark.parent
        if not whole or whole.type not in ("function_definition", "declaration"):
            continue
        head = next(of_type(whole, "function_declarator"), None)
        body = next(of_type(whole, "compound_statement", "initializer_list"), None)
        if not head or not body:
            continue
        name = declared_names(head)[0]
        yield Kernel(
            text_of(name, text), scope_of(whole, text),
            tuple(template_parameters(next(around(whole, "template_declaration"), None), text)),
            tuple(declared(head.child_by_field_name("parameters"), text)),
            (texts(next(of_type(whole, "launch_bounds"), None), text) or ("",))[0], line_of(name),
            text[body.start_byte + 1 : body.end_byte - 1], whole,
        )  # fmt: skip


def declared(listed: Node | None, text: str) -> Iterator[Declared]:
    """The parameters or members of a list."""
    for one in listed.named_children if listed else ():
        if "declaration" not in one.type or text_of(one, text) == "void":
            continue
        constant = any(text_of(child, text) == "const" for child in one.children)
        told = re.sub(r"\s+", " ", text_of(one, text)).rstrip("; ")
        for node in one.children_by_field_name("declarator") or [one]:
            kinds = [*of_type(node, "pointer_declarator", "abstract_pointer_declarator",
                              "array_declarator")]  # fmt: skip
            arrays = [one for one in kinds if one.type == "array_declarator"]
            extents = [part(array, "size", text) for array in reversed(arrays)]
            stars = len(kinds) - len(arrays)
            if extents and not stars:  # `float A[N][N]` is a pointer to rows
                stars, extents = 1, extents[1:]
            name = next(iter(declared_names(node)), None)
            kind = part(one, "type", text)
            yield Declared(text_of(name, text), kind, stars, tuple(extents), constant, told)


def types(root: Node, text: str) -> dict[str, str]:
    """The types that typedef and using give another name, by that name; but not those that are
    defined there."""
    found: dict[str, str] = {}
    for one in of_type(root, "type_definition", "alias_declaration"):
        kind = one.child_by_field_name("type")
        if kind and not kind.child_by_field_name("body"):
            for name in declared_names(one):  # and the extents of `typedef float row[N]`
                rows = re.findall(r"^(?:\s*\[[^]]*\])*", text[name.end_byte :])
                found[text_of(name, text)] = written(kind, text) + rows[0]
    return found


def written(kind: Node, text: str) -> str:
    """The name of a type, with its template's arguments and without the word `struct`."""
    name = part(kind, "name", text)
    return name if name and kind.type in TYPES else text_of(kind, text)


@dataclass(frozen=True)
class Struct:
    """A struct or class. template: the names of its template's parameters; members: those that each
    object has."""

    template: tuple[str, ...]
    members: tuple[Declared, ...]


def structs(root: Node, text: str) -> dict[str, Struct]:
    """Each struct or class, by its name, or that which a typedef gives it."""
    found = {}
    for one in of_type(root, "struct_specifier", "class_specifier"):
        outer = one.parent if one.parent and one.parent.type == "type_definition" else one
        around_it = one.parent if one.parent and one.parent.type == "template_declaration" else None
        template = tuple(each.name for each in template_parameters(around_it, text))
        for name in declared_names(outer):
            body = one.child_by_field_name("body")
            if body:
                members = tuple(m for m in declared(body, text) if not SHARED_MEMBER.match(m.text))
                found[text_of(name, text)] = Struct(template, members)
    return found


def scope_of(node: Node, text: str) -> str:
    """The namespaces and types around a node, each with `::` behind it; one without a name is
    none."""
    names = [part(one, "name", text) for one in around(node, "namespace_definition", *TYPES)]
    return "".join(f"{name}::" for name in reversed(names) if name)


def scopes(scope: str) -> list[str]:
    """A scope and those around it, the innermost first, and that of no name."""
    names = scope.split("::")[:-1]
    return ["".join(f"{name}::" for name in names[:i]) for i in range(len(names), -1, -1)]


def template_parameters(template: Node | None, text: str) -> Iterator[TemplateParameter]:
    listed = template.child_by_field_name("parameters") if template else None
    for one in listed.named_children if listed else ():
        if one.type == "comment":
            continue
        default = part(one, "default_value", text) or part(one, "default_type", text)
        if one.type.endswith("type_parameter_declaration"):
            name = next(of_type(one, "type_identifier"), None)
            yield TemplateParameter(text_of(name, text), "typename", default)
        else:
            name = next(iter(declared_names(one)), None)
            yield TemplateParameter(text_of(name, text), part(one, "type", text), default)


def adds_products(kernel: Kernel, root: Node, text: str) -> bool:
    """Whether a kernel of a tree looks like a product of matrices: a loop adds products, or calls a
    function that may, or a function of the file that it calls does."""
    if not takes_matrices(kernel):
        return False
    loops = loops_of(kernel.node, text)
    names = "|".join(one.name for one in kernel.parameters if one.pointers) or "-"
    codes = [re.sub(rf"\b(?:{names})\s*\+=[^;\[]*;", "", one) for one in loops]  # these go on
    repeated, called = (re.findall(r"\w+", one) for one in (" ".join(codes), kernel.body))
    for one in of_type(root, "function_definition"):
        name = "".join(text_of(each, text) for each in declared_names(one)[-1:])
        if name in repeated or (name in called and name != kernel.name):
            codes += [text_of(one, text)] if name in repeated else loops_of(one, text)
    return any(map(sums_products, codes)) or "mma" in text_of(kernel.node, text)


def writes_vector(kernel: Kernel) -> bool:
    """Whether a kernel of three pointers has the name of a matrix and a vector, or one coordinate
    of its threads or blocks tells the elements apart that it writes, and it has no other one, or
    one thread of several writes."""
    pointers = [one.name for one in kernel.parameters if one.pointers]
    place, adds = "|".join(pointers) or "-", r"\batomicAdd\s*\(\s*&([^,]*),"
    body = re.sub(adds, r"\1 = ", kernel.body)
    stored = re.findall(rf"\b(?:{place})\s*\[\s*([^][]*?)\s*\]\s*\+?=(?!=)", body)
    axes = {*re.findall(r"\b(?:threadIdx|blockIdx)\s*\.\s*([xyz])", body)}
    several = len(axes) > 1 and body == kernel.body and not re.search(r"==\s*0\s*\)", body)
    goes_on = re.search(rf"\b(?:{place})\s*\+?=(?!=)", body)
    told = dict(re.findall(r"\b(\w+)\s*=([^;=]*);", body))
    parts = {*re.findall(r"\b(\w+)\s*(?:[/%]|>>|&[^&])", body)}  # of which each is two coordinates
    places = [CAST.sub("", told.get(told.get(one, one).strip(), told.get(one, one)))
              for one in stored]  # fmt: skip
    alone = (ONE_COORDINATE.fullmatch(place) and one not in parts
             for one, place in zip(stored, places, strict=True))  # fmt: skip
    called = re.search(r"[mM]at(?:rix)?_?[vV]ec(?!torized|\d)", kernel.name)
    along = bool(stored) and not (several or goes_on) and all(alone)
    return len(pointers) > 2 and bool(called or along)


def places_of(matrix: str, kernel: Kernel) -> set[str]:
    """The texts of the indices at which a kernel reads or writes a matrix."""
    return {*re.findall(rf"\b{re.escape(matrix)}\s*\[([^][]*)\]", kernel.body)}


def may_be_product(kernel: Kernel) -> bool:
    """Whether a kernel takes matrices, and does not go through three of them at one and the same
    place that moves, as a sum by elements does."""
    names = [one.name for one in kernel.parameters if one.pointers]
    places = [places_of(name, kernel) for name in names]
    found = set[str]().union(*places) if len(names) > 2 and all(places) else set[str]()
    by_elements = len(found) == 1 and not found.pop().isdecimal()
    distance = without_squares(kernel.body) != kernel.body
    return takes_matrices(kernel) and not (by_elements or distance)


def loops_of(node: Node, text: str) -> list[str]:
    """The bodies of the loops in a node."""
    return [part(one, "body", text) for one in of_type(node, *LOOPS)]


def loops_around(node: Node, line: int) -> list[Node]:
    """The loops in a node that a line is a part of, the outermost first."""
    return [one for one in of_type(node, *LOOPS) if line_of(one) <= line <= one.end_point.row + 1]


def sums_products(code: str) -> bool:
    """Whether code that is repeated adds products, or calls what may."""
    inside = GOES_ON.sub("", flattened(without_squares(code)))
    adds = r"\+=|(?<![\w.])(\w+)\s*=(?=[^;=]*\b\1\b)[^;=]*\+"
    sums = re.search(adds, inside) and re.search(r"[\w)]\s*\*\s*[\w(]|mul\w*\s*\(", inside)
    return bool(sums or re.search(r"fma(?!x)|FMA|dot|\bmad", inside))


def flattened(code: str) -> str:
    """Code without subscripts."""
    while (flat := SUBSCRIPT.sub("", code)) != code:
        code = flat
    return code


def without_squares(code: str) -> str:
    """Code without squares of differences, as a distance has them: of one in brackets, or of a
    variable."""
    names = "|".join(DIFFERENCE.findall(flattened(code))) or "$^"
    own = rf"(?:\w*fma\w*\s*\(\s*)?\b({names})\s*[*,]\s*\2\b"
    return re.sub(rf"(\([^()]*-[^()]*\))\s*\*\s*\1|{own}", "", code)


def takes_matrices(kernel: Kernel) -> bool:
    """Whether a kernel may take matrices to multiply: none is called a vector or a
    filter, or written like one, and one alone is read at two places at least, as AᵀA is, or by a
    function."""
    pointers = [one for one in kernel.parameters if one.pointers]
    names = {one.name for one in pointers}
    apart = places_of("x", kernel) != places_of("y", kernel)
    vectors = {"x", "y"} <= names and not (names == {"x", "y", "z"} and apart)
    if any(map(VECTOR.search, names)) or vectors or writes_vector(kernel):
        return False
    if len(pointers) != 2:
        return True
    name = min(pointers, key=lambda one: not one.constant).name
    passed_on = re.search(rf"\w\s*\([^;]*\b{name}\s*[,)]", kernel.body)
    return bool(passed_on) or len(re.findall(rf"\b{name}\b", kernel.body)) > 1


def fragment_extents(kernel: Kernel) -> set[str]:
    """The words among the arguments of its tensor-core fragments."""
    return {word for inside in re.findall(r"\bfragment\s*<([^;]*?)>\s*\w", kernel.body)
            for word in re.findall(r"\w+", inside)}  # fmt: skip


def dynamic_arrays(kernel: Kernel, text: str) -> list[tuple[str, str, str, Node]]:
    """Name, type, extents of the rows and declaration of each `extern __shared__` array of a
    kernel."""
    found = []
    for one in of_type(kernel.node, "declaration"):
        bare = NO_TYPE.sub(" ", text_of(one, text))
        declared = re.fullmatch(r"\s*(\S.*?)\s*\b(\w+)\s*\[\s*\]([^;=]*);", bare, re.DOTALL)
        if declared and re.match(r"extern\b.*\b__shared__\b", text_of(one, text), re.DOTALL):
            found.append((declared[2], declared[1], declared[3].strip(), one))
    return found


def launch_of(call: Node) -> Node | None:
    """The `<<<...>>>` of a call that launches a kernel."""
    return next((one for one in call.children if one.type == "kernel_call_syntax"), None)


def launchers(root: Node, text: str) -> dict[str, Node | None]:
    """The host function around the first launch of each kernel, by the kernel's name."""
    found: dict[str, Node | None] = {}
    for mark in of_type(root, "kernel_call_syntax"):
        called = text_of(mark.parent, text).strip("( ") if mark.parent else ""
        name = re.split("<|[)]", called)[0].split("::")[-1].strip()
        found.setdefault(name, next(around(mark, "function_definition"), None))
    return found


def instantiations(root: Node, text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Name and arguments of each template of functions that is instantiated, or a variable is, or
    that a macro names with what its first use gives it."""
    for one in of_type(root, "preproc_function_def"):
        used = re.search(rf"(?m)^(?!\s*#).*?\b{part(one, 'name', text)}[ \t]*\(([^()]*)\)", text)
        names = texts(one.child_by_field_name("parameters"), text)
        told = dict(zip(names, re.split(r"\s*,\s*", used[1]) if used else (), strict=False))
        for name, given in re.findall(r"\b(\w+)\s*<([^<>()]+)>", part(one, "value", text)):
            if told:
                yield name, tuple(told.get(word, word) for word in re.split(r"\s*,\s*", given))
    for one in of_type(root, "init_declarator", "template_instantiation"):
        if function := next(of_type(one, "template_function"), None):
            name = part(function, "name", text)
            yield name, texts(function.child_by_field_name("arguments"), text)


@cache
def constants(node: Node, text: str) -> dict[str, str]:
    """The values of the variables and enumerators that a node declares with one, outside of
    functions within it; of a name that is declared twice, the first. Those of namespaces in a file
    have them before their names, too, and static ones of structs only so. `dim3 block(X, Y)`
    declares a function for the grammar, whose parameters have no names."""
    found: dict[str, str] = {}
    bare: dict[str, str] = {}
    kinds = {"enumerator": "name", "init_declarator": "declarator",
             "function_declarator": "declarator", "field_declaration": "declarator"}  # fmt: skip
    for one in walk(node, outside=("function_definition", "lambda_expression")):
        name, listed = kinds.get(one.type), one.child_by_field_name("parameters")
        value = part(one, "value", text) or text_of(listed, text)
        if member := one.type == "field_declaration":
            own = "static" in text_of(one, text) and not any(around(one, "template_declaration"))
            value = part(one, "default_value", text) if own else ""
        if name and value and not (listed and any(map(declared_names, listed.named_children))):
            declared = re.sub(r"^\(\s*\*\s*(\w+).*", r"\1", part(one, name, text))
            declared = declared.partition("[")[0]
            if not member:
                bare.setdefault(declared, value)
            found.setdefault(("" if node.parent else scope_of(one, text)) + declared, value)
    return bare | found


def macros(root: Node, text: str) -> dict[str, str]:
    """The replacements of macros, by name; of those with arguments `name()`. Of several for a name
    the last of which the conditions hold."""
    found: dict[str, str] = {}
    for one in of_type(root, "preproc_def", "preproc_function_def"):
        name = part(one, "name", text) + ("" if one.type == "preproc_def" else "()")
        value = re.sub(r"//.*|/\*.*?\*/", "", part(one, "value", text))
        if name not in found or holds(one, root, text):
            found[name] = value.strip()
    return found


def holds(node: Node, root: Node, text: str) -> bool:
    """Whether the `#ifdef` and `#ifndef` around a node hold, by what CUDA and the same
    file define before them, and `#if` of a number."""
    for one in around(node, "preproc_ifdef", "preproc_if"):
        name, otherwise = part(one, "name", text), one.child_by_field_name("alternative")
        condition = part(one, "condition", text)
        if one.type == "preproc_if" and not condition.isdecimal():
            continue
        before = [part(each, "name", text) for each in of_type(root, "preproc_def")
                  if each.start_byte < one.start_byte]  # fmt: skip
        defined = int(condition or 0) > 0 or name in ("__CUDACC__", *before)
        wanted = bool(condition) or text_of(one.children[0], text) == "#ifdef"
        if otherwise and otherwise.start_byte <= node.start_byte < otherwise.end_byte:
            wanted = not wanted
        if defined != wanted:
            return False
    return True


def definitions(node: Node) -> Iterator[Node]:
    """The definitions of a source, those within namespaces and conditions among them."""
    for child in node.children:
        body = child.child_by_field_name("body")
        of_one = child.type == "linkage_specification" and body and body.type in DEFINITIONS
        if child.type in DEFINITIONS or of_one:
            yield child
        elif child.type in CONTAINERS:
            yield from definitions(child)


def declared_names(node: Node) -> list[Node]:
    """The nodes of the names that a definition, or a part of one, declares."""
    if node.type in NAMES:
        return [node]
    if node.type in ("qualified_identifier", "using_declaration"):
        return [*of_type(node, *NAMES)][-1:]
    if node.type in ("ERROR", "expression_statement"):
        return [*of_type(node, *NAMES)]
    if node.type in ("template_declaration", "linkage_specification"):
        parts = [one for one in node.children if one.type in DEFINITIONS]
    else:
        parts = node.children_by_field_name("declarator")
        parts += [one for one in node.children_by_field_name("type") if one.type in TYPES]
    if node.type in ("reference_declarator", "parenthesized_declarator", "variadic_declarator"):
        parts += node.named_children
    if node.type in TYPES | NAMED:
        parts += filter(None, [node.child_by_field_name("name")])
    if node.type == "enum_specifier":
        parts += [one.children[0] for one in of_type(node, "enumerator")]
    return [name for one in parts for name in declared_names(one)]


def named(root: Node, text: str) -> set[str]:
    """The names that are declared anywhere, or may be: by macros."""
    found = set[str]()
    for node in of_type(root, "identifier", "field_identifier", "preproc_arg"):
        kind = node.parent.type if node.parent else ""
        begins = kind == "init_declarator" and node == value_of(node.parent)
        macro = next(around(node, "call_expression"), None) if kind == "argument_list" else None
        by_macro = macro and part(macro, "function", text).isupper()
        if by_macro or not (begins or USES.fullmatch(kind)) or node.type == "preproc_arg":
            found |= {*re.findall(r"\w+", text_of(node, text))}
    return found


def is_used(node: Node, text: str) -> bool:
    """Whether a name, of no function, stands in the `<<<...>>>` of a launch, in what a dim3 begins
    with, or alone as what a variable begins with."""
    declares = next(around(node, "declaration"), None)
    of_dim3 = declares and part(declares, "type", text) == "dim3"
    called = node.parent and node.parent.child_by_field_name("function") == node
    extents = next(around(node, "kernel_call_syntax"), None)
    return not called and bool(extents or of_dim3 or value_of(node.parent) == node)


def value_of(node: Node | None) -> Node | None:
    """What a declaration's variable begins with."""
    return node.child_by_field_name("value") if node else None


def without_comments(root: Node, text: str) -> str:
    """The text with comments blank, and what is in quotes, at the same places."""
    chars = list(text)
    kinds = ("comment", "string_literal", "char_literal", "raw_string_literal")
    places = [(one.start_byte, one.end_byte) for one in of_type(root, *kinds)]
    for one in of_type(root, "preproc_arg"):
        if (found := text_of(one, text).find("//")) >= 0:
            places.append((one.start_byte + found, one.end_byte))
    for start, end in places:
        chars[start:end] = blank(text[start:end])
    return "".join(chars)
