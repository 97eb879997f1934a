"""Two cards: rates beside what the rooflines predict, and shares beside shares."""

import dataclasses
import itertools
import logging
from pathlib import Path

import pandas as pd
import pytest
from made_up_data import DEVICE, Change, ceilings, made_up
from matplotlib.text import Text
from test_tables import typeset

from matmul_sweep.experiment.dataset.selection import Results, load_results, with_others
from matmul_sweep.experiment.dataset.tables import TIMES, write_table
from matmul_sweep.experiment.report.facts.cards import cards, points
from matmul_sweep.experiment.report.figures.cards import predictable
from matmul_sweep.experiment.report.figures.figure_base import NothingToDraw
from matmul_sweep.experiment.report.figures.gallery import FIGURES

KERNELS = ["naive", "sgemm", "cublas_sgemm", "gram_naive", "cublas_dgemm", "cublas_dsyrk"]
THIN = "1x8192x8192"  # its matrices are 268 MB
SHAPES = {"gemm": (64, 1024, 4096, THIN), "gram": (500, 4500)}
CARD = DEVICE | {"l2_bytes": 50e6}
OTHER = CARD | {"gpu": "Other GPU"}
BANDWIDTH = {"copy": 1000.0}  # in place of 2000 GB/s


def paced(thin: float, naive: float) -> Change:
    """A change by which these products take so many times as long."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        factor = pd.Series(1.0, summary.index).mask(summary.m == 1, thin)
        factor = factor.mask(summary.kernel == "naive", naive)
        times = {column: summary[column] * factor for column in TIMES}
        return summary.assign(tflops=summary.tflops / factor, **times)

    return change


# Beside sgemm naive is no match. With half of the bandwidth the thin product takes twice the time,
# and naive takes three times everywhere, which no roofline predicts.
HERE, THERE = paced(1.0, 5.0), paced(2.0, 15.0)


def two(folder: Path, change: Change = THERE) -> Results:
    """A card beside another one, whose folder has its name."""
    place = folder / "other-gpu"
    made_up(place, kernels=KERNELS, shapes=SHAPES, device=OTHER, change=change)
    table = ceilings(gpu=True)
    table["value"] = table.name.map(BANDWIDTH).fillna(table.value)
    write_table(table, "ceilings.csv", place / "ceilings.csv")
    results = made_up(folder, kernels=KERNELS, shapes=SHAPES, device=CARD, change=HERE)
    return with_others(results, [place])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return two(tmp_path_factory.mktemp("two"))


def test_what_bandwidth_changes_is_held_against_the_prediction(pair):
    (found,) = cards(pair)
    limits = {row["title"]: row["times"] for row in found["limits"]}
    assert limits["memory"] == 2 and limits["float32 units"] == 1
    groups = {(group["title"], group["bound"]): group for group in found["operations"]["gemm"]}
    assert {key: group["shapes"] for key, group in groups.items()} == {
        ("sgemm", "memory"): 1, ("sgemm", "arithmetic"): 2,
        ("cuBLAS SGEMM", "memory"): 1, ("cuBLAS SGEMM", "arithmetic"): 2,
    }  # fmt: skip
    for (_, bound), group in groups.items():
        expected = pytest.approx(2 if bound == "memory" else 1)
        assert group["faster"] == expected, group
        assert group["predicted"] == expected, group
    assert typeset(pair, pair.folder).startswith(b"%PDF")


def test_at_the_power_limit_rates_are_not_compared(tmp_path):
    (found,) = cards(two(tmp_path, lambda summary: summary.assign(throttled="power_cap")))
    assert found["operations"] == {}


def test_without_ceilings_and_peaks_nothing_is_predicted(pair):
    bare = dataclasses.replace(pair, ceilings=pair.ceilings[:0])
    (found,) = cards(bare)
    assert "memory" not in {row["title"] for row in found["limits"]}
    assert found["operations"] == {}
    here, there = bare.of("gemm"), bare.others[0].of("gemm")
    own = points(here, there)
    assert len(own) and own.predicted.isna().all()
    assert FIGURES["cards"](bare).axes


def test_the_figure_has_each_point_and_the_prediction(pair):
    made = FIGURES["cards"](pair)
    titles = [ax.get_title(loc="left") for ax in made.axes]
    assert [title.split(":")[1] for title in titles] == [" time on Other GPU / time here"] * 2
    drawn = {line.get_label(): line.get_xydata() for line in made.axes[0].get_lines()}
    here, there = pair.of("gemm"), pair.others[0].of("gemm")
    own = predictable(points(here, there))
    for kernel in ("sgemm", "cublas_sgemm"):
        expected = own[own.kernel == kernel].sort_values("intensity")[["intensity", "faster"]]
        assert drawn[kernel] == pytest.approx(expected.to_numpy())
    assert drawn["predicted"][:, 1].min() == pytest.approx(1)
    assert drawn["predicted"][:, 1].max() == pytest.approx(2)


@pytest.mark.parametrize("panels", [1, 2])
def test_names_beside_lines_keep_apart_in_low_panels_too(pair, panels):
    own = pair.summary[pair.summary.operation.isin(["gemm", "gram"][:panels])]
    made = FIGURES["cards"](dataclasses.replace(pair, summary=own))
    made.draw_without_rendering()
    assert len(made.axes) == panels
    for ax in made.axes:
        boxes = [Text.get_window_extent(text) for text in ax.texts if text.get_text()]
        named = sorted((box for box in boxes if box.x0 > ax.bbox.x1), key=lambda box: box.y0)
        assert len(named) > 2
        assert all(low.y1 <= high.y0 + 1 for low, high in itertools.pairwise(named))


def test_what_is_no_other_card_is_left_out(tmp_path, caplog):
    results = made_up(tmp_path, kernels=["naive"], device=CARD)
    places = [tmp_path / name for name in ("same", "broken", "none", "other-gpu")]
    for place, gpu in zip(places, (CARD["gpu"], "Third", None, OTHER["gpu"]), strict=True):
        if gpu:
            made_up(place, kernels=["naive"], device=CARD | {"gpu": gpu})
    (places[1] / "summary.csv").write_text("kernel,variant\n")
    with caplog.at_level(logging.WARNING):
        found = with_others(results, places)
    assert [other.device["gpu"] for other in found.others] == ["Other GPU"]
    assert "summary.csv: no column" in caplog.text and "none/device.json" in caplog.text
    processor = load_results(tmp_path, results.catalogue)
    processor.device["gpu"] = None
    assert len(with_others(processor, places).others) == 2


def test_the_programs_take_the_other_sets(command, tmp_path):
    for place, device in ((tmp_path, CARD), (tmp_path / "other-gpu", OTHER)):
        alone = made_up(place, kernels=["naive", "cublas_sgemm"], device=device)
    assert cards(alone) == []
    with pytest.raises(NothingToDraw, match="No other card"):
        FIGURES["cards"](alone)
    options = ["--data", tmp_path, "--beside", tmp_path / "other-gpu"]
    assert command("tables", *options, "--output", tmp_path / "tables.json").code == 0
    assert '"card": "Other GPU"' in (tmp_path / "tables.json").read_text()
