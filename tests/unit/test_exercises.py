"""Every exercise can be solved, and its starter fails as its page says."""

import re
from pathlib import Path

import pytest
from support import ROOT

from matmul_sweep.classroom.verdict import CORRECT, WRONG, judge

EXERCISES = sorted((ROOT / "exercises").glob("*.cu"))
SOLUTIONS = Path(__file__).parent / "solutions"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]


def test_there_are_six_to_ten_each_with_a_page_and_a_solution() -> None:
    names = {file.stem for file in EXERCISES}
    assert 6 <= len(names) <= 10
    assert names == {file.stem for file in SOLUTIONS.glob("*.cu")}
    assert names == {file.stem for file in (ROOT / "exercises").glob("[0-9]*.md")}


@pytest.mark.long
@pytest.mark.parametrize("starter", EXERCISES, ids=lambda file: file.stem)
def test_a_starter_fails_as_its_page_says(starter: Path) -> None:
    said = re.search(r"its verdict is \*(.+)\*", starter.with_suffix(".md").read_text())
    verdict = judge(starter, {})
    assert said and verdict.status == WRONG
    assert verdict.mistakes[0].kind == said[1]
    assert "TODO" in verdict.program.source.text


@pytest.mark.long
@pytest.mark.parametrize("starter", EXERCISES, ids=lambda file: file.stem)
def test_the_solution_is_correct(starter: Path) -> None:
    verdict = judge(SOLUTIONS / starter.name, {})
    assert verdict.status == CORRECT, verdict.mistakes and verdict.mistakes[0].what


def test_the_table_tells_the_verdicts_of_the_pages() -> None:
    table = (ROOT / "exercises/README.md").read_text()
    for starter in EXERCISES:
        said = re.search(r"its verdict is \*(.+)\*", starter.with_suffix(".md").read_text())
        assert said and re.search(rf"\({starter.stem}\.md\).*\| {said[1]} \|", table)
