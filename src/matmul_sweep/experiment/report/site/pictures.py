"""The report's pictures of who computes what, as HTML."""

import json
import re
from collections.abc import Mapping
from typing import Any

import typst
from markupsafe import Markup

from matmul_sweep.process.project import ROOT

SOURCE = ROOT / "site" / "pictures.typ"
SECTION = re.compile(r'<section id="([^"]+)">(.*?)</section>', re.DOTALL)


def pictures(steps: Mapping[str, Mapping[str, Any]]) -> dict[str, Markup]:
    """The figures of each step, by its name: `layout` as the facts have it, and the names of the
    `factors`. The drawings are hidden from readers that speak: the captions say the same."""
    page = typst.compile(
        SOURCE, root=ROOT, format="html", ignore_system_fonts=True,
        sys_inputs={"steps": json.dumps(steps)},
    )  # fmt: skip
    return {name: drawn(name, own) for name, own in SECTION.findall(page.decode())}


def drawn(name: str, figures: str) -> Markup:
    """The figures of a step, with identifiers that no other step has."""
    own = re.sub(r'( id="|href="#)', rf"\g<1>{name}-", figures)
    return Markup(own.replace("<svg ", '<svg aria-hidden="true" '))
