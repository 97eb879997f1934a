"""Loads of the inputs from global memory, as the watched launch counts them."""

from pathlib import Path

from made_up_data import made_up
from support import CUDA_ENTRY, ROOT, Command, WriteCatalogue

import loads as program
from matmul.dataset.tables import read_rows
from matmul.report.selection import load_results

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


def counted(command: Command, folder: Path, *arguments: object) -> list[dict[str, str]]:
    """The rows of loads.csv for some variants."""
    output = folder / "loads.csv"
    done = command("loads", *arguments, "--output", output, "--log", folder / "log")
    assert (done.code, done.err) == (0, "")
    return read_rows("loads.csv", output)


def share(row: dict[str, str]) -> float:
    assert (row["status"], row["reason"]) == ("ok", "")
    return int(row["loads"]) / int(row["multiply_adds"])


def test_a_tile_divides_the_loads_by_its_width(command: Command, tmp_path: Path) -> None:
    """Copies that arrive later count too, in halves of a double; and of C = AᵀA each of the terms
    that symmetry leaves to compute once."""
    names = ["naive", "shared/16", "vectors", "gram_tensor"]
    rows = counted(command, tmp_path, "--variants", *names)
    assert [row["variant"] for row in rows] == [
        "naive/32", "shared/16", "vectors/128", "gram_tensor/128",
    ]  # fmt: skip
    assert [*map(share, rows[:3])] == [2, 2 / 16, 2 / 128]
    gram = rows[3]
    assert (gram["m"], gram["n"], gram["k"]) == ("128", "128", "")
    assert int(gram["loads"]) == 128 * 128
    assert int(gram["multiply_adds"]) == 128 * 128 * 129 / 2


def test_a_vector_counts_its_elements_and_a_wrong_product_counts_nothing(
    command: Command, write_catalogue: WriteCatalogue, tmp_path: Path
) -> None:
    entries = {name: CUDA_ENTRY | {"source": f"{name}.cu"} for name in ("right", "wrong")}
    sources = {"right": READS.replace("WRONG", ""), "wrong": READS.replace("WRONG", "-")}
    catalogue = write_catalogue(entries, **sources)
    arguments = tmp_path / "arguments"
    arguments.write_text("--variants\nright\nwrong\n")
    right, wrong = counted(command, tmp_path, f"@{arguments}", "--catalogue", catalogue)
    assert share(right) == 2
    assert (wrong["loads"], wrong["status"]) == ("", "failed")
    assert wrong["reason"] == "wrong result at 128x128x128"


def test_what_threads_do_not_load_themselves_is_not_counted(
    command: Command, tmp_path: Path
) -> None:
    tile_copies, dispatch = counted(command, tmp_path, "--variants", "roles_bf16", "sgemm")
    assert "a unit of the hardware copies" in tile_copies["reason"]
    assert "no CUDA source" in dispatch["reason"]
    assert {tile_copies["status"], dispatch["status"]} == {"skipped"}


def test_every_header_of_such_copies_is_known() -> None:
    callers = {
        file.name
        for file in (ROOT / "kernels").rglob("*.cu*")
        if "cuda_on_cpu::issue_load" in file.read_text()
        or "cuda_on_cpu::issue_row" in file.read_text()
    }
    assert callers == program.UNSEEN


def test_a_data_set_is_read_with_its_loads(command: Command, tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["naive"])
    assert results.loads.empty
    counted(command, tmp_path, "--variants", "naive", "sgemm")
    loads = load_results(tmp_path, results.catalogue).loads
    assert [*loads.variant] == ["naive/32", "sgemm"]
    assert loads.loads[0] == 2 * 128**3
