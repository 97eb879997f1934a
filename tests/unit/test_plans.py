"""What a product takes on the device: launches, a workspace and tensor maps, for each shape."""

from pathlib import Path
from typing import Any

import pytest
from support import Entry, WriteCatalogue

from matmul_sweep.build.binaries import recipe
from matmul_sweep.build.recipes import compiled
from matmul_sweep.catalogue.architectures import has_instructions, target
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.plans import Launch, TensorMap
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gemm_bf16 import GemmBf16

HOPPER = load_catalogue(Path(__file__).parent / "hopper" / "catalogue.yaml")
MAP = {"of": "A", "extents": ["m", "k"], "box": [64, 32]}
FOURS = {"n": 4, "k": 4}


def mine(entry: Entry, write_catalogue: WriteCatalogue, **keys: Any) -> Variant:
    return load_catalogue(write_catalogue({"mine": entry(**keys)})).variant("mine")


def test_a_simple_entry_is_one_launch(entry: Entry, write_catalogue: WriteCatalogue) -> None:
    plan = mine(entry, write_catalogue, dynamic_shared_bytes=64).plan(Gemm(17, 40, 5))
    assert plan.launches == (Launch((3, 2, 1), (16, 16, 1), 64),)
    assert plan.workspace == plan.maps == ()


def test_launches_workspace_and_maps_follow_the_shape() -> None:
    variant = HOPPER.variant("split")
    plan = variant.plan(Gemm(37, 41, 70))
    assert variant.kernel.functions == ("split_a", "split_b", "split", "negate")
    assert [launch.grid for launch in plan.launches] == [
        (11, 1, 1), (12, 1, 1), (1, 1, 1), (6, 1, 1)
    ]  # fmt: skip
    assert [launch.shared_bytes for launch in plan.launches] == [0, 0, 32768, 0]
    assert plan.workspace == (2 * 2 * 37 * 72, 2 * 2 * 70 * 48)
    in_a, in_b = plan.maps
    assert in_a == TensorMap(3, "float16", (2, 37, 70), (2 * 37 * 72, 2 * 72), (1, 64, 64), 128)
    assert in_b.pointer == 4 and in_b.strides == (2 * 70 * 48, 2 * 48)
    assert variant.workspace_bytes(Gemm(37, 41, 70)) == sum(plan.workspace)


def test_strides_are_those_of_a_dense_matrix_by_default() -> None:
    in_a, in_b, out = HOPPER.variant("exchange").plan(GemmBf16(5, 16, 24)).maps
    assert (in_a.pointer, in_b.pointer, out.pointer) == (0, 1, 2)
    assert (in_a.strides, in_b.strides, out.strides) == ((48,), (32,), (32,))


@pytest.mark.parametrize(
    ("keys", "shape", "grid"),
    [
        ({"cluster": 2}, Gemm(17, 40, 1), (4, 2, 1)),
        ({"cluster": 2}, Gemm(17, 33, 1), (4, 2, 1)),
        ({"cluster": 4, "blocks": "MULTIPROCESSORS"}, Gemm(1, 1, 1), (132, 1, 1)),
        ({"cluster": 8, "blocks": "MULTIPROCESSORS"}, Gemm(1, 1, 1), (128, 1, 1)),
        ({"cluster": 2, "blocks": 1}, Gemm(1, 1, 1), (2, 1, 1)),
    ],
    ids=str,
)
def test_a_grid_has_whole_clusters(
    entry: Entry, write_catalogue: WriteCatalogue, keys: dict[str, Any], shape: Gemm,
    grid: tuple[int, int, int],
) -> None:  # fmt: skip
    launch = mine(entry, write_catalogue, **keys).plan(shape, "sm_90").launches[0]
    assert launch.grid == grid and launch.cluster == keys["cluster"]


def test_dimensions_may_have_to_be_multiples(entry: Entry, write_catalogue: WriteCatalogue) -> None:
    variant = mine(entry, write_catalogue, accepts=FOURS, tensor_maps={"a": MAP})
    assert variant.refusal(Gemm(3, 8, 12)) is None
    assert variant.refusal(Gemm(4, 8, 9)) == "mine takes multiples of 4 for k only, not 4x8x9"
    assert variant.fitted(Gemm(3, 5, 9)) == Gemm(3, 8, 12)


@pytest.mark.parametrize(
    ("arch", "since", "runs", "compiled_for"),
    [
        ("sm_90", "9.0", True, "sm_90"),
        ("sm_90", "9.0a", True, "sm_90a"),
        ("sm_90a", "9.0a", True, "sm_90a"),
        ("sm_90a", "8.0", True, "sm_90a"),
        ("sm_80", "9.0a", False, "sm_80"),
        ("sm_100", "9.0a", False, "sm_100"),
        ("sm_100", "9.0", True, "sm_100"),
        ("sm_80", "9.0", False, "sm_80"),
    ],
)
def test_instructions_of_one_architecture_are_compiled_for_it_alone(
    arch: str, since: str, runs: bool, compiled_for: str
) -> None:
    assert has_instructions(arch, since) == runs
    assert target(arch, since) == compiled_for


def test_a_card_without_the_instructions_is_a_row_that_says_so(tmp_path: Path) -> None:
    record = compiled(recipe(HOPPER.variant("exchange"), "sm_80"), tmp_path / "cubin")
    assert record["status"] == "failed"
    assert "needs compute capability 9.0a, not sm_80" in str(record["reason"])
