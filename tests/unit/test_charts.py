"""The figures: same bytes, same colours, right points, and none without data."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up_data import STUDIES, TF32, made_up, speed_up_tf32, with_tf32
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from support import Command

from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.experiment.report.figures import figure_base, labels, style
from matmul_sweep.experiment.report.figures.figure_base import NothingToDraw
from matmul_sweep.experiment.report.figures.gallery import FIGURES
from matmul_sweep.experiment.report.figures.names import CAPTIONS, captions
from matmul_sweep.operations.fills import FILLS

PAIRED = ["naive", "shared", "cublas_sgemm"]
CHARTS = ("time_seconds", "time_milliseconds", "time_loglog", "gram_time")

pytestmark = pytest.mark.slow


def lines_of(figure: Figure) -> Iterator[tuple[str, Line2D]]:
    """Every data line by the name that it was drawn under."""
    for ax in figure.axes:
        for line in ax.get_lines():
            yield line.get_label(), line


def lines_in(ax: Axes) -> dict[str, Line2D]:
    """The named lines of a panel."""
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    return {name: line for name, line in lines.items() if not name.startswith("_")}


def words_of(figure: Figure) -> str:
    texts = [text.get_text() for ax in figure.axes for text in ax.texts]
    return "\n".join([*texts, figure.get_suptitle(), figure.get_supxlabel()])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A data set without holes."""
    return made_up(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def drawn(results: Results) -> dict[str, Figure]:
    """Every figure of it."""
    return all_drawn(results)[0]


def all_drawn(results: Results) -> tuple[dict[str, Figure], dict[str, str]]:
    """The figures that have something to draw, and why the others have nothing."""
    figures, reasons = {}, {}
    for name, draw in FIGURES.items():
        try:
            figures[name] = draw(results)
        except NothingToDraw as reason:
            reasons[name] = str(reason)
    return figures, reasons


@pytest.fixture(scope="module")
def without_gpu(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made_up(tmp_path_factory.mktemp("cpu"), gpu=False)


def test_the_same_data_give_the_same_bytes(tmp_path: Path, results: Results) -> None:
    for folder in ("a", "b"):
        style.save(FIGURES["share"](results), tmp_path / folder, "share")
    for file in ("share.svg", "share.png"):
        drawn = (tmp_path / "a" / file).read_bytes()
        assert drawn == (tmp_path / "b" / file).read_bytes()
        assert b"Matplotlib" not in drawn  # nor its version, nor the date of drawing
        assert b"<dc:date>" not in drawn


def test_no_words_are_in_mathtext(tmp_path: Path, drawn: dict[str, Figure]) -> None:
    """What draws the report knows no TeX, in which matplotlib writes powers of ten."""
    assert {*FIGURES} - {*drawn} == {"cards", "random_shapes", "processor_sizes"}  # of others
    for name, figure in drawn.items():
        if any("log" in (ax.get_xscale(), ax.get_yscale()) for ax in figure.axes):
            style.save(figure, tmp_path, name, ["svg"])
            # Nor in the comment that a drawn text has.
            assert "$" not in (tmp_path / f"{name}.svg").read_text(), name


def test_a_kernel_has_one_colour_in_all_figures(results: Results, drawn: dict[str, Figure]) -> None:
    colours: dict[str, set[str]] = {}
    for figure in drawn.values():
        for name, line in lines_of(figure):
            if name in results.catalogue:
                colours.setdefault(name, set()).add(to_hex(line.get_color()))
    # Lines are of squares, which thin and narrow do not take; made up are not those by name only.
    lineless = {"thin", "narrow", "cpu_loop_rows"}
    assert set(colours) == set(results.catalogue) - lineless
    assert all(len(seen) == 1 for seen in colours.values()), colours


def test_the_kernels_of_the_cpu_are_told_apart(without_gpu: Results) -> None:
    of_gemm = without_gpu.of("gemm")
    names = [name for name in of_gemm.order if not without_gpu.on_gpu(name)]
    assert len({figure_base.look(of_gemm, name) for name in names}) == len(names) >= 3


@pytest.mark.parametrize("count", [1, 2, 5])
def test_steps_get_darker(count: int) -> None:
    """So that grey print keeps their order."""
    shades = [style.step_look(place, count).colour for place in range(count)]
    lightness = [sum(to_rgb(shade)) for shade in shades]
    assert lightness == sorted(lightness, reverse=True)
    assert len(set(shades)) == count


def test_rates_are_those_of_the_fastest_variant(results: Results) -> None:
    line = dict(lines_of(FIGURES["rate"](results)))["shared"]
    rows = results.summary.query("kernel == 'shared' and phase == 'kernel' and cache == 'hot'")
    best = rows[rows.status == "ok"].groupby("n").tflops.max()
    best = best[best.index > 32]  # where all lines would lie on the axis
    assert np.array_equal(line.get_xdata(), best.index)
    assert np.array_equal(line.get_ydata(), best.to_numpy())


def crosses(figure: Figure) -> set[tuple[float, float]]:
    """The documents' points in a figure."""
    lines = [line for ax in figure.axes for line in ax.get_lines()]
    found = [line.get_xydata()[0] for line in lines if line.get_gid() == style.CROSS]
    return {(x, round(float(y), 6)) for x, y in found}


def test_time_is_charted_as_in_the_documents(results: Results, drawn: dict[str, Figure]) -> None:
    rows = results.summary.query("kernel == 'naive' and phase == 'kernel' and cache == 'hot'")
    best = rows[rows.status == "ok"].groupby("n").time_ms.min()
    seconds = lines_in(drawn["time_seconds"].axes[1])
    assert seconds.keys() == {"naive", "shared"}
    assert seconds["naive"].get_xydata().tolist() == [[n, ms / 1000] for n, ms in best.items()]
    assert crosses(drawn["time_seconds"]) == {(14400, 60), (14400, 12.75)}
    assert crosses(drawn["time_milliseconds"]) == {
        (32, 0.034816), (32, 0.013088), (1024, 4.70298), (1024, 3.57853),
    }  # fmt: skip
    assert dict(lines_of(drawn["time_milliseconds"])).keys() >= {"naive", "shared", "cublas_sgemm"}
    assert dict(lines_of(drawn["time_loglog"])).keys() >= {
        "cpu_loop", "cpu_blas", "naive", "shared", "naive_rect", "shared_rect", "sgemm",
        "shared_rect_split", "cublas_sgemm", "slope of n³",
    }  # fmt: skip
    assert len(crosses(drawn["time_loglog"])) == 14  # of 001, 002 and 003
    gram = drawn["gram_time"].axes
    assert [ax.get_title(loc="left").split()[0] for ax in gram[:3]] == ["square", "wide", "tall"]
    for ax in gram[:3]:
        assert lines_in(ax).keys() == {"cublas_dgemm", "gram_naive", "gram_register_tile"}
    assert lines_in(gram[2])["cublas_dgemm"].get_xdata().tolist() == [2250]
    assert (18500, 360222.531) in crosses(drawn["gram_time"])


GPU_ONLY = {"share", "tile_width", "copies", "hot_and_cold", "ladder", "clocks", "fills",
            "error_and_speed", "sustained", "gram_share", "gram_ladder"}  # fmt: skip


def test_without_a_gpu_the_cpu_is_drawn_and_the_reason_said(without_gpu: Results) -> None:
    figures, reasons = all_drawn(without_gpu)
    assert reasons.keys() >= GPU_ONLY
    assert all("there is no GPU on this machine" in reasons[name] for name in GPU_ONLY)
    assert dict(lines_of(figures["rate"])).keys() >= {"cpu_loop", "cpu_blas"}
    assert dict(lines_of(figures["speedup"])).keys() >= {"cpu_blas"}
    assert "Imaginary CPU" in words_of(figures["rate"])
    assert "kernel times" not in words_of(figures["rate"])


@pytest.mark.parametrize("kernel", ["naive", "cpu_loop"])
def test_one_kernel_alone_has_figures(tmp_path: Path, kernel: str) -> None:
    figures, reasons = all_drawn(made_up(tmp_path, kernels=[kernel]))
    assert {*CHARTS, "rate"} <= figures.keys()
    assert all(kernel in dict(lines_of(figures[name])) for name in ("rate", "time_loglog"))
    assert "not in this data set" in reasons["gram_ladder"]


def test_of_nothing_at_all_only_the_documents_own_times_are_drawn(tmp_path: Path) -> None:
    def fail(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(status="failed", reason="wrong result", time_ms=None, tflops=None)

    figures, _ = all_drawn(made_up(tmp_path, kernels=["naive"], change=fail, device={}))
    assert {*figures} == {*CHARTS}
    for name, figure in figures.items():
        assert style.has(figure, style.CROSS), name
        assert "unknown device · date unknown" in words_of(figure)


def test_only_what_is_drawn_is_written_with_its_caption(
    command: Command, tmp_path: Path, without_gpu: Results
) -> None:
    options = ["--data", without_gpu.folder, "--output", tmp_path]
    assert command("figures", *options).code == 0
    written = json.loads((tmp_path / "drawn.json").read_text())
    assert (
        {file.stem for file in tmp_path.glob("*.svg")} == {*written} == {*all_drawn(without_gpu)[0]}
    )
    assert written["rate"].startswith("Rate by size")


def test_sizes_without_a_power_of_two_between_them_are_ticks(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["naive"], shapes={"gemm": (40, 45)})
    ticks = FIGURES["rate"](results).axes[0].get_xticks()
    assert [*ticks] == [40, 45]


def test_cold_times_are_called_cold(tmp_path: Path, results: Results) -> None:
    assert "cold" in words_of(
        FIGURES["rate"](made_up(tmp_path, kernels=["naive"], caches=["cold"]))
    )
    both = words_of(FIGURES["rate"](results))
    assert "hot" in both and "cold" not in both


def throttle(summary: pd.DataFrame) -> pd.DataFrame:
    hot = (summary.kernel == "naive") & (summary.n == 1024) & (summary.phase == "kernel")
    return summary.assign(throttled=np.where(hot, "power_cap+sw_thermal", ""))


def test_points_of_a_hot_card_are_hollow(tmp_path: Path, results: Results) -> None:
    assert "slowed down for heat" in words_of(
        FIGURES["rate"](made_up(tmp_path, kernels=["naive"], change=throttle))
    )
    assert "slowed down" not in words_of(FIGURES["rate"](results))


def test_modified_files_are_named_in_every_figure(tmp_path: Path) -> None:
    device = {"gpu": "Some GPU", "commit": "a" * 40, "dirty": True, "date": "2026-01-02"}
    words = words_of(FIGURES["rate"](made_up(tmp_path, kernels=["naive"], device=device)))
    assert "commit aaaaaaa, modified files" in words
    assert "peak" not in words  # of a card whose peak is not known


@pytest.mark.parametrize("count", [1, 2, 9, 12])
def test_labels_keep_apart(count: int) -> None:
    wanted = sorted(np.random.default_rng(count).uniform(0, 1, count) ** 4)
    placed = labels.spread(wanted, 0.05)
    gaps = [b - a for a, b in itertools.pairwise(placed)]
    assert all(gap > 0.0499 for gap in gaps)
    assert max(placed) <= 1


def hot(results: Results, kernel: str) -> pd.DataFrame:
    """The hot kernel times of AᵀA by one kernel."""
    return results.of("gram").summary.query(
        "kernel == @kernel and phase == 'kernel' and cache == 'hot' and status == 'ok'"
    )


def test_ratios_stand_in_the_panel_of_their_library(results: Results) -> None:
    figure = FIGURES["gram_share"](results)
    for ax, library in zip(figure.axes, ("cublas_dgemm", "cublas_dsyrk"), strict=True):
        assert results.title(library) in ax.get_title(loc="left")
        (line,) = [line for line in ax.get_lines() if line.get_label() == "gram_naive"]
        rows = results.ratios.query(
            "kernel == 'gram_naive' and baseline == @library and m == n and cache == 'hot'"
        )
        assert np.array_equal(line.get_ydata(), rows.groupby("n").ratio.max().to_numpy())


def test_a_large_ratio_without_an_interval_stays_inside_the_axes(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=PAIRED)
    results.ratios[["ratio_low", "ratio_high"]] = np.nan
    results.ratios["ratio"] += 2
    (ax,) = FIGURES["share"](results).axes
    assert ax.get_ylim()[1] > results.of("gemm").ratios.ratio.max()


def test_one_point_far_above_the_others_does_not_set_the_axis(tmp_path: Path) -> None:
    kernels = [*PAIRED, "naive_rect", "shared_rect", "register_tile", "vectors", "sgemm"]
    results = made_up(tmp_path, kernels=kernels)
    ratios = results.ratios
    far = (ratios.kernel == "naive") & (ratios.n == 32)
    ratios.loc[far, ["ratio", "ratio_low", "ratio_high"]] = 9.0, 8.9, 9.1
    (ax,) = FIGURES["share"](results).axes
    assert ax.get_ylim()[1] < 3


def test_rates_of_squares_stand_under_the_peaks(results: Results) -> None:
    (ax,) = FIGURES["gram_rate"](results).axes
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert set(lines["gram_naive"].get_xdata()) <= {500, 2500, 4500}
    assert set(lines["peak, float64 vector units"].get_ydata()) == {30.0}
    assert set(lines["peak, float64 tensor cores"].get_ydata()) == {65.0}
    assert "gram_cpu_blas" not in lines
    rows = hot(results, "cublas_dsyrk").query("m == n and n == 4500")
    assert lines["cublas_dsyrk"].get_ydata()[-1] == rows.tflops.item()


def test_tf32_is_drawn_beside_its_error_only(tmp_path: Path) -> None:
    kernels = [*PAIRED, TF32, "cpu_loop", "sgemm"]
    results = made_up(tmp_path, kernels=kernels, catalogue=with_tf32(), change=speed_up_tf32)
    figures, _ = all_drawn(results)
    drawn = {name for name, figure in figures.items() if TF32 in dict(lines_of(figure))}
    assert drawn == {"accuracy", "error_and_speed"}


def test_an_error_stands_over_its_rate_with_a_line_to_the_largest(results: Results) -> None:
    (ax,) = FIGURES["accuracy"](results).axes
    (line,) = [line for line in ax.get_lines() if line.get_label() == "cublas_sgemm"]
    rows = results.of("gemm").summary.query(
        "kernel == 'cublas_sgemm' and n == 1024 and phase == 'kernel' and cache == 'hot'"
    )
    assert line.get_xydata().tolist() == [[rows.tflops.item(), 1e-7]]
    segments = [segment.tolist() for segment in ax.collections[0].get_segments()]
    assert [[rows.tflops.item(), 1e-7], [rows.tflops.item(), 1e-6]] in segments


@pytest.mark.parametrize(("mean", "largest"), [(1.3e-8, 2.8e-7), (2e-8, 9e-8), (1e-8, 3e-5)])
def test_errors_near_one_another_stand_between_named_powers_of_ten(
    tmp_path: Path, mean: float, largest: float
) -> None:
    results = made_up(
        tmp_path,
        kernels=PAIRED,
        change=lambda summary: summary.assign(mean_error=mean, largest_error=largest),
    )
    drawn = FIGURES["accuracy"](results)
    style.save(drawn, tmp_path, "accuracy", ["svg"])
    assert "$" not in (tmp_path / "accuracy.svg").read_text()
    (errors,) = drawn.axes
    low, high = errors.get_ylim()
    assert low <= mean < largest <= high
    named = [label.get_text() for label in errors.get_yticklabels(which="both")]
    assert len([words for words in named if words.startswith("10")]) >= 2


def test_a_study_has_a_panel_for_each_quantity_that_is_known(tmp_path: Path) -> None:
    def titles(name: str, results: Results) -> list[str]:
        return [ax.get_title(loc="left").split(" in ")[0] for ax in FIGURES[name](results).axes]

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(power_w=np.nan, sm_clock_mhz=np.nan)

    studied = [*STUDIES["fills"][0][:2], *STUDIES["sustained"][0]]
    whole = made_up(tmp_path / "a", kernels=studied)
    bare = made_up(tmp_path / "b", kernels=studied, change=change)
    assert titles("fills", whole) == ["rate", "power"]
    assert titles("sustained", whole) == ["rate", "SM clock", "power"]
    assert titles("fills", bare) == titles("sustained", bare) == ["rate"]


def test_the_fills_are_points_in_their_order(results: Results) -> None:
    ax = FIGURES["fills"](results).axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == list(FILLS)
    (line,) = [line for line in ax.get_lines() if line.get_label() == "cublas_sgemm"]
    rows = results.summary.query("kernel == 'cublas_sgemm' and sweep == 'fills'")
    assert line.get_ydata().tolist() == rows.tflops.to_list()
    assert line.get_linestyle() == "None"


def test_errors_stand_over_rates_in_a_panel_for_each_fill(tmp_path: Path) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(mean_error=summary.mean_error.mask(summary.fill == "constant", 0))

    results = made_up(tmp_path, kernels=STUDIES["fills"][0][:2], change=change)
    axes = FIGURES["error_and_speed"](results).axes
    assert [ax.get_title(loc="left") for ax in axes] == [f for f in FILLS if f != "constant"]
    (line,) = [line for line in axes[-1].get_lines() if line.get_label() == "cublas_sgemm"]
    (row,) = results.summary.query(
        f"kernel == 'cublas_sgemm' and sweep == 'fills' and fill == '{FILLS[-1]}'"
    ).itertuples()
    assert line.get_xydata().tolist() == [[row.tflops, row.mean_error]]


def test_a_library_that_writes_half_of_c_is_said_to(tmp_path: Path, results: Results) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        other = (summary.sweep == "sustained") & (summary.kernel == "cublas_dsyrk")
        half = {name: summary[name].mask(other, "cublas_dsyrk_triangle")
                for name in ("kernel", "variant")}  # fmt: skip
        return summary.assign(**half)

    kernels = [*STUDIES["sustained"][0], "cublas_dsyrk_triangle"]
    drawn = FIGURES["sustained"](made_up(tmp_path, kernels=kernels, change=change))
    assert "triangle: writes one half" in words_of(drawn)
    assert "one half" not in words_of(FIGURES["sustained"](results))


def test_a_kernel_that_the_last_panel_lacks_is_named_in_another(results: Results) -> None:
    over_loop, over_blas = FIGURES["speedup"](results).axes
    assert "CPU, BLAS" in [text.get_text() for text in over_loop.texts]
    assert "CPU, BLAS" not in [text.get_text() for text in over_blas.texts]


def test_every_figure_has_a_caption_and_every_caption_a_figure() -> None:
    assert set(captions()) == set(figure_base.FIGURES)
    assert all((CAPTIONS / file).read_text().strip() for file in captions().values())


def test_results_order_is_the_catalogues(results: Results) -> None:
    assert results.order == list(results.catalogue)
