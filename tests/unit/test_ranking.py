"""Figures of limits, phases and rankings: numbers computed by hand, and a note for missing data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up_data import made_up
from matplotlib.figure import Figure

from matmul.catalogue.entries import load_catalogue
from matmul.operations import OPERATIONS
from matmul.operations.gram import Gram
from matmul.report.figures import style
from matmul.report.figures.gallery import FIGURES
from matmul.report.figures.phases import PARTS
from matmul.report.figures.ranking import thinned
from matmul.report.selection import LINES, Results, fastest, few, load_results, squares


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made_up(tmp_path_factory.mktemp("data"))


def lines_of(figure: Figure, axes: int = 0) -> dict[str, np.ndarray]:
    return {line.get_label(): line.get_xydata() for line in figure.axes[axes].get_lines()}


def test_the_roofs_are_what_was_measured(results: Results) -> None:
    lines = lines_of(FIGURES["gram_roofline"](results))
    assert lines["float64 tensor cores: 64"][0].tolist() == [64 / 2, 64]  # operations per byte
    assert lines["float64 vector units: 29.5"][0].tolist() == [29.5 / 2, 29.5]
    assert FIGURES["gram_roofline"](results).axes[0].get_title(loc="left") == ""


def test_a_data_set_without_ceilings_has_a_roofline_that_says_so(tmp_path: Path) -> None:
    made_up(tmp_path)
    (tmp_path / "ceilings.csv").unlink()
    figure = FIGURES["roofline"](load_results(tmp_path, load_catalogue()))
    assert "float32 units, by clock: 60" in lines_of(figure)
    assert figure.axes[0].get_title(loc="left") == "not measured: memory, float32 units"


def test_a_bar_is_as_long_as_the_rate_and_names_the_share(results: Results) -> None:
    (ax,) = FIGURES["ladder"](results).axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    bars = dict(zip(names, ax.patches, strict=True))
    rows = results.of("gemm").summary.query("kernel == 'naive' and n == 1024 and cache == 'hot'")
    assert bars["naive"].get_width() == rows.tflops.max()
    assert names.index("naive") < names.index("shared") < names.index("cuBLAS SGEMM")
    ratios = results.of("gemm").ratios.query("kernel == 'naive' and n == 1024 and cache == 'hot'")
    assert f"{ratios.ratio.max():.1%}" in ax.texts[names.index("naive")].get_text()


def test_a_cell_is_the_best_variants_share(results: Results) -> None:
    (ax,) = FIGURES["heat_map"](results).axes
    kernels = [label.get_text() for label in ax.get_yticklabels()]
    shapes = [label.get_text() for label in ax.get_xticklabels()]
    cells = {tuple(text.get_position()): text.get_text() for text in ax.texts}
    ratios = results.of("gemm").ratios.query("kernel == 'naive_rect' and k == 1600")
    best = ratios[ratios.cache == "hot"].ratio.max()
    place = shapes.index("3200×2400×1600"), kernels.index("naive, any shape")
    assert cells[place] == f"{best * 100:.0f}"
    assert (place[0], kernels.index("naive")) not in cells  # it takes square matrices only


def test_a_kernel_without_a_cell_among_the_shapes_shown_has_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernels_shown(most: int) -> list[str]:
        monkeypatch.setattr("matmul.report.figures.ranking.MOST_SHAPES", most)
        (ax,) = FIGURES["heat_map"](results).axes
        return [label.get_text() for label in ax.get_yticklabels()]

    shapes = {"gemm": (64, 128, "2x8x8", "1x64x64", "65x64x64")}
    results = made_up(
        tmp_path, kernels=["naive", "streamed", "thin", "cublas_sgemm"], shapes=shapes
    )
    assert kernels_shown(6) == ["naive", "streamed", "thin"]
    assert kernels_shown(2) == ["naive", "streamed"]


@pytest.mark.parametrize(("count", "most"), [(1, 5), (5, 5), (6, 5), (61, 7), (3, 1)])
def test_shapes_are_thinned_evenly(count: int, most: int) -> None:
    shapes = [Gram(n, n) for n in range(1, count + 1)]
    kept = thinned(shapes, most)
    assert len(kept) == min(count, most)
    assert kept[0] == shapes[0] and (most == 1 or kept[-1] == shapes[-1])


def test_the_parts_of_a_product_are_all_of_it(results: Results) -> None:
    ax = FIGURES["time_split"](results).axes[0]
    heights = np.array([bar.get_height() for bar in ax.patches]).reshape(len(PARTS), -1)
    assert heights.sum(axis=0) == pytest.approx(1)
    assert heights[:, 0] == pytest.approx([1 / 4, 2 / 4, 1 / 4, 0])  # of an end-to-end time of 4


def test_the_first_launch_stands_over_later_ones(results: Results) -> None:
    line = lines_of(FIGURES["first_launch"](results))["naive"]
    assert line[:, 1] == pytest.approx([3.0] * len(line))


def test_the_cards_state_has_a_row_per_operation(results: Results) -> None:
    figure = FIGURES["clocks"](results)
    assert len(figure.axes) == 3 * len(OPERATIONS)
    assert set(lines_of(figure, 1)["naive"][:, 1]) == {300.0}
    assert set(lines_of(figure, 5)["gram_naive"][:, 1]) == {50.0}


def test_a_card_without_readings_has_no_clocks(tmp_path: Path) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(power_w=np.nan)

    (ax,) = FIGURES["clocks"](made_up(tmp_path, change=change)).axes
    assert "no reading is on record" in ax.texts[0].get_text()


def test_of_many_kernels_a_few_stand_for_their_kind(results: Results) -> None:
    gemm = results.of("gemm")
    rows = squares(fastest(gemm.timed()))
    kept = few(gemm, rows)
    assert rows[gemm.gpu(rows)].kernel.nunique() > LINES > kept.kernel.nunique()
    assert {"naive", "shared", "cublas_sgemm"} < set(kept.kernel)
    half = rows[rows.kernel.isin(["naive", "vectors", "cpu_blas"])]
    assert set(few(gemm, half).kernel) == {"naive", "vectors"}


def test_words_inside_the_axes_lie_over_no_line() -> None:
    """Over the only free place between two rising lines."""
    made, (ax,) = style.panels()
    for name, factor in (("low", 1.0), ("high", 1.4)):
        style.draw_line(ax, [1, 2, 4, 8], [factor * x**2 for x in (1, 2, 4, 8)],
                        style.Look("black", "o"), name)  # fmt: skip
    ax.set_xlim(0, 9)
    ax.set_ylim(0, 100)
    style.label_inside(ax, "high", "a name of some length")
    made.get_layout_engine().execute(made)
    box = ax.texts[0].get_window_extent()
    for line in ax.get_lines():
        for place in style.between(ax.transData.transform(line.get_xydata()), 100):
            assert not box.contains(*place)
