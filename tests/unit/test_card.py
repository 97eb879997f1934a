"""What a hand-in becomes for a GPU, as far as a machine without one can tell."""

from pathlib import Path

import pytest
from support import Entry, WriteCatalogue, the_catalogue

from matmul_sweep.build.binaries import compile_into
from matmul_sweep.catalogue.entries import Kernel
from matmul_sweep.classroom.verdict import CORRECT, judge
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.measure import card
from matmul_sweep.operations import OPERATIONS

HAND_INS = Path(__file__).parent / "trial"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]


@pytest.mark.parametrize("name", ["tiled", "gram", "warp", "vectors"])
def test_the_gpus_program_compiles_and_takes_registers(name: str, tmp_path: Path) -> None:
    verdict = judge(HAND_INS / f"{name}.cu", {})
    assert verdict.status == CORRECT, [mistake.what for mistake in verdict.mistakes]
    assert verdict.bench
    variant = card.entry_of(verdict, tmp_path / "trial.cu")
    record = compile_into(variant, "sm_90", tmp_path)
    assert record["status"] == "ok", record["reason"]
    assert int(str(record["registers"])) > 8
    for shape in verdict.shapes:
        assert variant.grid(shape) == verdict.bench.launch.grid(shape)


def test_bounds_of_a_launch_and_a_template_are_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "f.cu"
    text = (HAND_INS / "naive.cu").read_text()
    head = 'extern "C" __global__ void __launch_bounds__(256)'
    file.write_text(text.replace("__global__ void", head))
    variant = card.entry_of(judge(file, {}), tmp_path / "trial.cu")
    assert compile_into(variant, "sm_90", tmp_path)["status"] == "ok"
    file.write_text(text.replace("__global__", "template <typename T> __global__"))
    variant = card.entry_of(judge(file, {}), tmp_path / "trial.cu")
    assert compile_into(variant, "sm_90", tmp_path)["status"] == "ok"


@pytest.mark.parametrize(
    ("right", "other", "reason"),
    [
        ("float", "double", "no library of the project computes gemm in float64"),
        (".y", ".w", "blockIdx.x runs along no row of C"),
        pytest.param(
            "C[row * n + col] = sum",
            "atomicAdd(&C[row * n + col], sum)",
            "adds to what C held",
            marks=pytest.mark.long,
        ),
        ("int k)", "int k, float beta)", "adds to what C held"),
    ],
)
def test_what_cannot_stand_beside_the_ladder_is_refused(
    right: str, other: str, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "f.cu"
    text = (HAND_INS / "naive.cu").read_text()
    assert right in text
    text = text.replace(right, other)
    if other == ".w":  # x and y exchanged
        text = text.replace(".x", ".y").replace(".w", ".x")
    file.write_text(text)
    verdict = judge(file, {})
    assert verdict.status == CORRECT
    assert reason in str(card.refusal(verdict))


# A hand-in has matrices of one type.
@pytest.mark.parametrize("operation", [o.name for o in OPERATIONS.values() if o.output == o.dtype])
def test_the_ladder_begins_in_the_classroom_and_ends_with_a_library(operation: str) -> None:
    rungs = card.ladder(the_catalogue(), Kernel(name="mine", operation=operation), "sm_90")
    assert {rung.kernel.operation for rung in rungs} == {operation}
    assert rungs[0].kernel.classroom and rungs[-1].kernel.library
    assert all(rung.kernel.writes == "full" for rung in rungs)


def test_a_step_that_the_card_does_not_run_is_left_out() -> None:
    old, new = (
        card.ladder(the_catalogue(), Kernel(name="mine", operation="gemm"), arch)
        for arch in ("sm_75", "sm_90")
    )
    assert len(old) < len(new)
    assert all(rung in new for rung in old)


def test_a_kernel_of_another_operation_needs_its_entry_only(
    entry: Entry, write_catalogue: WriteCatalogue
) -> None:
    catalogue = load_catalogue(write_catalogue({"mine": entry(classroom=True)}))
    rungs = card.ladder(catalogue, Kernel(name="hand_in", operation="gemm"), "sm_90")
    assert [rung.name for rung in rungs] == ["mine"]


def test_the_next_step_is_the_slowest_kernel_that_is_faster() -> None:
    catalogue = the_catalogue()
    rivals = [catalogue[name].variants[0] for name in ("naive", "shared", "cublas_sgemm")]
    times = {"naive/32": 1.5, "shared/32": 0.8, "cublas_sgemm": 0.1}
    ratios = {name: (ratio, ratio, ratio) for name, ratio in times.items()}
    assert card.next_step(rivals, ratios).startswith("shared: Tiles in shared memory")
    faster = dict.fromkeys(times, (2.0, 2.0, 2.0))
    assert card.next_step(rivals, faster) == "none: it is the fastest here"
