"""Reading YAML and holding it against the project's JSON schemas, one line per mistake."""

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from matmul.errors import UserError, one_line

SCHEMAS = Path(__file__).resolve().parents[2] / "workflow" / "schemas"


class UniqueKeys(yaml.CSafeLoader):
    """YAML as it should be: a key given twice is a mistake, not an overwriting."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key '{key}' is given twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises UserError: missing, no YAML, or a key given twice."""
    try:
        return yaml.load(path.read_text(), UniqueKeys)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: no valid YAML: {one_line(str(error))}") from None


# JSON takes 16.0 for a whole number; a compiler's -DTILE_WIDTH=16.0 does not.
Strict = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


@cache
def validator(name: str) -> jsonschema.protocols.Validator:
    """The validator of workflow/schemas/<name>.schema.yaml."""
    return Strict(read_yaml(SCHEMAS / f"{name}.schema.yaml"))


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
    described = error.schema.get("description") if isinstance(error.schema, dict) else None
    return one_line(error.message)[:300] + (f"; wanted: {described}" if described else "")
