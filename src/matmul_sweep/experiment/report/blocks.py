"""The templates of what is computed in pages of Markdown."""

import jinja2

from matmul_sweep.process.project import ROOT

BLOCKS = jinja2.Environment(
    loader=jinja2.FileSystemLoader(ROOT / "reports" / "blocks"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
