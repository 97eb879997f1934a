"""Loads of the inputs from global memory, as the watched launch counts them."""

from made_up_data import made_up
from support import CUDA_ENTRY, RIGHT_KERNEL, experiment, step, the_catalogue

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import load_results
from matmul_sweep.experiment.measure.loads import row_of


def test_a_tile_divides_the_loads_by_its_width(tmp_path):
    """Vectors and copies that arrive later count too; and of C = AᵀA each of the terms that
    symmetry leaves to compute once."""
    names = ["shared/16", "vectors", "gram_tensor"]
    *rows, gram = (row_of(the_catalogue().variant(name), tmp_path) for name in names)
    assert [row["loads"] / row["multiply_adds"] for row in rows] == [2 / 16, 2 / 128]
    assert (gram["m"], gram["n"], gram["k"]) == (128, 128, None)
    assert (gram["loads"], gram["multiply_adds"]) == (128 * 128, 128 * 128 * 129 / 2)


def test_a_wrong_product_counts_nothing(write_catalogue, tmp_path):
    wrong = RIGHT_KERNEL.replace("+=", "-=")
    kernels = load_catalogue(write_catalogue({"mine": CUDA_ENTRY}, mine=wrong))
    row = row_of(kernels.variant("mine"), tmp_path)
    assert "loads" not in row
    assert (row["status"], row["reason"]) == ("failed", "no right result at 128x128x128")


def test_a_data_set_is_read_with_its_loads(command, tmp_path):
    """Of the first variant of each step that a classroom takes."""
    results = made_up(tmp_path, kernels=["naive"])
    assert results.loads.empty
    step(command, "loads", experiment("naive", "naive_rect", "sgemm"), tmp_path, "loads.csv")
    found = load_results(tmp_path, results.catalogue).loads
    assert [*found.variant] == ["naive/32"]
    assert found.loads[0] == 2 * 128**3
