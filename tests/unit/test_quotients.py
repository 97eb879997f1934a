"""Two kernels are compared by their times, or at the power limit by the pairs of both with a
third."""

from pathlib import Path

import pandas as pd
import pytest
from made_up_data import made_up
from test_tables import typeset

from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.experiment.report.facts.findings import find
from matmul_sweep.experiment.report.facts.ladder import ladder

KERNELS = ["naive", "shared", "cublas_sgemm"]


def capped(folder: Path, *kernels: str, beside: bool = True) -> Results:
    """A data set in which the card was at its power limit while it timed these kernels. naive has a
    tenth of the library's speed and shared a fifth, and their times do not follow from that."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        limited = summary.kernel.isin(kernels)
        return summary.assign(throttled=limited.map({True: "power_cap", False: ""}))

    names = KERNELS if beside else KERNELS[:2]
    results = made_up(folder, kernels=names, shapes={"gemm": (320, 1024)}, change=change)
    for kernel, share in (("naive", 0.1), ("shared", 0.2)):
        own = results.ratios.kernel == kernel
        ends = [share, share * 0.9, share * 1.1]
        results.ratios.loc[own, ["ratio", "ratio_low", "ratio_high"]] = ends
    return results


@pytest.mark.parametrize("limited", ["naive", "shared"])
def test_at_the_power_limit_the_pairs_with_the_library_compare(
    tmp_path: Path, limited: str
) -> None:
    results = capped(tmp_path, limited)
    found = find(results, "shared_over_naive")
    assert found["quotient"] == pytest.approx(2)
    assert found["beside"] == "cuBLAS SGEMM"
    ends = found["interval"]
    assert ends == pytest.approx([0.2 * 0.9 / (0.1 * 1.1), 0.2 * 1.1 / (0.1 * 0.9)])
    assert found["verdict"] == "faster"
    steps = {step["name"]: step for step in ladder(results, "gemm")["steps"]}
    assert steps["shared"]["before"]["quotient"] == found["quotient"]
    assert ladder(results, "gemm")["gain"]["quotient"] == found["quotient"]
    if limited == "naive":
        assert typeset(results, tmp_path).startswith(b"%PDF")


def test_below_the_power_limit_the_times_compare(tmp_path: Path) -> None:
    found = find(capped(tmp_path, "cublas_sgemm"), "shared_over_naive")
    times = [found[end]["time_ms"] for end in ("slow", "fast")]
    assert found["quotient"] == pytest.approx(times[0] / times[1])
    assert found["beside"] is None


def test_two_libraries_compare_by_a_kernel_that_was_timed_beside_both(tmp_path: Path) -> None:
    libraries = ("cublas_dgemm", "cublas_dsyrk")

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(throttled="power_cap")

    results = made_up(tmp_path, kernels=["gram_naive", *libraries], change=change)
    pairs = results.ratios
    for library, ratio in zip(libraries, (0.3, 0.1), strict=True):
        columns = ["ratio", "ratio_low", "ratio_high"]
        pairs.loc[pairs.baseline == library, columns] = ratio, ratio - 0.01, ratio + 0.02
    found = find(results, "gram_symmetry")
    assert found["quotient"] == pytest.approx(3)
    ends = found["interval"]
    assert ends == pytest.approx([0.29 / 0.12, 0.32 / 0.09])
    assert found["beside"] == "AᵀA naive"


def test_at_the_power_limit_without_pairs_nothing_is_said(tmp_path: Path) -> None:
    results = capped(tmp_path, "shared", beside=False)
    assert "power limit" in find(results, "shared_over_naive")["missing"]
    found = ladder(results, "gemm")
    assert found["gain"] is None
    assert [step["before"] for step in found["steps"]] == [None, None]


def test_the_librarys_rate_beside_a_step_is_that_of_the_pairs(tmp_path: Path) -> None:
    step = ladder(capped(tmp_path), "gemm")["steps"][0]
    [share] = step["shares"]
    assert share["rate"] == pytest.approx(step["rate"]["value"] / share["ratio"])


OFTEN_SAMPLED = [
    "cpu_loop", "cpu_blas", *KERNELS, "gram_naive", "gram_register_tile", "cublas_dgemm",
    "cublas_dsyrk",
]  # fmt: skip


def sizes_in(found: object) -> set[int]:
    """Every `n` of a finding, at any depth."""
    if isinstance(found, list):
        return set().union(*map(sizes_in, found))
    if not isinstance(found, dict):
        return set()
    return {found["n"]} if "n" in found else sizes_in(list(found.values()))


def sampled_once(folder: Path, *sizes: int) -> Results:
    """A data set in which nothing of these sizes has an interval."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        ends = summary[["time_low_ms", "time_high_ms"]]
        return summary.assign(**ends.mask(summary.n.isin(sizes)))

    results = made_up(folder, kernels=OFTEN_SAMPLED, change=change)
    few = results.ratios.n.isin(sizes)
    results.ratios.loc[few, ["ratio_low", "ratio_high"]] = None
    return results


QUOTED = ["best_share", "peak", "shared_over_naive", "over_cpu", "copies", "gram_share",
          "gram_over_naive", "gram_peaks"]  # fmt: skip


def test_a_finding_is_of_a_size_with_enough_samples(tmp_path: Path) -> None:
    results = sampled_once(tmp_path, 1024, 4500)
    for name in QUOTED:
        sizes = sizes_in(find(results, name))
        assert sizes and not sizes & {1024, 4500}, name


def test_a_finding_without_enough_samples_is_missing(tmp_path: Path) -> None:
    results = sampled_once(tmp_path, 32, 320, 640, 1024, 500, 2500, 4500)
    for name in QUOTED:
        assert "fewer than 6" in find(results, name)["missing"], name
    assert ladder(results, "gemm")["gain"] is None
    assert typeset(results, tmp_path).startswith(b"%PDF")
