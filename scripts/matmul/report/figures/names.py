"""The figures' names and captions: what the workflow asks for, without drawing anything."""

from pathlib import Path

from matmul.operations import OPERATIONS

CAPTIONS = Path(__file__).resolve().parents[4] / "reports" / "captions"


def captions() -> dict[str, str]:
    """The caption's file of each figure, relative to CAPTIONS.

    A figure has its caption's name; one that is drawn of each operation has its caption in `each`
    and the operation's prefix before the name."""
    single = {file.stem: file.name for file in CAPTIONS.glob("*.rst")}
    each = {
        operation.figure_prefix + file.stem: f"each/{file.name}"
        for operation in OPERATIONS.values()
        for file in CAPTIONS.glob("each/*.rst")
    }
    return dict(sorted((single | each).items()))
