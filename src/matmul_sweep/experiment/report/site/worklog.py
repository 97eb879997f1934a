"""What the site quotes of the worklog of the kernels."""

import re
from functools import cache

from markdown_it import MarkdownIt
from markupsafe import Markup

from matmul_sweep.process.project import KERNELS

# `<!-- site banks -->` and `<!-- /site -->` enclose what is quoted under the name banks.
MARKED = re.compile(r"^<!-- site (\w+) -->\n(.*?)^<!-- /site -->\n", re.MULTILINE | re.DOTALL)


@cache
def quoted() -> dict[str, Markup]:
    """The marked parts of the worklog as HTML, by name."""
    text = (KERNELS / "WORKLOG.md").read_text()
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    for rule in ("link_open", "link_close"):  # they lead to files that are not beside the site
        markdown.add_render_rule(rule, lambda *_: "")
    return {name: Markup(markdown.render(own)) for name, own in MARKED.findall(text)}
