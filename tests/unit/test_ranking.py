"""Figures of the steps and of the card's state."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up_data import made_up
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.figure_base import NothingToDraw, look
from matmul_sweep.experiment.report.figures.gallery import FIGURES
from matmul_sweep.operations import OPERATIONS


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made_up(tmp_path_factory.mktemp("data"))


def lines_of(figure: Figure, axes: int = 0) -> dict[str, np.ndarray]:
    return {line.get_label(): line.get_xydata() for line in figure.axes[axes].get_lines()}


def test_a_step_is_as_high_as_its_rate_below_the_library_beside_it(results: Results) -> None:
    (ax,) = FIGURES["ladder"](results).axes
    told = results.of("gemm").told
    rows = results.of("gemm").summary.query("kernel == 'naive' and n == 1024 and cache == 'hot'")
    step = ax.patches[told.index("naive")]
    assert step.get_height() == rows.tflops.max()
    assert len(ax.patches) == len(told)
    ratios = results.of("gemm").ratios.query("kernel == 'naive' and n == 1024 and cache == 'hot'")
    dash = next(line for line in ax.get_lines() if line.get_label() == "cublas_sgemm")
    assert dash.get_ydata()[0] == pytest.approx(rows.tflops.max() / ratios.ratio.max())


def test_the_cards_state_has_a_row_per_operation(results: Results) -> None:
    figure = FIGURES["clocks"](results)
    assert len(figure.axes) == 2 * len(OPERATIONS)
    assert set(lines_of(figure, 0)["naive"][:, 1]) == {1980.0}
    assert set(lines_of(figure, 3)["gram_naive"][:, 1]) == {300.0}


def test_a_card_without_readings_has_no_clocks(tmp_path: Path) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(power_w=np.nan)

    with pytest.raises(NothingToDraw, match="no reading is on record"):
        FIGURES["clocks"](made_up(tmp_path, change=change))


RATES = {"naive": 1.0, "naive_rect": 1.2, "shared": 1.5, "shared_rect": 1.6, "register_tile": 4.0,
         "sgemm": 4.1, "cublas_sgemm": 5.0}  # fmt: skip


def steps(summary: pd.DataFrame) -> pd.DataFrame:
    """A summary in which kernels have RATES, whatever the shape."""
    timed = summary.kernel.isin(RATES) & (summary.status == "ok") & (summary.phase == "kernel")
    factor = (summary.tflops / summary.kernel.map(RATES)).where(timed, 1.0)
    times = {
        column: summary[column] * factor for column in ("time_ms", "time_low_ms", "time_high_ms")
    }
    return summary.assign(**times, tflops=summary.tflops / factor)


def test_what_is_told_of_are_the_large_steps_and_the_fastest(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=[*RATES], change=steps)
    assert results.of("gemm").told == ["naive", "shared", "register_tile", "sgemm"]
    assert set(results.told) >= {*results.of("gemm").told}
    looks = {kernel: look(results, kernel) for kernel in RATES}
    assert looks["naive_rect"] == looks["shared_rect"] == style.CONTEXT
    assert len({own.colour for own in looks.values()}) == 6
    words = FIGURES["ladder"](results).get_suptitle().replace("\n", " ")
    assert words == "sgemm is 4.1 times as fast as naive, at 82% of the speed of cuBLAS SGEMM"
    assert "grey: 2 other kernels" in FIGURES["rate"](results).get_supxlabel()
