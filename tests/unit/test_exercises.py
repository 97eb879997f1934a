"""Every exercise can be solved, its starter fails as the key says, and no page says how."""

import re
from pathlib import Path

import pytest
from support import ROOT

from matmul_sweep.classroom.verdict import CORRECT, WRONG, judge

FOLDER, SOLUTIONS = ROOT / "exercises", Path(__file__).parent / "solutions"
SAID = dict(
    re.findall(r"exercises/(\d-\w+)\.md\) \| (.+) \|", (ROOT / "docs" / "key.md").read_text())
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]


def test_there_are_six_to_ten_each_with_a_page_and_a_solution() -> None:
    assert 6 <= len(SAID) <= 10
    for files in (FOLDER.glob("*.cu"), FOLDER.glob("[0-9]*.md"), SOLUTIONS.glob("*.cu")):
        assert SAID.keys() == {file.stem for file in files}


@pytest.mark.long
@pytest.mark.parametrize("name", SAID)
def test_a_starter_fails_as_the_key_says_and_the_solution_is_correct(name: str) -> None:
    verdict = judge(FOLDER / f"{name}.cu", {})
    assert verdict.status == WRONG and "TODO" in verdict.program.source.text
    assert verdict.mistakes[0].kind == SAID[name]
    solution = judge(SOLUTIONS / f"{name}.cu", {})
    assert solution.status == CORRECT, solution.mistakes and solution.mistakes[0].what


def test_the_key_answers_each_question_and_no_page_tells_its_verdict() -> None:
    key = (ROOT / "docs" / "key.md").read_text()
    for name, said in SAID.items():
        page = (FOLDER / f"{name}.md").read_text()
        title, questions = page.splitlines()[0], re.findall(r"^\d\.", page, re.M)
        answers = key.partition(f"\n#{title}\n")[2].partition("\n## ")[0]
        assert re.findall(r"^\d\.", answers, re.M) == questions, name
        assert f"*{said}*" not in page
