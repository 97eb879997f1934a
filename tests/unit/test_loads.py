"""Loads of the inputs from global memory, as the watched launch counts them."""

import re
from pathlib import Path
from typing import Any

from made_up_data import made_up
from support import CUDA_ENTRY, ROOT, Command, WriteCatalogue, experiment, the_catalogue

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import load_results
from matmul_sweep.experiment.measure import loads

HARDWARE_COPY = "cuda_on_cpu::issue_(load|row)"
READS = """
extern "C" __global__ void mine(const float* A, const float* B, float* C, int m, int n, int k)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int p = 0; p < k; p += 4) {
        const float4 a = *reinterpret_cast<const float4*>(A + row * k + p);
        sum += a.x * B[p * n + col] + a.y * B[(p + 1) * n + col];
        sum += a.z * B[(p + 2) * n + col] + a.w * B[(p + 3) * n + col];
    }
    C[row * n + col] = WRONG sum;
}
"""


def share(row: dict[str, Any]) -> float:
    """Loads for each multiply-add."""
    assert row["status"] == "ok"
    return row["loads"] / row["multiply_adds"]


def test_a_tile_divides_the_loads_by_its_width(tmp_path: Path) -> None:
    """Copies that arrive later count too, in halves of a double; and of C = AᵀA each of the terms
    that symmetry leaves to compute once."""
    names = ["naive", "shared/16", "vectors", "gram_tensor"]
    *rows, gram = (loads.row_of(the_catalogue().variant(name), tmp_path) for name in names)
    assert [*map(share, rows)] == [2, 2 / 16, 2 / 128]
    assert (gram["m"], gram["n"], gram["k"]) == (128, 128, None)
    assert gram["loads"] == 128 * 128
    assert gram["multiply_adds"] == 128 * 128 * 129 / 2


def test_a_vector_counts_its_elements_and_a_wrong_product_counts_nothing(
    write_catalogue: WriteCatalogue, tmp_path: Path
) -> None:
    entries = {name: CUDA_ENTRY | {"source": f"{name}.cu"} for name in ("right", "wrong")}
    sources = {"right": READS.replace("WRONG", ""), "wrong": READS.replace("WRONG", "-")}
    kernels = load_catalogue(write_catalogue(entries, **sources))
    right, wrong = (loads.row_of(kernels.variant(name), tmp_path) for name in entries)
    assert share(right) == 2
    assert "loads" not in wrong
    assert (wrong["status"], wrong["reason"]) == ("failed", "wrong result at 128x128x128")


def test_what_threads_do_not_load_themselves_is_not_counted(tmp_path: Path) -> None:
    row = loads.row_of(the_catalogue().variant("roles_bf16"), tmp_path)
    assert row["status"] == "skipped"
    assert "a unit of the hardware copies" in row["reason"]
    sources = {file: file.read_text() for file in (ROOT / "kernels").rglob("*.cu*")}
    callers = {file.name for file, text in sources.items() if re.search(HARDWARE_COPY, text)}
    assert callers == loads.UNSEEN | {"instructions.cuh"}


def test_a_data_set_is_read_with_its_loads(command: Command, tmp_path: Path) -> None:
    """Of the first variant of each step that a classroom takes."""
    results = made_up(tmp_path, kernels=["naive"])
    assert results.loads.empty
    experiment("naive", "naive_rect", "sgemm").write(tmp_path / "experiment.json")
    done = command("loads", "--experiment", tmp_path / "experiment.json",
                   "--output", tmp_path / "loads.csv", "--log", tmp_path / "log")  # fmt: skip
    assert (done.code, done.err) == (0, "")
    found = load_results(tmp_path, results.catalogue).loads
    assert [*found.variant] == ["naive/32"]
    assert found.loads[0] == 2 * 128**3
