"""How the blocks of a launch share out the slabs of all tiles."""

import math
from dataclasses import dataclass, replace

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.operations.shapes import Shape, ceil_div

# The work of a tile on the diagonal, as a share of any other tile's, where a kernel leaves out what
# lies below the diagonal: those of AᵀA in float64 do.
LIGHT = 0.65


@dataclass(frozen=True)
class Shares:
    """How the blocks of a launch share out the slabs of all tiles."""

    tiles: int
    longest: int  # slabs of the busiest block
    blocks: int  # with work
    slabs: float  # of all blocks
    parts: float  # blocks that a tile is shared out to; 0 if every tile is one block's
    stretch: int = 0  # slabs of a block that begin and end inside tiles


def shares_of(variant: Variant, shape: Shape, multiprocessors: int) -> Shares:
    """The shares of the blocks of a product of `shape`."""
    tile, slabs = variant.tile, ceil_div(shape.terms, variant.slab)
    rows, columns = shape.output
    across = ceil_div(columns, tile[1])
    full, light = ceil_div(rows, tile[0]) * across, 0
    if variant.kernel.half:
        light = across if variant.kernel.operation == "gram" else 0
        full = across * (across + 1) // 2 - light
    blocks = variant.resident * multiprocessors
    if variant.kernel.shares == "cluster":
        parts = variant.cluster
        together = parts if parts > 1 else 0
        ends = full * parts  # each block has those of its part
        return Shares(ends, ceil_div(slabs, parts), ends, full * slabs, together)
    if not blocks:
        return Shares(full + light, slabs, full + light, (full + LIGHT * light) * slabs, 0)
    if variant.kernel.shares == "tiles":
        # By turns (kernels/gemm_bf16/persistent.cu): as if each had a block of its own, that waits
        # for a place.
        tiles = variant.cluster_tiles(shape) * variant.cluster
        return Shares(tiles, slabs, tiles, tiles * slabs, 0)
    if variant.kernel.shares == "splits":
        return split(variant, full + light, slabs, blocks)
    if variant.cluster == 1:
        return stretched(variant, full, light, slabs, blocks)
    own = stretched(variant, variant.cluster_tiles(shape), 0, slabs, blocks // variant.cluster)
    tiles, of_all = own.tiles * variant.cluster, own.slabs * variant.cluster
    return replace(own, tiles=tiles, blocks=own.blocks * variant.cluster, slabs=of_all)


def split(variant: Variant, tiles: int, slabs: int, blocks: int) -> Shares:
    """Each tile shared out to as many blocks as another one: kernels/gram/tensor_direct.cu."""
    splits = max(min(blocks // tiles, slabs // variant.least), 1)
    return Shares(
        tiles=tiles,
        longest=ceil_div(slabs, splits) * ceil_div(tiles, blocks),
        blocks=min(tiles * splits, blocks),
        slabs=tiles * slabs,
        parts=splits if splits > 1 else 0,
    )


def stretched(variant: Variant, full: int, light: int, slabs: int, blocks: int) -> Shares:
    """Whole tiles and equal stretches: the rule of Schedule in kernels/stream_k.cuh."""
    work = full + LIGHT * light
    waves = math.ceil(work / blocks)
    missing = (waves * blocks - work) * slabs
    shared = 1 if 2 * (waves * blocks - work) < blocks else 2
    whole = min(max(waves - shared, 0), full // blocks) * blocks
    most = blocks
    if missing < variant.least * blocks:
        whole, most = full, max(min(waves * blocks - full, blocks), 1)
    left = (full - whole + LIGHT * light) * slabs
    stretches = min(most, max(int(left / variant.least), 1))
    stretch = math.ceil(left / stretches)
    splits = stretches > 1 and stretch % slabs > 0
    return Shares(
        tiles=full + light,
        longest=ceil_div(whole, blocks) * slabs if not left else whole // blocks * slabs + stretch,
        blocks=max(min(whole, blocks), stretches if left else 0),
        slabs=whole * slabs + left,
        parts=max(slabs / stretch, 1) if splits else 0,
        stretch=stretch if splits else 0,
    )
