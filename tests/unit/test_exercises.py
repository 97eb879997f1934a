"""Every exercise can be solved, and its starter fails as the teacher's table says."""

import re
from pathlib import Path

import pytest
from support import ROOT

from matmul_sweep.classroom.verdict import CORRECT, WRONG, judge

FOLDER, SOLUTIONS = ROOT / "exercises", Path(__file__).parent / "solutions"
TABLE = (ROOT / "docs" / "teaching.md").read_text()
SAID = {
    page.stem: said[1]
    for page in sorted(FOLDER.glob("[0-9]*.md"))
    if (said := re.search(rf"^\| {page.name[0]} \| (.+?) \|", TABLE, re.M))
}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]


def test_there_are_six_to_ten_each_with_a_page_and_a_solution():
    assert 6 <= len(SAID) <= 10
    for folder in (FOLDER, SOLUTIONS):
        assert SAID.keys() == {file.stem for file in folder.glob("*.cu")}


@pytest.mark.long
@pytest.mark.parametrize("name", SAID)
def test_a_starter_fails_as_the_table_says_and_the_solution_is_correct(name):
    verdict = judge(FOLDER / f"{name}.cu", {})
    assert verdict.status == WRONG and "TODO" in verdict.program.source.text
    assert verdict.mistakes[0].kind == SAID[name]
    solution = judge(SOLUTIONS / f"{name}.cu", {})
    assert solution.status == CORRECT, solution.mistakes and solution.mistakes[0].what
