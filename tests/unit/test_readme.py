"""The results in README.md and docs/kernels.md are those of the published data sets."""

import dataclasses
import re
from pathlib import Path

import pandas as pd
import pytest
from made_up_data import RANDOM, made_up, where
from support import PUBLISHED_SETS, ROOT

import readme
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import Results, load_results, verdict_of
from matmul_sweep.experiment.report.facts import ladder as steps
from matmul_sweep.experiment.report.facts.findings import findings
from matmul_sweep.experiment.report.facts.published import entries
from matmul_sweep.operations import OPERATIONS

SETS = ROOT / "reports" / "published" / "README.md"
PAGES = [readme.README, SETS, *ROOT.glob("C*.md"), *ROOT.glob("docs/*.md")]
LINES, WORDS = 110, 1100  # of the README at most


def sentences(results: Results) -> list[str]:
    text = readme.block("published", readme.README, [results])
    return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]


def test_the_pages_say_what_was_published():
    catalogue = load_catalogue()
    data_sets = [load_results(folder, catalogue) for folder in PUBLISHED_SETS]
    for page, text in readme.pages(data_sets).items():
        assert page.read_text() == text, "out of date: uv run snakemake --cores 1 readme"


def test_the_readme_is_a_page():
    text = readme.README.read_text()
    assert len(text.splitlines()) <= LINES
    assert len(text.split()) <= WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page):
    links = re.findall(r"(?:\]\(|src=\")([^)#\"]+)[)\"]", page.read_text())
    own = [page.parent / link for link in links if not link.startswith("https://")]
    assert [link for link in own if not link.exists()] == []


def test_in_turn_the_speedup_over_the_library_says_which_kernel_is_the_fastest(tmp_path):
    results = made_up(tmp_path, kernels=["naive", "shared", "cublas_sgemm"])
    found = results.ratios
    for name, ratio in (("shared", 0.99), ("naive", 0.5)):
        ends = ratio, ratio - 0.004, ratio + 0.004
        found.loc[found.kernel == name, ["ratio", "ratio_low", "ratio_high"]] = ends
    (said,) = sentences(results)
    assert "*shared* reaches " in said and said.endswith(", 0.990 times as fast as cuBLAS.")


def test_a_sentence_says_how_it_was_measured_and_none_rests_on_few_samples(tmp_path):
    options = {"kernels": ["naive", "cublas_sgemm"]}
    capped = where("kernel == 'naive'", throttled="power_cap")
    once = where("n > 0", time_low_ms=None, time_high_ms=None)
    for own, end in (({"change": capped}, "cuBLAS, in turn, at one clock."), ({}, " cuBLAS.")):
        (said,) = sentences(made_up(tmp_path / end.strip(), **options, **own))
        assert said.endswith(end)
    assert sentences(made_up(tmp_path / "once", change=once)) == []
    assert sentences(made_up(tmp_path / "alone", kernels=["three_products"])) == []


def made_alone(folder: Path, ratios: dict[str, dict[str, float]]) -> Results:
    """A set in which `sgemm` has these ratios to libraries, in each cache state."""
    kernels = ["naive", "sgemm", "cublas_sgemm", "cublas_tuned"]
    results = made_up(folder, kernels=kernels, caches=[*ratios], change=all_capped)
    found = results.ratios
    for cache, own in ratios.items():
        for library, ratio in own.items():
            rows = (found.kernel == "sgemm") & (found.cache == cache) & (found.baseline == library)
            ends = ratio, ratio - 0.004, ratio + 0.004
            found.loc[rows, ["ratio", "ratio_low", "ratio_high"]] = ends
    return results


def all_capped(summary: pd.DataFrame) -> pd.DataFrame:
    """At the power limit, with `naive` at half of its rate."""
    slower = summary.tflops / (summary.kernel == "naive").map({True: 2.0, False: 1.0})
    return summary.assign(throttled="power_cap", tflops=slower)


# Ratios alone beside one of 1.3 in turn, the library that leads, and what is said.
LEADING: list[tuple[dict[str, float], str, str]] = [
    ({}, "cublas_sgemm", "FLOP/s, 1.30 times as fast as cuBLAS, in turn, at one clock."),
    ({"cublas_sgemm": 1.2, "cublas_tuned": 1.1}, "cublas_tuned",
     "*naive* and 1.10 times as fast as cuBLAS."),
    ({"cublas_sgemm": 0.8, "cublas_tuned": 0.9}, "cublas_sgemm",
     "*naive* and 0.800 times as fast as cuBLAS."),
]  # fmt: skip


@pytest.mark.parametrize(("alone", "library", "words"), LEADING)
def test_what_was_timed_alone_leads_beside_the_fastest_library(tmp_path, alone, library, words):
    ratios = {"hot": {"cublas_sgemm": 1.3}} | ({"alone": alone} if alone else {})
    results = made_alone(tmp_path, ratios)
    (said,) = sentences(results)
    assert "*sgemm* reaches " in said and said.endswith(words)
    page = readme.block("published", readme.README, [results])
    [share] = findings(results)["shares"]["gemm"]
    lead = steps.ladder(results, "gemm")["lead"]
    assert share["ratio"] == lead["speedup"]["ratio"] == min(alone.values(), default=1.3)
    assert share["library"]["name"] == lead["speedup"]["library"]["name"] == library
    here = results.of("gemm").at_compared(results.launches)
    here = here[(here.kernel == "sgemm") & (here.cache == [*ratios][-1])]
    assert lead["rate"] in [*here.tflops]
    (entry,) = entries([results])
    assert entry["fastest"][0].endswith(", alone") == ("alone on the card" in page) == bool(alone)


def test_an_operation_whose_launches_overlap_is_not_told_of(tmp_path):
    sweep = RANDOM["random_gemm"] | {"operation": "gemm_bf16", "kernels": ["bgemm"]}
    results = made_up(tmp_path, kernels=["bgemm", "cublas_gemm_bf16"], drawn={"random_bf16": sweep})
    assert len(readme.random_shapes(results))
    assert sentences(results) == []
    told = {name: not steps.ladder(results, name)["overlaps"] for name in OPERATIONS}
    assert {name for name, own in told.items() if own} == {"gemm", "gram"}  # on page 1
    (entry,) = entries([results])
    assert entry["fastest"] == []


def dated(folder: Path, date: str, earlier: bool) -> Results:
    """A data set of this day, of today's kernels or of earlier ones."""
    results = made_up(folder, kernels=["naive", "cublas_sgemm"])
    device = results.device | {"date": date, "gpu": f"GPU of {date}"}
    return dataclasses.replace(results, device=device, earlier=earlier)


SPEEDUPS = {
    (1.0817, 1.0812, 1.0822): "1.0817 [1.0812, 1.0822]",
    (0.00726, 0.0072, 0.00731): "0.00726 [0.00720, 0.00731]",
    (1.0, 0.99, 1.01): "1.00 [0.99, 1.01], a tie",
    (0.5, None, None): "0.500, too few pairs for an interval",
}


def test_a_speedup_says_how_sure_it_is():
    pairs = [{"ratio": ratio, "interval": own, "verdict": verdict_of(*own)}
             for ratio, *own in SPEEDUPS]  # fmt: skip
    assert [readme.speedup(pair) for pair in pairs] == [*SPEEDUPS.values()]


def test_the_current_set_is_quoted_then_the_newest(tmp_path):
    days = {"2026-01-03": True, "2026-01-01": False, "2026-01-04": True, "2026-01-02": False}
    sets = [dated(tmp_path / day, day, earlier) for day, earlier in days.items()]
    assert "*GPU of 2026-01-02" in readme.block("published", readme.README, sets)
    assert "earlier kernels" in readme.block("published", readme.README, sets[:1])
    assert not readme.block("published", readme.README, []).strip()
