"""What a product takes on the device: launches, a workspace and tensor maps, for each shape."""

from pathlib import Path

import pytest

from matmul_sweep.build.binaries import recipe
from matmul_sweep.build.recipes import compiled
from matmul_sweep.catalogue.architectures import has_instructions, target
from matmul_sweep.catalogue.plans import TensorMap
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.operations.gemm import Gemm

HOPPER = load_catalogue(Path(__file__).parent / "hopper" / "catalogue.yaml")


def test_launches_workspace_and_maps_follow_the_shape():
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


DEVICE = {"blocks": "MULTIPROCESSORS"}


@pytest.mark.parametrize(
    ("keys", "columns", "grid"),
    [
        ({"cluster": 2}, 40, (4, 2, 1)),  # three tiles in a row, and two rows
        ({"cluster": 2, "shares": "cluster"}, 40, (6, 2, 1)),
        (DEVICE | {"cluster": 4}, 1, (132, 1, 1)),
        (DEVICE | {"cluster": 8}, 1, (128, 1, 1)),
        (DEVICE | {"cluster": 2, "shares": "tiles"}, 1, (4, 1, 1)),  # for two tiles
        ({"cluster": 2, "blocks": 1}, 1, (2, 1, 1)),
    ],
)
def test_a_grid_has_whole_clusters(mine, keys, columns, grid):
    launch = mine(**keys).plan(Gemm(17, columns, 1), "sm_90").launches[0]
    assert launch.grid == grid and launch.cluster == keys["cluster"]


def test_a_shape_is_fitted_to_what_is_accepted(mine):
    assert mine(accepts={"n": 4, "k": 4}, most_rows=2).fitted(Gemm(3, 5, 9)) == Gemm(2, 8, 12)


@pytest.mark.parametrize(
    ("arch", "since", "runs", "compiled_for"),
    [
        ("sm_90", "9.0", True, "sm_90"),
        ("sm_90", "9.0a", True, "sm_90a"),
        ("sm_90a", "9.0a", True, "sm_90a"),
        ("sm_90a", "8.0", True, "sm_90a"),
        ("sm_100", "9.0a", False, "sm_100"),
        ("sm_80", "9.0", False, "sm_80"),
    ],
)
def test_instructions_of_one_architecture_are_compiled_for_it_only(arch, since, runs, compiled_for):
    assert has_instructions(arch, since) == runs
    assert target(arch, since) == compiled_for


def test_a_card_without_the_instructions_is_a_row_that_says_so(tmp_path):
    record = compiled(recipe(HOPPER.variant("exchange"), "sm_80"), tmp_path / "cubin")
    assert record["status"] == "failed"
    assert "needs compute capability 9.0a, not sm_80" in str(record["reason"])
