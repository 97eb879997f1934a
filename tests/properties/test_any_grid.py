"""Whatever the shape: each element of C belongs to one block of a variant's grid, and to no other.

The kernels themselves run, unchanged, on the CPU: owners.cu notes which block wrote what.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import LARGEST, Shape, grid_of

OWNERS = Path(__file__).parent / "owners.cu"
CATALOGUE = load_catalogue()
# A tiling of each kernel of one launch with a block for each tile.
CATALOGUED = [
    kernel.variants[0] for kernel in CATALOGUE.values()
    if kernel.kind is Kind.CUDA and len(kernel.functions) == kernel.variants[0].cluster == 1
    and not kernel.blocks
]  # fmt: skip
TILES = st.tuples(st.integers(1, 200), st.integers(1, 200)) | st.sampled_from(
    [variant.tile for variant in CATALOGUED]
)


def made_up(name: str, **parameters: int) -> Variant:
    """A kernel of the catalogue with parameters that the catalogue does not have."""
    return CATALOGUE[name].tiled("made-up" + "x".join(map(str, parameters.values())), parameters)


VARIANTS = [
    *CATALOGUED,
    made_up("naive_rect", TILE_WIDTH=7),
    made_up("shared_rect_split", TILE_WIDTH=3),
    made_up("gram_register_tile", TILE_WIDTH=5, BLOCK_WIDTH=5),
    made_up("gram_register_tile", TILE_WIDTH=12, BLOCK_WIDTH=3),
]
EXTENTS = st.integers(1, 100) | st.integers(1, LARGEST)


def covered(extent: int, step: int, blocks: int) -> bool:
    """Whether so many steps reach the end of an extent, and the last begins before it."""
    return (blocks - 1) * step < extent <= blocks * step


@settings(max_examples=1200)
@given(st.builds(Gemm, EXTENTS, EXTENTS, EXTENTS) | st.builds(Gram, EXTENTS, EXTENTS), TILES)
def test_the_grid_reaches_the_end_of_c_and_has_no_idle_block(
    shape: Shape, tile: tuple[int, int]
) -> None:
    x, y, z = grid_of(shape, tile)
    height, width = shape.output
    assert covered(height, tile[0], y)
    assert covered(width, tile[1], x)
    assert z == 1


@pytest.fixture(scope="module")
def executables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each variant as a program that tells which block wrote what."""
    folder = tmp_path_factory.mktemp("owners")

    def build(variant: Variant) -> Path:
        kernel, executable = variant.kernel, folder / variant.slug
        source = executable.with_suffix(".cu")
        source.write_text(kernel.source.read_text() + OWNERS.read_text())
        product = kernel.product
        extra = [[*kernel.workspace], [*kernel.tensor_maps]]
        names = [*product.matrices, *product.shape.__match_args__, *extra[0], *extra[1]]
        constants = variant.constants(None)
        constants.pop("OVERLAPS", None)  # some blocks only look, and wait for no launch
        emulation.build(
            source, ["owners_of_c"], kernel.product,
            {**constants, "ELEMENT": product.dtypes[-1].cpp, "OBSERVED": kernel.function,
             "NAMES": ",".join(names)},
            executable, None, [kernel.source.parent.resolve()], *extra,
        )  # fmt: skip
        return executable

    with ThreadPoolExecutor(os.cpu_count()) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(emulation, "FLAGS", ["-O1", *emulation.FLAGS[1:]])
        return dict(zip([v.slug for v in VARIANTS], pool.map(build, VARIANTS), strict=True))


@st.composite
def launches(draw: st.DrawFn) -> tuple[Variant, Shape]:
    """A variant and a shape that it takes, up to a little over two of its tiles."""
    variant = draw(st.sampled_from(VARIANTS))
    width = max(variant.tile)
    extents = st.integers(1, 2 * width + 2) | st.sampled_from([width, width + 1, 2 * width])
    n = draw(extents)
    if variant.kernel.accepts == "square":
        return variant, Gemm(n, n, n)
    terms = draw(st.integers(1, 3) | st.just(width + 1))
    if variant.kernel.operation == "gram":
        return variant, Gram(terms, n)
    rows, columns = (
        st.integers(1, most) if most else extents
        for most in (variant.most_rows, variant.most_columns)
    )
    return variant, variant.fitted(Gemm(draw(rows), draw(columns), terms))


@settings(max_examples=200)
@given(launches())
def test_each_element_is_written_by_the_block_of_its_tile_and_by_no_other(
    executables: dict[str, Path], launch: tuple[Variant, Shape]
) -> None:
    """A symmetric product's may be written by the block of its mirror image."""
    variant, shape = launch
    plan = variant.plan(shape)
    [launch_] = plan.launches
    observed = replace(plan, launches=(replace(launch_, grid=(*launch_.grid[:2], 2)),))
    product = variant.kernel.product
    owners = emulation.launch(
        executables[variant.slug], observed, shape,
        [np.ones(extents, product.dtype) for extents in shape.inputs],
        np.full(shape.output, np.nan, product.output),
    )  # fmt: skip
    (rows, columns), found = variant.tile, {}
    for i, j in np.ndindex(grid_of(shape, variant.tile)[1::-1]):
        tile = owners[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        assert (tile == tile[0, 0]).all()
        found[i, j] = tile[0, 0]
    assert min(found.values()) > 0
    if shape.operation == "gram" and all(found[i, j] == found[j, i] for i, j in found):
        found = {(i, j): owner for (i, j), owner in found.items() if i <= j}
    assert len({*found.values()}) == len(found)
