"""Reading YAML and holding it against the project's JSON schemas, one line per mistake."""

import math
import re
from collections.abc import Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from matmul.operations import OPERATIONS
from matmul.process.errors import UserError, one_line, said

SCHEMAS = Path(__file__).resolve().parents[3] / "workflow" / "schemas"
# What a YAML file may hold: 10,000 kernels take 5 MB, 400,000 nodes and 5 levels. The parser keeps
# each level on the stack of the C program, and aliases of aliases multiply nodes in few bytes.
MOST_BYTES, MOST_NODES, DEEPEST = 16 << 20, 1_000_000, 100


class UniqueKeys(yaml.CSafeLoader):
    """YAML as it should be: a key given twice is a mistake, not an overwriting."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found = set()
        for node_of_key, _ in node.value:
            key = self.construct_object(node_of_key, deep=True)
            if not isinstance(key, Hashable) or key in found:
                mistake = "is given twice" if isinstance(key, Hashable) else "is no text or number"
                raise yaml.constructor.ConstructorError(
                    None, None, f"key '{key}' {mistake}", node_of_key.start_mark
                )
            found.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises UserError: missing, no YAML, a key given twice, or more than MOST_BYTES, MOST_NODES or
    DEEPEST allow.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UserError(f"{path}: larger than {MOST_BYTES >> 20} MiB, too large to be read")
        check_extent(data, path)
        return yaml.load(data, UniqueKeys)
    except OSError as error:
        raise UserError(said(error)) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1
        raise UserError(f"{path}: line {line}: no valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: bytes of no text, a date of no day
        raise UserError(f"{path}: no valid YAML: {error}") from None


def check_extent(data: bytes, path: Path) -> None:
    """Raise UserError where YAML is nested too deeply or, its aliases written out, has too many
    nodes."""
    nodes: dict[str, int] = {}  # of what an anchor names; while that is still open, endless
    levels: list[tuple[str, int]] = []  # that are open: their anchors, and the nodes before them
    total = 0
    for event in yaml.parse(data, yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            levels.append((event.anchor, total))
            nodes[event.anchor] = MOST_NODES
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = levels.pop()
            nodes[anchor] = total - before
        total += nodes.get(event.anchor, 1) if isinstance(event, yaml.AliasEvent) else 1
        if len(levels) > DEEPEST or total > MOST_NODES:
            raise UserError(
                f"{path}: nested more than {DEEPEST} deep, or of more than {MOST_NODES} nodes with "
                "its aliases written out; write it flat"
            )


def whole_text(_: Any, pattern: str, text: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    """The keyword pattern, for which Python's `$` would let a line's end pass behind the text."""
    if isinstance(text, str) and not re.fullmatch(pattern, text):
        yield jsonschema.ValidationError(f"{text!r} does not match '{pattern}'")


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


# JSON takes 16.0 for a whole number; a compiler's -DTILE_WIDTH=16.0 does not. YAML also has .inf
# and .nan, of which no limit can be made, and whole numbers of any length.
Strict = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    validators={"pattern": whole_text},
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: is_integer(value),
            "number": lambda _, value: (
                is_integer(value) or (isinstance(value, float) and math.isfinite(value))
            ),
        }
    ),
)


@cache
def validator(name: str) -> jsonschema.protocols.Validator:
    """The validator of workflow/schemas/<name>.schema.yaml, with the operations that there are."""
    schema = read_yaml(SCHEMAS / f"{name}.schema.yaml")
    schema["$defs"]["operation"]["enum"] = [*OPERATIONS]
    return Strict(schema)


def check(content: Any, schema: str, origin: str) -> None:
    """Hold `content` against a schema. Raises UserError: origin, path of the key, what is wrong."""
    error = jsonschema.exceptions.best_match(validator(schema).iter_errors(content))
    if error is None:
        return
    place = error.json_path.removeprefix("$").removeprefix(".")
    raise UserError(f"{origin}: {place + ': ' if place else ''}{explain(error)}")


def explain(error: jsonschema.ValidationError) -> str:
    """What is wrong and what would be right, in one line."""
    if error.validator == "additionalProperties":
        known = error.schema["properties"]
        unknown = ", ".join(f"'{key}'" for key in error.instance if key not in known)
        return f"unknown key {unknown}; known are {', '.join(known)}"
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        described = error.schema.get("properties", {}).get(missing, {}).get("description")
        return f"'{missing}' is missing" + (f": {described}" if described else "")
    described = error.schema.get("description") if isinstance(error.schema, dict) else None
    return one_line(error.message)[:300] + (f"; wanted: {described}" if described else "")
