"""What the report says of random shapes: right numbers, and none of them anywhere else."""

from dataclasses import replace

import pandas as pd
import pytest
from made_up_data import RANDOM, made_up

from matmul_sweep.experiment.dataset.changes import own_times, relative_times
from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.experiment.report.explore.data import page_data
from matmul_sweep.experiment.report.explore.lines import RANDOM as DRAWN
from matmul_sweep.experiment.report.facts.documents import documents
from matmul_sweep.experiment.report.facts.random_shapes import random_shapes
from matmul_sweep.experiment.report.facts.report import missing, tables_of
from matmul_sweep.experiment.report.figures.figure_base import NothingToDraw
from matmul_sweep.experiment.report.figures.gallery import FIGURES


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return made_up(tmp_path_factory.mktemp("drawn"), drawn=RANDOM)


def ratios(results: Results, sweep: str, kernel: str) -> pd.DataFrame:
    return results.ratios[(results.ratios.sweep == sweep) & (results.ratios.kernel == kernel)]


def test_shapes_with_too_few_pairs_are_left_out(tmp_path):
    results = made_up(tmp_path, kernels=["sgemm", "cublas_sgemm"], drawn=RANDOM)
    own = ratios(results, "random_gemm", "sgemm").sort_values("ratio")
    results.ratios.loc[own.index[:3], ["ratio_low", "ratio_high"]] = None
    gemm, _ = random_shapes(results)
    assert (gemm["all"]["worst"], gemm["all"]["shapes"]) == (own.ratio.iloc[3], 37)
    results.ratios.loc[own.index, ["ratio_low", "ratio_high"]] = None
    assert [entry["operation"] for entry in random_shapes(results)] == ["gram"]


def test_shapes_that_a_dispatch_leaves_to_another_one_are_not_its_own(results):
    split = results.summary.ran.mask(results.summary.kernel == "sgemm", "three_products/128x128")
    other = replace(results, summary=results.summary.assign(ran=split))
    assert [entry["operation"] for entry in random_shapes(other)] == ["gram"]


def test_those_timed_alone_lead_beside_the_fastest_library_there(results):
    alone = results.ratios.assign(cache="alone")
    tuned = alone.assign(baseline="cublas_tuned", ratio=alone.ratio * 0.9)
    states = [results.summary, results.summary.assign(cache="alone")]
    ratios = pd.concat([results.ratios, alone, tuned], ignore_index=True)
    both = replace(results, ratios=ratios, summary=pd.concat(states, ignore_index=True))
    for own, found in zip(random_shapes(results), random_shapes(both), strict=True):
        assert (own["way"], found["way"]) == ("", "alone")
        assert found["all"]["worst"] == own["all"]["worst"] * 0.9
        assert found["rivals"] == ["tuned cuBLAS"]


def test_a_routine_that_leaves_half_of_c_is_told_of_apart(results):
    gram = results.ratios[results.ratios.kernel == "gram"]
    half = gram.assign(baseline="cublas_dsyrk_triangle", ratio=0.5, ratio_low=0.4, ratio_high=0.6)
    both = replace(results, ratios=pd.concat([results.ratios, half], ignore_index=True))
    (*_, own), (*_, found) = random_shapes(results), random_shapes(both)
    assert found["all"] == own["all"]
    assert found["half"] == {"slower": own["all"]["shapes"], "worst": 0.5}


def test_without_a_gpu_nothing_is_said_but_why(tmp_path):
    results = made_up(tmp_path, kernels=["sgemm", "gram"], gpu=False, drawn=RANDOM)
    assert random_shapes(results) == []
    counts = {(x["drawn"], len(x["shapes"])) for x in missing(results, "skipped")}
    assert {count for drawn, count in counts if drawn} == {40, 30}
    before = made_up(tmp_path, kernels=["sgemm"], device={"version": "1.0.0"})
    with pytest.raises(NothingToDraw, match=r"on random shapes\."):
        FIGURES["random_shapes"](before)


def test_the_figure_has_a_curve_and_lanes_for_each_dispatch_with_every_shape(results):
    made = FIGURES["random_shapes"](results)
    curves, lanes = made.axes[:2], made.axes[2:]
    assert [ax.get_title("left").split("\n")[0] for ax in curves] == ["sgemm", "gram"]
    assert [ax.get_xlabel() for ax in lanes] == ["40 shapes", "30 shapes"]
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
        assert low < entry["all"]["worst"] < 1 < high


@pytest.mark.parametrize("gpu", [True, False])
def test_no_other_part_of_the_report_takes_up_random_shapes(tmp_path, gpu):
    kernels = ["cpu_loop", "naive", "sgemm", "cublas_sgemm", "gram_naive", "gram", "cublas_dgemm"]
    shapes = {"gemm": (32, 640), "gram": (500, "2250x4500")}
    plain, drawn = (
        made_up(tmp_path / name, kernels=kernels, shapes=shapes, gpu=gpu, drawn=sweeps)
        for name, sweeps in (("plain", {}), ("drawn", RANDOM))
    )
    expected, found = (tables_of(own, documents()) for own in (plain, drawn))
    for part in (found["findings"], expected["findings"]):
        part.pop("card")  # of everything that ran on it
    for name in ("ladders", "documents", "findings"):
        assert found[name] == expected[name]
    others = [line for line in page_data(drawn)["lines"] if line["series"] != DRAWN]
    assert others == page_data(plain)["lines"]
    assert all(len(values(drawn)) == len(values(plain)) for values in (own_times, relative_times))
