"""tables.json: every number traces to its cells, and nothing is claimed that the data lack."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up_data import made_up

import report
import tables
from matmul.dataset import write_json
from matmul.errors import UserError
from matmul.reporting import style
from matmul.reporting.charts import FIGURES
from matmul.reporting.comparison import compare_documents
from matmul.reporting.findings import all_findings
from matmul.reporting.results import Results
from matmul.reporting.traced import Number, significant
from matmul.schema import read_yaml

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = read_yaml(ROOT / "reports" / "documents.yaml")
FEW = ["cpu_loop", "naive", "shared", "cublas_sgemm"]  # kernels enough for most questions
CELL = re.compile(r"([a-z_]+\.csv):(\d+):([a-z0-9_]+)")


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


def recomputed(origin: str, folder: Path, device: dict[str, Any]) -> float:
    """The value of an origin's expression, from the lines of the files themselves."""

    def look_up(match: re.Match[str]) -> str:
        lines = (folder / match[1]).read_text().splitlines()
        column = lines[0].split(",").index(match[3])
        return lines[int(match[2]) - 1].split(",")[column]

    text = CELL.sub(look_up, origin)
    text = re.sub(r"device\.json:(\w+)", lambda match: repr(device[match[1]]), text)
    assert re.fullmatch(r"[-+*/(). 0-9e]+", text), origin
    return eval(text)


@pytest.mark.parametrize("gpu", [True, False])
def test_every_number_traces_to_the_files(tmp_path: Path, gpu: bool) -> None:
    results = made_up(tmp_path, gpu=gpu)
    computed = tables.tables_of(results, DOCUMENTS)
    numbers = list(traced(computed))
    assert len(numbers) > (200 if gpu else 50)
    for number in numbers:
        value = recomputed(number["origin"], tmp_path, results.device)
        assert math.isclose(number["value"], value, rel_tol=1e-12), number
        printed = float(number["text"].replace("\u2009", ""))
        assert math.isclose(printed, value, rel_tol=0.05, abs_tol=1e-12), number
    assert list(untraced_floats(computed)) == []


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
    found = all_findings(made_up(tmp_path, gpu=False))
    for name in ("best_share", "shared_over_naive", "tile_widths", "copies", "over_cpu"):
        assert found[name] == {"missing": "there is no GPU on this machine"}
    assert found["blas_over_loop"]["missing"] is None
    assert found["peak"]["kernel"]["name"] in ("cpu_loop", "cpu_blas")


@pytest.mark.parametrize("kernel", ["naive", "cublas_sgemm", "cpu_loop"])
def test_one_kernel_alone(tmp_path: Path, kernel: str) -> None:
    computed = tables.tables_of(made_up(tmp_path, kernels=[kernel]), DOCUMENTS)
    assert [entry["name"] for entry in computed["rates"]["kernels"]] == [kernel]
    assert computed["findings"]["shared_over_naive"]["missing"] == "not in this data set"


def fail_shared(summary: pd.DataFrame) -> pd.DataFrame:
    """The larger sizes of one variant came out wrong, each by another error."""
    wrong = (summary.variant == "shared[TILE_WIDTH=16]") & (summary.n >= 640)
    summary = summary[~(wrong & (summary.phase != "kernel"))].reset_index(drop=True)
    wrong = (summary.variant == "shared[TILE_WIDTH=16]") & (summary.n >= 640)
    wrong &= summary.status == "ok"
    reasons = [f"wrong result of shared[TILE_WIDTH=16]: error {n / 100:g} times the bound"
               for n in summary.n]  # fmt: skip
    empty = dict.fromkeys(("time_ms", "time_low_ms", "time_high_ms", "tflops", "error"), np.nan)
    changed = summary[wrong].assign(status="failed", **empty)
    changed["reason"] = np.array(reasons)[wrong]
    return pd.concat([summary[~wrong], changed], ignore_index=True)


def test_failed_points_are_named_and_grouped(tmp_path: Path) -> None:
    computed = tables.tables_of(made_up(tmp_path, change=fail_shared), DOCUMENTS)
    (group,) = computed["not_measured"]["failed"]
    assert group == {
        "reason": "wrong result of the kernel: error 6.4 to 10.24 times the bound",
        "points": 2,
        "variants": ["shared[TILE_WIDTH=16]"],
        "shapes": ["640", "1024"],
    }
    assert computed["scope"]["timed"]["gpu"]["failed"] == 2
    (skipped,) = computed["not_measured"]["skipped"]
    assert skipped["variants"] == ["naive", "shared"]
    assert skipped["reason"] == "the kernel multiplies square matrices only, not this shape"


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
    [((1.0, 1.9), "faster"), ((1.0, 2.1), "alike"), ((3.1, 4.0), "slower"),
     ((1.0, np.nan), "unknown")],
)  # fmt: skip
def test_a_verdict_needs_intervals_apart(tmp_path: Path, shared: Any, verdict: str) -> None:
    change = with_times(**{"naive[": (2.0, 3.0), "shared[": shared})
    if verdict == "unknown":

        def change(summary: pd.DataFrame) -> pd.DataFrame:
            return summary.assign(time_low_ms=np.nan, time_high_ms=np.nan)  # fmt: skip

    found = all_findings(made_up(tmp_path, kernels=FEW, change=change))["shared_over_naive"]
    assert found["n"] == 1024
    assert found["verdict"] == verdict


def test_throttling_for_heat_and_for_power_are_kept_apart(tmp_path: Path) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        timed = (summary.phase == "kernel") & (summary.status == "ok")
        heat = timed & (summary.kernel == "naive") & (summary.n == 1024)
        power = timed & (summary.kernel == "shared") & (summary.n == 1024)
        reasons = np.select([heat, power], ["hw_thermal+power_cap", "power_cap"], "")
        return summary.assign(throttled=reasons)

    found = all_findings(made_up(tmp_path, kernels=FEW, change=change))["throttling"]
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
     (0, "0"), (1.2e-9, "1.20e-9")],
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
    return report.typeset(
        ROOT / "reports" / "report.typ", folder / "tables.json", folder / "figures"
    )


def test_the_report_has_the_same_bytes_wherever_it_is_made(tmp_path: Path) -> None:
    reports = []
    for name in ("one", "another/deeper"):
        folder = tmp_path / name
        reports.append(typeset(made_up(folder, kernels=FEW), folder))
    assert reports[0].startswith(b"%PDF")
    assert reports[0] == reports[1]


def test_a_drawn_figure_can_be_typeset(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["naive"])
    plain = typeset(results, tmp_path)
    style.save(FIGURES["rate"](results), tmp_path / "figures", "rate")
    source = ROOT / "reports" / "report.typ"
    assert report.typeset(source, tmp_path / "tables.json", tmp_path / "figures") != plain


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tables\.json: there is no such file"):
        report.typeset(ROOT / "reports" / "report.typ", tmp_path / "tables.json", tmp_path)


@pytest.mark.parametrize(
    "options",
    [{"gpu": False}, {"kernels": ["naive"]}, {"device": {}}, {"change": fail_shared},
     {"shapes": ["3200x2400x1600"]},
     {"change": lambda s: s.assign(status="failed", reason="lost", time_ms=None, tflops=None)}],
    ids=["no gpu", "one kernel", "unknown device", "failures", "no square", "nothing"],
)  # fmt: skip
def test_every_data_set_has_a_report(tmp_path: Path, options: dict[str, Any]) -> None:
    results = made_up(tmp_path, **({"kernels": FEW} | options))
    assert typeset(results, tmp_path).startswith(b"%PDF")


def test_a_data_set_of_two_tables_has_a_report(tmp_path: Path) -> None:
    made_up(tmp_path, kernels=FEW)
    for name in ("ratios", "verification", "jobs", "kernels"):
        (tmp_path / f"{name}.csv").unlink()
    results = tables.load_results(tmp_path, tables.load_catalogue())
    assert typeset(results, tmp_path).startswith(b"%PDF")
