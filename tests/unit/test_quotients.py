"""Two kernels are compared alone by their times in one sweep, in turn by the pairs of both with a
third; and nothing rests on too few samples."""

from pathlib import Path

import pytest
from made_up_data import made_up, where
from test_tables import typeset

from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.experiment.report.facts.findings import findings
from matmul_sweep.experiment.report.facts.ladder import ladder
from matmul_sweep.experiment.report.facts.quotients import quotient

KERNELS = ["naive", "shared", "cublas_sgemm"]
RATIO = ["ratio", "ratio_low", "ratio_high"]
SHAPES = {"gemm": (320, 1024)}


def in_turn(folder: Path, beside: bool = True) -> Results:
    """A data set in which naive has a tenth of the library's speed and shared a fifth, and their
    times do not follow from that."""
    names = KERNELS if beside else KERNELS[:2]
    results = made_up(folder, kernels=names, shapes=SHAPES)
    for kernel, share in (("naive", 0.1), ("shared", 0.2)):
        own = results.ratios.kernel == kernel
        results.ratios.loc[own, RATIO] = [share, share * 0.9, share * 1.1]
    return results


def test_in_turn_the_pairs_with_the_library_compare(tmp_path):
    results = in_turn(tmp_path)
    steps = {step["name"]: step for step in ladder(results, "gemm")["steps"]}
    found = steps["shared"]["before"]
    assert (found["quotient"], found["beside"]) == (pytest.approx(2), "cuBLAS SGEMM")
    ends = [0.2 * 0.9 / (0.1 * 1.1), 0.2 * 1.1 / (0.1 * 0.9)]
    assert found["interval"] == pytest.approx(ends) and found["verdict"] == "faster"
    assert ladder(results, "gemm")["gain"] == found
    assert typeset(results, tmp_path).startswith(b"%PDF")


def test_alone_the_times_of_one_sweep_compare_and_no_others(tmp_path):
    results = made_up(tmp_path, kernels=KERNELS, shapes=SHAPES, caches=["hot", "alone"])
    rows = results.of("gemm").leads.query("n == 1024")
    slow, fast = (rows[rows.kernel == name].iloc[0] for name in KERNELS[:2])
    found = quotient(results, slow, fast)
    assert (found.value, found.beside) == (slow.time_ms / fast.time_ms, None)
    assert found.low == slow.time_low_ms / fast.time_high_ms < found.value < found.high
    others = [fast.replace(fast.sweep, "another"), fast.replace("alone", "hot")]
    assert [quotient(results, slow, other) for other in others] == [None, None]


def test_two_libraries_compare_by_a_kernel_that_was_timed_beside_both(tmp_path):
    libraries = ("cublas_dgemm", "cublas_dsyrk")
    results = made_up(tmp_path, kernels=["gram_naive", *libraries])
    for library, ratio in zip(libraries, (0.3, 0.1), strict=True):
        own = results.ratios.baseline == library
        results.ratios.loc[own, RATIO] = ratio, ratio - 0.01, ratio + 0.02
    rows = results.of("gram").timed().query("n == 4500")
    slow, fast = (rows[rows.kernel == name].iloc[0] for name in libraries)
    found = quotient(results, slow, fast).facts(results)
    assert found["quotient"] == pytest.approx(3)
    assert found["interval"] == pytest.approx([0.29 / 0.12, 0.32 / 0.09])
    assert found["beside"] == "naive AᵀA"


@pytest.mark.parametrize("sizes", [(1024, 4500), (32, 320, 640, 1024, 500, 2500, 4500)])
def test_nothing_is_said_of_a_size_with_too_few_samples(tmp_path, sizes):
    change = where(f"n in {sizes}", time_low_ms=None, time_high_ms=None)
    kernels = ["cpu_loop", "cpu_blas", *KERNELS, "gram_naive", "gram_register_tile",
               "cublas_dgemm", "cublas_dsyrk"]  # fmt: skip
    results = made_up(tmp_path, kernels=kernels, change=change)
    results.ratios.loc[results.ratios.n.isin(sizes), RATIO[1:]] = None
    found = findings(results)
    told = [*found["shares"].values()]
    quoted = {one["n"] for group in told for one in group}
    assert not quoted & {*sizes} and bool(quoted) == (len(sizes) == 2)
    assert (ladder(results, "gemm")["gain"] is None) == (len(sizes) > 2)
    assert typeset(results, tmp_path).startswith(b"%PDF")
