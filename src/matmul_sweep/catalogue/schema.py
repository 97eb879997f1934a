"""Read YAML and check it against the project's JSON schemas, with one line per mistake."""

from functools import cache
from typing import TYPE_CHECKING, Any

from matmul_sweep.operations import OPERATIONS
from matmul_sweep.process.errors import UserError, one_line
from matmul_sweep.process.project import ROOT
from matmul_sweep.process.yaml_files import read_yaml

if TYPE_CHECKING:
    import jsonschema

SCHEMAS = ROOT / "workflow" / "schemas"


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
