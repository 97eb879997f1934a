"""The table of docs/reliability.md: what these tests try, how often, and the outcome."""

import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from support import ROOT

PAGE = ROOT / "docs" / "reliability.md"
BLOCK = re.compile(r"(?<=<!-- faults -->\n).*?(?=<!-- end of faults -->)", re.DOTALL)
HEAD = ["| fault | tries | what came of it |", "|---|---|---|"]
ROW = re.compile(r"^\| (.+?) \| (\d+) \| .+ \|$", re.MULTILINE)


def declared() -> dict[str, int]:
    """What the tests of this folder try, and how often, by their marks `fault`."""
    found = {}
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(file.stem)
        for test in filter(inspect.isfunction, vars(module).values()):
            for mark in getattr(test, "pytestmark", []):
                if mark.name == "fault":
                    found[mark.args[0]] = mark.args[1]
    return found


def written() -> dict[str, int]:
    """The same as the page says it."""
    [found] = BLOCK.findall(PAGE.read_text())
    return {fault: int(tries) for fault, tries in ROW.findall(found)}


def table(outcomes: Mapping[str, Iterable[str]]) -> str:
    """The table of these outcomes by fault, one for each try."""
    rows = []
    for fault, seen in outcomes.items():
        counts = Counter(seen)
        said = "; ".join(
            f"{count} × {text}" if len(counts) > 1 else text for text, count in counts.items()
        )
        rows.append(f"| {fault} | {counts.total()} | {said} |")
    return "\n".join([*HEAD, *rows, ""])


def write(outcomes: Mapping[str, Iterable[str]]) -> None:
    """Write the table into the page."""
    ordered = {fault: outcomes[fault] for fault in declared()}
    PAGE.write_text(BLOCK.sub(lambda _: table(ordered), PAGE.read_text()))
