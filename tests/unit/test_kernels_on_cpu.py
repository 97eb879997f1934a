"""Kernels of the catalogue with tilings and on cards that share out their work in ways that no
tiling of the catalogue does at a shape that a CPU multiplies in a moment."""

from collections.abc import Mapping

import pytest
from emulated import checked, kernel, launched, product_on_cpu, products, watched_product
from support import the_catalogue

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.classroom.cuda_on_cpu.emulation import build_variant
from matmul_sweep.operations import fills

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("unoptimised")]


def tiled(text: str, own: Mapping[str, int]) -> Variant:
    """A variant of the catalogue with other parameters."""
    variant = the_catalogue().variant(text)
    return variant.kernel.tiled("test", {**variant.parameters, **own})


def cluster(rows: int, columns: int, count: int = 1, **own: int) -> dict[str, int]:
    """Parameters of a card on which so many clusters run at once."""
    blocks = count * rows * columns // own.get("RESIDENT", 1)
    size = {"CLUSTER_M": rows, "CLUSTER_N": columns, "MULTIPROCESSORS": blocks}
    return {"TILE_N": 64, "PATCH": 1} | size | own


def squares(blocks: int, count: int, **own: int) -> dict[str, int]:
    """Parameters of a card on which so many clusters run at once, of so many blocks each."""
    return {"TILE_M": 64, "CLUSTER_M": blocks, "PATCH": 2, "MULTIPROCESSORS": blocks * count} | own


def chains(count: int) -> dict[str, int]:
    """Two blocks that share tiles of 64×64, whose sums start again that often."""
    return {"TILE_M": 64, "TILE_N": 64, "WARP_M": 32, "THREAD_N": 8, "RESIDENT": 1,
            "MULTIPROCESSORS": 2, "CHAINS": count}  # fmt: skip


# Up to two rows and three columns of a cluster's tiles. Slabs go round the ring from one tile to
# the next, and the last tiles lie partly or wholly outside of C.
EVEN, ODD = "264x136x200 9x192x64 130x8x8", "264x137x200 9x192x65 130x8x8"
# More clusters than tiles, and tiles that are whole, shared by two, and by many.
SHARED = "264x136x200 9x8x1000 130x72x520 600x320x136"
# The same of a triangle, of which up to eleven squares lie on a side; and rows that begin anywhere.
TRIANGLE, RAGGED = "520x136 8x1000", "263x135 7x999"
# Some blocks of a cluster have no slab at all.
SPLIT = "70x136x720 9x264x128"
# Rows of 16 bytes and others; strips and tiles that are whole, that several blocks share, and of
# which a block has two parts.
THIN, NARROW = "1x1x1 1x129x1001", "1x1x1 129x1x1001 300x5x1024 67x8x517 256x16x130"
TILINGS = [
    # 512 columns are six tiles off the diagonal, and four on it that cost as much as three: with
    # nine multiprocessors one full wave, whose free blocks share the four.
    ("gram_tensor_streamed", {"MULTIPROCESSORS": 9, "PATCH": 2}, "64x512 33x641"),
    ("wgmma_bf16", {"TILE_M": 64, "TILE_N": 192, "STAGES": 2}, "70x264x130"),
    ("persistent_bf16", cluster(1, 2, STAGES=3, BANDS=1), EVEN),
    ("persistent_bf16", cluster(2, 2, STAGES=2, TILE_M=192, BANDS=3), EVEN),
    ("persistent_bf16", cluster(2, 1, STAGES=2, RESIDENT=2), EVEN),
    ("turned_bf16", cluster(1, 2, STAGES=3, TILE_M=176, GROUP_N=64, BANDS=2), EVEN),
    ("turned_bf16", cluster(2, 1, STAGES=2, TILE_M=144, TILE_N=256), EVEN),
    ("padded_bf16", cluster(2, 1, STAGES=2, TILE_M=64), ODD),
    ("padded_bf16", cluster(1, 2, STAGES=3), ODD),
    ("streamed_bf16", cluster(1, 1, 5, TILE_M=64, PATCH=2, LEAST=1, STAGES=3), SHARED),
    ("streamed_bf16", cluster(2, 1, 2, TILE_M=128, PATCH=2, LEAST=1, STAGES=2, RESIDENT=2), SHARED),
    ("gram_halved_bf16", squares(2, 2, STAGES=2), "329x200"),
    ("gram_mirrored_bf16", squares(3, 2, STAGES=3, BANDS=1), "520x136"),
    ("gram_streamed_bf16", squares(2, 3, STAGES=3, LEAST=1), TRIANGLE),
    ("gram_streamed_bf16", squares(1, 3, TILE_M=192, STAGES=2, BANDS=1, LEAST=1), TRIANGLE),
    # Five and eight squares on the diagonal: one besides those of three blocks, and none.
    ("gram_corners_bf16", {"MULTIPROCESSORS": 5, "STAGES": 2}, "520x136 1016x72"),
    ("gram_padded_bf16", squares(1, 5, STAGES=3, LEAST=1), RAGGED),
    ("split_bf16", {"TILE_M": 64, "TILE_N": 256, "STAGES": 4, "SPLITS": 2}, SPLIT),
    ("split_bf16", {"TILE_M": 64, "TILE_N": 64, "STAGES": 2, "SPLITS": 8}, SPLIT),
    ("gram_split_bf16", {"TILE_M": 128, "STAGES": 3, "SPLITS": 4, "RESIDENT": 1}, "263x712 9x128"),
    ("gram_whole_bf16", cluster(1, 2, 3, STAGES=3, BANDS=1), TRIANGLE),
    ("gram_whole_bf16", cluster(2, 1, 2, STAGES=2, RESIDENT=2, TILE_M=128, TILE_N=128), TRIANGLE),
    *(("thin", {"MULTIPROCESSORS": count}, THIN) for count in (2, 7)),
    *(("narrow", {"MULTIPROCESSORS": count}, NARROW) for count in (2, 7)),
    # Of three tiles of seven slabs a block leaves a part of four, two chains, for the other; whole
    # tiles have three; one slab has one, and three or fewer have chains of one.
    ("streamed", chains(3), "64x192x97 70x130x112 64x257x1 5x64x40"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "own", "shapes"), TILINGS, ids=str)
def test_a_tiling_is_right(name, own, shapes, tmp_path):
    assert all(one.share <= 1 for one in products(tiled(name, own), shapes.split(), tmp_path))


def test_all_of_a_symmetric_c_is_summed_in_one_order(tmp_path):
    """Of 45 tiles for three blocks; normal numbers, whose sums float32 rounds."""
    variant = tiled("gram_whole_bf16", cluster(1, 1, 3, TILE_N=128))
    shape = variant.kernel.product.parse("520x1032")
    build_variant(variant, tmp_path / "kernel")
    inputs = fills.inputs("normal", 3, shape, variant.kernel.dtype)
    assert checked(variant, product_on_cpu(variant, tmp_path / "kernel", shape, *inputs)).share <= 1


def test_tiles_of_the_folded_triangle_keep_within_c_wherever_rows_begin(tmp_path):
    """One to five tile rows. Rows of C begin at a sector, at 16 bytes inside one, or anywhere."""
    shapes = ["20x160", "20x130", "3x127", "7x66", "9x33", "3x2"]
    variant = tiled("gram_tensor/32", {})
    for shape in map(variant.kernel.product.parse, shapes):
        assert not watched_product(variant, tmp_path, shape).findings


def test_the_count_of_begun_tiles_is_zero_before_each_launch(tmp_path):
    header = the_catalogue()["residues"].code.parent / "in_step.cuh"
    body = """
        for (unsigned tile = 0; threadIdx.x == 0 && tile < 7; tile++) {
            begin_in_step(begun, tile + 1, 7);
            C[tile] = begun;
        }"""
    text = kernel(body, f'#include "{header}"\n__device__ unsigned begun;')
    assert list(launched(text, tmp_path).ravel()[:7]) == [1, 2, 3, 4, 5, 6, 0]


def test_chains_err_less_than_one(tmp_path):
    """By 1/√3 where errors are those of random signs."""
    found = (products(tiled("streamed", chains(n)), ["128x64x1536"], tmp_path) for n in (1, 3))
    one, three = map(next, found)
    assert three.mean < 0.7 * one.mean
