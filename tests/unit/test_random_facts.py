"""What the report says of random shapes: right numbers, and none of them anywhere else."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up_data import RANDOM, made_up

import tables
from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.experiment.report.facts.changes import own_times, relative_times
from matmul_sweep.experiment.report.facts.random_shapes import random_shapes
from matmul_sweep.experiment.report.figures.figure_base import NothingToDraw
from matmul_sweep.experiment.report.figures.gallery import FIGURES
from matmul_sweep.experiment.report.page.data import page_data
from matmul_sweep.experiment.report.page.lines import RANDOM as DRAWN
from matmul_sweep.operations import operation_of, shape_of
from matmul_sweep.process.project import ROOT
from matmul_sweep.process.yaml_files import read_yaml

DOCUMENTS = read_yaml(ROOT / "reports" / "documents.yaml")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made_up(tmp_path_factory.mktemp("drawn"), drawn=RANDOM)


def ratios(results: Results, sweep: str, kernel: str) -> pd.DataFrame:
    return results.ratios[(results.ratios.sweep == sweep) & (results.ratios.kernel == kernel)]


def test_a_ratio_is_to_the_fastest_rival_at_its_shape(results: Results) -> None:
    _, gram = random_shapes(results)
    own = ratios(results, "random_gram", "gram")
    assert own.baseline.nunique() == 3
    least = own.groupby(["m", "n"]).ratio.min()
    assert gram["all"]["shapes"] == len(least) == 30
    assert gram["all"]["worst"]["value"] == least.min()
    places = own.loc[own.groupby(["m", "n"]).ratio.idxmin()].baseline.map(results.title)
    counts = {rival["title"]: rival["shapes"] for rival in gram["rivals"]}
    assert counts == places.value_counts().to_dict()


def test_the_distribution_is_that_of_the_ratios(results: Results) -> None:
    gemm, _ = random_shapes(results)
    own = ratios(results, "random_gemm", "sgemm").ratio.to_numpy()
    found = {name: value["value"] for name, value in gemm["all"].items() if name != "shapes"}
    shares = {"worst": 0.0, "low": 0.05, "median": 0.5, "high": 0.95}
    expected = {
        name: np.quantile(own, share, method="inverted_cdf") for name, share in shares.items()
    }
    assert found == pytest.approx(expected)
    assert gemm["all"]["shapes"] == 40
    assert sum(gemm["verdicts"].values()) == 40


def test_shapes_with_too_few_pairs_are_counted_and_left_out(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["sgemm", "cublas_sgemm"], drawn=RANDOM)
    own = ratios(results, "random_gemm", "sgemm").sort_values("ratio")
    results.ratios.loc[own.index[:3], ["ratio_low", "ratio_high"]] = None
    gemm, _ = random_shapes(results)
    assert gemm["all"]["worst"]["value"] == own.ratio.iloc[3]
    assert (gemm["all"]["shapes"], gemm["verdicts"]["unknown"]) == (37, 3)
    results.ratios.loc[own.index, ["ratio_low", "ratio_high"]] = None
    assert random_shapes(results)[0]["missing"] == "fewer than 6 pairs or samples"


def test_the_classes_are_those_of_the_shapes_and_leave_none_out(results: Results) -> None:
    for entry, sweep in zip(random_shapes(results), ("random_gemm", "random_gram"), strict=True):
        kernel = entry["kernel"]["name"]
        own = ratios(results, sweep, kernel).drop_duplicates(["m", "n", "k"])
        shapes = [shape_of(row) for row in own.itertuples()]
        counts = pd.Series([operation_of(s).class_of(s) for s in shapes]).value_counts()
        assert {own["name"]: own["shapes"] for own in entry["classes"]} == counts.to_dict()


def test_without_a_gpu_the_reason_is_all_that_is_said(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["sgemm", "gram"], gpu=False, drawn=RANDOM)
    entries = random_shapes(results)
    assert {entry["missing"] for entry in entries} == {"there is no GPU on this machine"}
    with pytest.raises(NothingToDraw, match="no GPU on this machine"):
        FIGURES["random_shapes"](results)
    shapes = [entry["shapes"] for entry in tables.not_measured(results)["skipped"]]
    drawn = [own["shapes"] for [own, *_] in shapes if own["series"] == "drawn at random"]
    assert [len(own) for own in drawn] == [40, 30]
    assert all(len(own) < 20 for [own, *_] in shapes if own["series"] == "")


def words_of(results: Results) -> list[str]:
    made = FIGURES["random_shapes"](results)
    return [text.get_text() for ax in made.axes for text in ax.texts]


def test_the_figure_has_a_curve_and_lanes_for_each_dispatch_with_every_shape(
    results: Results,
) -> None:
    made = FIGURES["random_shapes"](results)
    named = [re.sub(r" [0-9.]+", "", words).split("\n") for words in words_of(results)]
    assert named == [["5%", "median", "95%"]] * 2
    curves, lanes = made.axes[:2], made.axes[2:]
    assert [ax.get_title("left") for ax in curves] == ["sgemm", "gram"]
    assert [ax.get_xlabel() for ax in lanes] == ["share of 40 shapes", "share of 30 shapes"]
    for curve, lane, entry in zip(curves, lanes, random_shapes(results), strict=True):
        [points], [strokes] = (
            [line.get_xydata() for line in ax.get_lines() if line.get_marker() != "None"]
            for ax in (curve, lane)
        )
        assert points[:, 0].tolist() == strokes[:, 0].tolist()
        counts = [int((strokes[:, 1] == place).sum()) for place in range(len(entry["classes"]))]
        assert counts == [own["shapes"] for own in entry["classes"]]
        named = [label.get_text() for label in lane.get_yticklabels()]
        assert named == [own["name"] for own in entry["classes"]]
        low, high = curve.get_ylim()
        assert low < entry["all"]["worst"]["value"] < 1 < high


FEW_SHAPES = {"gemm": (32, 640), "gram": (500, "2250x4500")}


@pytest.mark.parametrize("gpu", [True, False])
def test_no_other_part_of_the_report_takes_up_random_shapes(tmp_path: Path, gpu: bool) -> None:
    kernels = ["cpu_loop", "naive", "sgemm", "cublas_sgemm", "gram_naive", "gram", "cublas_dgemm"]
    plain, drawn = (
        made_up(tmp_path / name, kernels=kernels, shapes=FEW_SHAPES, gpu=gpu, drawn=sweeps)
        for name, sweeps in (("plain", {}), ("drawn", RANDOM))
    )
    expected, found = (tables.tables_of(own, DOCUMENTS) for own in (plain, drawn))
    for name in ("rates", "ladders", "documents", "catalogue"):
        assert found[name] == expected[name]
    for findings in (found["findings"], expected["findings"]):
        findings.pop("throttling")  # of everything that ran on the card
    assert found["findings"] == expected["findings"]
    others = [line for line in page_data(drawn)["lines"] if line["series"] != DRAWN]
    assert others == page_data(plain)["lines"]
    for values in (own_times, relative_times):
        assert len(values(drawn)) == len(values(plain))


def test_a_data_set_from_before_has_no_random_shapes(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["sgemm"], device={"version": "1.0.0"})
    assert random_shapes(results) == []
    with pytest.raises(NothingToDraw, match=r"at a shape drawn at random\."):
        FIGURES["random_shapes"](results)
