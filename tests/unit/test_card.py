"""What a hand-in becomes for a GPU, as far as a machine without one can tell."""

from pathlib import Path

import pytest
from support import the_catalogue

from matmul_sweep.build.binaries import compile_into
from matmul_sweep.catalogue.entries import Kernel
from matmul_sweep.classroom.verdict import CORRECT, Verdict, judge
from matmul_sweep.experiment.measure import card
from matmul_sweep.operations import OPERATIONS

HAND_INS = Path(__file__).parent / "trial"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]


def judged(folder: Path, name: str, *changes: str) -> Verdict:
    """The verdict on a correct hand-in in whose text each odd one of `changes` became the next."""
    text = (HAND_INS / f"{name}.cu").read_text()
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    file = folder / f"{name}.cu"
    file.write_text(text)
    verdict = judge(file, {})
    assert verdict.status == CORRECT, [mistake.what for mistake in verdict.mistakes]
    return verdict


@pytest.mark.long
@pytest.mark.parametrize(
    "hand_in",
    [
        ["tiled"],
        ["gram"],
        ["warp"],
        ["vectors"],
        ["naive", "__global__ void", 'extern "C" __global__ void __launch_bounds__(256)'],
        ["naive", "__global__", "template <typename T> __global__"],
    ],
    ids=" ".join,
)
def test_the_gpus_program_compiles_and_takes_registers(hand_in, tmp_path):
    verdict = judged(tmp_path, *hand_in)
    assert verdict.bench
    variant = card.entry_of(verdict, tmp_path / "trial.cu")
    record = compile_into(variant, "sm_90", tmp_path)
    assert record["status"] == "ok", record["reason"]
    assert int(str(record["registers"])) > 8
    for shape in verdict.shapes:
        assert variant.grid(shape) == verdict.bench.launch.at(shape).grid


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (["float", "double"], "no library of the project computes gemm in float64"),
        ([".y", ".w", ".x", ".y", ".w", ".x"], "blockIdx.x runs along no row of C"),
        (["C[row * n + col] = sum", "atomicAdd(&C[row * n + col], sum)", "// Right",
          "void clear(float *c) { cudaMemset(c, 0, 4); }  // Right"], "adds to what C held"),
        (["int k)", "int k, float beta)", "= sum", "= sum + beta * C[row * n + col]"],
         "adds to what C held"),
    ],
)  # fmt: skip
def test_what_cannot_stand_beside_the_ladder_is_refused(changes, reason, tmp_path):
    assert reason in str(card.refusal(judged(tmp_path, "naive", *changes)))


# A hand-in has matrices of one type.
@pytest.mark.parametrize(
    "operation",
    [o.name for o in OPERATIONS.values() if o.output == o.dtype and not o.right_transposed],
)
def test_the_ladder_begins_in_the_classroom_and_ends_with_a_library(operation):
    rungs = card.ladder(the_catalogue(), Kernel(name="mine", operation=operation), "sm_90")
    assert {rung.kernel.operation for rung in rungs} == {operation}
    assert rungs[0].kernel.classroom and rungs[-1].kernel.library
    assert all(rung.kernel.writes == "full" for rung in rungs)


def test_a_step_that_the_card_does_not_run_is_left_out():
    mine = Kernel(name="mine", operation="gemm")
    old, new = (card.ladder(the_catalogue(), mine, arch) for arch in ("sm_75", "sm_90"))
    assert {*map(str, old)} < {*map(str, new)}


def test_the_next_step_is_the_slowest_kernel_that_is_faster():
    catalogue = the_catalogue()
    rivals = [catalogue[name].variants[0] for name in ("naive", "shared", "cublas_sgemm")]
    times = {"naive/32": 1.5, "shared/32": 0.8, "cublas_sgemm": 0.1}
    ratios = {name: (ratio, ratio, ratio) for name, ratio in times.items()}
    assert card.next_step(rivals, ratios).startswith("shared: Tiles in shared memory")
    faster = dict.fromkeys(times, (2.0, 2.0, 2.0))
    assert card.next_step(rivals, faster) == "none: it is the fastest here"
