"""Read YAML and check it against the project's JSON schemas, with one line per mistake."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from matmul_sweep.operations import OPERATIONS
from matmul_sweep.process.errors import UserError, one_line, said
from matmul_sweep.process.project import ROOT

if TYPE_CHECKING:
    import jsonschema

SCHEMAS = ROOT / "workflow" / "schemas"
MOST_BYTES = 16 << 20  # 10,000 kernels take 5 MB


class UniqueKeys(yaml.CSafeLoader):
    """YAML where a key given twice is a mistake and does not overwrite the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found = set()
        for key, _ in node.value:
            text = str(key.value)
            if text in found:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key '{text}' is given twice", key.start_mark
                )
            found.add(text)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises UserError for a missing file, invalid YAML, a key given twice, or over MOST_BYTES.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UserError(f"{path}: larger than {MOST_BYTES >> 20} MiB, too large to read")
        return yaml.load(data, UniqueKeys)
    except OSError as error:
        raise UserError(said(error)) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1
        raise UserError(f"{path}: line {line}: not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: no text, no date
        raise UserError(f"{path}: not valid YAML: {error}") from None


@cache
def validator(name: str) -> "jsonschema.protocols.Validator":
    """The validator of workflow/schemas/<name>.schema.yaml, with the existing operations."""
    import jsonschema  # here, because programs that the workflow starts check nothing again

    # JSON takes 16.0 for a whole number; a compiler's -DTILE_WIDTH=16.0 does not.
    json_types = jsonschema.Draft202012Validator.TYPE_CHECKER
    whole = json_types.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    strict = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=whole)
    schema = read_yaml(SCHEMAS / f"{name}.schema.yaml")
    schema["$defs"]["operation"]["enum"] = [*OPERATIONS]
    return strict(schema)


def check(content: Any, schema: str, origin: str) -> None:
    """Check `content` against a schema. Raises UserError with origin, key and mistake."""
    from jsonschema.exceptions import best_match

    error = best_match(validator(schema).iter_errors(content))
    if error is None:
        return
    place = error.json_path.removeprefix("$").removeprefix(".")
    raise UserError(f"{origin}: {place + ': ' if place else ''}{explain(error)}")


def explain(error: "jsonschema.ValidationError") -> str:
    """The mistake and what would be correct, in one line."""
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
