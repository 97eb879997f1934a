"""The figures: same bytes, same colours, right points, and none without data."""

import dataclasses
import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up_data import TF32, failed, made_up, speed_up_tf32, where
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.experiment.dataset.tables import TIMES
from matmul_sweep.experiment.report.facts.ladder import ladder
from matmul_sweep.experiment.report.figures import figure_base, style
from matmul_sweep.experiment.report.figures.claims import beside, listed, percent
from matmul_sweep.experiment.report.figures.figure_base import NothingToDraw, look
from matmul_sweep.experiment.report.figures.gallery import FIGURES
from matmul_sweep.experiment.report.figures.names import CAPTIONS, captions
from matmul_sweep.experiment.report.numbers import significant

PAIRED = ["naive", "shared", "cublas_sgemm"]
CHARTS = ("time_seconds", "time_milliseconds", "time_loglog", "gram_time")
ELSEWHERE = ("gemm_f16", "gram_bf16")  # operations that these data sets lack
GPU_ONLY = {"tile_width", "copies", "ladder", "gram_ladder"}

pytestmark = pytest.mark.slow


def lines_of(figure: Figure, panel: int | None = None) -> dict[str, Line2D]:
    """The data lines of a panel of a figure, or of all, by the name that they were drawn under."""
    panels = figure.axes if panel is None else [figure.axes[panel]]
    return {name: line for ax in panels for name, line in style.named_lines(ax).items()}


def words_of(figure: Figure) -> str:
    texts = [text.get_text() for ax in figure.axes for text in ax.texts]
    return "\n".join([*texts, figure.get_suptitle(), figure.get_supxlabel()])


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


def test_every_figure_has_a_caption_and_every_caption_a_figure():
    assert set(captions()) == set(figure_base.FIGURES)
    assert all((CAPTIONS / file).read_text().strip() for file in captions().values())


def test_words_are_of_a_size_for_print_and_not_in_mathtext(tmp_path, drawn):
    """What draws the report knows no TeX, in which matplotlib writes powers of ten."""
    others = {name for name in FIGURES if name.startswith(ELSEWHERE) or name.endswith("energy")}
    others |= {"random_shapes", "processor_sizes"}
    assert {*FIGURES} - {*drawn} == others
    for name, figure in drawn.items():
        sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text()]
        assert style.SMALL_TEXT <= min(sizes) <= max(sizes) < 10, name  # of the report's text
        if any("log" in (ax.get_xscale(), ax.get_yscale()) for ax in figure.axes):
            style.save(figure, tmp_path, name, ["svg"])
            # Nor in the comment that a drawn text has.
            assert "$" not in (tmp_path / f"{name}.svg").read_text(), name


def test_a_colour_has_one_meaning(results, drawn):
    colours: dict[str, set[str]] = {}
    lines = [line for figure in drawn.values() for ax in figure.axes for line in ax.get_lines()]
    for line in lines:
        if (name := str(line.get_label())) in results.catalogue:
            colours.setdefault(name, set()).add(to_hex(line.get_color()))
    # Lines are of squares, which thin and narrow do not take; made up are not those by name only.
    measured = {
        kernel.name
        for kernel in results.catalogue.values()
        if kernel.operation not in ELSEWHERE and not kernel.named_only
    }
    assert set(colours) == measured - {"thin", "narrow"}
    assert all(len(seen) == 1 for seen in colours.values()), colours
    of_gemm = results.of("gemm")
    of_cpu = [name for name in of_gemm.order if not results.on_gpu(name)]
    assert len({look(of_gemm, name) for name in of_cpu}) == len(of_cpu) >= 3
    for count in (1, 2, 5):  # steps get darker, so that grey print keeps their order
        shades = [style.step_look(place, count).colour for place in range(count)]
        lightness = [sum(to_rgb(shade)) for shade in shades]
        assert lightness == sorted(lightness, reverse=True)
        assert len(set(shades)) == count


def test_points_are_named_in_the_order_of_their_rates(results, drawn):
    (ax,) = drawn["accuracy"].axes
    lines = lines_of(drawn["accuracy"]).items()
    rates = {results.title(name): line.get_xdata()[0] for name, line in lines}
    named = [rates[text.get_text()] for text in sorted(ax.texts, key=lambda text: text.xy[1])]
    assert named == sorted(named) and len(named) > 2


def best(results: Results, kernel: str, column: str = "tflops") -> list[list[float]]:
    """Size and highest rate, or shortest time, of each hot square product."""
    of = "kernel == @kernel and phase == 'kernel' and cache == 'hot' and m == n"
    rows = results.summary.query(of)
    sizes = rows[(rows.status == "ok") & (rows.sweep == rows.operation)].groupby("n")[column]
    return [[n, value] for n, value in (sizes.max() if column == "tflops" else sizes.min()).items()]


POINTS: list[tuple[str, int, str, Callable[[Results], list[list[float]]]]] = [
    ("rate", 0, "shared", lambda r: best(r, "shared")[1:]),  # without n = 32: all lie on the axis
    ("gram_rate", 0, "cublas_dsyrk", lambda r: best(r, "cublas_dsyrk")),
    ("gram_rate", 0, "peak, float64 vector units", lambda _: [[500, 30], [4500, 30]]),
    ("gram_rate", 0, "peak, float64 tensor cores", lambda _: [[500, 65], [4500, 65]]),
    ("time_seconds", 1, "naive", lambda r: [[n, t / 1000] for n, t in best(r, "naive", "time_ms")]),
    ("accuracy", 0, "cublas_sgemm", lambda r: [[best(r, "cublas_sgemm")[-1][1], 1e-7]]),
]


@pytest.mark.parametrize(("name", "panel", "line", "points"), POINTS)
def test_the_points_are_those_of_the_data(results, drawn, name, panel, line, points):
    assert lines_of(drawn[name], panel)[line].get_xydata().tolist() == points(results)


def crosses(figure: Figure) -> set[tuple[float, ...]]:
    """The documents' points in a figure."""
    lines = [line for ax in figure.axes for line in ax.get_lines()]
    return {tuple(line.get_xydata()[0].round(6)) for line in lines if line.get_gid() == style.CROSS}


@pytest.mark.parametrize("name", ["time_seconds", "time_milliseconds"])
def test_the_words_of_a_documents_time_hide_no_line(drawn, name):
    ax = drawn[name].axes[0]
    words = [text for text in ax.texts if ": " in text.get_text()]
    drawn[name].canvas.draw()
    assert len(words) == 2 and all(text.get_window_extent().x0 >= ax.bbox.x1 for text in words)


def test_time_is_charted_as_in_the_documents(drawn):
    assert lines_of(drawn["time_seconds"], 1).keys() == {"naive", "shared"}
    assert crosses(drawn["time_seconds"]) == {(14400, 60), (14400, 12.75)}
    assert crosses(drawn["time_milliseconds"]) == {
        (32, 0.034816), (32, 0.013088), (1024, 4.70298), (1024, 3.57853),
    }  # fmt: skip
    assert lines_of(drawn["time_milliseconds"]).keys() >= {"naive", "shared", "cublas_sgemm"}
    assert lines_of(drawn["time_loglog"]).keys() >= {
        "cpu_loop", "cpu_blas", "naive", "shared", "naive_rect", "shared_rect", "sgemm",
        "shared_rect_split", "cublas_sgemm", "slope of n³",
    }  # fmt: skip
    assert len(crosses(drawn["time_loglog"])) == 14  # of 001, 002 and 003
    gram = drawn["gram_time"]
    assert [ax.get_title("left").split()[0] for ax in gram.axes[:3]] == ["square", "wide", "tall"]
    for panel in range(3):
        assert lines_of(gram, panel).keys() == {"cublas_dgemm", "gram_naive", "gram_register_tile"}
    assert lines_of(gram, 2)["cublas_dgemm"].get_xdata().tolist() == [2250]
    assert (18500, 360222.531) in crosses(gram)


def test_panels_on_one_axis_hold_the_points_of_all(tmp_path):
    """Here the form that is drawn first has the shortest times."""
    shapes = {"gemm": [64], "gram": [500, "1000x2000", "2000x4000"]}
    for ax in FIGURES["gram_time"](made_up(tmp_path, shapes=shapes)).axes[:2]:
        low, high = ax.get_ylim()
        assert low == 0
        assert all((line.get_ydata() <= high).all() for line in style.named_lines(ax).values())


def test_without_a_gpu_the_cpu_is_drawn_and_the_reason_said(command, tmp_path):
    results = made_up(tmp_path / "data", gpu=False)
    figures, reasons = all_drawn(results)
    assert {*CHARTS} <= figures.keys() and reasons.keys() >= GPU_ONLY
    assert all("there is no GPU on this machine" in reasons[name] for name in GPU_ONLY)
    assert lines_of(figures["rate"]).keys() >= {"cpu_loop", "cpu_blas"}
    assert "Imaginary CPU" in words_of(figures["rate"])
    assert command("figures", "--data", results.folder, "--output", tmp_path).code == 0
    written = json.loads((tmp_path / "drawn.json").read_text())
    assert {file.stem for file in tmp_path.glob("*.svg")} == {*written} == {*figures}
    assert written["rate"].startswith("Rate by size")


def test_one_kernel_alone_has_figures(tmp_path):
    for kernel in ("naive", "cpu_loop"):
        figures, reasons = all_drawn(made_up(tmp_path / kernel, kernels=[kernel]))
        assert {*CHARTS, "rate"} <= figures.keys()
        assert all(kernel in lines_of(figures[name]) for name in ("rate", "time_loglog"))
        assert "not in this data set" in reasons["gram_ladder"]


def test_of_nothing_at_all_only_the_documents_own_times_are_drawn(tmp_path):
    figures, _ = all_drawn(made_up(tmp_path, kernels=["naive"], change=failed, device={}))
    assert {*figures} == {*CHARTS}
    for name, figure in figures.items():
        assert style.has(figure, style.CROSS), name
        assert "unknown device · date unknown" in words_of(figure)


HOT = where("kernel == 'naive' and n == 1024 and phase == 'kernel'",
            throttled="power_cap+sw_thermal")  # fmt: skip
STEPS = {"naive": 1.0, "naive_rect": 1.2, "shared": 1.5, "shared_rect": 1.6, "register_tile": 4.0,
         "sgemm": 4.1, "cublas_sgemm": 5.0}  # fmt: skip


def steps(summary: pd.DataFrame) -> pd.DataFrame:
    """A summary in which kernels have the rates of STEPS, whatever the shape."""
    timed = summary.kernel.isin(STEPS) & (summary.status == "ok") & (summary.phase == "kernel")
    factor = (summary.tflops / summary.kernel.map(STEPS)).where(timed, 1.0)
    times = summary[TIMES].mul(factor, axis="index")
    return summary.assign(**times, tflops=summary.tflops / factor)


MODIFIED = {"gpu": "Some GPU", "commit": "a" * 40, "dirty": True, "date": "2026-01-02"}
SAID: list[tuple[str, dict[str, Any], str, str]] = [  # a figure, its data, words, and no words
    ("rate", {"kernels": ["naive"], "caches": ["cold"]}, "cold: the L2", "turn, hot"),
    ("rate", {"kernels": ["naive"]}, "in turn, hot", "slowed down for heat"),
    ("rate", {"kernels": ["naive"], "change": HOT}, "slowed down for heat", "cold:"),
    ("rate", {"kernels": ["naive"], "device": MODIFIED}, "commit aaaaaaa, modified files", "peak"),
    ("rate", {"kernels": [*STEPS], "change": steps},
     "grey: naive for any shape and shared for any shape", "other"),
    ("ladder", {"kernels": [*STEPS], "change": steps, "caches": ["alone"]},
     "sgemm is 4.10 times as fast as naive and 0.820 times as fast as cuBLAS SGEMM", "grey"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "words", "others"), SAID)
def test_what_a_reader_has_to_know_is_said(tmp_path, name, options, words, others):
    said = " ".join(words_of(FIGURES[name](made_up(tmp_path, **options))).split())
    assert words in said and others not in said


def test_what_is_told_of_are_the_large_steps_and_the_fastest(tmp_path):
    results = made_up(tmp_path, kernels=[*STEPS], change=steps)
    assert results.of("gemm").told == ["naive", "shared", "register_tile", "sgemm"]
    looks = {kernel: look(results, kernel) for kernel in STEPS}
    assert looks["naive_rect"] == looks["shared_rect"] == style.CONTEXT
    assert len({own.colour for own in looks.values()}) == 6


def test_one_kernel_alone_is_no_comparison_and_the_others_keep_their_colours(tmp_path):
    def change(rows: pd.DataFrame) -> pd.DataFrame:
        own = rows[(rows.kernel == "gram") & (rows.cache == "hot")]
        return pd.concat([rows, own.assign(cache="alone")], ignore_index=True)

    kernels = ["gram_naive", "gram_register_tile", "gram", "cublas_dsyrk"]
    results = made_up(tmp_path, kernels=kernels, change=change)
    colours = {look(results, kernel).colour for kernel in kernels}
    assert len(colours) == 4 and style.CONTEXT.colour not in colours
    for name in ("gram_ladder", "gram_energy"):
        with pytest.raises(NothingToDraw, match=r"One step only|No two kernels"):
            FIGURES[name](results)


def test_a_step_is_as_long_as_its_gain_and_the_longest_is_named_beside_its_library(tmp_path):
    results = made_up(tmp_path, kernels=[*STEPS], change=steps, caches=["alone"])
    (ax,) = FIGURES["ladder"](results).axes
    found = ladder(results, "gemm")
    bars = [own[0].get_width() for own in ax.containers[1::2]]  # each behind has its bound
    colours = [to_hex(own[0].get_facecolor()) for own in ax.containers[1::2]]
    assert colours == [look(results, name).colour for name in found["heights"]]
    assert bars == [*found["heights"].values()] and len(bars) == 4
    gains = [gain["quotient"] for gain in found["stairs"].values() if gain]
    assert [b / a for a, b in itertools.pairwise(bars)] == pytest.approx(gains)
    (top,) = (step for step in found["steps"] if step["name"] == found["top"])
    ((low, _),) = ax.collections[-1].get_segments()
    assert low[0] == max(bars) / min(share["ratio"] for share in top["shares"])
    words = [text.get_text() for text in ax.texts]
    assert [f"×{significant(gain)}" for gain in gains] == [w for w in words if w.startswith("×")]


def test_speed_stands_beside_energy_where_kernels_were_timed_alone_with_their_power(tmp_path):
    results = made_up(tmp_path, kernels=[*PAIRED, TF32], caches=["hot", "alone"])
    rate, joule = FIGURES["energy"](results).axes
    names = [label.get_text() for label in rate.get_yticklabels()]
    assert names == [results.title(kernel) for kernel in PAIRED]
    rates = [best(results, kernel)[-1][1] for kernel in PAIRED]
    assert [bar.get_width() for bar in rate.patches] == rates
    joules = [rate * 1000 / 300 for rate in rates]  # at 300 W
    assert [bar.get_width() for bar in joule.patches] == pytest.approx(joules)


def test_a_figure_says_how_it_was_timed_and_on_how_many_cards(tmp_path):
    results = made_up(tmp_path, kernels=PAIRED, caches=["hot", "alone"])
    results.jobs.loc[0, "uuid"] = "GPU-of-another-card"
    drawn = (words_of(FIGURES[name](results)) for name in ("time_loglog", "rate", "ladder"))
    times, rate, steps = (" ".join(words.split()) for words in drawn)
    assert times.endswith("in turn, hot · 2 cards")
    for said in (rate, steps):
        assert said.endswith("commit 0123456 · alone, at its own clock · 2 cards")
    few = made_up(tmp_path / "few", kernels=PAIRED, caches=["alone", "hot"],
                  change=lambda rows: rows[(rows.cache == "hot") | (rows.n > 1000)])  # fmt: skip
    assert "in turn, hot" in words_of(FIGURES["rate"](few))


def test_a_library_that_was_timed_beside_kernels_only_is_drawn_by_its_speedups(tmp_path):
    results = made_up(tmp_path, kernels=PAIRED, caches=["alone"])
    own = results.summary[results.summary.kernel == "cublas_sgemm"]
    without = dataclasses.replace(results, summary=results.summary.drop(own.index))
    line, same = (lines_of(FIGURES["rate"](x))["cublas_sgemm"] for x in (without, results))
    assert line.get_xydata() == pytest.approx(same.get_xydata())


def test_names_keep_apart_in_low_panels_and_ladders_of_two_steps_too(tmp_path, drawn):
    results = made_up(tmp_path, kernels=PAIRED, change=steps, caches=["alone"], device=MODIFIED)
    two = FIGURES["ladder"](results)
    for made in (drawn["gram_time"], two):
        made.draw_without_rendering()
    for ax in [*drawn["gram_time"].axes[2::3], *two.axes]:  # the last of each row
        boxes = [Text.get_window_extent(text) for text in ax.texts if text.get_text()]
        assert len(boxes) > 2
        assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_tf32_is_drawn_beside_its_error_only(tmp_path):
    kernels = [*PAIRED, TF32, "cpu_loop", "sgemm"]
    figures, _ = all_drawn(made_up(tmp_path, kernels=kernels, change=speed_up_tf32))
    assert {name for name, figure in figures.items() if TF32 in lines_of(figure)} == {"accuracy"}


CLAIMS = [  # a ratio, the ends of its interval, and how far it goes
    (1.08, 1.07, 1.09, "1.08 times as fast as"),
    (2.14, 2.1, 2.2, "2.14 times as fast as"),
    (1.01, 0.99, 1.03, "as fast as"),
    (0.17, 0.16, 0.18, "0.170 times as fast as"),
    (0.99, 0.985, 0.994, "0.990 times as fast as"),
    (1.003, 1.002, 1.004, "as fast as"),  # sure, and too little to matter
    (3.0, np.nan, np.nan, ""),  # too few pairs to claim anything
]


def test_a_claim_goes_as_far_as_its_interval():
    assert [beside(*numbers) for *numbers, _ in CLAIMS] == [words for *_, words in CLAIMS]
    assert [listed(["a", "b", "c"][:count]) for count in (1, 2, 3)] == [
        "a", "a and b", "a, b and c"]  # fmt: skip
    assert [percent(share) for share in (0.004, 0.17, 0.9996, 1.564)] == [
        "0.40%", "17%", "100%", "156%"]  # fmt: skip


def test_an_axis_has_labels_without_a_power_of_two_and_two_powers_of_ten(tmp_path):
    between = made_up(tmp_path / "sizes", kernels=["naive"], shapes={"gemm": (40, 45)})
    assert [*FIGURES["rate"](between).axes[0].get_xticks()] == [40, 45]
    alike = made_up(tmp_path / "errors", change=lambda rows: rows.assign(
        mean_error=2e-8, largest_error=9e-8))  # fmt: skip
    (ax,) = FIGURES["accuracy"](alike).axes
    low, high = ax.get_ylim()
    labels = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    assert [label.get_text() for value, label in labels if low <= value <= high] == ["10⁻⁸", "10⁻⁷"]


def test_the_same_data_give_the_same_bytes(tmp_path, drawn):
    """Without the version that drew them, and the date."""
    for name in ("one", "two"):
        style.save(drawn["rate"], tmp_path, name)
    for kind in style.FORMATS:
        one, two = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("one", "two"))
        assert one == two and b"Matplotlib" not in one and b"<dc:date>" not in one
