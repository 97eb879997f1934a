"""What a product costs a variant: a model by which a dispatch chooses.

The time is predicted as a sum of terms. Each term is a quantity that follows from the shape, the
tiling and the number of multiprocessors, times a coefficient of the variant, in microseconds, that
scripts/search.py fits to measured times. The quantities are those that the analytical model of
Stream-K counts (Osama, Merrill, Cecka, Garland and Owens, PPoPP 2023, section 5.3), and some for
edges and memory.
"""

import math
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from matmul.operations.shapes import Shape, ceil_div

if TYPE_CHECKING:
    from matmul.catalogue.entries import Variant

LIGHT = 0.65  # the work of a tile on the diagonal of AᵀA, as a share of any other tile's
NEAR_MEGABYTES = 40  # matrices of this size stay in the L2 between launches (H100, H200: 50 MB)
ROW_BYTES = 16  # a multiple of this lets four words, or two of float64, be one access


@dataclass(frozen=True)
class Work:
    """The quantities; a variant has a coefficient for each, in microseconds."""

    launch: float  # 1 for every product
    slabs_of_block: float  # that the busiest block multiplies, one after the other
    slabs: float  # that the busiest multiprocessor multiplies
    tiles: float  # that it stores
    waits: float  # 1 if blocks share a tile, so that one waits for the others
    sums: float  # tiles of sums that a block adds to its own
    megabytes: float  # of all matrices
    far_megabytes: float  # of those, what the L2 does not keep
    ragged_slabs: float  # slabs, where rows of C do not begin at a multiple of ROW_BYTES
    ragged_tiles: float  # tiles, there
    edge_slabs_of_block: float  # slabs_of_block, where the last tile of a row crosses C's edge
    edge_slabs: float  # that the busiest multiprocessor multiplies of such tiles


TERMS = tuple(Work.__dataclass_fields__)


@dataclass(frozen=True)
class Cost:
    """A row of a dispatch's table: what a variant costs on an architecture.

    coefficients: microseconds, in the order of TERMS; empty for one that runs at `shapes` only.
    most_terms: the longest sum up to which it errs hardly more than the library; 0: any.
    shapes: where it is the fastest, as measured there.
    """

    architecture: str
    variant: "Variant"
    coefficients: tuple[float, ...]
    most_terms: int = 0
    shapes: frozenset[Shape] = frozenset()

    @property
    def identity(self) -> tuple[object, ...]:
        """All that the choice goes by."""
        shapes = sorted(map(str, self.shapes))
        return self.architecture, self.variant.name, self.coefficients, self.most_terms, shapes

    def competes(self, shape: Shape) -> bool:
        """Whether it may be chosen at a shape by its predicted time."""
        return bool(self.coefficients) and shape.terms <= (self.most_terms or shape.terms)

    def microseconds(self, shape: Shape, multiprocessors: int) -> float:
        """The predicted time of a product."""
        quantities = astuple(work(self.variant, shape, multiprocessors))
        return sum(a * b for a, b in zip(self.coefficients, quantities, strict=True))


def work(variant: "Variant", shape: Shape, multiprocessors: int) -> Work:
    """The quantities of a product of `shape`, by the shares that the kernel's blocks take."""
    tile, slabs = variant.tile, ceil_div(shape.terms, variant.slab)
    (rows, columns), across = shape.output, ceil_div(shape.output[1], tile[1])
    full, light = ceil_div(rows, tile[0]) * across, 0
    if variant.kernel.half:
        full, light = across * (across - 1) // 2, across
    blocks = variant.resident * multiprocessors
    if variant.kernel.shares == "cluster":
        parts = variant.cluster
        shares = Shares(
            ceil_div(slabs, parts), full * parts, full * slabs, parts if parts > 1 else 0
        )
    elif not blocks:
        shares = Shares(slabs, full + light, (full + LIGHT * light) * slabs, 0)
    elif variant.kernel.shares == "tiles":
        shares = whole(variant, full, slabs, blocks)
    elif variant.kernel.shares == "splits":
        shares = split(variant, full + light, slabs, blocks)
    else:
        shares = stretched(variant, full, light, slabs, blocks)
    at_once = ceil_div(shares.blocks, multiprocessors)  # blocks of the busiest multiprocessor
    element = variant.kernel.product.element.bytes
    megabytes = element * sum(shape.elements) / 1e6
    ragged = element * columns % ROW_BYTES > 0
    edge = columns % tile[1] > 0 and not ragged
    of_block = ceil_div(shares.longest, variant.teams)
    slabs_of_all = max(shares.slabs / shares.blocks * at_once / variant.teams, of_block)
    tiles = ceil_div(full + light, multiprocessors)
    edge_tiles = edge * ceil_div(ceil_div(rows, tile[0]), multiprocessors)
    return Work(
        launch=1,
        slabs_of_block=of_block,
        slabs=slabs_of_all,
        tiles=tiles,
        waits=shares.parts > 0,
        sums=max(shares.parts - 1, 0),
        megabytes=megabytes,
        far_megabytes=max(megabytes - NEAR_MEGABYTES, 0),
        ragged_slabs=ragged * slabs_of_all,
        ragged_tiles=ragged * tiles,
        edge_slabs_of_block=edge * of_block,
        edge_slabs=edge_tiles * slabs / variant.teams,
    )


@dataclass(frozen=True)
class Shares:
    """How the blocks of a launch share out the slabs of all tiles."""

    longest: int  # slabs of the busiest block
    blocks: int  # with work
    slabs: float  # of all blocks
    parts: float  # blocks that a tile is shared out to; 0 if every tile is one block's


def whole(variant: "Variant", tiles: int, slabs: int, blocks: int) -> Shares:
    """Whole tiles, by turns: kernels/gemm_bf16/persistent.cuh. Clusters take as many as they have
    blocks."""
    clusters, taken = blocks // variant.cluster, ceil_div(tiles, variant.cluster)
    return Shares(
        longest=ceil_div(taken, clusters) * slabs,
        blocks=min(taken, clusters) * variant.cluster,
        slabs=taken * variant.cluster * slabs,
        parts=0,
    )


def split(variant: "Variant", tiles: int, slabs: int, blocks: int) -> Shares:
    """Each tile shared out to as many blocks as another one: kernels/gram/tensor_direct.cu."""
    splits = max(min(blocks // tiles, slabs // variant.least), 1)
    return Shares(
        longest=ceil_div(slabs, splits) * ceil_div(tiles, blocks),
        blocks=min(tiles * splits, blocks),
        slabs=tiles * slabs,
        parts=splits if splits > 1 else 0,
    )


def stretched(variant: "Variant", full: int, light: int, slabs: int, blocks: int) -> Shares:
    """Whole tiles and equal stretches: the rule of Schedule in kernels/stream_k.cuh."""
    work = full + LIGHT * light
    waves = math.ceil(work / blocks)
    missing = (waves * blocks - work) * slabs
    whole = min(max(waves - 2, 0), full // blocks) * blocks
    most = blocks
    if missing < variant.least * blocks:
        whole, most = full, max(min(waves * blocks - full, blocks), 1)
    left = (full - whole + LIGHT * light) * slabs
    stretches = min(most, max(int(left / variant.least), 1))
    stretch = math.ceil(left / stretches)
    splits = stretches > 1 and stretch % slabs > 0
    return Shares(
        longest=ceil_div(whole, blocks) * slabs if not left else whole // blocks * slabs + stretch,
        blocks=max(min(whole, blocks), stretches if left else 0),
        slabs=whole * slabs + left,
        parts=max(slabs / stretch, 1) if splits else 0,
    )
