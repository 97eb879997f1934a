"""Templates, those of what is computed in pages of Markdown."""

from pathlib import Path
from typing import Any

import jinja2

from matmul_sweep.process.project import ROOT


def templates(folder: Path, **options: Any) -> jinja2.Environment:
    """Those in a folder, in which nothing may be undefined and blocks leave no blank lines."""
    loader = jinja2.FileSystemLoader(folder)
    return jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        **options,
    )  # fmt: skip


BLOCKS = templates(ROOT / "reports" / "blocks", keep_trailing_newline=True)
