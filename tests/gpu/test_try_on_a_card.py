"""The verdict on a hand-in where there is a GPU."""

from pathlib import Path

import pytest

from matmul_sweep.classroom.verdict import CORRECT, judge
from matmul_sweep.experiment.measure import card

pytestmark = pytest.mark.gpu
HAND_INS = Path(__file__).parents[1] / "unit" / "trial"


@pytest.mark.parametrize("name", ["naive", "tiled", "gram"])
def test_a_correct_kernel_is_placed_on_the_ladder(gpu, name):
    verdict = judge(HAND_INS / f"{name}.cu", {})
    assert verdict.status == CORRECT
    found = card.standing(verdict)
    assert isinstance(found, card.Standing), found
    assert found.milliseconds > 0 and found.registers > 0 and 0 < found.occupancy <= 1
    assert all(low <= ratio <= high for ratio, low, high in found.ratios.values())
    library = list(found.ratios)[-1]
    assert found.ratios[library][0] < 1  # a classroom kernel is slower than the library
    assert "none" not in found.next_step
