"""The catalogue's CUDA kernels on the CPU under the sanitizers, and mistakes planted in them."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from support import the_catalogue
from test_hopper_on_cpu import SHAPES as HOPPER

from matmul.catalogue.entries import Kernel, Kind, Variant
from matmul.cpu import emulation
from matmul.cpu.emulation import EmulationError
from matmul.measure.verification import accuracy
from matmul.operations import fills
from matmul.operations.gemm import Gemm
from matmul.operations.gemm_bf16 import GemmBf16
from matmul.operations.gram import Gram
from matmul.operations.shapes import Shape

# Hopper's are held there at shapes of their own, under both sanitizers too.
KERNELS = [
    kernel
    for kernel in the_catalogue().values()
    if kernel.kind is Kind.CUDA and kernel.name not in HOPPER
]
# The last has a tile inside of C in columns, and more slabs than there are stages.
GEMM_SHAPES = [(1, 1, 1), (33, 41, 49), (3, 50, 1), (3, 128, 101), (1, 70, 260), (50, 3, 260)]
SHAPES = {
    "gemm": [Gemm(37, 37, 37), *(Gemm(*extents) for extents in GEMM_SHAPES)],
    "gemm_bf16": [GemmBf16(1, 1, 1), GemmBf16(33, 41, 49), GemmBf16(33, 40, 200)],
    "gram": [Gram(1, 1), Gram(5, 47), Gram(17, 49), Gram(33, 97), Gram(49, 1)],
}
BARRIER = "            __syncthreads();\n            stage();"


def products(
    variant: Variant, source: Path, sanitizer: str | None, folder: Path,
    shapes: Sequence[Shape] = (),
) -> Iterator[tuple[Shape, list[np.ndarray], np.ndarray]]:  # fmt: skip
    """Every shape that the variant takes, with the inputs and C."""
    kernel, executable = variant.kernel, folder / "kernel"
    emulation.build(
        source, kernel.functions, kernel.product, variant.constants(None), executable, sanitizer,
        [kernel.source.parent], [*kernel.workspace], [*kernel.tensor_maps],
    )  # fmt: skip
    for shape in shapes or SHAPES[kernel.operation]:
        if variant.refusal(shape):
            continue
        inputs = fills.inputs("uniform", 3, shape, kernel.dtype)
        c = np.full(shape.output, np.nan, kernel.dtype)
        c = emulation.launch(executable, variant.plan(shape), shape, inputs, c)
        yield shape, inputs, c


def multiply(
    variant: Variant, source: Path, sanitizer: str | None, folder: Path,
    shapes: Sequence[Shape] = (),
) -> None:  # fmt: skip
    """Every shape that the variant takes, right or an exception."""
    for shape, inputs, c in products(variant, source, sanitizer, folder, shapes):
        assert accuracy(variant.kernel, c, *inputs).share <= 1, shape


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_is_right_and_clean(kernel: Kernel, sanitizer: str, tmp_path: Path) -> None:
    """Each sanitizer has one tiling, for tilings share their code; threads, which cost most, the
    one of the smallest blocks."""
    variant = kernel.variants[0]
    if sanitizer == "thread":
        variant = min(kernel.variants, key=lambda variant: math.prod(variant.block))
    multiply(variant, kernel.source, sanitizer, tmp_path)


@pytest.mark.parametrize("multiprocessors", [3, 9])
def test_tiles_on_the_diagonal_are_shared_whatever_they_leave_of_a_wave(
    multiprocessors: int, tmp_path: Path
) -> None:
    """512 columns are six tiles off the diagonal, and four on it that cost as much as three: with
    nine multiprocessors one full wave, whose free blocks share the four."""
    kernel = the_catalogue()["gram_tensor_streamed"]
    own = {"MULTIPROCESSORS": multiprocessors, "PATCH": 2}
    variant = kernel.tiled("test", dict(kernel.variants[0].parameters) | own)
    shapes = [Gram(64, 512), Gram(130, 500), Gram(33, 641)]
    multiply(variant, kernel.source, None, tmp_path, shapes)


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_tiles_of_the_folded_triangle_are_right_wherever_rows_begin(
    sanitizer: str, tmp_path: Path
) -> None:
    """One to five tile rows. Rows of C begin at a sector, at 16 bytes inside one, or anywhere."""
    kernel = the_catalogue()["gram_tensor"]
    variant = next(v for v in kernel.every_variant if v.tiling == "32")
    shapes = [Gram(40, 160), Gram(20, 130), Gram(33, 127), Gram(7, 66), Gram(9, 33), Gram(3, 2)]
    multiply(variant, kernel.source, sanitizer, tmp_path, shapes)


@pytest.mark.parametrize(
    ("cluster", "own"),
    [
        ((1, 1), {"STAGES": 3}),
        ((2, 1), {"STAGES": 2, "TILE_M": 64}),
        ((1, 2), {"STAGES": 3, "BANDS": 1}),
        ((2, 2), {"STAGES": 2, "TILE_M": 192, "BANDS": 3}),
        ((2, 1), {"STAGES": 2, "RESIDENT": 2}),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["persistent_bf16", "padded_bf16"])
def test_clusters_take_tile_after_tile_in_patches(
    name: str, cluster: tuple[int, int], own: dict[str, int], tmp_path: Path
) -> None:
    """One cluster, and up to two rows and three columns of its tiles. Slabs go round the ring from
    one tile to the next, and the last tiles lie partly or wholly outside of C."""
    kernel = the_catalogue()[name]
    known = dict(kernel.variants[0].parameters)
    size = {"TILE_N": 64, "CLUSTER_M": cluster[0], "CLUSTER_N": cluster[1], "PATCH": 1}
    alone = {"MULTIPROCESSORS": max(math.prod(cluster) // own.get("RESIDENT", 1), 1)}
    given = {key: value for key, value in own.items() if key in known}
    variant = kernel.tiled("test", known | size | alone | given)
    odd = name == "padded_bf16"
    shapes = [GemmBf16(264, 136 + odd, 200), GemmBf16(9, 192, 64 + odd), GemmBf16(130, 8, 8)]
    multiply(variant, kernel.source, None, tmp_path, shapes)


@pytest.mark.parametrize(
    ("cluster", "clusters", "own"),
    [
        ((1, 1), 5, {"STAGES": 3}),
        ((2, 1), 3, {"STAGES": 2, "TILE_M": 64}),
        ((1, 2), 4, {"STAGES": 3, "BANDS": 1}),
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
    multiply(variant, kernel.source, None, tmp_path, shapes)


@pytest.mark.parametrize("splits", [1, 2, 8])
@pytest.mark.parametrize("columns", [64, 256])
def test_blocks_of_a_cluster_share_a_tile(splits: int, columns: int, tmp_path: Path) -> None:
    """Some have no slab at all."""
    kernel = the_catalogue()["split_bf16"]
    own = {"TILE_M": 64, "TILE_N": columns, "STAGES": 2 + columns // 128, "SPLITS": splits}
    variant = kernel.tiled("test", dict(kernel.variants[0].parameters) | own)
    shapes = [GemmBf16(70, 136, 720), GemmBf16(9, 264, 128)]
    multiply(variant, kernel.source, None, tmp_path, shapes)


# Rows of 16 bytes and others; strips and tiles that are whole, that several blocks share, and of
# which a block has two parts.
FEW_ROWS = [(1, 1, 1), (1, 129, 1001), (2, 64, 3000), (5, 300, 1024), (8, 67, 517), (16, 256, 130)]
FEW_COLUMNS = [
    (1, 1, 1),
    (129, 1, 1001),
    (64, 2, 3000),
    (300, 5, 1024),
    (67, 8, 518),
    (200, 16, 131),
]


@pytest.mark.parametrize("multiprocessors", [2, 7])
@pytest.mark.parametrize(("name", "extents"), [("thin", FEW_ROWS), ("narrow", FEW_COLUMNS)])
def test_few_vectors_are_right_however_blocks_share_them(
    name: str, extents: list[tuple[int, int, int]], multiprocessors: int, tmp_path: Path
) -> None:
    kernel = the_catalogue()[name]
    for tiling in kernel.every_variant:
        own = {**tiling.parameters, "MULTIPROCESSORS": multiprocessors}
        variant = kernel.tiled(tiling.tiling, own)
        shapes = [Gemm(*each) for each in extents]
        multiply(variant, kernel.source, None, tmp_path, shapes)


def in_chains(chains: int) -> Variant:
    """Two blocks that share tiles of 64×64, whose sums start again that often."""
    kernel = the_catalogue()["streamed"]
    own = {"TILE_M": 64, "TILE_N": 64, "WARP_M": 32, "THREAD_N": 8, "RESIDENT": 1,
           "MULTIPROCESSORS": 2, "CHAINS": chains}  # fmt: skip
    return kernel.tiled("test", dict(kernel.variants[0].parameters) | own)


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_no_chain_of_a_tile_is_lost(sanitizer: str, tmp_path: Path) -> None:
    """Of three tiles of seven slabs a block leaves a part of four, two chains, for the other; whole
    tiles have three; one slab has one, and three or fewer have chains of one."""
    variant = in_chains(3)
    shapes = [Gemm(64, 192, 97), Gemm(70, 130, 112), Gemm(64, 257, 1), Gemm(5, 64, 40)]
    multiply(variant, variant.kernel.source, sanitizer, tmp_path, shapes)


def test_chains_err_less_than_one(tmp_path: Path) -> None:
    """By 1/√3 where errors are those of random signs."""
    means = []
    for chains in (1, 3):
        variant = in_chains(chains)
        source = variant.kernel.source
        [(_, inputs, c)] = products(variant, source, None, tmp_path, [Gemm(128, 64, 1536)])
        means.append(accuracy(variant.kernel, c, *inputs).mean)
    assert means[1] < 0.7 * means[0]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if (i > j || j >= n) continue;", "if (i >= n || j >= n) continue;"),
        (BARRIER, BARRIER.replace("__syncthreads();", "")),
    ],
    ids=["diagonal tiles stored twice", "no barrier before staging"],
)
def test_a_race_in_the_register_tile_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    variant = the_catalogue().variant("gram_register_tile")
    text = variant.kernel.source.read_text()
    assert text.count(right) == 1
    source = tmp_path / "spoilt.cu"
    source.write_text(text.replace(right, wrong))
    with pytest.raises(EmulationError, match="data race"):
        multiply(variant, source, "thread", tmp_path)
