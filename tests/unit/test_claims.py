"""What titles claim, and why points dip: words that follow from numbers."""

import numpy as np
import pandas as pd
import pytest
from made_up_data import the_catalogue

from matmul_sweep.experiment.report.figures.claims import beside, listed, percent
from matmul_sweep.experiment.report.figures.dips import dips, last_wave, unaligned
from matmul_sweep.operations import parse_shape


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


def test_a_dip_is_lower_than_both_neighbours() -> None:
    rows = pd.DataFrame({"n": [1, 2, 3, 4], "tflops": [10.0, 8.0, 10.0, 7.0]})
    assert list(dips(rows).n) == [2]


def test_a_last_wave_is_what_the_places_of_the_card_leave() -> None:
    """576 tiles in 264 places: two full waves, and 48 tiles."""
    catalogue = the_catalogue()
    pipelined, streamed = catalogue["pipelined"].variants[0], catalogue["streamed"].variants[0]
    shape = parse_shape(3000, "gemm")
    assert last_wave(pipelined, shape, 132) == pytest.approx(48 / 264)
    assert last_wave(pipelined, shape, 0) == 0  # of an unknown card
    assert last_wave(streamed, shape, 132) == 0  # its blocks take equal shares


def test_rows_that_begin_anywhere_are_a_reason() -> None:
    pipelined = the_catalogue()["pipelined"].variants[0]
    assert unaligned(pipelined, parse_shape("1000x1001x999", "gemm"))
    assert not unaligned(pipelined, parse_shape("1000x1004x999", "gemm"))
