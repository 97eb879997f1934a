"""The host program of a hand-in, as far as whole numbers go: what it launches at given sizes.

It is read, not run: an interpreter goes through the function that launches the kernel, with other
sizes in the place of its own. What it does not know, such as a pointer, is None and stays so.
"""

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from typing import Any

from tree_sitter import Node

from matmul_sweep.classroom import syntax
from matmul_sweep.classroom.source import WORD, Source, stand_ins
from matmul_sweep.classroom.syntax import Kernel, line_of, text_of, texts
from matmul_sweep.operations.dtypes import DTYPES

OF_CARD = re.compile(r"(?:\.|->)major$")  # the compute capability of a program's card, which is
MAJOR, OLD_CARDS = 8, range(7)  # beyond those of no card of today
MOST_STEPS = 20_000  # of a program, before it is given up
MOST_CALLS = 4  # of a function that are followed
# A condition that no size decides, such as one of a choice by the command line.
FLAG = re.compile(r"\(\s*!?\s*\w+\s*(?:[=!<>]=?\s*\d+\s*)?\)")
LOOP_STEPS = 600  # of a loop, before it is left: it fills matrices, and says nothing of a launch
NOT_KNOWN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
Extents = tuple[int, int, int]
Value = int | float | Extents | None
BYTES = {name: dtype.bytes for dtype in DTYPES.values() for name in dtype.names}
BYTES |= {"char": 1, "size_t": 8, "float2": 8, "float4": 16, "unsigned": 4}


def shifted(a: int, b: int) -> int | None:
    return a << b if b < 64 else None


def divided(a: float, b: float) -> float:
    return int(a / b) if isinstance(a, int) and isinstance(b, int) else a / b


BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": divided, "%": math.fmod,
    "<<": shifted, ">>": operator.rshift, "&": operator.and_, "|": operator.or_,
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "&&": lambda a, b: bool(a) and bool(b),
    "||": lambda a, b: bool(a) or bool(b),
}  # fmt: skip
DECIDES = {"||": True, "&&": False}
UNARY: Mapping[str, Callable[[Any], Any]] = {
    "-": operator.neg, "+": operator.pos, "!": operator.not_, "~": operator.invert,
}  # fmt: skip
KNOWN: Mapping[str, Callable[..., Value]] = {
    "ceil": lambda a: float(math.ceil(a)), "ceilf": lambda a: float(math.ceil(a)),
    "floor": lambda a: float(math.floor(a)), "floorf": lambda a: float(math.floor(a)),
    "min": min, "max": max, "fmin": min, "fmax": max, "sqrt": math.sqrt, "sqrtf": math.sqrt,
    "abs": abs, "ceil_div": lambda a, b: -(-a // b),
}  # fmt: skip
# What programs call ceil_div, whose header may be missing.
ROUNDED_UP = re.compile(r"(?i)(?:ceil|up)_?div|c_?div|i?_?div_?(?:round_?)?up")
MEMBER = re.compile(r"\w+(?:\.|->)\w+|&.*")
ADDRESS = re.compile(r"[(,]\s*(?:\([^()]*\)\s*)?&\s*([A-Za-z_]\w*)\s*(?=[,)])")
WHOLE = re.compile(
    r"(?:std::)?(?:unsigned|signed|size_t|(?:u_?)?(?:int\d+_t|int|long|short|char)|\s)+"
)


class Found(Exception):
    """The launch, which ends the reading."""


@dataclass
class Returned(Exception):
    """A function's value."""

    value: Value = None


class TooLong(Exception):
    """A program that is not at its launch after MOST_STEPS."""


@dataclass(frozen=True)
class Launched:
    """A launch of the host program. grid, block: None where they are not known; shared: its
    dynamic bytes. arguments: their texts; values: theirs; members: of structs, theirs,
    and `&a` for the bytes that cudaMalloc gave a pointer.
    commas: grid and block as they are written, if they are comma expressions, else nothing. lines:
    where the launch is, and where the variables of its grid, its block and its shared bytes are."""

    grid: Extents | None
    block: Extents | None
    shared: int | None
    template: tuple[str, ...]
    arguments: tuple[str, ...]
    values: tuple[Value, ...]
    members: Mapping[str, Value]
    commas: tuple[str, ...]
    lines: tuple[int, int, int, int]


@dataclass
class Frame:
    """The variables of a function under way, and where each was given its value; template types;
    the dim3 that begin with a comma expression; its namespaces, each with `::`. given: what its
    variables begin with, as it is written, and kernels that they were given since."""

    variables: dict[str, Value] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    commas: dict[str, str] = field(default_factory=dict)
    scope: str = ""
    given: dict[str, str] = field(default_factory=dict)


def extents_of(value: Value | Sequence[Value]) -> Extents | None:
    """A dim3 of a number or of several."""
    sides = list(value) if isinstance(value, (tuple, list)) else [value]
    if not sides or len(sides) > 3 or any(side is None for side in sides):
        return None
    x, y, z, *_ = (*(int(side) for side in sides), 1, 1)  # type: ignore[arg-type]
    return x, y, z


@cache
def parsed(text: str) -> Node:
    """The statements of a text, as a function's body."""
    root = syntax.parse(f"void f(){{{text}}}")
    return next(syntax.of_type(root, "compound_statement"), root)


class Host:
    """Reads the host program around a kernel."""

    def __init__(self, source: Source, kernel: Kernel, sizes: Mapping[str, int]) -> None:
        """sizes: in the place of variables, macros and the like of these texts."""
        self.source, self.kernel, self.sizes = source.host, kernel, sizes
        self.steps = self.loops = self.doubts = 0
        self.frames: list[Frame] = []
        self.text = self.source.text
        self.found: Launched | None = None
        self.forced = False  # whether what a name that is false keeps from running runs
        self.goal: Node | None = None  # a call, before which the reading ends
        self.arrivals: dict[int, Frame | None] = {}

    def launch(self) -> Launched | None:
        """The kernel's first launch, on whole matrices if there is one; None if the program has
        none, or it is not found. One that a name which is false keeps from running counts if the
        program has no other at its own sizes."""
        found, own = self.search(), Host(self.source, self.kernel, {}) if self.sizes else self
        if found or (own is not self and own.search()):
            return found
        self.forced = True
        return self.search()

    def search(self) -> Launched | None:
        """The same by one reading. It is called without words, or else with any, which are sizes; a
        function as in each of its calls, until one gets there."""
        none: list[Node | None] = [None]
        each = ((one, call) for one in self.starts for call in self.calls_of(one) or none)
        for (function, call), words in product(each, (1, None)):
            if words is None and not parameters_of(function):
                continue
            self.steps = self.doubts = 0
            with suppress(Found, Returned, TooLong, RecursionError, *NOT_KNOWN):
                self.frames = [self.frame_of(function, words, call)]
                for declaration in self.extents_outside:
                    self.run(declaration)
                self.run(function.child_by_field_name("body"))
            if self.found and self.is_whole(self.found):
                break
        return self.found

    def is_whole(self, launched: Launched) -> bool:
        """Whether a launch has whole matrices, and not such as `A + start`."""
        pairs = zip(self.kernel.parameters, launched.arguments, strict=False)
        return not any(one.pointers and "+" in text for one, text in pairs)

    # ---- Where it begins --------------------------------------------------------------------

    @property
    def starts(self) -> Iterator[Node]:
        """The functions that name the kernel."""
        return (
            one
            for one in self.source.functions
            if self.names_kernel(text_of(one, self.source.bare))
        )

    def names_kernel(self, text: str) -> bool:
        return bool(stand_ins(self.source, self.kernel.name).search(text))

    @property
    def given(self) -> dict[str, str]:
        return self.frames[-1].given if self.frames else {}

    def kernel_in(self, text: str) -> str:
        """What a text stands for that names the kernel: itself, or what its words were given; or
        nothing."""
        own = re.compile(rf"\b{re.escape(self.kernel.name)}\b")
        ahead, seen = [text], set[str]()
        while ahead:
            if own.search(one := ahead.pop()):
                return one
            words = {*WORD.findall(one)} - seen
            seen |= words
            ahead += [self.given.get(one) or self.source.standing.get(one, "") for one in words]
        return ""

    def meant(self, node: Node) -> str:
        """The text of a kernel, or of that which an array has at a known place."""
        text, name = text_of(node, self.text), syntax.part(node, "argument", self.text)
        if node.type == "subscript_expression" and not self.forced:
            inside, *_ = self.list_of(next(syntax.of_type(node, "subscript_argument_list"), None))
            listed = f"auto x = {self.given.get(name) or self.source.standing.get(name, '')};"
            found = next(syntax.of_type(parsed(listed), "initializer_list"), None)
            if isinstance(inside, int) and found:
                return texts(found, f"void f(){{{listed}}}")[inside]
        return text

    def give(self, name: str, text: str, more: bool = False) -> None:
        """Let a variable hold a kernel, and what it may have held before if there are more."""
        if (held := self.kernel_in(text)) or name in self.given:
            before = self.given.get(name, "") if more or self.doubts else ""
            self.given[name] = f"{before}, {held}".strip(", ")

    @property
    def extents_outside(self) -> Iterator[Node]:
        """Declarations of dim3 outside of functions."""
        outside = (one for one in self.source.tree.children if one.type == "declaration")
        return (one for one in outside if syntax.part(one, "type", self.text) == "dim3")

    @cached_property
    def by_name(self) -> Mapping[str, tuple[Node, str]]:
        """The functions of the program and of the headers beside it, but one that has the kernel's
        name, each with the text that it is a part of."""
        named = ((syntax.declared_names(one), one, source.text)
                 for source in self.source.sources
                 for one in source.functions)  # fmt: skip
        return {name: (one, text) for names, one, text in named
                if names and (name := text_of(names[-1], text)) != self.kernel.name}  # fmt: skip

    def name_of(self, function: Node) -> str:
        return "".join(text_of(one, self.text) for one in syntax.declared_names(function)[-1:])

    def calls_of(self, function: Node) -> list[Node]:
        """The first calls of a function in the file."""
        calls, name = self.source.nodes["call_expression"], self.name_of(function)
        called = (one for one in calls if self.called(one, self.text) == name)
        return [one for one in called if not syntax.launch_of(one)][:MOST_CALLS]

    def frame_of(self, function: Node, words: int | None, call: Node | None) -> Frame:
        """A function's parameters, with what a call in the file gives them. words: how many the
        program is called with, its name among them."""
        scope = syntax.scope_of(function, self.text)
        frame, name = Frame(scope=scope), self.name_of(function)
        frame.given |= self.source.constants_of(function)
        template = next(iter(syntax.around(function, "template_declaration")), None)
        holders = syntax.template_parameters(template, self.text)
        caller = next(syntax.around(call, "function_definition"), None) if call else None
        constants, arrived = self.source.constants_of(caller), self.arrival(call, caller)
        self.frames = [arrived or Frame(scope=scope)]
        frame.variables |= self.members_at(call)
        self.frames = [Frame(scope=scope)]
        given = next(syntax.of_type(call, "template_argument_list"), None) if call else None
        values = texts(given, self.text) if given else self.source.instantiations.get(name, ())
        small = self.made_small(function)
        for i, one in enumerate(holders):
            said = values[i] if i < len(values) else one.default
            said = small.get(one.name, said)
            held = self.read_in(arrived, said)
            said = constants.get(said, said)
            frame.types[one.name] = arrived.types.get(said, said) if arrived else said
            frame.variables[one.name] = self.read(said) if held is None else held
        arguments = call.child_by_field_name("arguments") if call else None
        passed = texts(arguments, self.text)
        for i, parameter in enumerate(parameters_of(function)):
            names = syntax.declared_names(parameter)
            default = syntax.part(parameter, "default_value", self.text)
            said = passed[i] if i < len(passed) else default
            own = text_of(names[0], self.text) if names else ""
            begun, kind = constants.get(said, ""), syntax.part(parameter, "type", self.text)
            if "dim3" in kind and begun.startswith("("):
                if re.search(rf"\b{said}\s*=", text_of(caller, self.text)):
                    frame.commas[own] = begun
                else:
                    begun = f"dim3{begun}"
            held, text, said = self.read_in(arrived, said), said, begun or said
            count = name == "main" and i == 0
            if own and (said or count):
                frame.variables[own] = words if count else self.read(said) if held is None else held
            if arrived and own:
                copy_members(arrived, text.lstrip("&"), frame, own)
        return frame

    def members_at(self, call: Node | None) -> dict[str, Value]:
        """The members of the object of which a call has the function, as its caller has them."""
        function = call.child_by_field_name("function") if call else None
        of = function.child_by_field_name("argument") if function else None
        if of and (struct := self.source.structs.get(syntax.part(of, "type", self.text))):
            values = self.list_of(of.child_by_field_name("value"))
            names = (f"this->{one.name}" for one in struct.members)
            return dict(zip(names, values, strict=False))
        own = Frame()
        copy_members(self.frames[-1], text_of(of, self.text), own, "this")
        return own.variables

    def made_small(self, function: Node) -> dict[str, str]:
        """The values of a function's own template that were made small as the kernel's are."""
        values, text = dict(self.source.values), text_of(function, self.source.bare)
        found = re.search(rf"\b{self.kernel.name}\s*<([^<>;]*)>\s*<<<", text)
        given = map(str.strip, found[1].split(",")) if found else ()
        return {one: values[own.name] for one, own in zip(given, self.kernel.template, strict=False)
                if own.name in values}  # fmt: skip

    def arrival(self, call: Node | None, caller: Node | None) -> Frame | None:
        """The function around a call as it is when it gets there; None if it does not."""
        if not call or not caller or call.id in self.arrivals:
            return self.arrivals.get(call.id) if call else None
        self.arrivals[call.id] = None  # if it calls itself
        frame = self.frame_of(caller, 1, next(iter(self.calls_of(caller)), None))
        self.frames, self.goal = [frame], call
        with suppress(Found, Returned, TooLong, RecursionError, *NOT_KNOWN):
            self.run(caller.child_by_field_name("body"))
        self.goal, self.steps, self.loops, self.doubts = None, 0, 0, 0
        return self.arrivals[call.id]

    def read_in(self, frame: Frame | None, text: str) -> Value:
        """The value of an expression in a function under way."""
        own, self.frames = self.frames, [frame] if frame else []
        value = self.read(text) if frame and text else None
        self.frames = own
        return value

    def leads_on(self, node: Node) -> bool:
        """Whether the call at which the reading ends is in a node."""
        here = self.goal if self.text == self.source.text else None
        return bool(here and node.start_byte <= here.start_byte < node.end_byte)

    # ---- Statements -------------------------------------------------------------------------

    def run(self, node: Node | None) -> None:
        if node is None:
            return
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooLong
        with suppress(*NOT_KNOWN):
            getattr(self, f"run_{node.type}", self.run_parts)(node)

    def run_parts(self, node: Node) -> None:
        for child in node.named_children:
            self.run(child)

    def run_declaration(self, node: Node) -> None:
        kind = syntax.part(node, "type", self.text)
        for one in node.children_by_field_name("declarator"):
            declarator, value = one, None
            if one.type == "init_declarator":
                declarator = one.child_by_field_name("declarator") or one
                value = one.child_by_field_name("value")
            names = syntax.declared_names(declarator)
            if not names:
                continue
            listed: Value | list[Value] = None
            if declarator.type == "function_declarator":  # dim3 block(T, T) looks like one
                listed = [
                    self.read(text)
                    for text in texts(declarator.child_by_field_name("parameters"), self.text)
                ]
            elif value is not None:
                if kind == "dim3" and is_comma(value):
                    self.frames[-1].commas[text_of(names[0], self.text)] = text_of(value, self.text)
                listed = self.list_of(value) if value.type in LISTS else self.value(value)
            elif kind == "dim3":
                listed = 1
            name = text_of(names[0], self.text)
            if value is not None:
                self.given[name] = self.meant(value)
            copy_members(self.frames[-1], text_of(value, self.text), self.frames[-1], name)
            if isinstance(listed, list) and text_of(value, self.text).startswith("{"):
                struct = self.source.structs.get(kind)
                for member, part in zip(struct.members if struct else (), listed, strict=False):
                    self.set(f"{name}.{member.name}", part, line_of(one))
            if declarator.type == "array_declarator" and isinstance(listed, list):
                for i, element in enumerate(listed):
                    self.set(f"{name}[{i}]", element, line_of(one))
            else:
                self.set(name, converted(kind, listed), line_of(one))

    def run_enumerator(self, node: Node) -> None:
        name = syntax.part(node, "name", self.text)
        self.set(name, self.value(node.child_by_field_name("value")), line_of(node))

    def run_expression_statement(self, node: Node) -> None:
        for child in node.named_children:
            # A function's call changes nothing that a launch depends on, unless it may launch, or
            # gets a variable to change.
            call = child.type == "call_expression" and self.called(child, self.text) in self.by_name
            if not call or self.hands_on(child) or self.leads_on(child) or self.changes(child):
                self.value(child)

    def changes(self, call: Node) -> bool:
        """Whether a function of the file gets a variable that it may change."""
        function, text = self.by_name[self.called(call, self.text)]
        given = "&" in syntax.part(call, "arguments", self.text)
        return given or any(is_changed(one, text) for one in parameters_of(function))

    def hands_on(self, call: Node) -> bool:
        """Whether a call has the kernel, or a variable with it, among its arguments or those of its
        template."""
        return bool(self.kernel_in(re.sub("^[^<(]*", "", text_of(call, self.text))))

    def run_if_statement(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        known = self.value(condition) if condition else None
        taken = ["consequence"] * (known is None or bool(known)) + ["alternative"] * (not known)
        if self.forced and condition and FLAG.fullmatch(text_of(condition, self.text)):
            naming = (one for one in ("consequence", "alternative")
                      if self.names_kernel(syntax.part(node, one, self.text)))  # fmt: skip
            taken = [*naming] or taken
        self.doubts += known is None
        for branch in taken:
            # What returns under a condition that is not known is the way out of an error, as what
            # returns before the call to which the reading goes.
            out = known is None or (self.goal is not None and not self.leads_on(node))
            with suppress(Returned) if out else nullcontext():
                self.run(node.child_by_field_name(branch))
        self.doubts -= known is None

    def run_switch_statement(self, node: Node) -> None:
        chosen = self.value(node.child_by_field_name("condition"))
        for case in node.named_children[-1].named_children:
            said = case.child_by_field_name("value")
            if None in (chosen, said) or self.value(said) == chosen:  # and what may follow from it
                with suppress(Returned):
                    self.run_parts(case)

    def run_catch_clause(self, node: Node) -> None:
        """Nothing goes wrong."""

    def run_for_statement(self, node: Node) -> None:
        begin = node.child_by_field_name("initializer")
        self.run(begin) if begin and begin.type == "declaration" else self.value(begin)
        self.loop(node, node.child_by_field_name("update"))

    run_while_statement = run_for_statement

    def run_for_range_loop(self, node: Node) -> None:
        """For the first value of a list."""
        begin, listed = (node.child_by_field_name(one) for one in ("declarator", "right"))
        values = self.list_of(listed) if listed and listed.type in LISTS else [None]
        self.set(text_of(begin, self.text), values[0], line_of(node))
        self.given[text_of(begin, self.text).strip("&* ")] = text_of(listed, self.text)
        self.run(node.child_by_field_name("body"))

    def loop(self, node: Node, update: Node | None) -> None:
        """As long as the condition is known to hold, up to LOOP_STEPS, which do not count: it may
        fill matrices; once if it is not known."""
        condition, begin = node.child_by_field_name("condition"), self.steps
        self.loops += 1
        try:
            while self.steps < begin + LOOP_STEPS:
                known = self.value(condition) if condition else None
                if known is not None and not known:
                    return
                self.run(node.child_by_field_name("body"))
                if known is None:
                    return
                if update:
                    self.value(update)
        finally:
            self.loops -= 1
            if not self.loops:  # those of an inner one keep the outer one short
                self.steps = begin

    def run_return_statement(self, node: Node) -> None:
        raise Returned(self.value(node.named_children[0]) if node.named_children else None)

    run_throw_statement = run_return_statement

    # ---- Expressions ------------------------------------------------------------------------

    def read(self, text: str, inside: Node | None = None) -> Value:
        """The value of an expression that is a text, inside a function with its parameters."""
        if inside:
            self.frames = [self.frame_of(inside, 1, next(iter(self.calls_of(inside)), None))]
        own, self.text = self.text, f"void f(){{({text});}}"
        try:
            statement = parsed(f"({text});").named_children[0]
            return self.value(statement.named_children[0]) if statement.named_children else None
        except NOT_KNOWN:
            return None
        finally:
            self.text = own

    def value(self, node: Node | None) -> Value:
        if node is None:
            return None
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooLong
        text = text_of(node, self.text)
        if len(self.frames) < 2 and text in self.sizes:
            return self.sizes[text]
        tell: Callable[[Node], Value] = getattr(self, f"value_{node.type}", self.run_parts)
        with suppress(*NOT_KNOWN):
            return tell(node)
        return None

    def value_number_literal(self, node: Node) -> Value:
        text = text_of(node, self.text).replace("'", "")
        if re.fullmatch(r"0[xX][\da-fA-F]+[uUlL]*|\d+[uUlL]*", text):
            return int(text.rstrip("uUlL"), 0)
        return float(text.rstrip("fFlL"))

    def value_true(self, node: Node) -> Value:
        return int(node.type == "true")

    value_false = value_true

    def value_identifier(self, node: Node) -> Value:
        return self.named(text_of(node, self.text))

    value_qualified_identifier = value_type_identifier = value_identifier

    def named(self, name: str) -> Value:
        frame = self.frames[-1] if self.frames else Frame(scope=self.kernel.scope)
        last = name.split("::")[-1]
        for own in (name, f"this->{name}"):
            if own in frame.variables:
                return frame.variables[own]
        if last in self.sizes:
            return self.sizes[last]
        names = (scope + name for scope in syntax.scopes(frame.scope))
        whole = next((one for one in names if one in self.source.names), last)
        text, scope = self.source.names.get(whole) or name, whole.removesuffix(last)
        if text == name:
            return None
        with self.apart(Frame(scope=scope)):
            return self.read(text)

    @contextmanager
    def apart(self, frame: Frame) -> Iterator[None]:
        """What is read has variables of its own."""
        self.frames.append(frame)
        if len(self.frames) > 50:
            raise TooLong
        try:
            yield
        finally:
            self.frames.pop()

    def value_parenthesized_expression(self, node: Node) -> Value:
        return self.value(node.named_children[0])

    value_condition_clause = value_parenthesized_expression

    def value_comma_expression(self, node: Node) -> Value:
        found = None
        for part in node.named_children:
            found = self.value(part)
        return found

    def value_binary_expression(self, node: Node) -> Value:
        left, right = (self.value(node.child_by_field_name(side)) for side in ("left", "right"))
        sign = text_of(node.child_by_field_name("operator"), self.text)
        if right in OLD_CARDS and OF_CARD.search(syntax.part(node, "left", self.text)):
            left = left or MAJOR
        if DECIDES.get(sign, ...) in (left, right):  # whatever the other side is
            return int(DECIDES[sign])
        if left is None or right is None:
            return None
        found = BINARY[sign](left, right)
        whole = isinstance(left, int) and isinstance(right, int)
        return int(found) if whole else found

    def value_unary_expression(self, node: Node) -> Value:
        value = self.value(node.child_by_field_name("argument"))
        return None if value is None else UNARY[text_of(node.children[0], self.text)](value)

    def value_conditional_expression(self, node: Node) -> Value:
        condition = self.value(node.child_by_field_name("condition"))
        if condition is None:
            return None
        return self.value(node.child_by_field_name("consequence" if condition else "alternative"))

    def value_cast_expression(self, node: Node) -> Value:
        kind, value = syntax.part(node, "type", self.text), node.child_by_field_name("value")
        if isinstance(held := self.named(kind), int):  # `(Type::side) - 1` looks like a cast
            return BINARY["+"](held, self.value(value))
        return converted(kind, self.value(value))

    def value_sizeof_expression(self, node: Node) -> Value:
        text = text_of(node, self.text).removeprefix("sizeof").strip(" ()")
        for frame in self.frames:
            text = frame.types.get(text, text)
        return BYTES.get(self.source.types.get(text, self.source.names.get(text, text)))

    def value_subscript_expression(self, node: Node) -> Value:
        name = syntax.part(node, "argument", self.text)
        inside, *_ = self.list_of(next(syntax.of_type(node, "subscript_argument_list"), None))
        listed = self.source.names.get(name, "").strip()
        found = self.frames[-1].variables.get(f"{name}[{inside}]")
        if found is None and listed.startswith("{") and isinstance(inside, int):
            found = self.read(listed.strip("{} ").split(",")[inside])
        return found

    def value_field_expression(self, node: Node) -> Value:
        text = text_of(node, self.text)
        of, _, member = text.rpartition(".")
        if member in ("x", "y", "z") and isinstance(held := self.named(of), tuple):
            return held["xyz".index(member)]
        return self.frames[-1].variables.get(text)

    def value_assignment_expression(self, node: Node) -> Value:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = text_of(node.child_by_field_name("operator"), self.text)
        value = self.value(right)
        if sign != "=":
            before = self.value(left)
            known = before is not None and value is not None
            value = BINARY[sign.removesuffix("=")](before, value) if known else None
        self.set(text_of(left, self.text), value, line_of(node))
        if left and right and sign == "=":
            of = "".join(WORD.findall(text_of(left, self.text))[:1])
            self.give(of, self.meant(right), more=left.type != "identifier")
        frame = self.frames[-1]
        copy_members(frame, text_of(right, self.text), frame, text_of(left, self.text))
        return value

    def value_update_expression(self, node: Node) -> Value:
        argument = node.child_by_field_name("argument")
        before = self.value(argument)
        by = 1 if "++" in text_of(node, self.text) else -1
        after = None if before is None else before + by  # type: ignore[operator]
        self.set(text_of(argument, self.text), after, line_of(node))
        return after

    def value_lambda_expression(self, node: Node) -> Value:
        """Its body, which may launch; what returns there is the lambda."""
        with suppress(Returned):
            self.run(node.child_by_field_name("body"))
        return None

    def value_compound_literal_expression(self, node: Node) -> Value:
        return self.value(node.child_by_field_name("value"))

    def value_initializer_list(self, node: Node) -> Value:
        return extents_of(self.list_of(node))

    def list_of(self, node: Node | None) -> list[Value]:
        parts = node.named_children if node else []
        return [self.value(one) for one in parts if one.type != "comment"]

    def set(self, name: str, value: Value, line: int) -> None:
        frame = self.frames[-1]
        if value is None and self.doubts and self.named(name) is not None:
            return  # an option that is not given
        frame.lines[name.rpartition(".")[0] or name] = self.line_in_file(line)
        of, _, member = name.rpartition(".")
        if member in ("x", "y", "z") and isinstance(held := frame.variables.get(of), tuple):
            if value is None and self.doubts:
                return
            sides: list[Any] = list(held)
            sides["xyz".index(member)] = value
            frame.variables[of] = extents_of(sides)
        else:
            frame.variables[name] = value

    # ---- Calls ------------------------------------------------------------------------------

    def called(self, node: Node, text: str) -> str:
        """The name of the function that is called, without its namespace and template."""
        of = node.child_by_field_name("function")
        own = of.child_by_field_name("field") if of else None  # of an object
        return re.split(r"[<(]", text_of(own or of, text).lstrip("( "))[0].strip().split("::")[-1]

    def value_call_expression(self, node: Node) -> Value:
        name, arguments = self.called(node, self.text), node.child_by_field_name("arguments")
        if node == self.goal:
            self.arrivals[node.id] = self.frames[-1]
            raise Found
        if mark := syntax.launch_of(node):
            self.kernel_call(node, mark, name)
            return None
        if name in ("exit", "abort") or (name == "assert" and self.list_of(arguments) == [0]):
            raise Returned
        if f"{name}()" in self.source.names:
            return self.macro_call(name, texts(arguments, self.text))
        values = self.list_of(arguments)
        function = node.child_by_field_name("function")
        cast = next(syntax.of_type(function, "template_argument_list"), None) if function else None
        if name.endswith("_cast") and cast:
            return converted(text_of(cast, self.text).strip("<> "), values[0])
        if name == "dim3":
            return extents_of(values or [1])
        if WHOLE.fullmatch(name) or name in ("float", "double"):
            return converted(name, values[0])
        if name in self.by_name and self.hands_on(node):
            own, given = texts(cast, self.text), texts(arguments, self.text)
            return self.expansion(*as_macro(*self.by_name[name], len(own)), [*own, *given])
        held = self.given.get(name, "")
        if held.startswith("[") and self.hands_on(node):
            inside = parsed(f"auto f = {held};")
            function = next(syntax.of_type(inside, "lambda_expression"))
            names = as_macro(function, f"void f(){{auto f = {held};}}")
            return self.expansion(*names, texts(arguments, self.text))
        if name in self.by_name:
            return self.function_call(*self.by_name[name], values, texts(arguments, self.text))
        if name.startswith("cudaMalloc") and len(values) == 2:
            pointer, _ = texts(arguments, self.text)
            self.set("&" + pointer.rpartition("&")[2].strip(" )"), values[1], line_of(node))
        if function and function.type == "field_expression":  # such as push_back
            of = WORD.findall(text_of(function, self.text))[0]
            self.give(of, text_of(arguments, self.text), more=True)
        known = KNOWN.get("ceil_div" if ROUNDED_UP.fullmatch(name) else name)
        if known and None not in values:
            return known(*values)
        # Another function may write what it is given the address of.
        for changed in ADDRESS.findall(text_of(arguments, self.text)):
            self.set(changed, None, line_of(node))
        return None

    def function_call(
        self, function: Node, text: str, values: Sequence[Value], given: Sequence[str]
    ) -> Value:
        """What a function of this text returns; what it was given to change has its values."""
        parameters, result = parameters_of(function), None
        names = ["".join(text_of(name, text) for name in syntax.declared_names(one)[:1])
                 for one in parameters]  # fmt: skip
        frame = Frame(dict(zip(names, values, strict=False)), scope=syntax.scope_of(function, text))
        changed = [("*" * one.startswith("&") + name, one.lstrip("& "))
                   for one, name, parameter in zip(given, names, parameters, strict=False)
                   if one.startswith("&") or is_changed(parameter, text)]  # fmt: skip
        frame.variables |= {inside: self.named(one) for inside, one in changed}
        outside = self.text, self.loops
        self.text, self.loops = text, 0  # its own loops are not those of the caller
        try:
            with self.apart(frame):
                self.run(function.child_by_field_name("body"))
        except Returned as returned:
            result = returned.value
        finally:
            self.text, self.loops = outside
        for inside, one in changed:
            self.set(one, frame.variables[inside], line_of(function))
        return result

    def macro_call(self, name: str, given: Sequence[str]) -> Value:
        """What a macro with arguments stands for."""
        definition, source = next(
            (one, source) for source in self.source.sources
            for one in syntax.of_type(source.tree, "preproc_function_def")
            if syntax.part(one, "name", source.text) == name
        )  # fmt: skip
        listed = definition.child_by_field_name("parameters")
        names = [text_of(one, source.text) for one in listed.named_children] if listed else []
        return self.expansion(names, self.source.names[f"{name}()"].replace("\\\n", "\n"), given)

    def expansion(self, names: Sequence[str], body: str, given: Sequence[str]) -> Value:
        """What a text stands for with arguments in the place of these names."""
        words = dict(zip(names, given, strict=False))
        words["__VA_ARGS__"] = ", ".join(given[len([one for one in names if one != "..."]) :])
        body = re.sub(r"[A-Za-z_]\w*", lambda word: words.get(word[0], word[0]), body)
        if "<<<" not in body and ";" not in body:
            return self.read(body)
        own, self.text = self.text, f"void f(){{{body};}}"
        try:
            self.run(parsed(f"{body};"))
        finally:
            self.text = own
        return None

    def kernel_call(self, node: Node, mark: Node, name: str) -> None:
        function = node.child_by_field_name("function") or node
        held = text_of(function, self.text) if name == self.kernel.name else self.meant(function)
        if held := self.kernel_in(held):
            listed = f"auto x = {{{held}}};"
            made, text = parsed(listed), f"void f(){{{listed}}}"
            own = (one for one in syntax.of_type(made, "template_function")
                   if syntax.part(one, "name", text) == self.kernel.name)  # fmt: skip
            one = next(own, None)
            template = one and one.child_by_field_name("arguments")
            self.record(node, mark, texts(template, text))

    def record(self, node: Node, mark: Node, template: Sequence[str]) -> None:
        configuration = [one for one in mark.named_children if one.type != "comment"]
        arguments = texts(node.child_by_field_name("arguments"), self.text)
        grid, block, *more = map(self.value, configuration)
        frame, line = self.frames[-1], self.line_in_file(line_of(node))
        written = [*(text_of(one, self.text) for one in configuration[:3]), ""]
        shared = more[0] if more else 0
        pairs = zip(configuration, written, strict=False)
        commas = (text if is_comma(one) else frame.commas.get(text, "") for one, text in pairs)
        launched = Launched(
            extents_of(grid), extents_of(block), shared if isinstance(shared, int) else None,
            tuple(map(self.said, template)), arguments,
            tuple(map(self.read, arguments)), self.members, tuple(commas),
            (line, *(frame.lines.get(one, line) for one in written[:3])),  # type: ignore[arg-type]
        )  # fmt: skip
        whole = self.is_whole(launched)
        self.found = launched if whole else self.found or launched
        if whole:
            raise Found

    @property
    def members(self) -> dict[str, Value]:
        """The members of structs whose values are known."""
        return {k: v for k, v in self.frames[-1].variables.items() if MEMBER.fullmatch(k)}

    def said(self, argument: str) -> str:
        """A template's argument as the kernel's own text can have it."""
        value = self.read(argument)
        if isinstance(value, int):
            return str(value)
        return self.frames[-1].types.get(argument, argument)

    def line_in_file(self, line: int) -> int:
        """A line of the text that is read; if that is an expansion, the line of the first place
        outside the kernel that names it."""
        return line if self.text == self.source.text else self.line_of_name

    @cached_property
    def line_of_name(self) -> int:
        start = next(self.starts)
        name = rf"\b{re.escape(self.kernel.name)}\b"
        before = re.split(name, text_of(start, self.source.bare), maxsplit=1)[0]
        return line_of(start) + before.count("\n")


def copy_members(source: Frame, of: str, frame: Frame, name: str) -> None:
    """Give a struct the members that another one, perhaps of another function, has."""
    for own, value in [*source.variables.items()] if of.isidentifier() else ():
        if re.fullmatch(rf"{re.escape(of)}(\.|->)\w+", own):
            for reach in (".", "->"):
                frame.variables[name + reach + re.split(r"\.|->", own)[-1]] = value


def is_comma(node: Node) -> bool:
    inside = node.named_children if node.type == "parenthesized_expression" else []
    return bool(inside) and inside[0].type == "comma_expression"


LISTS = ("argument_list", "initializer_list")


def converted(kind: str, value: Value | list[Value]) -> Value:
    """A value as a variable of a type has it."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if "dim3" in kind or isinstance(value, list):
        return extents_of(value)
    if isinstance(value, int) and re.search(r"\b(?:float|double)\b", kind):
        return float(value)
    whole = WHOLE.fullmatch(kind.replace("const", "").strip())
    return int(value) if isinstance(value, float) and whole else value


def as_macro(function: Node, text: str, many: int = 0) -> tuple[list[str], str]:
    """The names of so many parameters of a function's template and of its own, that of a pack as in
    a macro, and its body."""
    body = syntax.part(function, "body", text)
    template = next(syntax.around(function, "template_declaration"), None)
    names = [one.name for one in syntax.template_parameters(template, text)][:many]
    for one in parameters_of(function):
        names.append("".join(text_of(each, text) for each in syntax.declared_names(one)))
        if one.type.startswith("variadic"):
            body = re.sub(rf"\b{names.pop()}\s*\.\.\.", "__VA_ARGS__", body)
    return names, body


def is_changed(parameter: Node, text: str) -> bool:
    """Whether it is a reference to what a function may change."""
    reference = next(syntax.of_type(parameter, "reference_declarator"), None)
    return bool(reference) and "const" not in text_of(parameter, text)


def parameters_of(function: Node) -> list[Node]:
    kinds = "function_declarator", "lambda_declarator"
    head = next(syntax.of_type(function, *kinds), None)
    listed = head.child_by_field_name("parameters") if head else None
    return [one for one in listed.named_children if "parameter" in one.type] if listed else []
