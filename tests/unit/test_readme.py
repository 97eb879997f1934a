"""What the README says was measured is what the published data sets say."""

import dataclasses
import re
from pathlib import Path

import pandas as pd
import pytest
from made_up_data import made_up, the_catalogue
from support import ROOT, Command

import readme
from matmul.catalogue.entries import Catalogue, load_catalogue
from matmul.dataset.tables import DATA_SET
from matmul.report.selection import load_results

README = ROOT / "README.md"
MARKED = "Before.\n<!-- published -->\nold\n<!-- end of published -->\nAfter.\n"


def published() -> list[Path]:
    """The published data sets with all of today's tables, which the rule takes too."""
    folders = sorted(file.parent for file in ROOT.glob("reports/published/*/device.json"))
    return [folder for folder in folders if all((folder / name).exists() for name in DATA_SET)]


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of each row of a table by its first one, a link's words without the link."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {re.sub(r"\[(.*)\]\(.*\)", r"\1", cells[0]): cells[1:] for cells in rows}


def test_the_readme_says_what_was_published() -> None:
    catalogue = load_catalogue()
    data_sets = [(folder, load_results(folder, catalogue)) for folder in published()]
    written = README.read_text()
    assert written == readme.with_block(written, readme.block(data_sets, README)), (
        "out of date: uv run snakemake --cores 1 readme"
    )


def test_what_the_readme_links_to_is_there() -> None:
    [block] = readme.BLOCK.findall(README.read_text())
    links = re.findall(r"\]\(([^)]+)\)", block)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


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


def test_the_part_is_replaced_and_nothing_else(command: Command, tmp_path: Path) -> None:
    made_up(tmp_path / "data", kernels=["naive", "gram_naive", "cublas_dgemm"])
    file = tmp_path / "README.md"
    file.write_text(MARKED)
    for _ in range(2):  # the second run finds what the first one wrote
        assert command("readme", tmp_path / "data", "--readme", file).code == 0
        text = file.read_text()
        assert text.startswith("Before.\n<!-- published -->\n\n**C = A·B** in float32")
        assert text.endswith("\n\n<!-- end of published -->\nAfter.\n")
        assert "old" not in text
        assert "*Imaginary GPU · 2026-01-02 · commit 0123456 · " in text


def test_a_data_set_without_a_gpu_has_no_ladder(command: Command, tmp_path: Path) -> None:
    made_up(tmp_path / "data", gpu=False)
    file = tmp_path / "README.md"
    file.write_text(MARKED)
    assert command("readme", tmp_path / "data", "--readme", file).code == 0
    assert "Imaginary CPU" in file.read_text()
    assert "|" not in file.read_text()


def test_a_readme_without_the_markers_is_one_clear_line(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text("Nothing.\n")
    assert "<!-- published -->" in command("readme", "--readme", file).error()
    assert file.read_text() == "Nothing.\n"
