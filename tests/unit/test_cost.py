"""What a product costs a variant: the quantities, worked out by hand."""

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from support import work_of

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.sharing import shares_of
from matmul_sweep.dispatch.cost import NEAR_MEGABYTES, TERMS, Cost, additions
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.gemm import Gemm

Make = Callable[..., Variant]
MULTIPROCESSORS = 4


def make(mine: Make, **changes: Any) -> Variant:
    """A variant with tiles of 32×64 and slabs of 8 terms; changes of its entry are arguments."""
    own = {"tile": [32, 64], "threads": [16, 16]} | changes
    return mine(**{"layout": {"slab": 8, "thread": [extent // 16 for extent in own["tile"]]}} | own)


# Grids of one or two blocks for each multiprocessor.
ONE, TWO = {"blocks": "MULTIPROCESSORS"}, {"blocks": "2 * MULTIPROCESSORS"}
SPLITS = TWO | {"shares": "splits"}
LAYOUT = {"slab": 8, "teams": 2, "warp": [32, 32], "thread": [4, 8], "piece": [4, 4]}
TEAMS = {"threads": [1, 128], "layout": LAYOUT}
WAVES = {"at_once": 3}
UPPER = {"operation": "gram", "tile": [32, 32], "schedule": "upper"}


def clusters(rows: int, blocks: str = "MULTIPROCESSORS") -> dict[str, Any]:
    """Blocks of a cluster take tiles one above the other, whole ones by turns."""
    parameters = {"CLUSTER_M": rows}
    return {"parameters": parameters, "cluster": "CLUSTER_M", "blocks": blocks, "shares": "tiles"}


@pytest.mark.parametrize(
    ("changes", "shape", "slabs", "tiles", "waits", "sums"),
    [
        # One tile of 16 slabs, shared by blocks: no stretch has fewer than the least slabs.
        (ONE | {"least": 6}, "32x64x128", [8, 0, 0, 0], 1, 1, 1),
        # Seven tiles: the second wave lacks 16 slabs, four for each block; stretches are of 12.
        (ONE | {"least": 4}, "224x64x128", [28, 0, 0, 0], 2, 1, 1 / 3),
        (ONE | {"least": 5}, "224x64x128", [32, 0, 0, 0], 2, 0, 0),
        # Of 18 tiles twelve are a wave of three blocks of 13 slabs on each multiprocessor; the six
        # that are left are two for the busiest one. Without the key there are no waves.
        (WAVES, "576x64x100", [26, 26, 13, 0], 5, 0, 0),
        ({}, "576x64x100", [13, 13, 13, 2 * 13], 5, 0, 0),
        # 3×3 tiles for clusters of two: six clusters' tiles, some of them outside of C, for two
        # clusters. Clusters of three on three of the four.
        (clusters(2), "96x192x100", [3 * 13, 0, 0, 0], 3, 0, 0),
        (clusters(3, "MULTIPROCESSORS // 3 * 3"), "192x64x100", [26, 0, 0, 0], 2, 0, 0),
        # Five clusters' tiles for four clusters, in stretches.
        (clusters(2) | TWO | {"shares": "stretches"}, "320x64x128", [20, 20, 0, 0], 3, 1, 0),
        # Four tiles in two parts each: two blocks on each multiprocessor, and two ends of tiles.
        ({"cluster": 2, "shares": "cluster"}, "128x64x128", [8, 8, 0, 0], 2, 1, 1),
        ({"shares": "cluster"}, "64x64x128", [16, 0, 0, 0], 1, 0, 0),
        # Clusters of four cannot have all twelve places: two run at once, and the third one later.
        (WAVES | {"cluster": 4, "shares": "cluster"}, "96x64x128", [8, 4, 4, 0], 3, 1, 3),
        # Two teams share out 13 slabs.
        (TEAMS, "32x64x100", [7, 0, 0, 0], 1, 0, 0),
        # Two tiles for eight blocks: four splits of 16 slabs. Five: no block to spare. Nine: one
        # block has two.
        (SPLITS, "64x64x128", [4, 4, 0, 0], 1, 1, 3),
        (SPLITS, "160x64x128", [16, 16, 0, 0], 2, 0, 0),
        (SPLITS, "288x64x128", [32, 4, 0, 0], 3, 0, 0),
        # Of a symmetric C one tile of ten slabs, on the diagonal.
        (UPPER | ONE | {"least": 8}, "80x32", [7, 0, 0, 0], 1, 0, 0),
        (UPPER | SPLITS, "80x64", [5, 5, 0, 0], 1, 1, 1),
        # Of 45 tiles above it and ten on it: eleven whole ones, and a quarter of those on it.
        (UPPER | ONE | {"least": 2}, "80x320", [110 + 17, 515 / 4 - 127, 0, 0], 14, 1, 0),
    ],
    ids=str,
)  # fmt: skip
def test_blocks_share_out_slabs_and_tiles(mine, changes, shape, slabs, tiles, waits, sums):
    variant = make(mine, **changes)
    found = work_of(variant, parse_shape(shape, variant.kernel.operation), MULTIPROCESSORS)
    own = [found.first_slabs, found.second_slabs, found.third_slabs, found.further_slabs]
    assert (found.launch, found.tiles, found.waits) == (1, tiles, waits)
    assert [*own, found.sums] == pytest.approx([*slabs, sums])


def megabytes(*elements: int, size: int = 4) -> float:
    return sum(elements) * size / 1e6


SPLIT = {"function": "split", "blocks": "(m + 31) // 32 + (n + 31) // 32", "threads": [1, 32]}
GRAM = {"operation": "gram", "tile": [32, 32]}
NOT_RAGGED = {"ragged_slabs": 0, "ragged_tiles": 0}
NO_EDGE = {"edge_slabs": 0, "edge_slabs_of_block": 0}
LONG = megabytes(288 * 80000, 80000 * 64, 288 * 64)


@pytest.mark.parametrize(
    ("changes", "shape", "expected"),
    [
        ({}, "96x192x100", {"megabytes": megabytes(96 * 100, 100 * 192, 96 * 192),
                            "far_megabytes": 0, "prepared_megabytes": 0, "cut_tiles": 0,
                            "mean_slabs": 9 * 13 / 4, **NOT_RAGGED, **NO_EDGE}),
        (UPPER, "80x96", {"megabytes": megabytes(80 * 96, 96 * 96, size=8)}),
        # Nine tiles of 10000 slabs: a stretch has 5·10000/4, of which the L2 keeps a part.
        (ONE, "288x64x80000", {"far_slabs": 12500 * (1 - NEAR_MEGABYTES / LONG)}),
        (ONE, "256x64x80000", {"far_slabs": 0}),
        # Three blocks for A and two for B: one of four multiprocessors has two of the five.
        ({"before": [SPLIT]}, "96x64x100",
         {"prepared_megabytes": megabytes(96 * 100, 100 * 64) * 2 / 5}),
        # Of float32, four are one access, and eight a sector; of float64, two and four.
        ({}, "192x190x100", {"ragged_slabs": 65, "ragged_tiles": 5, "cut_tiles": 5, **NO_EDGE}),
        (GRAM, "96x190", {"cut_tiles": 9, **NOT_RAGGED}),
        (GRAM, "96x188", {"cut_tiles": 0}),
        # Five tiles in the last column of tiles; one multiprocessor has two of them. Rows do not
        # matter.
        ({}, "160x184x100", {"edge_slabs_of_block": 13, "edge_slabs": 26, "cut_tiles": 0,
                             **NOT_RAGGED}),
        ({}, "150x192x100", NO_EDGE),
        (TEAMS, "32x40x100", {"edge_slabs_of_block": 7, "edge_slabs": 6.5}),
    ],
    ids=str,
)  # fmt: skip
def test_memory_and_edges_are_counted(mine, changes, shape, expected):
    variant = make(mine, **changes)
    found = work_of(variant, parse_shape(shape, variant.kernel.operation), MULTIPROCESSORS)
    assert {name: getattr(found, name) for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "terms", "longest"),
    [
        ({}, 100, 104),  # 13 slabs of 8 terms
        (ONE, 320, 80),  # four blocks share the tile
        (ONE | {"least": 1000}, 480, 480),
        (ONE | {"least": 1000, "parameters": {"CHAINS": 3}}, 480, 160),
    ],
    ids=str,
)
def test_the_longest_chain_of_additions(mine, changes, terms, longest):
    variant, shape = make(mine, **changes), Gemm(32, 64, terms)
    assert additions(variant, shape, shares_of(variant, shape, MULTIPROCESSORS)) == longest


def test_the_predicted_time_is_the_sum_of_the_terms(mine):
    variant, shape = make(mine), Gemm(96, 190, 100)
    coefficients = tuple(3.0**number for number in range(len(TERMS)))
    expected = np.dot(coefficients, astuple(work_of(variant, shape, 132)))
    assert Cost("sm_90", variant, coefficients).microseconds(shape, 132) == pytest.approx(expected)
