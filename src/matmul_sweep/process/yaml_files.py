"""YAML files, with one line for each mistake."""

from pathlib import Path
from typing import Any

import yaml

from matmul_sweep.process.errors import UserError, said
from matmul_sweep.process.files import read_bytes

DEEPEST = 100  # of lists and keys in others; Snakemake's own reader fails at some three hundred


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

    Raises UserError for a missing, too large or too deeply nested file, invalid YAML, or a key
    given twice.
    """
    try:
        data = read_bytes(path)
        check_nesting(data)
        return yaml.load(data, UniqueKeys)
    except OSError as error:
        raise UserError(said(error)) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1
        raise UserError(f"{path}: line {line}: not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: no text, no date
        raise UserError(f"{path}: not valid YAML: {error}") from None


def check_nesting(data: bytes) -> None:
    """Raise YAML's error for lists and keys that lie in too many others: a reader calls itself for
    each, and would end the process."""
    depth = 0
    for event in yaml.parse(data, UniqueKeys):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise yaml.MarkedYAMLError(
                problem=f"nested more than {DEEPEST} deep", problem_mark=event.start_mark
            )
