"""The pages of the site, filled with what a data set says. A number in them comes from a data set
or from the worklog; the templates have none."""

import base64
import gzip
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer

from matmul_sweep.classroom.results import RESULTS
from matmul_sweep.experiment.dataset.selection import Results, in_words, processor
from matmul_sweep.experiment.report.blocks import templates
from matmul_sweep.experiment.report.explore.data import page_data
from matmul_sweep.experiment.report.facts.banks import banks
from matmul_sweep.experiment.report.facts.bars import bars
from matmul_sweep.experiment.report.facts.beside import ladders, published
from matmul_sweep.experiment.report.facts.peaks import unit_peak
from matmul_sweep.experiment.report.facts.published import entries
from matmul_sweep.experiment.report.facts.random_shapes import random_shapes
from matmul_sweep.experiment.report.facts.report import operations
from matmul_sweep.experiment.report.facts.ways import WAYS, speedups, widest
from matmul_sweep.experiment.report.figures.figure_base import source_line
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.experiment.report.site.pictures import pictures
from matmul_sweep.experiment.report.site.worklog import quoted
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.process.files import read_json
from matmul_sweep.process.project import KERNELS, ROOT

TEMPLATES = ROOT / "site"
BARS = ("gemm", "gemm_bf16", "gram")  # the operations whose ladders are drawn
SETS = "sets"  # the folder of the published data sets beside the pages
PAGES = {
    "index.html": "The steps",
    "explore.html": "Explore",
    "cards.html": "Cards",
    "mistakes.html": "Mistakes",
}
HIGHLIGHTED = HtmlFormatter(nowrap=True)
# Tags and code, or in prose the apostrophe of a typewriter.
STRAIGHT = re.compile(r"<(script|style|code|pre)\b.*?</\1>|<[^>]*>|(?<=\w)('|&#39;)", re.DOTALL)


def site(results: Results, sets: Sequence[Results], mistakes: Path) -> dict[str, str]:
    """The text of each page, by its name. `sets`: the published data sets, which the page of the
    cards lists; `mistakes`: the folder of the gallery's results."""
    filled = {
        "index.html": story(results),
        "explore.html": explored(results),
        "cards.html": {"entries": [*entries(sets)]},
        "mistakes.html": {"gallery": gallery(mistakes)},
    }
    return {name: page(name, results, filled[name], PAGES) for name in PAGES}


def explore_page(results: Results) -> str:
    """Explore as a page that stands for itself."""
    return page("explore.html", results, explored(results), {})


def page(name: str, results: Results, filled: Mapping[str, Any], pages: Mapping[str, str]) -> str:
    """A page among `pages`."""
    source = source_line(results)
    text = ENVIRONMENT.get_template(name).render(filled, name=name, pages=pages, source=source)
    return STRAIGHT.sub(lambda found: "’" if found[2] else found[0], text)


def explored(results: Results) -> dict[str, str]:
    data = json.dumps(page_data(results), allow_nan=False, separators=(",", ":"))
    return {"library": packed(get_plotlyjs()), "data": packed(data)}


def packed(text: str) -> str:
    """Text as gzip in base64: two fifths of the size of a program, much less for these data."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def story(results: Results) -> dict[str, Any]:
    """What the first page tells. Without a GPU its times are those of a published card."""
    shown = published(results) or results
    found, known = ladders(results), operations()
    views = {name: shown.of(name, reduced=True) for name in OPERATIONS}
    gram = views["gram"]
    drawn = {
        f"{name}-{step['name']}": {"layout": step["layout"], "factors": known[name]["factors"]}
        for name, ladder in found.items()
        for step in ladder["steps"]
        if step["layout"]
    }
    return {
        "ladders": found,
        "words": {name: in_words(operation) for name, operation in OPERATIONS.items()},
        "work": {name: own["work"] for name, own in known.items()},
        "bars": {name: bars(views[name], found[name]) for name in BARS},
        "pictures": pictures(drawn),
        "absent": {name: absence(results.of(name)) for name in OPERATIONS},
        "beside": processor(shown.device) if shown is not results else None,
        "speedups": {name: speedups(view) for name, view in views.items()},
        "random": random_shapes(shown),
        "peak": unit_peak(shown, "multiply_add_float32"),
        "in_part": [gram.title(x) for x in sorted({*gram.ratios.baseline}) if gram.writes_half(x)],
        "worklog": quoted(),
        "page_of_residues": comment_of(KERNELS / "gram" / "residues.cu"),
        "source_of_times": source_line(shown),
    }


def comment_of(source: Path) -> str:
    """The page that a source begins with, without the marks of a comment."""
    lines = itertools.takewhile(lambda line: line.startswith("//"), source.read_text().split("\n"))
    return "\n".join(line[3:] for line in lines)


def absence(view: Results) -> str:
    """In words, why an operation has no bars."""
    if view.timed_gpu:
        return "no kernel of this project was timed at a square"
    return view.gpu_absence()


def gallery(folder: Path) -> dict[str, Any]:
    """The results of the gallery of mistakes, with their pictures."""
    found = read_json(folder / RESULTS)
    for exhibit in found["exhibits"]:
        if name := exhibit["picture"]:
            exhibit["picture"] = base64.b64encode((folder / name).read_bytes()).decode()
    return cast("dict[str, Any]", found)


def marked_up(text: str, mark: str, tag: str) -> Markup:
    """Text as HTML, with what stands between two marks as an element of this tag."""
    return Markup(re.sub(rf"{mark}(.+?){mark}", rf"<{tag}>\1</{tag}>", str(escape(text))))


ENVIRONMENT = templates(TEMPLATES, autoescape=True)
ENVIRONMENT.globals |= {
    "WAYS": WAYS,
    "widest": widest,
    "at": lambda file: f"{SETS}/{file.parent.name}/{file.name}",
    "banks": banks,
}
ENVIRONMENT.filters |= {
    "coded": lambda text: marked_up(text, "`", "code"),
    "emphasised": lambda text: marked_up(text, r"\*", "em"),
    "highlighted": lambda code: Markup(highlight(code, CppLexer(), HIGHLIGHTED)),
    "num": lambda x: "–" if x is None else significant(x),
    "percent": lambda x: f"{x:.0%}",
    "two": lambda x: significant(x, 2) if x < 100 else f"{x:.0f}",
    "size": lambda size: size if "×" in size else f"n = {size}",
}
