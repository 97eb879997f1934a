"""The names and captions of the figures, for the workflow, without drawing anything."""

from matmul_sweep.operations import OPERATIONS
from matmul_sweep.process.project import ROOT

CAPTIONS = ROOT / "reports" / "captions"


def captions() -> dict[str, str]:
    """The caption file of each figure, relative to CAPTIONS.

    A figure has the name of its caption. A figure of every operation has its caption in `each`, and
    its name begins with the operation's prefix."""
    single = {file.stem: file.name for file in CAPTIONS.glob("*.rst")}
    each = {
        operation.figure_prefix + file.stem: f"each/{file.name}"
        for operation in OPERATIONS.values()
        for file in CAPTIONS.glob("each/*.rst")
    }
    return dict(sorted((single | each).items()))


def caption(name: str) -> str:
    """The caption of a figure, on one line."""
    return " ".join((CAPTIONS / captions()[name]).read_text().split())
