"""Figures of limits, phases and rankings: numbers computed by hand, and a note for missing data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up_data import made_up
from matplotlib.figure import Figure

from matmul.catalogue.entries import load_catalogue
from matmul.operations import OPERATIONS, parse_shape
from matmul.operations.gram import Gram
from matmul.report.figures import labels, ranking, style
from matmul.report.figures.figure_base import look
from matmul.report.figures.gallery import FIGURES
from matmul.report.figures.phases import PARTS
from matmul.report.figures.ranking import thinned
from matmul.report.selection import Results, load_results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made_up(tmp_path_factory.mktemp("data"))


def lines_of(figure: Figure, axes: int = 0) -> dict[str, np.ndarray]:
    return {line.get_label(): line.get_xydata() for line in figure.axes[axes].get_lines()}


def test_the_roofs_are_what_was_counted_at_the_largest_size(results: Results) -> None:
    figure = FIGURES["roofline"](results)
    lines = lines_of(figure)
    assert set(lines["arithmetic"][:, 0]) == {90.0}
    assert set(lines["DRAM"][:, 0]) == {1.0}
    view = results.of("gemm")
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [view.title(kernel) for kernel in (*view.told, "cublas_sgemm")]
    assert figure.get_suptitle().split()[-6:] == ["to", "the", "peak", "of", "arithmetic,", "90%"]


def test_a_data_set_without_counters_has_no_roofline(tmp_path: Path) -> None:
    made_up(tmp_path, kernels=["naive"])
    (tmp_path / "counters.csv").unlink()
    (ax,) = FIGURES["roofline"](load_results(tmp_path, load_catalogue())).axes
    assert "No hardware counters" in ax.texts[0].get_text()


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


def cells_of(results: Results) -> tuple[list[str], list[str], dict[tuple[float, float], str]]:
    """Kernels, shapes and cells of the table of shares."""
    (ax,) = FIGURES["heat_map"](results).axes
    kernels = [label.get_text().replace("\n", " ") for label in ax.get_xticklabels()]
    shapes = [label.get_text() for label in ax.get_yticklabels()]
    return kernels, shapes, {tuple(text.get_position()): text.get_text() for text in ax.texts}


def test_a_cell_is_the_best_variants_share(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["naive", "shared_rect", "cublas_sgemm"], change=steps)
    kernels, shapes, cells = cells_of(results)
    ratios = results.of("gemm").ratios.query("kernel == 'shared_rect' and k == 1600")
    best = ratios[ratios.cache == "hot"].ratio.max()
    place = shapes.index("3200×2400×1600")
    assert cells[kernels.index("shared, any shape"), place] == f"{best * 100:.0f}"
    assert (kernels.index("naive"), place) not in cells  # it takes square matrices only


def test_a_kernel_without_a_cell_among_the_shapes_shown_has_no_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = made_up(
        tmp_path, kernels=["naive", "shared_rect", "cublas_sgemm"], change=steps,
        shapes={"gemm": (64, 128, "65x64x64", "66x64x64")},
    )  # fmt: skip
    assert cells_of(results)[0] == ["naive", "shared, any shape"]
    monkeypatch.setattr(ranking, "shapes_by_form", lambda rows: [[parse_shape("65x64x64", "gemm")]])
    assert cells_of(results)[0] == ["shared, any shape"]


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
    assert len(figure.axes) == 2 * len(OPERATIONS)
    assert set(lines_of(figure, 0)["naive"][:, 1]) == {1980.0}
    assert set(lines_of(figure, 3)["gram_naive"][:, 1]) == {300.0}


def test_a_card_without_readings_has_no_clocks(tmp_path: Path) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(power_w=np.nan)

    (ax,) = FIGURES["clocks"](made_up(tmp_path, change=change)).axes
    assert "no reading is on record" in ax.texts[0].get_text()


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


def test_words_inside_the_axes_lie_over_no_line() -> None:
    """Over the only free place between two rising lines."""
    made, (ax,) = style.panels()
    for name, factor in (("low", 1.0), ("high", 1.4)):
        style.draw_line(ax, [1, 2, 4, 8], [factor * x**2 for x in (1, 2, 4, 8)],
                        style.Look("black", "o"), name)  # fmt: skip
    ax.set_xlim(0, 9)
    ax.set_ylim(0, 100)
    labels.label_inside(ax, "high", "a name of some length")
    made.get_layout_engine().execute(made)
    box = ax.texts[0].get_window_extent()
    for line in ax.get_lines():
        for place in labels.between(ax.transData.transform(line.get_xydata()), 100):
            assert not box.contains(*place)
