"""tables.json: every number traces to its cells, and nothing is claimed without data."""

import csv
import dataclasses
import functools
import gzip
import itertools
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typst
from made_up_data import (
    COPIES,
    DEVICE,
    RANDOM,
    SHAPES,
    STUDIES,
    TF32,
    beside_a_card,
    made_up,
    samples,
    speed_up_tf32,
    with_tf32,
)

import report
import tables
from matmul_sweep.classroom.habits import HABITS_OF_MEASURING
from matmul_sweep.experiment.dataset.intervals import median_interval
from matmul_sweep.experiment.dataset.selection import (
    Results,
    at,
    fastest,
    limits_of,
    shapes_of,
    squares,
    verdict_of,
)
from matmul_sweep.experiment.dataset.sourced_numbers import Number, significant
from matmul_sweep.experiment.dataset.tables import POINT, STATE, read_table, version_of, write_table
from matmul_sweep.experiment.report.facts.documents import compare_documents
from matmul_sweep.experiment.report.facts.findings import FINDINGS, find
from matmul_sweep.experiment.report.facts.measuring import measuring
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.gallery import FIGURES
from matmul_sweep.experiment.report.figures.names import caption
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json, write_json
from matmul_sweep.process.yaml_files import read_yaml
from mistakes import record_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = sorted(file.parent for file in (ROOT / "reports" / "published").glob("*/summary.csv"))
DOCUMENTS = read_yaml(ROOT / "reports" / "documents.yaml")
FEW = ["cpu_loop", "naive", "shared", "cublas_sgemm"]  # kernels enough for most questions
GEMM_ONLY = {"gemm": SHAPES["gemm"]}
FACT = re.compile(r"((?:[a-z0-9-]+/)?device\.json):(\w+)")
CELL = re.compile(r"((?:[a-z0-9-]+/)?[a-z_]+\.csv(?:\.gz)?):(\d+):([a-z0-9_]+)")


def traced(tree: Any) -> Iterator[dict[str, Any]]:
    """Every number with an origin, wherever it is."""
    if isinstance(tree, dict):
        if "origin" in tree:
            yield tree
        for value in tree.values():
            yield from traced(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from traced(value)


def untraced_floats(tree: Any, path: str = "") -> Iterator[str]:
    """Places of numbers with a fraction that name no origin; documents and configuration apart."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if not ("origin" in tree or key in ("document", "sampling")):
                yield from untraced_floats(value, f"{path}/{key}")
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            yield from untraced_floats(value, f"{path}/{i}")
    elif isinstance(tree, float):
        yield path


@functools.cache
def lines_of(file: Path) -> list[list[str]]:
    """The lines of a file, which no test changes after it has asked for them."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", newline="") as text:
        return list(csv.reader(text))


def recomputed(origin: str, folder: Path) -> float:
    """The value of an origin's expression, from the lines of the files themselves."""

    def look_up(match: re.Match[str]) -> str:
        lines = lines_of(folder / match[1])
        return lines[int(match[2]) - 1][lines[0].index(match[3])]

    def fact(match: re.Match[str]) -> str:
        return repr(read_json(folder / match[1])[match[2]])

    text = FACT.sub(fact, CELL.sub(look_up, origin))
    assert re.fullmatch(r"[-+*/(). 0-9e]+", text), origin
    return eval(text)


ALL = {"shapes": SHAPES | {"gram": (*SHAPES["gram"], 18500)}}  # with document 004's size


@pytest.mark.parametrize("gpu", [True, False], ids=["gpu", "beside a published set"])
def test_every_number_traces_to_the_files_and_they_have_a_report(tmp_path: Path, gpu: bool) -> None:
    if gpu:
        results = made_up(tmp_path, **ALL, checked=True, drawn=RANDOM)
    else:
        results = beside_a_card(tmp_path)
    write_table(samples(results.summary), "samples.csv.gz", tmp_path / "samples.csv.gz")
    assert typeset(results, tmp_path).startswith(b"%PDF")
    computed = read_json(tmp_path / "tables.json")
    numbers = list(traced(computed))
    assert len(numbers) > (700 if gpu else 400)
    for number in numbers:
        value = recomputed(number["origin"], tmp_path)
        assert math.isclose(number["value"], value, rel_tol=1e-12), number
        printed = float(number["text"].replace("\u2009", ""))
        assert math.isclose(printed, value, rel_tol=0.05, abs_tol=1e-12), number
    assert list(untraced_floats(computed)) == []


def test_mistakes_of_measuring_are_shown_by_what_was_measured(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=FEW)
    write_table(samples(results.summary), "samples.csv.gz", tmp_path / "samples.csv.gz")
    shown = measuring(results)
    assert [*shown] == [*HABITS_OF_MEASURING]
    quotients = {name: x["quotient"]["value"] for name, x in shown.items() if "quotient" in x}
    assert quotients["not_waiting"] == pytest.approx(1 / COPIES["submitted"])
    assert quotients["copies"] == pytest.approx(COPIES["end_to_end"])
    assert quotients["first_in_the_mean"] > 1
    assert shown["one_size"]["most"]["n"] != shown["one_size"]["least"]["n"]
    run = shown["one_run"]
    assert run["longest"]["value"] == pytest.approx(run["shortest"]["value"] * 1.01 / 0.99)


def test_without_a_gpu_no_mistake_of_measuring_is_shown(tmp_path: Path) -> None:
    results = made_up(tmp_path, gpu=False, kernels=FEW)
    write_table(samples(results.summary), "samples.csv.gz", tmp_path / "samples.csv.gz")
    assert measuring(results) == {}


def check_some_medians(folder: Path, count: int = 40) -> None:
    """Random kernel rows of a data set's summary, recomputed from its samples."""
    version = version_of(read_json(folder / "device.json"))
    summary = read_table("summary.csv", folder / "summary.csv", version)
    taken = read_table("samples.csv.gz", folder / "samples.csv.gz", version)
    taken = taken.query("baseline_of == ''")
    timed = summary[(summary.phase == "kernel") & (summary.status == "ok")]
    chosen = timed.sample(min(count, len(timed)), random_state=1)
    span = ["variant", *POINT, "phase", "cache"]
    own = dict(list(taken.fillna({"k": -1}).groupby(span).time_ms))
    for _, row in chosen.fillna({"k": -1}).iterrows():
        times = own[tuple(row[span])]
        assert len(times) == row.samples
        assert np.median(times) == pytest.approx(row.time_ms, rel=1e-12), row
        ends = (row.time_low_ms, row.time_high_ms)
        assert median_interval(times) == pytest.approx(ends, rel=1e-12, nan_ok=True), row


def test_medians_and_intervals_are_those_of_the_samples(tmp_path: Path) -> None:
    results = made_up(tmp_path)
    write_table(samples(results.summary), "samples.csv.gz", tmp_path / "samples.csv.gz")
    check_some_medians(tmp_path)
    results.summary["time_ms"] *= 1.001
    write_table(results.summary, "summary.csv", tmp_path / "summary.csv")
    with pytest.raises(AssertionError):
        check_some_medians(tmp_path)


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_published_medians_and_intervals_are_those_of_the_samples(folder: Path) -> None:
    check_some_medians(folder)


def test_the_document_over_ours(tmp_path: Path) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        ours = (summary.kernel == "cublas_sgemm") & (summary.n == 320) & (summary.cache == "hot")
        summary.loc[ours, "time_ms"] = 0.02
        return summary

    document = {"title": "x", "card": "unknown", "why": "", "numbers": [
        {"system": "cublasSgemm", "shape": 320, "quantity": "time", "value": 0.05, "unit": "ms",
         "ours": [{"variant": "cublas_sgemm", "phase": "kernel"}]},
        {"system": "the same in s", "shape": 320, "quantity": "time", "value": 0.05, "unit": "s",
         "ours": [{"kernel": "cublas_sgemm", "phase": "kernel"}]},
    ]}  # fmt: skip
    (entry,) = compare_documents(made_up(tmp_path, change=change), {"009": document})
    in_ms, in_s = entry["rows"]
    assert in_ms["ratio"]["value"] == pytest.approx(2.5)
    assert in_s["ours"]["value"] == pytest.approx(2e-5)
    assert in_s["ratio"]["value"] == pytest.approx(2500)


def test_quotients_and_differences_of_a_document(tmp_path: Path) -> None:
    numbers = [
        {"system": "naive / shared", "shape": 640, "quantity": "quotient", "value": 3, "unit": "1",
         "about": "over", "ours": [{"kernels": ["naive", "shared"], "phase": "kernel"}]},
        {"system": "naive - shared", "shape": 640, "quantity": "difference", "value": 1,
         "unit": "s", "ours": [{"kernels": ["naive", "shared"], "phase": "kernel"}]},
    ]  # fmt: skip
    results = made_up(tmp_path)
    document = {"title": "x", "card": "unknown", "why": "", "numbers": numbers}
    quotient, difference = compare_documents(results, {"009": document})[0]["rows"]
    rows = results.timed().query("n == 640 and m == 640")
    naive, shared = (rows[rows.kernel == k].time_ms.min() for k in ("naive", "shared"))
    assert quotient["document"]["text"] == "over 3"
    assert quotient["ours"]["value"] == pytest.approx(naive / shared)
    assert quotient["ratio"] is None
    assert difference["ours"]["value"] == pytest.approx((naive - shared) / 1e3)
    assert (difference["ratio"] is not None) == (naive > shared)


def test_what_a_document_needs_and_we_lack_has_a_reason(tmp_path: Path) -> None:
    def reasons(results: Results) -> list[str | None]:
        documents = compare_documents(results, DOCUMENTS)
        return [row["missing"] for document in documents for row in document["rows"]]

    here = reasons(made_up(tmp_path / "gpu", kernels=FEW))
    assert None in here
    assert "14400 is not among the shapes of this sweep" in here
    without = reasons(made_up(tmp_path / "cpu", gpu=False))
    assert without[0] is None  # the CPU loop's
    assert set(without[1:]) == {"there is no GPU on this machine"}


def test_documents_name_kernels_and_variants_of_the_catalogue(tmp_path: Path) -> None:
    catalogue = made_up(tmp_path).catalogue
    names = {*catalogue, *(variant.name for variant in catalogue.variants.values())}
    for document in DOCUMENTS.values():
        for number in document["numbers"]:
            for ours in number["ours"]:
                wanted = ours.get("kernels") or [ours.get("kernel") or ours["variant"]]
                assert set(wanted) <= names


def test_without_a_gpu_no_finding_is_about_one(tmp_path: Path) -> None:
    results = made_up(tmp_path, gpu=False)
    for name in ("best_share", "shared_over_naive", "tile_widths", "copies", "over_cpu"):
        assert find(results, name) == {"missing": "there is no GPU on this machine"}
    assert find(results, "blas_over_loop")["missing"] is None
    assert find(results, "peak")["kernel"]["name"] in ("cpu_loop", "cpu_blas")


@pytest.mark.parametrize("kernel", ["cublas_sgemm", "cpu_loop"])
def test_one_kernel_alone(tmp_path: Path, kernel: str) -> None:
    computed = tables.tables_of(made_up(tmp_path, kernels=[kernel]), DOCUMENTS)
    assert [entry["name"] for entry in computed["rates"]["gemm"]["kernels"]] == [kernel]
    assert computed["findings"]["shared_over_naive"]["missing"] == "not in this data set"


def fail_shared(summary: pd.DataFrame) -> pd.DataFrame:
    """The larger sizes of one variant came out wrong, each by another error."""
    wrong = (summary.variant == "shared/16") & (summary.n >= 640)
    summary = summary[~(wrong & (summary.phase != "kernel"))].reset_index(drop=True)
    wrong = (summary.variant == "shared/16") & (summary.n >= 640)
    wrong &= summary.status == "ok"
    reasons = [f"wrong result of shared/16: error {n / 100:g} times the bound"
               for n in summary.n]  # fmt: skip
    empty = dict.fromkeys(("time_ms", "time_low_ms", "time_high_ms", "tflops", "error"), np.nan)
    changed = summary[wrong].assign(status="failed", **empty)
    changed["reason"] = np.array(reasons)[wrong]
    return pd.concat([summary[~wrong], changed], ignore_index=True)


def long_launches(summary: pd.DataFrame) -> pd.DataFrame:
    """Cold launches at 1024 were left out, as too long to differ from the hot ones."""
    cold = (summary.cache == "cold") & (summary.phase == "kernel") & (summary.n == 1024)
    empty = dict.fromkeys(("time_ms", "time_low_ms", "time_high_ms", "tflops"), np.nan)
    alike = summary[cold].assign(status="skipped", reason="cold and hot are alike", **empty)
    return pd.concat([summary[~cold], alike], ignore_index=True)


def test_a_number_held_against_cold_launches_takes_the_hot_where_there_are_no_others(
    tmp_path: Path,
) -> None:
    results = made_up(tmp_path, kernels=FEW, change=long_launches)
    (third,) = compare_documents(results, {"003": DOCUMENTS["003"]})
    rows = {row["size"]: row for row in third["rows"] if row.get("system") == "conventional"}
    assert (rows["32"]["span"], rows["1024"]["span"]) == ("kernel, cold", "kernel, hot")
    assert rows["1024"]["ours"]["value"] > rows["32"]["ours"]["value"]
    # What is missing elsewhere is not blamed on the cold launches that nobody misses.
    assert "alike" not in rows["16384"]["missing"]
    skipped = tables.not_measured(results)["skipped"]
    assert all("alike" not in entry["reason"] for entry in skipped)


def test_failed_points_are_named_and_grouped(tmp_path: Path) -> None:
    kernels = ["naive", "shared", "thin", "narrow"]
    results = made_up(tmp_path, kernels=kernels, shapes=GEMM_ONLY, change=fail_shared)
    missing = tables.not_measured(results)
    (group,) = missing["failed"]
    assert group == {
        "reason": "wrong result of the kernel: error 6.4 to 10.24 times the bound",
        "points": 2,
        "variants": ["shared/16"],
        "shapes": [{"series": "", "shapes": ["640", "1024"]}],
    }
    assert tables.scope(results)["timed"]["gpu"]["failed"] == 2
    squares, rows, columns = missing["skipped"]
    assert squares["variants"] == ["naive", "shared"]
    assert squares["reason"] == "the kernel multiplies square matrices only, not this shape"
    assert squares["shapes"] == [{"series": "", "shapes": ["3200×2400×1600"]}]
    assert rows["variants"] == ["thin"]
    assert rows["reason"] == "the kernel takes at most 1 row of C, not this shape"
    taller = ["32", "320", "640", "1024", "3200×2400×1600"]
    assert rows["shapes"] == [{"series": "", "shapes": taller}]
    assert columns["variants"] == ["narrow"]
    assert columns["reason"].startswith("the kernel takes at most ")
    assert columns["reason"].endswith(" columns of C, not this shape")


def with_times(**times: tuple[float, float]) -> Any:
    """A change that gives variants a median's interval at n = 1024."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        for variant, (low, high) in times.items():
            rows = summary.variant.str.startswith(variant) & (summary.n == 1024)
            values = [(low + high) / 2, low, high]
            summary.loc[rows, ["time_ms", "time_low_ms", "time_high_ms"]] = values
        return summary

    return change


@pytest.mark.parametrize(
    ("shared", "verdict"),
    [((1.0, 1.9), "faster"), ((1.0, 2.1), "tie"), ((3.1, 4.0), "slower")],
)
def test_a_verdict_needs_intervals_apart(tmp_path: Path, shared: Any, verdict: str) -> None:
    change = with_times(**{"naive/": (2.0, 3.0), "shared/": shared})
    found = find(made_up(tmp_path, kernels=FEW, change=change), "shared_over_naive")
    assert found["n"] == 1024
    assert found["verdict"] == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.01, 1.2, "faster"), (0.8, 0.99, "slower"), (0.99, 1.01, "tie"), (1.0, 1.2, "tie"),
     (np.nan, np.nan, "unknown")],
)  # fmt: skip
def test_a_ratio_whose_interval_contains_1_is_a_tie(low: float, high: float, verdict: str) -> None:
    assert verdict_of(low, high) == verdict


def test_a_share_within_its_interval_of_the_library_is_called_a_tie(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=FEW)
    own = results.ratios.kernel == "shared"
    for n, ends in ((640, (1.01, 1.05)), (1024, (0.97, 1.01))):
        here = own & (results.ratios.n == n)
        results.ratios.loc[here, ["ratio", "ratio_low", "ratio_high"]] = np.mean(ends), *ends
    found = find(results, "best_share")
    assert (found["verdict"], found["faster_at"], found["tie_at"]) == ("tie", [640], [1024])


def test_tf32_is_never_called_the_fastest(tmp_path: Path) -> None:
    kernels = [TF32, "cublas_sgemm", "naive", "cpu_loop", "cpu_blas"]
    results = made_up(tmp_path, kernels=kernels, catalogue=with_tf32(), change=speed_up_tf32)
    assert typeset(results, tmp_path).startswith(b"%PDF")
    computed = read_json(tmp_path / "tables.json")
    findings = computed["findings"]
    assert findings["peak"]["kernel"]["name"] == "cublas_sgemm"
    assert all(x["kernel"]["name"] == "cublas_sgemm" for x in findings["over_cpu"]["over"])
    assert TF32 not in [kernel["name"] for kernel in computed["rates"]["gemm"]["kernels"]]
    (entry,) = (k for k in findings["accuracy"]["kernels"] if k["arithmetic"] == "tf32")
    assert entry["name"] == TF32
    assert TF32 in [kernel["name"] for kernel in computed["catalogue"]]


def test_errors_stand_at_the_largest_size_that_all_kernels_have(tmp_path: Path) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        gone = (summary.kernel == "naive") & (summary.n == 1024)
        worst = summary.kernel == "shared"
        summary.loc[worst, "mean_error"] *= 2
        return summary[~gone].reset_index(drop=True)

    found = find(made_up(tmp_path, kernels=FEW, change=change), "accuracy")
    assert found["n"] == 640
    assert [k["name"] for k in found["kernels"]] == ["naive", "cublas_sgemm", "shared"]
    assert found["kernels"][-1]["mean_error"]["text"] == "2.00e-7"


def of_sweep(sweep: str, columns: tuple[str, ...], *values: Any) -> Any:
    """A change that sets columns of a study's rows, in their order."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        rows = summary.index[summary.sweep == sweep]
        for place, value in zip(rows, itertools.cycle(values), strict=False):
            summary.loc[place, list(columns)] = value
        return summary

    return change


TIMES = ("time_ms", "time_low_ms", "time_high_ms", "tflops")


SUSTAINED = {
    "slower": (2.0, 1.98, 2.02, 50.0),
    "tie": (1.01, 0.99, 1.03, 99.0),
    "faster": (0.8, 0.79, 0.81, 125.0),
    "unknown": (2.0, np.nan, np.nan, 50.0),
}


@pytest.mark.parametrize("verdicts", [("slower", "tie", "faster"), ("unknown",) * 3])
def test_what_sustained_load_does_to_a_rate(tmp_path: Path, verdicts: tuple[str, ...]) -> None:
    pairs = [row for word in verdicts for row in ((1.0, 0.99, 1.01, 100.0), SUSTAINED[word])]
    kernels = ["gram_naive", "cublas_dgemm", "cublas_dsyrk"]
    change = of_sweep("sustained", TIMES, *pairs)
    studies = STUDIES | {"sustained": (kernels, *STUDIES["sustained"][1:])}
    results = made_up(tmp_path, kernels=kernels, change=change, studies=studies)
    found = find(results, "sustained")["kernels"]
    assert [own["verdict"] for own in found] == [*verdicts]
    changes = [own["change"]["value"] for own in found]
    assert changes == pytest.approx([SUSTAINED[word][-1] / 100 - 1 for word in verdicts])
    assert [row["value"] for row in found[0]["rows"]] == ["burst", "sustained"]
    assert typeset(results, tmp_path).startswith(b"%PDF")


def test_what_the_fill_does_to_rate_and_power(tmp_path: Path) -> None:
    rows = [(t, t * 0.99, t * 1.01, 100 / t, w) for t, w in
            ((2.0, 600), (1.0, 300), (1.5, 400), (1.2, 500), (1.9, np.nan))]  # fmt: skip
    change = of_sweep("fills", (*TIMES, "power_w"), *rows)
    results = made_up(tmp_path, kernels=["cublas_sgemm"], change=change)
    (found,) = find(results, "fills")["kernels"]
    assert (found["slow"], found["fast"], found["verdict"]) == ("uniform", "constant", "faster")
    assert found["quotient"]["value"] == pytest.approx(2)
    assert (found["power"]["least"], found["power"]["most"]) == ("constant", "uniform")
    assert found["rows"][-1]["power_w"] is None


@pytest.mark.parametrize("fast", [1.004, 1.006])
def test_a_change_that_rounds_to_nothing_is_none(tmp_path: Path, fast: float) -> None:
    rows = [(1 / t, 1 / t, 1 / t, 100 * t) for t in (1.0, fast)]
    fills, sustained = (of_sweep(sweep, TIMES, *rows) for sweep in ("fills", "sustained"))
    results = made_up(tmp_path, kernels=["cublas_sgemm", "cublas_dgemm"],
                      change=lambda summary: sustained(fills(summary)))  # fmt: skip
    for sweep in ("fills", "sustained"):
        (found,) = find(results, sweep)["kernels"]
        assert found["verdict"] == ("same" if fast < 1.005 else "faster")
    if fast < 1.005:
        assert typeset(results, tmp_path).startswith(b"%PDF")


def test_a_study_that_was_not_made_is_said_to_be_missing(tmp_path: Path) -> None:
    found = find(made_up(tmp_path / "one", kernels=["naive"]), "fills")
    assert found == {"missing": "no sweep of this data set varies the fill"}
    studied = STUDIES["sustained"][0]
    found = find(made_up(tmp_path / "cpu", kernels=studied, gpu=False), "sustained")
    assert found == {"missing": "there is no GPU on this machine"}


def test_hot_and_cold_times_are_told_apart_by_their_intervals(tmp_path: Path) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        alike = (summary.n == 1024) & (summary.phase == "kernel")
        summary.loc[alike, list(TIMES)] = (1.0, 0.99, 1.01, 50.0)
        return summary

    found = find(made_up(tmp_path, kernels=["naive"], change=change), "hot_and_cold")
    counts = found["points"]
    assert counts == {"gemm": {"faster": 3, "slower": 0, "tie": 1, "unknown": 0}}


def test_what_held_the_card_back_is_a_letter_for_each_reason() -> None:
    assert limits_of("power_cap") == "p"
    assert limits_of("sw_thermal") == limits_of("hw_slowdown+hw_thermal") == "h"
    assert limits_of("power_cap+sw_thermal") == "ph"
    assert limits_of("") == limits_of(np.nan) == limits_of("power_brake") == ""


def test_without_nvml_the_reason_is_said(tmp_path: Path) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(**dict.fromkeys(STATE[:-1]), throttled="")

    device = DEVICE | {"nvml": "unavailable: no permission"}
    results = made_up(tmp_path, kernels=FEW, change=change, device=device)
    found = find(results, "throttling")
    assert found == {"missing": "not recorded: NVML unavailable: no permission"}
    assert typeset(results, tmp_path).startswith(b"%PDF")


def test_cards_are_counted_without_the_jobs_that_had_none(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["cpu_loop", "naive", "cublas_sgemm"])
    assert tables.scope(results)["cards"] == 1
    results.jobs.loc[results.jobs.variant == "cublas_sgemm", "uuid"] = "GPU-other"
    assert tables.scope(results)["cards"] == 2


def test_throttling_for_heat_and_for_power_are_kept_apart(tmp_path: Path) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        timed = (summary.phase == "kernel") & (summary.status == "ok")
        heat = timed & (summary.kernel == "naive") & (summary.n == 1024)
        power = timed & (summary.kernel == "shared") & (summary.n == 1024)
        reasons = np.select([heat, power], ["hw_thermal+power_cap", "power_cap"], "")
        return summary.assign(throttled=reasons)

    found = find(made_up(tmp_path, kernels=FEW, change=change), "throttling")
    assert (found["thermal"], found["power"]) == (4, 8)
    assert found["reasons"] == ["hw_thermal", "power_cap"]


def test_arithmetic_writes_itself_down() -> None:
    a, b, c = (Number(value, name) for value, name in ((6.0, "a"), (2.0, "b"), (1.0, "c")))
    assert (a + b) / c == Number(8.0, "(a + b) / c")
    assert a - (b + c) == Number(3.0, "a - (b + c)")
    assert (a / b).times(1000) == Number(3000.0, "(a / b) * 1000")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01234, "0.0123"), (1.3, "1.30"), (99.96, "100"), (5566.7, "5570"), (95486, "95\u2009500"),
     (0, "0"), (1e-6, "1.00e-6"), (1.2e-9, "1.20e-9")],
)  # fmt: skip
def test_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


def typeset(results: Results, folder: Path) -> bytes:
    """The report of a data set, with small figures in place of the drawn ones."""
    write_json(tables.tables_of(results, DOCUMENTS), folder / "tables.json")
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    (folder / "figures").mkdir(exist_ok=True)
    for name in FIGURES:
        (folder / "figures" / f"{name}.svg").write_bytes(drawing)
    write_json({name: caption(name) for name in FIGURES}, folder / "figures" / "drawn.json")
    return report.typeset(ROOT / "reports" / "report.typ", read_by_the_report(folder))


def read_by_the_report(folder: Path) -> dict[str, Path]:
    """What a report is made from, with an empty gallery of mistakes."""
    write_json(record_of([], []), folder / "mistakes.json")
    return {"tables": folder / "tables.json", "figures": folder / "figures", "mistakes": folder}


def test_the_report_has_the_same_bytes_wherever_it_is_made(tmp_path: Path) -> None:
    first = typeset(made_up(tmp_path / "one", kernels=FEW), tmp_path / "one")
    deeper = Path(shutil.copytree(tmp_path / "one", tmp_path / "another" / "deeper"))
    again = report.typeset(ROOT / "reports" / "report.typ", read_by_the_report(deeper))
    assert first.startswith(b"%PDF") and first == again


def test_a_drawn_figure_can_be_typeset(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["naive"])
    plain = typeset(results, tmp_path)
    style.save(FIGURES["rate"](results), tmp_path / "figures", "rate")
    source = ROOT / "reports" / "report.typ"
    assert report.typeset(source, read_by_the_report(tmp_path)) != plain


CHARTS = ("time_seconds", "time_milliseconds", "time_loglog", "gram_time")


@pytest.mark.parametrize("gpu", [True, False])
def test_the_documents_charts_are_figures_1_to_4_and_no_report_goes_without_them(
    tmp_path: Path, gpu: bool
) -> None:
    typeset(made_up(tmp_path, gpu=gpu, kernels=FEW), tmp_path)
    source, read = ROOT / "reports" / "report.typ", read_by_the_report(tmp_path)
    inputs = {name: str(path) for name, path in read.items()}
    figures = json.loads(typst.query(source, "figure", root="/", sys_inputs=inputs))
    assert [own["label"] for own in figures][:4] == [f"<figure-{name}>" for name in CHARTS]
    captions = read_json(tmp_path / "figures" / "drawn.json")
    for name in CHARTS:
        others = {other: words for other, words in captions.items() if other != name}
        write_json(others, tmp_path / "figures" / "drawn.json")
        with pytest.raises(UserError, match=f"the figures lack {name}"):
            report.typeset(source, read)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tables\.json: there is no such file"):
        report.typeset(ROOT / "reports" / "report.typ", {"tables": tmp_path / "tables.json"})


@pytest.mark.parametrize(
    "options",
    [{"kernels": ["naive"]}, {"device": {}, "change": fail_shared},
     {"shapes": {"gemm": ["3200x2400x1600"]}},
     {"kernels": (), "shapes": {"gram": SHAPES["gram"]}},
     {"change": lambda s: s.assign(status="failed", reason="lost", time_ms=None, tflops=None)}],
    ids=["one kernel", "failures of an unknown device", "no square", "gram alone", "nothing"],
)  # fmt: skip
def test_a_data_set_with_holes_has_a_report(tmp_path: Path, options: dict[str, Any]) -> None:
    results = made_up(tmp_path, **({"kernels": FEW} | options))
    assert typeset(results, tmp_path).startswith(b"%PDF")


def test_a_data_set_of_two_tables_has_a_report(tmp_path: Path) -> None:
    made_up(tmp_path, kernels=FEW)
    for name in ("ratios", "verification", "jobs", "kernels"):
        (tmp_path / f"{name}.csv").unlink()
    results = tables.load_results(tmp_path, tables.load_catalogue())
    assert typeset(results, tmp_path).startswith(b"%PDF")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Both operations, on a GPU, without holes."""
    return made_up(tmp_path_factory.mktemp("whole"))


def kernel_time(results: Results, variant: str, m: int, n: int) -> float:
    """The hot kernel time of AᵀA, read from the whole summary."""
    rows = results.summary.query(
        "variant == @variant and m == @m and n == @n and operation == 'gram' "
        "and phase == 'kernel' and cache == 'hot'"
    )
    return rows.time_ms.item()


def best_time(results: Results, kernel: str, n: int) -> float:
    variants = set(results.summary[results.summary.kernel == kernel].variant)
    return min(kernel_time(results, variant, n, n) for variant in variants)


def test_a_view_has_the_rows_of_its_operation_and_their_index(whole: Results) -> None:
    for operation, count in (("gemm", 5), ("gram", 6)):
        view = whole.of(operation)
        assert set(view.summary.operation) == set(view.ratios.operation) == {operation}
        pd.testing.assert_frame_equal(view.summary, whole.summary.loc[view.summary.index])
        assert len(shapes_of(view.summary)) == count
    reduced = {name for name, kernel in whole.catalogue.items() if kernel.arithmetic != "full"}
    other = whole.summary.sweep.isin(STUDIES) | whole.summary.kernel.isin(reduced)
    count = sum(len(whole.of(operation).summary) for operation in OPERATIONS)
    assert count == len(whole.summary[~other]) < len(whole.summary)


def test_gram_has_squares_and_a_fastest_variant_though_it_has_no_k(whole: Results) -> None:
    timed = whole.of("gram").timed()
    assert list(squares(timed).n.unique()) == [500, 2500, 4500]
    best = fastest(timed)
    assert len(best) == 6 * len(whole.of("gram").present)
    assert best.k.isna().all()


def test_a_shape_of_one_operation_is_not_taken_for_another_s(tmp_path: Path) -> None:
    results = made_up(tmp_path, shapes={"gemm": [500], "gram": [500]})
    assert set(at(results.summary, Gram(500, 500)).operation) == {"gram"}
    assert set(at(results.summary, Gemm(500, 500, 500)).operation) == {"gemm"}


def test_shapes_of_gram_stand_by_series(whole: Results) -> None:
    computed = tables.rates(whole.of("gram"))
    assert [(row["series"], row["size"]) for row in computed["rows"]] == [
        *(("square (m = n)", n) for n in ("500", "2500", "4500")),
        ("wide (m = n/2)", "2250×4500"),
        ("tall (m = 2n)", "4500×2250"),
        ("other", "1000×1001"),
    ]


def test_operations_that_share_a_reason_are_told_apart(tmp_path: Path) -> None:
    skipped = tables.not_measured(made_up(tmp_path, gpu=False))["skipped"]
    assert [group["reason"] for group in skipped] == ["there is no GPU on this machine"] * len(
        OPERATIONS
    )
    assert "gram_naive" not in skipped[0]["variants"] and "gram_naive" in skipped[1]["variants"]


def test_each_operation_has_the_sampling_that_it_was_measured_with(whole: Results) -> None:
    sweeps = tables.sampling(whole.device)["sweeps"]
    assert sweeps["gemm"]["sampling"] == DEVICE["configuration"]["sampling"]
    assert sweeps["gram"]["sampling"] == sweeps["gemm"]["sampling"] | {"seconds": 2}
    assert (sweeps["gemm"]["caches"], sweeps["gram"]["caches"]) == (["hot", "cold"], ["hot"])
    before_gram = {"configuration": {"sampling": {"seconds": 1}, "shapes": [32]}}
    assert tables.sampling(before_gram)["sweeps"] == {}
    off = {"sweeps": {"gram": {"shapes": []}}}
    assert tables.sampling({"configuration": off})["sweeps"] == {}
    own = {"sweeps": {"gemm": {"operation": "gemm", "shapes": [32], "without_gpu": True}}}
    elsewhere = whole.device | {"configuration": DEVICE["configuration"] | own}
    assert tables.sampling(elsewhere)["sweeps"] == {}
    assert [*tables.sampling(elsewhere | {"gpu": None})["sweeps"]] == ["gemm"]


def test_launches_are_said_to_overlap_only_if_the_kernels_that_did_are_today_s(
    whole: Results,
) -> None:
    assert "bgemm" in tables.overlapping(whole) and "sgemm" not in tables.overlapping(whole)
    before = dataclasses.replace(whole, kernels=whole.kernels.assign(sha256="of another source"))
    assert tables.overlapping(before) == []


def faster(variant: str, n: int, library: str) -> Any:
    """A change that makes a variant 4% faster than a library at one square size."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        here = (summary.phase == "kernel") & (summary.m == n) & (summary.n == n)
        times = summary[here & (summary.variant == library)].set_index("cache").time_ms
        own = here & (summary.variant == variant)
        summary.loc[own, "time_ms"] = summary[own].cache.map(times) / 1.04
        return summary

    return change


REGISTER_TILE = "gram_register_tile/48"


def test_the_share_of_each_of_the_library_s_two_products(tmp_path: Path) -> None:
    results = made_up(tmp_path, change=faster(REGISTER_TILE, 2500, "cublas_dgemm"))
    found = {x["library"]["name"]: x for x in FINDINGS["gram_share"](results)["against"]}
    assert list(found) == ["cublas_dgemm", "cublas_dsyrk"]
    assert found["cublas_dgemm"]["faster_at"] == [2500]
    for library, share in found.items():
        assert share["n"] == 4500 and share["sizes"] == 3
        best = min(best_time(results, k, 4500) for k in ("gram_naive", "gram_register_tile"))
        ratio = best_time(results, library, 4500) / best
        assert share["ratio"]["value"] == pytest.approx(ratio)
        ends = [end["value"] for end in share["interval"]]
        assert ends == pytest.approx([ratio * 0.99, ratio * 1.01])


def test_the_register_tile_over_naive_at_the_largest_size_and_at_least(tmp_path: Path) -> None:
    sizes = [2500, 4500, 5500, 6500]

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        naive = summary.variant == "gram_naive/32"
        summary.loc[naive & (summary.n == 2500), "time_ms"] = 1e-6
        summary.loc[naive & (summary.n == 5500), "time_ms"] /= 2
        return summary

    results = made_up(tmp_path, shapes={"gram": sizes}, change=change)
    found = FINDINGS["gram_over_naive"](results)
    naive, tile = ({n: best_time(results, kernel, n) for n in sizes}
                   for kernel in ("gram_naive", "gram_register_tile"))  # fmt: skip
    quotients = {n: naive[n] / tile[n] for n in sizes}
    assert (found["n"], found["quotient"]["value"]) == (6500, pytest.approx(quotients[6500]))
    least = found["least"]
    assert (least["n"], least["quotient"]["value"]) == (5500, pytest.approx(quotients[5500]))


def test_no_least_quotient_below_the_sizes_that_it_is_wanted_for(tmp_path: Path) -> None:
    found = FINDINGS["gram_over_naive"](made_up(tmp_path, shapes={"gram": [500]}))
    assert found["n"] == 500 and found["least"] is None


def test_what_the_library_gains_by_symmetry_and_loses_by_mirroring(whole: Results) -> None:
    times = {k: best_time(whole, k, 4500) for k in whole.of("gram").present if "cublas" in k}
    symmetry, mirroring = (FINDINGS[name](whole) for name in ("gram_symmetry", "gram_mirroring"))
    gain = times["cublas_dgemm"] / times["cublas_dsyrk"]
    assert symmetry["quotient"]["value"] == pytest.approx(gain)
    assert symmetry["possible"]["value"] == pytest.approx(2 * 4500 / 4501)
    cost = times["cublas_dsyrk"] / times["cublas_dsyrk_triangle"]
    assert mirroring["quotient"]["value"] == pytest.approx(cost)


def test_rates_are_held_against_the_units_that_bound_them(whole: Results) -> None:
    found = FINDINGS["gram_peaks"](whole)
    own, general, symmetric = found["rates"]
    n = general["n"]
    executed = 2 * n**3 / best_time(whole, "cublas_dgemm", n) / 1e9
    assert general["rate"]["value"] == pytest.approx(executed)
    assert general["share"]["value"] == pytest.approx(executed / 65)
    assert (own["units"], general["units"], symmetric["units"]) == (
        "vector units", "tensor cores", "tensor cores",
    )  # fmt: skip
    assert own["share"]["value"] == pytest.approx(own["rate"]["value"] / 30)
    assert own["ceiling"] is None
    useful = n**2 * (n + 1) / best_time(whole, "cublas_dgemm", n) / 1e9
    assert general["ceiling"]["value"] == pytest.approx(30 / useful)


@pytest.mark.parametrize(
    ("vector", "units"), [(30.0, "vector units"), (None, None)], ids=["no tensor cores", "unknown"]
)
def test_without_tensor_cores_the_library_is_held_against_the_vector_units(
    tmp_path: Path, vector: float | None, units: str | None
) -> None:
    device = DEVICE | {"fp64_peak_tflops": vector, "fp64_tensor_peak_tflops": None}
    found = FINDINGS["gram_peaks"](made_up(tmp_path, device=device))
    assert {x["units"] for x in found["rates"]} == {units}
    assert all((x["share"] is None) == (units is None) for x in found["rates"])


def test_the_fastest_tile_width_of_each_size(tmp_path: Path) -> None:
    results = made_up(tmp_path, change=faster(REGISTER_TILE, 2500, "cublas_dgemm"))
    found = FINDINGS["gram_tile_widths"](results)
    names = [variant["name"] for variant in found["variants"]]
    assert names[:2] == ["32", "48"] and names[-1] == "128"
    assert {v["name"]: v["fastest_at"] for v in found["variants"] if v["fastest_at"]} == {
        "48": [2500], "128": [500, 4500],
    }  # fmt: skip
    slow = results.ratios.variant == "gram_register_tile/128"
    ratios = results.ratios.assign(ratio=results.ratios.ratio.mask(slow, 0.0))
    pairs = FINDINGS["gram_tile_widths"](dataclasses.replace(results, ratios=ratios))
    assert "128" not in [v["name"] for v in pairs["variants"] if v["fastest_at"]]
    row = next(row for row in found["rows"] if row["n"] == 4500)
    wanted = kernel_time(results, REGISTER_TILE, 4500, 4500)
    assert row["times_ms"][names.index("48")]["value"] == pytest.approx(wanted)


def document_004(results: Results) -> dict[str, Any]:
    only = {"004": DOCUMENTS["004"]}
    return compare_documents(results, only)[0]


def test_document_004_beside_ours(tmp_path: Path) -> None:
    results = made_up(tmp_path, shapes=ALL["shapes"])
    rows = document_004(results)["rows"]
    known = [row for row in rows if row.get("size") == "18500"]
    assert [row["document"]["text"] for row in known[:3]] == [
        "43581.59 ms", "360222.531 ms", "30854.096 ms",
    ]  # fmt: skip
    variants = [row["variant"] for row in rows if str(row["variant"]).startswith("gram_register")]
    assert variants[:2] == [REGISTER_TILE, "gram_register_tile/128"]
    dgemm, tile = (best_time(results, k, 18500) for k in ("cublas_dgemm", "gram_register_tile"))
    assert known[0]["ratio"]["value"] == pytest.approx(43581.59 / dgemm)
    quotient = known[3]
    assert quotient["document"]["value"] == pytest.approx(43581.59 / 30854.096)
    assert quotient["ours"]["value"] == pytest.approx(dgemm / tile)
    unknown = [row for row in rows if row.get("document", {"value": 0})["value"] is None]
    assert {row["size"] for row in unknown} == {"500", "9500", "10250×20500"}
    assert all(row["document"]["text"] == "not known" for row in unknown)
    at_500 = next(row for row in unknown if row["size"] == "500")
    assert at_500["ours"] is not None and at_500["ratio"] is None


def test_the_document_s_variant_is_named_once_where_it_is_the_fastest(tmp_path: Path) -> None:
    rows = document_004(made_up(tmp_path, change=faster(REGISTER_TILE, 500, "cublas_dgemm")))[
        "rows"
    ]
    starts = [i for i, row in enumerate(rows) if row.get("size") == "500"]
    at_500 = rows[starts[-1] : starts[-1] + 2]
    assert at_500[0]["lines"] == 1 and at_500[0]["variant"] == REGISTER_TILE
    assert "lines" in at_500[1]  # the next number's first row


def test_document_004_computed_slower_than_its_library(tmp_path: Path) -> None:
    results = made_up(tmp_path, shapes=ALL["shapes"])
    library, simple, optimised = document_004(results)["rates"]
    assert library["document"]["text"] == "291"
    assert simple["document"]["value"] == pytest.approx(2 * 18500**3 / 360.222531 / 1e9)
    work = 18500**2 * 18501
    assert optimised["document"]["value"] == pytest.approx(work / 30.854096 / 1e9)
    assert library["document_share"]["value"] == pytest.approx(290.57 / 515, rel=1e-4)
    assert library["half_s"]["value"] == pytest.approx(43.58159 / 2, rel=1e-4)
    ours = work / best_time(results, "gram_register_tile", 18500) / 1e9
    assert optimised["ours"]["value"] == pytest.approx(ours)
    assert optimised["share"]["value"] == pytest.approx(ours / 30)
    assert library["units"] == "tensor cores"


def test_without_gram_its_findings_and_rates_are_missing(tmp_path: Path) -> None:
    results = made_up(tmp_path, shapes=GEMM_ONLY)
    computed = tables.tables_of(results, DOCUMENTS)
    assert list(computed["scope"]["operations"]) == ["gemm"]
    assert computed["rates"]["gram"]["rows"] == []
    gram = [found for name, found in computed["findings"].items() if name.startswith("gram_")]
    assert len(gram) == 7
    assert all(found == {"missing": "not in this data set"} for found in gram)
    rates = computed["documents"][-1]["rates"]
    assert [rate["missing"] for rate in rates] == ["not in this data set"] * 3
