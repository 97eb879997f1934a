"""Mistakes in classroom kernels (trial/mistakes.yaml) are found without a GPU; their kind and line
are named. That the kernels pass without a mistake is held in test_card.py."""

from pathlib import Path

import numpy as np
import pytest

from matmul_sweep.classroom.mistakes import described
from matmul_sweep.classroom.verdict import WRONG, judge
from matmul_sweep.process.yaml_files import read_yaml

KERNELS = Path(__file__).parent / "trial"
PLANTED = read_yaml(KERNELS / "mistakes.yaml")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        ([3], [], "4 of 24 elements, those of row 3,"),
        ([2, 3, 4], [], "12 of 24 elements, those of rows 2 to 4,"),
        ([5], [0, 1], "14 of 24 elements, those of row 5 and columns 0 to 1,"),
        ([1, 3], [], "8 of 24 elements"),
        (range(6), [], "all elements"),
    ],
)
def test_wrong_elements_are_said_by_their_rows_and_columns(rows, columns, words):
    mask = np.zeros((6, 4), bool)
    mask[[*rows]] = mask[:, columns] = True
    assert described(mask) == words


@pytest.mark.long
@pytest.mark.parametrize("mistake", PLANTED.values(), ids=PLANTED)
def test_a_planted_mistake_is_found(mistake, tmp_path):
    text = (KERNELS / f"{mistake['kernel']}.cu").read_text()
    assert text.count(mistake["right"]) == 1
    text = text.replace(mistake["right"], mistake["wrong"])
    file = tmp_path / "planted.cu"
    file.write_text(text)
    verdict = judge(file, {})
    assert verdict.status == WRONG
    worst = verdict.mistakes[0]
    assert worst.kind == mistake["kind"], worst.what
    assert mistake["line"] in text.splitlines()[worst.line - 1], worst.line
