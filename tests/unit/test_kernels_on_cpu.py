"""Kernels of the catalogue with tilings and on cards that share out their work in ways that no
tiling of the catalogue does at a shape that a CPU multiplies in a moment."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from support import the_catalogue

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.experiment.verify.verification import accuracy
from matmul_sweep.operations import fills
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gemm_bf16 import GemmBf16
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import Shape

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("unoptimised")]


def products(
    variant: Variant, folder: Path, shapes: Sequence[Shape], sanitizer: str | None = None
) -> Iterator[tuple[Shape, list[np.ndarray], np.ndarray]]:  # fmt: skip
    """The shapes, with the inputs and C."""
    kernel, executable = variant.kernel, folder / "kernel"
    emulation.build_variant(variant, executable, sanitizer)
    for shape in shapes:
        inputs = fills.inputs("uniform", 3, shape, kernel.dtype)
        c = np.full(shape.output, np.nan, kernel.dtype)
        c = emulation.launch(executable, variant.plan(shape), shape, inputs, c)
        yield shape, inputs, c


def multiply(
    variant: Variant, folder: Path, shapes: Sequence[Shape], sanitizer: str | None = None
) -> None:
    """Every shape, right or an exception."""
    for shape, inputs, c in products(variant, folder, shapes, sanitizer):
        assert accuracy(variant.kernel, c, *inputs).share <= 1, shape


def test_tiles_on_the_diagonal_are_shared_whatever_they_leave_of_a_wave(tmp_path: Path) -> None:
    """512 columns are six tiles off the diagonal, and four on it that cost as much as three: with
    nine multiprocessors one full wave, whose free blocks share the four."""
    kernel = the_catalogue()["gram_tensor_streamed"]
    own = {"MULTIPROCESSORS": 9, "PATCH": 2}
    variant = kernel.tiled("test", dict(kernel.variants[0].parameters) | own)
    multiply(variant, tmp_path, [Gram(64, 512), Gram(33, 641)])


def test_tiles_of_the_folded_triangle_are_right_wherever_rows_begin(tmp_path: Path) -> None:
    """One to five tile rows. Rows of C begin at a sector, at 16 bytes inside one, or anywhere."""
    kernel = the_catalogue()["gram_tensor"]
    variant = next(v for v in kernel.every_variant if v.tiling == "32")
    shapes = [Gram(20, 160), Gram(20, 130), Gram(3, 127), Gram(7, 66), Gram(9, 33), Gram(3, 2)]
    multiply(variant, tmp_path, shapes, "address")


@pytest.mark.parametrize(
    ("name", "cluster", "own"),
    [
        ("persistent_bf16", (1, 2), {"STAGES": 3, "BANDS": 1}),
        ("persistent_bf16", (2, 2), {"STAGES": 2, "TILE_M": 192, "BANDS": 3}),
        ("persistent_bf16", (2, 1), {"STAGES": 2, "RESIDENT": 2}),
        ("padded_bf16", (2, 1), {"STAGES": 2, "TILE_M": 64}),
        ("padded_bf16", (1, 2), {"STAGES": 3}),
    ],
    ids=str,
)
def test_clusters_take_tile_after_tile_in_patches(
    name: str, cluster: tuple[int, int], own: dict[str, int], tmp_path: Path
) -> None:
    """One cluster, and up to two rows and three columns of its tiles. Slabs go round the ring from
    one tile to the next, and the last tiles lie partly or wholly outside of C."""
    kernel = the_catalogue()[name]
    known = dict(kernel.variants[0].parameters)
    size = {"TILE_N": 64, "CLUSTER_M": cluster[0], "CLUSTER_N": cluster[1], "PATCH": 1}
    alone = {"MULTIPROCESSORS": max(math.prod(cluster) // own.get("RESIDENT", 1), 1)}
    variant = kernel.tiled("test", known | size | alone | own)
    odd = name == "padded_bf16"
    shapes = [GemmBf16(264, 136 + odd, 200), GemmBf16(9, 192, 64 + odd), GemmBf16(130, 8, 8)]
    multiply(variant, tmp_path, shapes)


@pytest.mark.parametrize(
    ("cluster", "clusters", "own"),
    [
        ((1, 1), 5, {"STAGES": 3}),
        ((2, 1), 2, {"STAGES": 2, "TILE_M": 128, "RESIDENT": 2}),
    ],
    ids=str,
)
def test_clusters_share_out_slabs(
    cluster: tuple[int, int], clusters: int, own: dict[str, int], tmp_path: Path
) -> None:
    """More clusters than tiles, and tiles that are whole, shared by two, and by many."""
    kernel = the_catalogue()["streamed_bf16"]
    blocks = clusters * math.prod(cluster) // own.get("RESIDENT", 1)
    size = {"TILE_M": 64, "TILE_N": 64, "CLUSTER_M": cluster[0], "CLUSTER_N": cluster[1],
            "PATCH": 2, "LEAST": 1, "MULTIPROCESSORS": blocks}  # fmt: skip
    variant = kernel.tiled("test", dict(kernel.variants[0].parameters) | size | own)
    shapes = [GemmBf16(264, 136, 200), GemmBf16(9, 8, 1000), GemmBf16(130, 72, 520),
              GemmBf16(600, 320, 136)]  # fmt: skip
    multiply(variant, tmp_path, shapes)


@pytest.mark.parametrize(("splits", "columns"), [(2, 256), (8, 64)])
def test_blocks_of_a_cluster_share_a_tile(splits: int, columns: int, tmp_path: Path) -> None:
    """Some have no slab at all."""
    kernel = the_catalogue()["split_bf16"]
    own = {"TILE_M": 64, "TILE_N": columns, "STAGES": 2 + columns // 128, "SPLITS": splits}
    variant = kernel.tiled("test", dict(kernel.variants[0].parameters) | own)
    shapes = [GemmBf16(70, 136, 720), GemmBf16(9, 264, 128)]
    multiply(variant, tmp_path, shapes)


# Rows of 16 bytes and others; strips and tiles that are whole, that several blocks share, and of
# which a block has two parts.
FEW_ROWS = [(1, 1, 1), (1, 129, 1001), (5, 300, 1024), (8, 67, 517), (16, 256, 130)]


@pytest.mark.parametrize("multiprocessors", [2, 7])
@pytest.mark.parametrize("name", ["thin", "narrow"])
def test_few_vectors_are_right_however_blocks_share_them(
    name: str, multiprocessors: int, tmp_path: Path
) -> None:
    kernel = the_catalogue()[name]
    tiling = kernel.variants[-1]
    own = {**tiling.parameters, "MULTIPROCESSORS": multiprocessors}
    variant = kernel.tiled(tiling.tiling, own)
    shapes = [Gemm(m, n, k) if name == "thin" else Gemm(n, m, k) for m, n, k in FEW_ROWS]
    multiply(variant, tmp_path, [shape for shape in shapes if not variant.refusal(shape)])


def in_chains(chains: int) -> Variant:
    """Two blocks that share tiles of 64×64, whose sums start again that often."""
    kernel = the_catalogue()["streamed"]
    own = {"TILE_M": 64, "TILE_N": 64, "WARP_M": 32, "THREAD_N": 8, "RESIDENT": 1,
           "MULTIPROCESSORS": 2, "CHAINS": chains}  # fmt: skip
    return kernel.tiled("test", dict(kernel.variants[0].parameters) | own)


def test_no_chain_of_a_tile_is_lost(tmp_path: Path) -> None:
    """Of three tiles of seven slabs a block leaves a part of four, two chains, for the other; whole
    tiles have three; one slab has one, and three or fewer have chains of one."""
    shapes = [Gemm(64, 192, 97), Gemm(70, 130, 112), Gemm(64, 257, 1), Gemm(5, 64, 40)]
    multiply(in_chains(3), tmp_path, shapes)


def test_chains_err_less_than_one(tmp_path: Path) -> None:
    """By 1/√3 where errors are those of random signs."""
    means = []
    for chains in (1, 3):
        variant = in_chains(chains)
        [(_, inputs, c)] = products(variant, tmp_path, [Gemm(128, 64, 1536)])
        means.append(accuracy(variant.kernel, c, *inputs).mean)
    assert means[1] < 0.7 * means[0]
