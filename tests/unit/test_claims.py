"""What titles claim: words that follow from numbers."""

import numpy as np
import pytest

from matmul_sweep.experiment.report.figures.claims import beside, listed, percent


@pytest.mark.parametrize(
    ("ratio", "low", "high", "words"),
    [
        (1.08, 1.07, 1.09, "8.0% faster than"),
        (2.14, 2.1, 2.2, "2.1 times as fast as"),
        (1.01, 0.99, 1.03, "as fast as"),
        (0.17, 0.16, 0.18, "at 17% of the speed of"),
        (0.99, 0.985, 0.994, "at 99.0% of the speed of"),
        (1.003, 1.002, 1.004, "as fast as"),  # sure, and too little to matter
        (3.0, np.nan, np.nan, ""),  # too few pairs to claim anything
    ],
)
def test_a_claim_goes_as_far_as_its_interval(
    ratio: float, low: float, high: float, words: str
) -> None:
    assert beside(ratio, low, high) == words


def test_words_are_listed_and_shares_rounded() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == [
        "a", "a and b", "a, b and c"]  # fmt: skip
    assert [percent(share) for share in (0.004, 0.17, 0.9996, 1.564)] == [
        "0.40%", "17%", "100%", "156%"]  # fmt: skip
