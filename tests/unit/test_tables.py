"""What the report prints: right numbers, and nothing that the data do not bear."""

import json
import shutil
from collections import Counter
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
    SWEEPS,
    beside_a_card,
    failed,
    made_up,
    the_catalogue,
    where,
)
from support import ROOT

import report
from matmul_sweep.classroom.habits import HABITS_OF_MEASURING
from matmul_sweep.experiment.dataset.selection import Results, limits_of, load_results
from matmul_sweep.experiment.dataset.tables import STATE, TIMES, write_table
from matmul_sweep.experiment.dataset.words import MODES
from matmul_sweep.experiment.report.facts.documents import compare_documents, documents
from matmul_sweep.experiment.report.facts.findings import findings
from matmul_sweep.experiment.report.facts.measuring import measuring, timer
from matmul_sweep.experiment.report.facts.report import missing, sampling, scope, tables_of
from matmul_sweep.experiment.report.facts.studies import exact_inputs, studies
from matmul_sweep.experiment.report.figures.gallery import FIGURES
from matmul_sweep.experiment.report.figures.names import caption
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import write_json
from mistakes import record_of

pytestmark = pytest.mark.slow

SOURCE = ROOT / "reports" / "report.typ"
FEW = ["cpu_loop", "naive", "shared", "cublas_sgemm"]  # kernels enough for most questions
RATES = [*TIMES, "tflops"]
NO_GPU = "there is no GPU on this machine"


def typeset(results: Results, folder: Path) -> bytes:
    """The report of a data set, with small figures in place of the drawn ones and an empty gallery
    of mistakes."""
    write_json(tables_of(results, documents()), folder / "tables.json")
    (folder / "figures").mkdir(exist_ok=True)
    for name in FIGURES:
        drawing = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
        (folder / "figures" / f"{name}.svg").write_text(drawing)
    write_json({name: caption(name) for name in FIGURES}, folder / "figures" / "drawn.json")
    write_json(record_of([], []), folder / "mistakes.json")
    return report.typeset(SOURCE, read_by_the_report(folder))


def read_by_the_report(folder: Path) -> dict[str, Path]:
    return {"tables": folder / "tables.json", "figures": folder / "figures", "mistakes": folder}


def fail_shared(summary: pd.DataFrame) -> pd.DataFrame:
    """The larger sizes of one variant came out wrong, each by another error."""
    wrong = (summary.variant == "shared/16") & (summary.n >= 640) & (summary.status == "ok")
    summary.loc[wrong, ["status", *RATES, "error"]] = ["failed", *[np.nan] * 5]
    errors = "wrong result of shared/16: error " + (summary.n / 100).map("{:g}".format) + " times"
    return summary.assign(reason=summary.reason.mask(wrong, errors))


FOREIGN = {"naive": "foreign", "naive/32": "foreign/1"}  # that the catalogue does not know
HOLES: dict[str, dict[str, Any]] = {
    "one kernel": {"kernels": ["naive"]},
    "failures of an unknown device": {"device": {}, "change": fail_shared},
    "no square": {"shapes": {"gemm": ["3200x2400x1600"]}},
    "a foreign kernel": {"change": lambda s: s.replace(FOREIGN)},
    "gram alone": {"kernels": (), "shapes": {"gram": SHAPES["gram"]}},
    "gemm alone": {"shapes": {"gemm": SHAPES["gemm"]}},
    "without a GPU": {"gpu": False},
    "nothing": {"change": failed},
    "random shapes": {"kernels": ["sgemm", "gram", *FEW], "drawn": RANDOM},
    "without readings": {
        "change": lambda s: s.assign(**dict.fromkeys(STATE[:-1]), throttled=""),
        "device": DEVICE | {"nvml": "unavailable: no permission"},
    },
}


@pytest.mark.parametrize("options", HOLES.values(), ids=HOLES)
def test_a_data_set_with_holes_has_a_report(tmp_path, options):
    assert typeset(made_up(tmp_path, **({"kernels": FEW} | options)), tmp_path).startswith(b"%PDF")


@pytest.mark.parametrize("gpu", [True, False], ids=["gpu", "beside a published set"])
def test_the_documents_charts_are_figures_1_to_4_and_no_report_goes_without_them(tmp_path, gpu):
    results = made_up(tmp_path, kernels=FEW) if gpu else beside_a_card(tmp_path)
    first = typeset(results, tmp_path)
    deeper = Path(shutil.copytree(tmp_path, tmp_path / "another" / "deeper"))
    assert report.typeset(SOURCE, read_by_the_report(deeper)) == first  # the same bytes
    inputs = {name: str(path) for name, path in read_by_the_report(tmp_path).items()}
    figures = json.loads(typst.query(SOURCE, "figure", root="/", sys_inputs=inputs))
    charts = ["time_seconds", "time_milliseconds", "time_loglog", "gram_time"]
    assert [own["label"] for own in figures][:4] == [f"<figure-{name}>" for name in charts]
    for name in charts:
        others = {other: caption(other) for other in FIGURES if other != name}
        write_json(others, tmp_path / "figures" / "drawn.json")
        with pytest.raises(UserError, match=f"the figures lack {name}"):
            report.typeset(SOURCE, read_by_the_report(tmp_path))


def test_a_data_set_with_a_hole_is_refused(tmp_path):
    summary = made_up(tmp_path, kernels=FEW).summary
    line = summary.index[summary.status == "ok"][1]
    write_table(summary.assign(time_ms=summary.time_ms.drop(line)),
                "summary.csv", tmp_path / "summary.csv")  # fmt: skip
    with pytest.raises(UserError, match=rf"summary\.csv, line {line + 2}: .* has no time"):
        load_results(tmp_path, the_catalogue())
    with pytest.raises(UserError, match=r"none\.json: there is no such file"):
        report.typeset(SOURCE, {"tables": tmp_path / "none.json"})


NUMBERS = {0.01234: "0.0123", 1.3: "1.30", 99.96: "100", 5566.7: "5570", 95486: "95\u2009500",
           0: "0", 0.0012: "0.00120", 1.73e-5: "1.73·10⁻⁵", 1.2e-9: "1.20·10⁻⁹"}  # fmt: skip


def queried(folder: Path, names: str, source: str) -> list[Any]:
    """The metadata labelled <own> in a document that uses these names of the report's style."""
    shutil.copy(ROOT / "reports" / "style.typ", folder)
    (folder / "own.typ").write_text(f'#import "style.typ": {names}\n{source}')
    return json.loads(typst.query(folder / "own.typ", "<own>", field="value"))


def test_numbers_are_rounded_alike_in_figures_and_in_the_report(tmp_path):
    assert [significant(value) for value in NUMBERS] == [*NUMBERS.values()]
    values = ", ".join(f"num(float({value!r}))" for value in NUMBERS)
    calls = f'{values}, num(12345), num(none), in-unit(0.000534, "s"), in-unit(-20, "ms")'
    [found] = queried(tmp_path, "in-unit, num", f"#metadata(({calls}).map(repr)) <own>")
    *found, short, negative = [words.replace(r"\u{2009}", "\u2009") for words in found]
    assert "534], [ ], [µs" in short and "20.0], [ ], [ms" in negative
    for words, text in zip(found, [*NUMBERS.values(), "12345", "–"], strict=True):
        mantissa, _, exponent = text.partition("·10⁻")
        power = str(exponent and -"⁰¹²³⁴⁵⁶⁷⁸⁹".index(exponent)).replace("-", "[−], [")
        assert mantissa in words and power in words, words


def test_no_page_has_a_single_row_of_a_table(tmp_path):
    rows = queried(tmp_path, "plain-table", """#set page(height: 120mm, margin: 10mm)
        #for above in range(100) {
          let row = context [#here().page() #metadata((above, here().page())) <own>]
          v(above * 1mm)
          plain-table(few: 6, head: ([page],), ..(row,) * 8)
          pagebreak(weak: true)
        }""")  # fmt: skip
    found = Counter(map(tuple, rows))
    assert len(found) > 100 and min(found.values()) > 1


def test_mistakes_of_measuring_are_shown_by_what_was_measured(tmp_path):
    assert measuring(made_up(tmp_path, kernels=FEW, gpu=False)) == {}
    shown = measuring(made_up(tmp_path, kernels=FEW))
    assert {*shown} <= {*HABITS_OF_MEASURING}
    assert shown["not_waiting"]["quotient"] == pytest.approx(COPIES["submitted"])
    assert shown["copies"]["quotient"] == pytest.approx(COPIES["end_to_end"])
    first = shown["first_in_the_mean"]
    assert first["quotient"] == pytest.approx(first["other"] / first["kernel"])
    assert (first["n"], shown["copies"]["n"]) == (32, 1024)


def test_the_checks_of_the_timer_are_told_if_somebody_made_them(tmp_path):
    options = {"kernels": ["naive", "cublas_sgemm"], "caches": ["cold", "alone"]}
    told = timer(made_up(tmp_path / "checked", **options, checked=True))
    # The made-up times are 1.2 times as long cold, and 1.02 times those of do_bench.
    assert (told["empty_us"], told["difference"]) == pytest.approx((3, 1 - 1.02 / 1.2))
    assert (told["of"], told["n"]) == (["cuBLAS SGEMM"], 1024)
    unchecked = timer(made_up(tmp_path, kernels=["naive"]))
    assert unchecked == {"empty_us": None, "n": None, "of": [], "difference": None}


def test_the_documents_numbers_beside_ours(results):
    both = {"kernels": ["naive", "shared"]}
    asked = [("time", 0.05, "s", {"kernel": "naive"}), ("time", 1, "ms", {"kernel": "shared"}),
             ("quotient", 3, "1", both), ("difference", 1, "s", both)]  # fmt: skip
    numbers = [
        {"system": "x", "shape": 640, "quantity": quantity, "value": value, "unit": unit,
         "about": "over", "ours": [ours | {"phase": "kernel"}]}
        for quantity, value, unit, ours in asked
    ]  # fmt: skip
    document = {"title": "x", "card": "unknown", "why": "", "numbers": numbers}
    [entry] = compare_documents(results, {"009": document})
    in_s, in_ms, quotient, difference = entry["rows"]
    naive, shared = in_s["ours"] * 1e3, in_ms["ours"]  # test_beside holds the times
    assert in_s["ratio"] == pytest.approx(50 / naive)
    assert quotient["document"]["text"] == "over 3" and quotient["ratio"] is None
    assert quotient["ours"] == pytest.approx(naive / shared)
    assert difference["ours"] == pytest.approx((naive - shared) / 1e3)
    assert (difference["ratio"] is not None) == (naive > shared)


def test_long_launches_that_were_timed_hot_only_stand_beside_a_cold_number(tmp_path):
    change = where("cache == 'cold' and phase == 'kernel' and n == 1024",
                   status="skipped", reason="alike", **dict.fromkeys(RATES, np.nan))  # fmt: skip
    results = made_up(tmp_path, kernels=FEW, change=change)
    [third] = compare_documents(results, {"003": documents()["003"]})
    rows = {row["size"]: row for row in third["rows"] if row.get("system") == "conventional"}
    assert (rows["32"]["span"], rows["1024"]["span"]) == ("kernel, cold", "kernel, hot")
    # What is missing elsewhere is not blamed on the cold launches that nobody misses.
    assert "alike" not in rows["16384"]["missing"]
    assert all("alike" not in entry["reason"] for entry in missing(results, "skipped"))


def test_document_004_s_rates_are_by_the_operations_that_each_program_executes(tmp_path):
    results = made_up(tmp_path, shapes={"gram": (500, 18500)})
    [entry] = compare_documents(results, {"004": documents()["004"]})
    library, simple, optimised = entry["rates"]
    assert entry["rows"][0]["document"]["text"] == "43.6 s"
    assert entry["rows"][-1]["document"]["text"] == "not known"
    assert simple["document"] == pytest.approx(2 * 18500**3 / 360.222531 / 1e9)
    assert optimised["document"] == pytest.approx(18500**2 * 18501 / 30.854096 / 1e9)
    assert library["document_share"] == pytest.approx(290.57 / 515, rel=1e-4)
    assert library["half_s"] == pytest.approx(43.58159 / 2, rel=1e-4)


def test_points_without_a_time_are_grouped_by_reasons_alike(tmp_path):
    kernels = ["naive", "shared", "thin", "gram_naive"]
    results = made_up(tmp_path, kernels=kernels, change=fail_shared)
    assert missing(results, "failed") == [
        {"reason": "wrong result of the kernel: error 6.4 times", "points": 2, "drawn": False,
         "variants": ["shared/16"], "shapes": ["640", "1024"]}
    ]  # fmt: skip
    assert scope(results)["timed"]["gpu"]["failed"] == 2
    squares, rows = missing(results, "skipped")
    assert squares["reason"] == "the kernel multiplies square matrices only, not this shape"
    assert {name.split("/")[0] for name in squares["variants"]} == {"naive", "shared"}
    assert squares["shapes"] == ["3200×2400×1600"]
    assert rows["reason"] == "the kernel takes at most 1 row of C, not this shape"
    without = made_up(tmp_path, kernels=kernels, gpu=False)
    reasons = [group["reason"] for group in missing(without, "skipped")]
    assert reasons == [NO_GPU] * 2  # an operation each
    assert scope(without)["gpu_absence"] == NO_GPU and not scope(without)["on_gpu"]


def test_a_share_is_told_for_each_library_with_the_sizes_of_wins_and_ties(tmp_path):
    results = made_up(tmp_path, kernels=[*FEW, "gram_naive", "cublas_dgemm", "cublas_dsyrk"])
    own = results.ratios.kernel == "shared"
    for n, ends in ((640, (1.01, 1.05)), (1024, (0.97, 1.01))):
        here = own & (results.ratios.n == n)
        results.ratios.loc[here, ["ratio", "ratio_low", "ratio_high"]] = np.mean(ends), *ends
    found = findings(results)["shares"]
    [share] = found["gemm"]
    assert (share["verdict"], share["faster_at"], share["tie_at"]) == ("tie", [640], [1024])
    assert [x["library"]["name"] for x in found["gram"]] == ["cublas_dgemm", "cublas_dsyrk"]


def test_what_held_the_card_back_is_a_letter_for_each_reason():
    assert limits_of("power_cap") == "p"
    assert limits_of("sw_thermal") == limits_of("hw_slowdown+hw_thermal") == "h"
    assert limits_of("power_cap+sw_thermal") == "ph"
    assert limits_of("") == limits_of(np.nan) == limits_of("power_brake") == ""


def test_heat_and_power_are_counted_apart_and_cards_without_the_jobs_that_had_none(tmp_path):
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        timed = (summary.phase == "kernel") & (summary.status == "ok") & (summary.n == 1024)
        hot, full = (timed & (summary.kernel == kernel) for kernel in ("naive", "shared"))
        reasons = np.select([hot, full], ["hw_thermal+power_cap", "power_cap"], "")
        return summary.assign(throttled=reasons)

    results = made_up(tmp_path, kernels=FEW, change=change)
    found = findings(results)["card"]
    assert (found["missing"], found["thermal"], found["power"]) == (None, 4, 8)
    assert scope(results)["cards"] == 1
    results.jobs.loc[results.jobs.variant == "cublas_sgemm", "uuid"] = "GPU-other"
    assert scope(results)["cards"] == 2
    unread = made_up(tmp_path, kernels=FEW, **HOLES["without readings"])
    assert findings(unread)["card"] == {"missing": "NVML unavailable: no permission"}


def test_a_study_is_a_row_for_each_kernel_and_value(results):
    found = studies(results)
    kernels, fills = (SWEEPS["fills"][key] for key in ("kernels", "fills"))
    assert {row["kernel"] for row in found["fill"]} == {results.title(name) for name in kernels[:2]}
    assert [row["value"] for row in found["fill"]] == [*fills] * 2
    assert [row["value"] for row in found["mode"]] == [*MODES] * 3
    own = results.summary.query("kernel == 'cublas_sgemm' and sweep == 'fills'")
    rates = [row["rate"] for row in found["fill"] if row["kernel"] == "cuBLAS SGEMM"]
    assert rates == [*own.tflops]
    states = [(row["power_w"], row["sm_clock_mhz"], row["mean_error"]) for row in found["fill"]]
    assert {*states} == {*zip(own.power_w, own.sm_clock_mhz, own.mean_error, strict=True)}


ERRORS_OF = {("own", "uniform"): 1e-8, ("own", "index"): 0.0,
             ("cuBLAS", "uniform"): 2e-8, ("cuBLAS", "index"): 3e-5}  # fmt: skip


def test_errors_on_the_documents_inputs_are_told_beside_those_on_random_ones():
    rows = [
        {"kernel": kernel, "own": kernel == "own", "value": value, "rate": 1.0, "size": "8192",
         "mean_error": error}
        for (kernel, value), error in ERRORS_OF.items()
    ]  # fmt: skip
    found = exact_inputs(rows)
    assert found is not None
    assert (found["library"], found["kernel"], found["own"]) == ("cuBLAS", "own", 0)
    assert found["times"] == pytest.approx(1500)
    assert all(exact_inputs(rows[:i] + rows[i + 1 :]) is None for i in (1, 2, 3))


@pytest.mark.parametrize(("library", "told"), [(0.008, True), (0.001, False)])
def test_why_the_first_step_wins_at_the_smallest_size_is_told_only_if_it_does(
    tmp_path, library, told
):
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        least = (summary.n == 32) & (summary.phase == "kernel") & (summary.status == "ok")
        times = {"naive": 0.005, "cublas_sgemm": library}
        return summary.assign(
            time_ms=summary.kernel.map(times).where(least).fillna(summary.time_ms)
        )

    found = findings(made_up(tmp_path, kernels=FEW, change=change))["smallest"]
    times = {"kernel": "naive", "library": "cuBLAS SGEMM"}
    assert bool(found) == told
    if found:
        assert {role: found[role]["title"] for role in times} == times
        assert (found["n"], found["library"]["time_us"]) == (32, 8)


def test_odd_sizes_are_held_against_the_fastest_library_one_launch_at_a_time(tmp_path):
    shapes = {"gemm_bf16": (1024, "1000x1001x999")}
    kernels = ["bgemm", "cublas_gemm_bf16"]
    results = made_up(tmp_path, kernels=kernels, shapes=shapes, caches=["hot", "cold"])
    [own] = findings(results)["odd_sizes"]["gemm_bf16"]
    [ratio] = results.ratios.query("kernel == 'bgemm' and n == 1001 and cache == 'cold'").ratio
    assert (own["kernel"], own["size"], own["ratio"]) == ("bgemm", "1000×1001×999", ratio)


def test_a_power_of_two_stands_beside_a_shape_with_as_many_operations(tmp_path):
    for last, told in (("1000x1001x999", True), ("3200x2400x1600", False)):
        results = made_up(tmp_path / last, kernels=["cpu_loop"], shapes={"gemm": (320, 1024, last)})
        found = findings(results)["power_of_two"]
        assert bool(found) == told
    found = findings(made_up(tmp_path, kernels=["cpu_loop"],
                             shapes={"gemm": (1024, "1000x1001x999")}))["power_of_two"]  # fmt: skip
    assert [found[name]["size"] for name in ("power", "near")] == ["1024", "1000×1001×999"]


@pytest.mark.parametrize(("rate", "told"), [(0.6, None), (0.4, (640, 1024))])
def test_where_blas_on_the_processor_falls_to_less_than_half_that_is_told(tmp_path, rate, told):
    def slower(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(tflops=rows.n.map({320: 0.5, 640: 1.0, 1024: rate}))

    found = findings(made_up(tmp_path, kernels=["cpu_blas"], change=slower,
                             shapes={"gemm": (320, 640, 1024)}))["slump"]  # fmt: skip
    assert (found and (found["before"]["n"], found["after"]["n"])) == told


def test_each_operation_has_the_sampling_that_it_was_measured_with(results):
    sweeps = sampling(results.device)["sweeps"]
    assert sweeps["gram"]["sampling"] == sweeps["gemm"]["sampling"] | {"seconds": 2}
    assert sampling({"configuration": {"sampling": {"seconds": 1}}})["sweeps"] == {}
