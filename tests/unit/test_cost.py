"""What a product costs a variant: the quantities, worked out by hand, and the schedule's shares."""

from collections.abc import Callable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Entry, WriteCatalogue, work_of

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.sharing import LIGHT, shares_of, stretched
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.dispatch.cost import NEAR_MEGABYTES, TERMS, Cost, additions
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import ceil_div

Make = Callable[..., Variant]
MULTIPROCESSORS = 4
BLOCKS = [f"{number}_slabs" for number in ("first", "second", "third", "further")]


@pytest.fixture
def make(entry: Entry, write_catalogue: WriteCatalogue) -> Make:
    """A variant with tiles of 32×64 and slabs of 8 terms; changes of its entry are arguments."""

    def made(**changes: Any) -> Variant:
        own = {"tile": [32, 64], "threads": [16, 16]} | changes
        if "layout" not in own:
            own["layout"] = {"slab": 8, "thread": [extent // 16 for extent in own["tile"]]}
        return load_catalogue(write_catalogue({"mine": entry(**own)})).variant("mine")

    return made


def quantities(variant: Variant, shape: Gemm | Gram) -> dict[str, float]:
    """Of a product on a card of four multiprocessors, without the launch and without what is 0; in
    place of the slabs of its first, second, third and further blocks those of the busiest
    multiprocessor."""
    found = asdict(work_of(variant, shape, MULTIPROCESSORS))
    assert found.pop("launch") == 1
    found["slabs"] = sum(found.pop(name) for name in BLOCKS)
    return {name: value for name, value in found.items() if value}


def of_blocks(variant: Variant, shape: Gemm | Gram) -> list[float]:
    """The slabs of the first, second, third and further blocks."""
    found = asdict(work_of(variant, shape, MULTIPROCESSORS))
    return [found[name] for name in BLOCKS]


def megabytes(*elements: int, size: int = 4) -> float:
    return sum(elements) * size / 1e6


def test_a_block_for_each_tile(make: Make) -> None:
    # 3×3 tiles of 13 slabs: one multiprocessor has three of the nine.
    assert quantities(make(), Gemm(96, 192, 100)) == {
        "slabs": 3 * 13, "tiles": 3,
        "megabytes": pytest.approx(megabytes(96 * 100, 100 * 192, 96 * 192)),
    }  # fmt: skip


def test_a_kernel_without_slabs_has_slabs_of_a_term(make: Make) -> None:
    found = quantities(make(layout=None), Gemm(32, 64, 100))
    assert (found["slabs"], found["tiles"]) == (100, 1)


def streamed(make: Make, resident: int = 1, least: int = 1, **more: object) -> Variant:
    parameters = {"RESIDENT": resident, "LEAST": least}
    return make(parameters=parameters, blocks="RESIDENT * MULTIPROCESSORS", least="LEAST", **more)


def test_a_fixed_grid_whose_blocks_have_whole_tiles_alone(make: Make) -> None:
    # Eight tiles for four blocks.
    found = quantities(streamed(make), Gemm(256, 64, 80))
    assert found.pop("megabytes") == pytest.approx(megabytes(256 * 80, 80 * 64, 256 * 64))
    assert found == {"slabs": 20, "tiles": 2}


def test_a_fixed_grid_with_a_whole_tile_and_a_stretch(make: Make) -> None:
    # Nine tiles of 16 slabs are three waves: a whole tile for each block, and of the five tiles
    # that are left a stretch of 5·16/4 = 20 slabs.
    found = quantities(streamed(make), Gemm(9 * 32, 64, 128))
    assert found.pop("megabytes") > 0
    assert found == {"slabs": 36, "tiles": 3, "waits": 1}


def test_a_fixed_grid_that_shares_out_the_sums_of_one_tile(make: Make) -> None:
    # One tile of 16 slabs, shared by four blocks: each has four slabs, and one adds three sums.
    found = quantities(streamed(make), Gemm(32, 64, 128))
    assert found.pop("megabytes") > 0
    assert found == {"slabs": 4, "tiles": 1, "waits": 1, "sums": 3}


def test_no_stretch_has_fewer_than_the_least_slabs(make: Make) -> None:
    # Two stretches of eight slabs, not four of four.
    found = quantities(streamed(make, least=6), Gemm(32, 64, 128))
    assert (found["slabs"], found["sums"]) == (8, 1)


def test_a_wave_that_lacks_little_is_not_shared_out(make: Make) -> None:
    # Seven tiles of 16 slabs: the second wave lacks 16 slabs, which are four for each block.
    shared = quantities(streamed(make, least=4), Gemm(7 * 32, 64, 128))
    assert (shared["slabs"], shared["waits"]) == (7 * 16 / 4, 1)
    whole = quantities(streamed(make, least=5), Gemm(7 * 32, 64, 128))
    assert whole["slabs"] == 2 * 16 and "waits" not in whole


def test_a_multiprocessor_has_the_slabs_of_its_resident_blocks(make: Make) -> None:
    # Eight blocks share a tile of 16 slabs, two on each multiprocessor.
    variant, shape = streamed(make, resident=2), Gemm(32, 64, 128)
    assert of_blocks(variant, shape) == [2, 2, 0, 0]
    assert quantities(variant, shape)["sums"] == 7
    # Of 17 slabs the busiest block has three; two blocks together have a quarter of all.
    first, second, *_ = of_blocks(variant, Gemm(32, 64, 136))
    assert first == 3 and first + second == 17 / 8 * 2


def test_blocks_of_a_grid_with_one_for_each_tile_run_in_waves(make: Make) -> None:
    # Tiles of 13 slabs. Twelve are a wave of three blocks on each of four multiprocessors; of 18,
    # the six that are left are two for the busiest one. Without the key there are no waves.
    waves = make(parameters={"RESIDENT": 3}, at_once="RESIDENT")
    assert of_blocks(waves, Gemm(12 * 32, 64, 100)) == [13, 13, 13, 0]
    assert of_blocks(waves, Gemm(18 * 32, 64, 100)) == [26, 26, 13, 0]
    assert of_blocks(make(), Gemm(18 * 32, 64, 100)) == [13, 13, 13, 2 * 13]


def test_clusters_take_whole_tiles_by_turns(make: Make) -> None:
    # 3×3 tiles for clusters of two, one above the other: six clusters' tiles, though some tiles lie
    # outside of C, for the two clusters of four blocks.
    clusters = {"shares": "tiles", "blocks": "MULTIPROCESSORS", "cluster": "CLUSTER_M"}
    variant = make(parameters={"CLUSTER_M": 2}, **clusters)
    assert of_blocks(variant, Gemm(96, 192, 100)) == [3 * 13, 0, 0, 0]
    assert quantities(variant, Gemm(96, 192, 100))["tiles"] == 3


def test_whole_tiles_by_turns_run_in_waves(make: Make) -> None:
    # Tiles of 13 slabs. Ten, of which each of four multiprocessors has two at a time: in the second
    # wave there are two, each beside no other.
    whole = {"shares": "tiles", "blocks": "RESIDENT * MULTIPROCESSORS"}
    variant = make(parameters={"RESIDENT": 2}, **whole)
    assert of_blocks(variant, Gemm(10 * 32, 64, 100)) == [26, 13, 0, 0]
    assert of_blocks(variant, Gemm(16 * 32, 64, 100)) == [26, 26, 0, 0]
    assert quantities(variant, Gemm(10 * 32, 64, 100))["tiles"] == 3
    # Clusters of three on three of the four.
    blocks = "MULTIPROCESSORS // CLUSTER_M * CLUSTER_M"
    clusters = whole | {"blocks": blocks, "cluster": "CLUSTER_M"}
    variant = make(parameters={"CLUSTER_M": 3}, **clusters)
    assert of_blocks(variant, Gemm(6 * 32, 64, 100)) == [26, 0, 0, 0]


def test_what_a_launch_before_reads(make: Make) -> None:
    blocks = "(m + 31) // 32 + (n + 31) // 32"
    variant = make(before=[{"function": "split", "blocks": blocks, "threads": [1, 32]}])
    # Three blocks for A and two for B: one of four multiprocessors has two of the five.
    found = quantities(variant, Gemm(96, 64, 100))
    assert found["prepared_megabytes"] == pytest.approx(megabytes(96 * 100, 100 * 64) * 2 / 5)
    assert "prepared_megabytes" not in quantities(make(), Gemm(96, 64, 100))


def test_the_blocks_of_a_cluster_share_out_a_tile(make: Make) -> None:
    # Two tiles of 16 slabs in four parts each: two blocks on each multiprocessor.
    variant = make(parameters={"SPLITS": 4}, shares="cluster", cluster="SPLITS")
    assert of_blocks(variant, Gemm(64, 64, 128)) == [4, 4, 0, 0]
    assert quantities(variant, Gemm(64, 64, 128))["sums"] == 3
    alone = quantities(make(parameters={"SPLITS": 1}, shares="cluster"), Gemm(64, 64, 128))
    assert "waits" not in alone and "sums" not in alone


def test_the_longest_chain_of_additions(make: Make) -> None:
    def longest(variant: Variant, k: int) -> int:
        shape = Gemm(32, 64, k)
        return additions(variant, shape, shares_of(variant, shape, MULTIPROCESSORS))

    assert longest(make(), 100) == 104  # 13 slabs of 8 terms
    # Four blocks share the tile, or three chains a whole one.
    assert longest(streamed(make), 320) == 80
    chains = streamed(make, least=1000)
    assert longest(chains, 480) == 480
    parameters = {"RESIDENT": 1, "LEAST": 1000, "CHAINS": 3}
    assert longest(make(parameters=parameters, blocks="4", least="LEAST"), 480) == 160
    layout = {"slab": 8, "teams": 2, "warp": [32, 32], "thread": [4, 8], "piece": [4, 4]}
    assert longest(make(threads=[1, 128], layout=layout), 160) == 80


def test_teams_share_out_the_slabs_of_a_block(make: Make) -> None:
    layout = {"slab": 8, "teams": 2, "warp": [32, 32], "thread": [4, 8], "piece": [4, 4]}
    found = quantities(make(threads=[1, 128], layout=layout), Gemm(32, 64, 100))
    assert found["slabs"] == 7  # of 13


def test_splits_give_each_tile_as_many_blocks_as_another_one(make: Make) -> None:
    # Two tiles for eight blocks: four splits of 16 slabs, each of four.
    variant = streamed(make, resident=2, shares="splits")
    found = quantities(variant, Gemm(64, 64, 128))
    assert found.pop("megabytes") > 0
    assert found == {"slabs": 8, "tiles": 1, "waits": 1, "sums": 3}
    # Five tiles: no block to spare. Nine: one block has two.
    found = quantities(variant, Gemm(5 * 32, 64, 128))
    assert (found["slabs"], found["tiles"]) == (32, 2)
    assert not found.keys() & {"waits", "sums"}
    assert of_blocks(variant, Gemm(9 * 32, 64, 128))[0] == 32


def test_no_split_has_fewer_than_the_least_slabs(make: Make) -> None:
    found = quantities(streamed(make, shares="splits", least=6), Gemm(32, 64, 128))
    assert (found["slabs"], found["sums"]) == (8, 1)
    found = quantities(streamed(make, shares="splits", least=9), Gemm(32, 64, 128))
    assert found["slabs"] == 16 and "waits" not in found


def test_of_a_symmetric_c_one_triangle_is_work_and_its_diagonal_less(make: Make) -> None:
    upper = {"operation": "gram", "tile": [32, 32], "schedule": "upper"}
    # 3×3 tiles: three above the diagonal, three on it, of 10 slabs.
    found = quantities(make(**upper), Gram(80, 96))
    assert found == {
        "slabs": pytest.approx((3 + 3 * LIGHT) * 10 / 6 * 2), "tiles": 2,
        "megabytes": pytest.approx(megabytes(80 * 96, 96 * 96, size=8)),
    }  # fmt: skip
    one = quantities(streamed(make, **upper), Gram(80, 32))  # on the diagonal, of four blocks
    assert one["slabs"] == pytest.approx(max(LIGHT * 10 / 4, 2))


def test_matrices_that_the_l2_does_not_keep(make: Make) -> None:
    found = quantities(make(), Gemm(4096, 4096, 64))
    assert found["megabytes"] == pytest.approx(megabytes(2 * 4096 * 64 + 4096 * 4096))
    assert found["far_megabytes"] == pytest.approx(found["megabytes"] - NEAR_MEGABYTES)


def test_rows_that_begin_anywhere_are_ragged(make: Make) -> None:
    found = quantities(make(), Gemm(96, 190, 100))
    assert (found["ragged_slabs"], found["ragged_tiles"]) == (found["slabs"], found["tiles"])
    assert found["cut_tiles"] == found["tiles"]
    assert not found.keys() & {"edge_slabs", "edge_slabs_of_block"}
    # Of float64, two are one access, and four a sector.
    gram = {"operation": "gram", "tile": [32, 32]}
    found = quantities(make(**gram), Gram(96, 190))
    assert not found.keys() & {"ragged_slabs", "ragged_tiles"}
    assert found["cut_tiles"] == found["tiles"]
    assert "cut_tiles" not in quantities(make(**gram), Gram(96, 188))
    assert "ragged_slabs" in quantities(make(**gram), Gram(96, 191))


def test_a_tile_that_crosses_the_edge_of_c(make: Make) -> None:
    # Five tiles in the last column of tiles; one multiprocessor has two of them.
    found = quantities(make(), Gemm(5 * 32, 184, 100))
    assert (found["edge_slabs_of_block"], found["edge_slabs"]) == (13, 2 * 13)
    assert not found.keys() & {"ragged_slabs", "ragged_tiles", "cut_tiles"}
    assert "edge_slabs" not in quantities(make(), Gemm(150, 192, 100))  # rows do not matter


def test_the_predicted_time_is_the_sum_of_the_terms(make: Make) -> None:
    variant, shape = make(), Gemm(96, 192, 100)
    own = work_of(variant, shape, 132)
    for number, name in enumerate(TERMS):
        cost = Cost("sm_90", variant, tuple(3.0 * (i == number) for i in range(len(TERMS))))
        assert cost.microseconds(shape, 132) == pytest.approx(3 * getattr(own, name))
    every = Cost("sm_90", variant, (1.0,) * len(TERMS))
    assert every.microseconds(shape, 132) == pytest.approx(sum(asdict(own).values()))


def schedule(heavy: int, slabs: int, blocks: int, least: int) -> list[list[tuple[int, int, int]]]:
    """The parts of each block, a tile and its slabs from one to before another: the rule of
    kernels/stream_k.cuh where all tiles cost the same, in its integers."""
    waves = ceil_div(heavy, blocks)
    full = (waves * blocks - heavy) * slabs < least * blocks
    whole = heavy if full else min(max(waves - 2, 0), heavy // blocks) * blocks
    left = (heavy - whole) * slabs
    most = max(min(waves * blocks - heavy, blocks), 1) if full else blocks
    stretches = min(most, max(left // least, 1))
    parts = []
    for block in range(blocks):
        own = [(tile, 0, slabs) for tile in range(block, whole, blocks)]
        stretch = blocks - 1 - block
        if stretch < stretches:
            slab, end = (left * i // stretches for i in (stretch, stretch + 1))
            while slab < end:
                begin = slab % slabs
                stop = min(slabs, begin + end - slab)
                own.append((whole + slab // slabs, begin, stop))
                slab += stop - begin
        parts.append(own)
    return parts


@settings(max_examples=500)
@given(
    heavy=st.integers(1, 600),
    slabs=st.integers(1, 200) | st.integers(1, 5000),
    blocks=st.integers(1, 40) | st.sampled_from([132, 264, 528]),
    least=st.integers(1, 64),
)
def test_the_shares_are_those_of_the_kernels_schedule(
    heavy: int, slabs: int, blocks: int, least: int
) -> None:
    parts = schedule(heavy, slabs, blocks, least)
    covered = sorted(part for own in parts for part in own)
    ends = [tile * slabs + end for tile, _, end in covered]
    assert [tile * slabs + begin for tile, begin, _ in covered] == [0, *ends[:-1]]
    assert ends[-1] == heavy * slabs

    of_blocks = [sum(end - begin for _, begin, end in own) for own in parts]
    found = stretched(cast(Any, SimpleNamespace(least=least)), heavy, 0, slabs, blocks)
    assert found.longest == max(of_blocks)
    assert found.blocks == sum(count > 0 for count in of_blocks)
    assert found.slabs == sum(of_blocks)
    shared = len(covered) > heavy
    assert shared or not found.parts
