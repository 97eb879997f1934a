"""What the source of a kernel says of it: its marked lines, and the limits in its header."""

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matmul_sweep.catalogue.entries import Kernel
from matmul_sweep.catalogue.sources import source_files

# `// <report naive>` and `// </report>` enclose lines that the report shows of the kernel naive.
# They may lie in a header, and there may be several of them.
MARKED = re.compile(r"^ *// <report (?P<name>\w+)>\n(?P<lines>.*?)^ *// </report>\n", re.M | re.S)
PRAGMA = re.compile(r"^ *#pragma.*\n", re.M)
GAP = "..."  # between lines that are not neighbours
# A paragraph of the header: its keyword, and the lines that are indented as its first word is.
PARAGRAPH = "^// {} +(?P<text>.*\n(?://   +.*\n)*)"


def source_code(kernel: Kernel | None) -> dict[str, Any]:
    """The marked lines of a hand-written kernel, and the paragraphs of its header on what it
    removes and what limits it; each None if there is none."""
    if kernel is None or kernel.source is None:
        return {"code": None, "removes": None, "limit": None}
    return {
        "code": marked(kernel.name, map(Path.read_text, source_files(kernel.source))),
        "removes": paragraph("Removes", kernel.source.read_text()),
        "limit": paragraph("Limit", kernel.source.read_text()),
    }


def marked(name: str, texts: Iterable[str]) -> str | None:
    """The lines that the markers of one kernel enclose, without pragmas and common indentation."""
    found = [
        textwrap.dedent(PRAGMA.sub("", match["lines"])).rstrip()
        for text in texts
        for match in MARKED.finditer(text)
        if match["name"] == name
    ]
    return f"\n{GAP}\n".join(found) or None


def paragraph(keyword: str, text: str) -> str | None:
    """The paragraph of a source's header that begins with a keyword, on one line."""
    match = re.search(PARAGRAPH.format(keyword), text, re.M)
    return match and " ".join(match["text"].replace("//", " ").split())
