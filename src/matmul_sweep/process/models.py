"""What a user wrote, held against a class that pydantic reads; what it refuses is one line."""

import difflib
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union

from matmul_sweep.process.errors import UserError, shown

Checked = TypeVar("Checked")


def checked(model: type[Checked], content: Any, file: Path | str) -> Checked:
    """The content of `file` as a `model`: of data classes and typed dictionaries, whose docstrings
    describe their fields in lines such as `tile: Rows and columns.`, further lines of a description
    indented more.

    Raises UserError that names file, key, value and remedy.
    """
    from pydantic import TypeAdapter, ValidationError  # here, because it takes its time

    try:
        return TypeAdapter(model).validate_python(content)
    except ValidationError as refused:
        # A key that is misspelt is also missing, and of a union each branch has its say: those come
        # first that say most.
        ranks = (UNKNOWN, MISSING)
        error = min(refused.errors(), key=lambda one: [one["type"] not in own for own in ranks])
        keys, message = explained(model, content, error)
        place = ".".join(map(str, keys))
        raise UserError(": ".join(part for part in (str(file), place, message) if part)) from None


UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
MISSING = ("missing", "missing_argument")
DESCRIBED = r"(?m)^    {}: (.*(?:\n {{8}}.*)*)"  # of a key, in the docstring of its class


@dataclass(frozen=True)
class Must:
    """In an annotation: values that `test` does not hold for are refused as not what is `wanted`.
    pydantic needs not be imported for it."""

    test: Callable[[Any], object]
    wanted: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        def held(value: Any) -> Any:
            if not self.test(value):
                raise ValueError(f"not {self.wanted}")
            return value

        return core_schema.no_info_plain_validator_function(held)


def one_of(key: str, value: str, known: Collection[str]) -> None:
    """Raise UserError if `value` is none of the `known` names."""
    if value not in known:
        raise UserError(f"{key}: '{value}' is not one of {', '.join(known)}{meant(value, known)}")


def explained(model: Any, content: Any, error: Mapping[str, Any]) -> tuple[list[Any], str]:
    """The keys to a mistake, and what it is with its remedy."""
    keys, value = found(content, error["loc"])
    if error["type"] in UNKNOWN:
        *keys, key = keys
        names = [*fields_of(reached(model, keys))]
        return keys, f"unknown key '{key}'{meant(str(key), names)}; known are {', '.join(names)}"
    if error["type"] in MISSING:
        key = error["loc"][-1]
        described = description(model, [*keys, key])
        return keys, f"'{key}' is missing" + (f": {described}" if described else "")
    context = error.get("ctx", {})
    said = str(context.get("error", error["msg"]))  # of a validator of our own, or pydantic's
    if error["type"] == "dataclass_type":
        said = "input should be keys and their values"
    said = said[:1].lower() + said[1:]
    if error["loc"][-1:] == ("[key]",):
        return keys[:-1], f"'{value}': {said}"
    if choices := [*literals(reached(model, keys))]:
        said += meant(str(value), choices)
    described = description(model, keys)
    return keys, f"'{shown(value)}': {said}" + (f"; wanted: {described}" if described else "")


def meant(text: str, known: Collection[str]) -> str:
    """The name that was likely meant, as a question to append; empty if none is near."""
    near = difflib.get_close_matches(text, known, 1)
    return f"; did you mean '{near[0]}'?" if near else ""


def found(content: Any, location: Sequence[Any]) -> tuple[list[Any], Any]:
    """The keys of a pydantic location that the content has, and the value there; a location also
    names the branches of unions."""
    keys, value = [], content
    for key in location:
        here: Any = value if isinstance(value, Mapping) else ()
        if isinstance(value, (list, tuple)):
            here = range(len(value))
        if key in here:
            keys.append(key)
            value = value[key]
        elif key == "[key]":
            value = keys[-1]
    return keys, value


def parts(annotation: Any) -> tuple[Any, ...]:
    """The types that a union or an Annotated is made of, and a type itself."""
    if typing.get_origin(annotation) in (Annotated, typing.Required, typing.NotRequired):
        return parts(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (Union, UnionType):
        return tuple(part for one in typing.get_args(annotation) for part in parts(one))
    return (annotation,)


def class_in(annotation: Any) -> Any:
    """The class with fields among its types; None without one."""
    models = (part for part in parts(annotation) if hasattr(part, "__annotations__"))
    return next(models, None)


def fields_of(annotation: Any) -> dict[str, Any]:
    """The annotated fields of the class among its types; empty without one."""
    model = class_in(annotation)
    return typing.get_type_hints(model, include_extras=True) if model else {}


def reached(annotation: Any, keys: Sequence[Any]) -> Any:
    """The annotation of what the keys lead to; None if they lead out of what is annotated."""
    for key in keys:
        inner = fields_of(annotation).get(str(key))
        for part in parts(annotation):
            if inner is None and (of := typing.get_args(part)):
                inner = of[1] if isinstance(key, str) and len(of) > 1 else of[0]
        annotation = inner
    return annotation


def description(model: Any, keys: Sequence[Any]) -> str:
    """How the last of the keys that is a field is described; empty if none is."""
    for end in range(len(keys), 0, -1):
        owner = class_in(reached(model, keys[: end - 1]))
        found = re.search(DESCRIBED.format(keys[end - 1]), getattr(owner, "__doc__", None) or "")
        if found:
            return " ".join(found[1].split()).removesuffix(".")
    return ""


def literals(annotation: Any) -> Iterator[str]:
    """The texts that a Literal among its types allows."""
    for part in parts(annotation):
        if typing.get_origin(part) is typing.Literal:
            yield from map(str, typing.get_args(part))
