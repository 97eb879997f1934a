"""The results in README.md and docs/kernels.md are those of the published data sets."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_data import RANDOM, made_up, the_catalogue
from support import ROOT, Command

import gallery
import readme
from matmul_sweep.catalogue.entries import Catalogue
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import Results, load_results
from matmul_sweep.experiment.dataset.tables import DATA_SET
from matmul_sweep.experiment.report.facts import ladder as steps
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations import OPERATIONS

README, KERNELS = ROOT / "README.md", ROOT / "docs" / "kernels.md"
GALLERY = ROOT / "reports" / "published" / "README.md"
MARKED = "Before.\n<!-- {0} -->\nstale\n<!-- end of {0} -->\nAfter.\n"
PAGES = [
    README,
    GALLERY,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *(ROOT / "docs").glob("*.md"),
]
LINES, WORDS = 110, 1100  # of the README at most


def published() -> list[Path]:
    """The published data sets with all of today's tables, which the rule takes too."""
    folders = sorted(file.parent for file in ROOT.glob("reports/published/*/device.json"))
    return [folder for folder in folders if all((folder / name).exists() for name in DATA_SET)]


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of each row of a table by its first one, a link's words without the link."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {re.sub(r"\[(.*)\]\(.*\)", r"\1", cells[0]): cells[1:] for cells in rows}


def sentences(results: Results) -> list[str]:
    return list(readme.found(results))


def test_the_pages_say_what_was_published() -> None:
    catalogue = load_catalogue()
    data_sets = [(folder, load_results(folder, catalogue)) for folder in published()]
    for page, text in readme.pages(data_sets, README, KERNELS, GALLERY).items():
        assert page.read_text() == text, "out of date: uv run snakemake --cores 1 readme"


def test_the_readme_is_a_page() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= LINES
    assert len(text.split()) <= WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    links = re.findall(r"(?:\]\(|src=\")([^)#\"]+)[)\"]", page.read_text())
    assert [
        link
        for link in links
        if not link.startswith("https://") and not (page.parent / link).exists()
    ] == []


def judged(results: Results, kernel: str, ratio: float, low: float, high: float) -> None:
    """Give a kernel these ratios to its libraries at every point."""
    columns = ["ratio", "ratio_low", "ratio_high"]
    results.ratios.loc[results.ratios.kernel == kernel, columns] = ratio, low, high


@pytest.mark.parametrize(
    ("ratio", "low", "high", "past", "words"),
    [
        (1.25, 1.24, 1.26, ", past cuBLAS", "is 1.25 times as fast as cuBLAS"),
        (1.0, 0.99, 1.01, "", "is as fast as cuBLAS"),
        (0.5, 0.49, 0.51, "", "has 50% of the speed of cuBLAS"),
    ],
)
def test_the_first_sentence_says_how_far_the_steps_lead_and_what_the_library_does(
    tmp_path: Path, ratio: float, low: float, high: float, past: str, words: str
) -> None:
    results = made_up(tmp_path, kernels=["naive", "shared", "cublas_sgemm"])
    judged(results, "naive", 0.1, 0.09, 0.11)
    judged(results, "shared", ratio, low, high)
    (said,) = sentences(results)
    rates = readme.ladder(results.of("gemm")).set_index("kernel").tflops
    unit, factor = readme.rate_unit(rates)
    first, last = re.search(
        rf"float32: from (\S+) to (\S+) {unit} in one step{past}\.", said
    ).groups()
    assert float(first) == pytest.approx(rates["naive"] * factor, rel=5e-2)
    assert float(last) == pytest.approx(rates["shared"] * factor, rel=5e-2)
    assert said.endswith(f". At n = 1024 *shared* {words}.")


def test_the_libraries_fastest_routine_that_fills_c_is_the_one_that_counts(tmp_path: Path) -> None:
    libraries = ["cublas_dgemm", "cublas_dsyrk", "cublas_dsyrk_triangle"]
    results = made_up(tmp_path, kernels=["gram_naive", *libraries])
    for library, ratio in zip(libraries, (1.9, 1.1, 0.8), strict=True):
        rows = results.ratios.baseline == library
        results.ratios.loc[rows, ["ratio", "ratio_low", "ratio_high"]] = ratio, ratio, ratio
    (said,) = sentences(results)
    assert said.endswith("*AᵀA naive* is 1.10 times as fast as cuBLAS.")


def test_products_from_halves_stand_beside_the_library_with_both_errors(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["three_products", "cublas_sgemm"])
    judged(results, "three_products", 4.09, 4.0, 4.1)
    (said,) = sentences(results)
    ends = r"At n = 1024 it is 4.09 times as fast as cuBLAS .* error of (\S+) against (\S+)\.$"
    own, library = re.search(ends, said).groups()
    rows = results.summary.query("n == 1024 and m == 1024").groupby("kernel").mean_error
    errors = {kernel: set(map(significant, values.dropna())) for kernel, values in rows}
    assert own in errors["three_products"] and library in errors["cublas_sgemm"]
    assert sentences(made_up(tmp_path / "alone", kernels=["three_products"])) == []


def test_random_shapes_are_counted(tmp_path: Path) -> None:
    results = made_up(tmp_path, drawn=RANDOM)
    said, other = (text for text in sentences(results) if "random" in text)
    rows = results.ratios.query("sweep == 'random_gemm'")
    faster, worst = (rows.ratio_low > 1).sum(), 100 * rows.ratio.min()
    assert said.startswith(f"On 40 random shapes *sgemm* beats cuBLAS on {faster}; ")
    assert said.endswith(f"it has {worst:.0f}% of cuBLAS's speed.")
    assert "On 30 random shapes *gram*" in other


def test_an_operation_whose_launches_overlap_is_not_told_of(tmp_path: Path) -> None:
    sweep = RANDOM["random_gemm"] | {"operation": "gemm_bf16", "kernels": ["bgemm"]}
    results = made_up(tmp_path, kernels=["bgemm", "cublas_gemm_bf16"], drawn={"random_bf16": sweep})
    assert not readme.ladder(results.of("gemm_bf16")).empty
    assert len(readme.drawn_ratios(results, "bgemm"))
    assert sentences(results) == []
    told = {name: not steps.ladder(results, name)["overlaps"] for name in OPERATIONS}
    assert told == {"gemm": True, "gram": True, "gemm_bf16": False}  # on page 1
    (entry,) = readme.entries([(tmp_path, results)])
    assert entry.fastest == []


def test_a_share_at_the_power_limit_says_that_both_kernels_had_one_clock(tmp_path: Path) -> None:
    def capped(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(throttled=summary.kernel.map({"naive": "power_cap"}))

    limited = made_up(tmp_path / "a", kernels=["naive", "cublas_sgemm"], change=capped)
    assert sentences(limited)[0].endswith("cuBLAS, in turn, at one clock.")
    free = made_up(tmp_path / "b", kernels=["naive", "cublas_sgemm"])
    assert sentences(free)[0].endswith("cuBLAS.")


def test_nothing_is_quoted_from_fewer_samples_than_give_an_interval(tmp_path: Path) -> None:
    def once(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(time_low_ms=None, time_high_ms=None)

    assert sentences(made_up(tmp_path, change=once)) == []


def test_the_share_of_the_library_decides_which_kernel_is_the_fastest(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["naive", "shared", "cublas_sgemm"])
    judged(results, "naive", 0.99, 0.98, 0.995)
    judged(results, "shared", 0.5, 0.4, 0.6)
    own = results.summary
    own.loc[own.kernel == "shared", "tflops"] = own.tflops.max() * 2
    assert "*naive* has 99% of the speed of cuBLAS" in sentences(results)[0]


def test_the_documents_chart_stands_beside_the_steps(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["naive", "cublas_sgemm"])
    assert "<img" not in readme.findings_block([(tmp_path, results)], tmp_path / "README.md")
    for name in ("ladder.svg", "time_loglog.svg"):
        (tmp_path / name).touch()
    block = readme.findings_block([(tmp_path, results)], tmp_path / "README.md")
    pictures = re.findall(r'<img src="\./(.*)" alt="(.*) on Imaginary GPU" width="49%">', block)
    words = "C = A·B step by step"
    assert pictures == [("time_loglog.svg", "Time against n"), ("ladder.svg", words)]


def dated(folder: Path, date: str, earlier: bool = False) -> tuple[Path, Results]:
    """A data set of this day, of today's kernels or of earlier ones."""
    results = made_up(folder, kernels=["naive", "cublas_sgemm"])
    device = results.device | {"date": date, "gpu": f"GPU of {date}"}
    return folder, dataclasses.replace(results, device=device, earlier=earlier)


def test_the_newest_current_data_set_is_quoted_or_else_the_newest_earlier_one(
    tmp_path: Path,
) -> None:
    current = [dated(tmp_path / day, day) for day in ("2026-01-01", "2026-01-02")]
    earlier = [dated(tmp_path / day, day, True) for day in ("2026-01-03", "2026-01-04")]
    said = readme.findings_block([*earlier, *current], README)
    assert "*GPU of 2026-01-02" in said
    assert "earlier" not in said
    said = readme.findings_block(earlier, README)
    assert "*GPU of 2026-01-04" in said
    assert "earlier kernels" in said
    assert readme.findings_block([], README).strip() == ""


def test_a_ladder_has_each_measured_kernel_once_with_its_numbers(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["cpu_loop", "naive", "shared", "cublas_sgemm"])
    view = results.of("gemm")
    rungs = readme.ladder(view).set_index("kernel")
    rows = rows_of(readme.table(view, readme.ladder(view), README))
    assert list(rows)[2:] == ["CPU, triple loop", "naive", "shared", "cuBLAS SGEMM"]
    assert set(rungs.n) == {1024}
    idea, rate, share = rows["shared"]
    assert idea == results.catalogue["shared"].lesson
    assert float(rate) == pytest.approx(rungs.tflops["shared"], rel=5e-3)
    pairs = results.ratios.query("variant == @rungs.variant['shared'] and n == m == k == 1024")
    row = pairs[pairs.cache == "hot"].iloc[0]
    ends = f"[{100 * row.ratio_low:.1f}, {100 * row.ratio_high:.1f}]"
    assert share == f"{100 * row.ratio:.1f}% {ends}"


def test_a_size_at_which_a_kernel_has_no_interval_is_not_the_ladders(tmp_path: Path) -> None:
    def few(summary: pd.DataFrame) -> pd.DataFrame:
        largest = (summary.kernel == "naive") & (summary.n == 1024)
        summary.loc[largest, ["time_low_ms", "time_high_ms"]] = None
        return summary

    results = made_up(tmp_path, kernels=["naive", "cublas_sgemm"], change=few)
    assert set(readme.ladder(results.of("gemm")).n) == {640}


def test_a_kernel_of_the_cpu_stands_at_its_own_last_size(tmp_path: Path) -> None:
    def slow(summary: pd.DataFrame) -> pd.DataFrame:
        return summary[(summary.kernel != "cpu_loop") | (summary.n <= 320)]

    view = made_up(tmp_path, kernels=["cpu_loop", "naive", "cublas_sgemm"], change=slow).of("gemm")
    rows = rows_of(readme.table(view, readme.ladder(view), README))
    assert rows["CPU, triple loop"][1].endswith(" at 320")
    assert " at " not in rows["naive"][1]


@pytest.mark.parametrize(
    ("ratio", "low", "high", "words"),
    [
        (0.5, 0.49, 0.51, "50.0% [49.0, 51.0]"),
        (1.0, 0.99, 1.01, "100.0% [99.0, 101.0], a tie"),
        (0.5, None, None, "50.0%, too few pairs for an interval"),
    ],
)
def test_a_share_says_how_sure_it_is(
    ratio: float, low: float | None, high: float | None, words: str
) -> None:
    pairs = pd.DataFrame([{"ratio": ratio, "ratio_low": low, "ratio_high": high}], dtype=float)
    assert readme.share(pairs) == words
    assert readme.share(pairs[:0]) == ""


def test_a_title_does_not_end_its_cell(tmp_path: Path) -> None:
    catalogue = Catalogue(the_catalogue())
    catalogue["naive"] = dataclasses.replace(catalogue["naive"], lesson="a | b")
    view = made_up(tmp_path, kernels=["naive", "cublas_sgemm"], catalogue=catalogue).of("gemm")
    assert "a \\| b" in readme.table(view, readme.ladder(view), README)


def marked(folder: Path) -> list[Any]:
    """Three pages with markers, as the program's options."""
    pages = {"--readme": ("README.md", "published"), "--kernels": ("kernels.md", "ladder"),
             "--gallery": ("sets.md", "sets")}  # fmt: skip
    for file, name in pages.values():
        (folder / file).write_text(MARKED.format(name))
    return [word for option, (file, _) in pages.items() for word in (option, folder / file)]


def test_the_part_is_replaced_and_nothing_else(command: Command, tmp_path: Path) -> None:
    made_up(tmp_path / "data", kernels=["naive", "gram_naive", "cublas_dgemm"])
    options = marked(tmp_path)
    for _ in range(2):  # the second run finds what the first one wrote
        assert command("readme", tmp_path / "data", *options).code == 0
        for page, name in ((options[1], "published"), (options[3], "ladder")):
            text = page.read_text()
            assert text.startswith(f"Before.\n<!-- {name} -->\n\n")
            assert text.endswith(f"\n\n<!-- end of {name} -->\nAfter.\n")
            assert "stale" not in text
            assert "*Imaginary GPU · 2026-01-02 · commit 0123456" in text


def test_a_page_without_the_markers_is_one_clear_line(command: Command, tmp_path: Path) -> None:
    options = marked(tmp_path)
    options[3].write_text("Nothing.\n")
    said = command("readme", *options).error()
    assert "kernels.md" in said and "<!-- ladder -->" in said
    assert "stale" in options[1].read_text()  # neither page is written


def test_the_list_has_a_row_per_set_the_current_one_first_and_then_the_newest(
    tmp_path: Path,
) -> None:
    days = {"2026-01-03": True, "2026-01-01": False, "2026-01-04": True, "2026-01-02": False}
    sets = [dated(tmp_path / day, day, earlier) for day, earlier in days.items()]
    rows = rows_of(readme.gallery_block(sets, tmp_path / "README.md"))
    order = ["2026-01-02", "2026-01-01", "2026-01-04", "2026-01-03"]
    assert [*rows][2:] == [f"GPU of {day}, 1 card" for day in order]
    cells = rows["GPU of 2026-01-03, 1 card"]
    assert cells[0] == "2026-01-03" and cells[1].startswith("earlier kernels, of version")
    fastest = r"C = A·B in float32: \*naive\*, .*FLOP/s at n = 1024, .*% \[.*\] of \*cuBLAS"
    assert re.search(fastest, cells[2])
    assert re.match(r"ratios: \d+ points: \d+ same, 0 faster, 0 slower", cells[3])
    assert cells[4] == "[data](2026-01-03/)"
    assert rows["GPU of 2026-01-02, 1 card"][3] == "it is the current one"
    assert readme.gallery_block(sets[2:3], tmp_path / "README.md").count("it is the newest") == 1
    assert readme.gallery_block([], tmp_path / "README.md").strip() == ""


def test_two_sets_of_one_device_are_refused_in_one_line(command: Command, tmp_path: Path) -> None:
    for name in ("one", "other"):
        made_up(tmp_path / name, kernels=["naive", "cublas_sgemm"])
    error = command("readme", tmp_path / "one", tmp_path / "other", *marked(tmp_path)).error()
    assert "one" in error and "other: two sets of one device; remove one" in error


def test_the_page_of_the_sets_says_what_the_list_says(tmp_path: Path) -> None:
    sets = [dated(tmp_path / day, day) for day in ("2026-01-01", "2026-01-02")]
    sets[1][1].device["gpu"] = "GPU <of> 2026"
    (tmp_path / "2026-01-01" / "report.pdf").touch()
    template = (ROOT / "reports" / "gallery.html").read_text()
    page = gallery.page(template, sets, tmp_path / "results")
    first, second = re.findall(r"<tr><td>(.*)</tr>", page)
    assert first.startswith("GPU &lt;of&gt; 2026, 1 card<td>2026-01-02<td>today's, of version")
    fastest = r"C = A·B in float32: <em>naive</em>, .* of <em>cuBLAS SGEMM</em><td>it is the"
    assert re.search(fastest, first)
    assert second.split("<td>")[4].startswith("ratios: ")
    links = dict(re.findall(r'<a href="([^"]*)">(\w+)</a>', second))
    assert links == {"../2026-01-01": "data", "../2026-01-01/report.pdf": "report"}


def test_a_set_that_cannot_be_read_is_one_line(command: Command, tmp_path: Path) -> None:
    error = command("gallery", tmp_path / "none", "--output", tmp_path / "page.html").error()
    assert "device.json" in error
    assert not (tmp_path / "page.html").exists()
