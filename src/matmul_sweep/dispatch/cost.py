"""What a product costs a variant: a model by which a dispatch chooses.

The time is predicted as a sum of terms. Each term is a quantity that follows from the shape, the
tiling and the number of multiprocessors, times a coefficient of the variant, in microseconds, that
scripts/search.py fits to measured times. The quantities are those that the analytical model of
Stream-K counts (Osama, Merrill, Cecka, Garland and Owens, PPoPP 2023, section 5.3), and some for
edges and memory. But no LARGE product takes less than its energy over the card's power limit; one
that comes near that takes longer than either says, since it meets the limit in parts of its time.
"""

import math
from dataclasses import astuple, dataclass
from operator import mul
from typing import Any

from matmul_sweep.catalogue.entries import Variant, clusters_at_once
from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.catalogue.sharing import Shares, shares_of
from matmul_sweep.operations.shapes import Shape, ceil_div

# Shorter products draw too little power, at any clock, to come to a card's limit.
LARGE = 4e10  # operations
CORNER = 8  # power of the norm that joins the two times; 4 to 16 choose alike
RAGGED_ENERGY = 1.05  # where rows are ragged, so that single words are copied; 1.03 to 1.08
NEAR_MEGABYTES = 40  # matrices of this size stay in the L2 between launches (H100, H200: 50 MB)
ACCESS_BYTES = 16  # rows that begin at multiples of this are copied four words at once
SECTOR_BYTES = 32  # rows that begin at multiples of this are stored in whole sectors


@dataclass(frozen=True)
class Work:
    """The quantities; a variant has a coefficient for each, in microseconds."""

    launch: float  # 1 for every product
    first_slabs: float  # of a block on the busiest multiprocessor, and of those that follow it
    second_slabs: float  # of a second block that runs there beside the first
    third_slabs: float  # of a third one
    further_slabs: float  # of all others that run beside them
    mean_slabs: float  # of all blocks, by multiprocessors: all read the same L2
    tiles: float  # of which it stores all or, in a cluster, a part
    waits: float  # 1 if blocks share a tile, so that one waits for the others
    sums: float  # tiles of sums that a block adds to its own
    megabytes: float  # of all matrices
    far_megabytes: float  # of those, what the L2 does not keep
    far_slabs: float  # of a stretch, whose block shares its place along k with no other, the same
    ragged_slabs: float  # slabs, where rows of C do not begin at multiples of ACCESS_BYTES
    ragged_tiles: float  # tiles, there
    cut_tiles: float  # tiles, where rows of C do not begin at multiples of SECTOR_BYTES
    edge_slabs_of_block: float  # the busiest block's, where a row's last tile crosses C's edge
    edge_slabs: float  # that the busiest multiprocessor multiplies of such tiles
    prepared_megabytes: float  # of A and B, by the busiest multiprocessor of a launch before


@dataclass(frozen=True)
class Energy:
    """What a LARGE product's energy follows from, 0 for others, that no power limit meets. A
    variant has a coefficient for each, in microseconds at the card's power limit."""

    at_limit: float = 0.0  # millions of multiply-adds for each multiprocessor, of whole tiles
    waiting_at_limit: float = 0.0  # those that the busiest one has more: meanwhile others wait
    stored_at_limit: float = 0.0  # megabytes of C


TERMS = tuple(Work.__dataclass_fields__)
LIMITS = tuple(Energy.__dataclass_fields__)


@dataclass(frozen=True)
class Cost:
    """A row of a dispatch's table: what a variant costs on an architecture.

    coefficients: microseconds, in the order of TERMS; empty for one that runs at `shapes` only.
    most_additions: the longest chain of additions (`additions`) up to which it errs hardly more
    than the library; 0: any.
    limits: microseconds at the card's power limit, in the order of LIMITS; 0 where not known.
    shapes: where it is the fastest, as measured there.
    """

    architecture: str
    variant: Variant
    coefficients: tuple[float, ...]
    most_additions: int = 0
    shapes: tuple[Shape, ...] = ()
    limits: tuple[float, ...] = (0.0,) * len(LIMITS)

    @property
    def identity(self) -> tuple[object, ...]:
        """All that the choice goes by."""
        shapes = sorted(map(str, self.shapes))
        own = self.architecture, self.variant.name, self.coefficients, self.most_additions, shapes
        return (*own, *filter(None, self.limits))

    def microseconds(self, shape: Shape, multiprocessors: int) -> float:
        """The predicted time of a product; infinite at a shape where it may not be chosen by it."""
        if not self.coefficients:
            return math.inf
        shares = shares_of(self.variant, shape, multiprocessors)
        if 0 < self.most_additions < additions(self.variant, shape, shares):
            return math.inf
        quantities = astuple(work(self.variant, shape, shares, multiprocessors))
        drawn = astuple(energy(self.variant, shape, shares, multiprocessors))
        time = sum(map(mul, self.coefficients, quantities))
        return float(joined(time, sum(map(mul, self.limits, drawn))))


def joined(time: Any, least: Any) -> Any:
    """The time by a variant's work and the least one by its energy, as one: numbers or arrays."""
    return (time**CORNER + least**CORNER) ** (1 / CORNER)


def ragged(variant: Variant, shape: Shape) -> bool:
    """Whether rows of C do not begin at multiples of ACCESS_BYTES."""
    element = variant.kernel.product.sizes(shape)[-1] // shape.elements[-1]
    return element * shape.output[1] % ACCESS_BYTES > 0


def work(variant: Variant, shape: Shape, shares: Shares, multiprocessors: int) -> Work:
    """The quantities of a product of `shape`, by the shares that the kernel's blocks take."""
    (rows, columns), tile = shape.output, variant.tile
    of_block = ceil_div(shares.longest, variant.teams)
    first, second, third, further = crowded(variant, shares, of_block, multiprocessors)
    slabs_of_all = first + second + third + further
    sizes = variant.kernel.product.sizes(shape)
    element = sizes[-1] // shape.elements[-1]  # bytes, of C
    megabytes = sum(sizes) / 1e6
    cut = ragged(variant, shape)
    edge = columns % tile[1] > 0 and not cut
    far = max(megabytes - NEAR_MEGABYTES, 0)
    tiles = ceil_div(shares.tiles, multiprocessors)
    edge_tiles = edge * ceil_div(ceil_div(rows, tile[0]), multiprocessors)
    return Work(
        launch=1,
        first_slabs=first,
        second_slabs=second,
        third_slabs=third,
        further_slabs=further,
        mean_slabs=shares.slabs / multiprocessors,
        tiles=tiles,
        waits=shares.parts > 0,
        sums=max(shares.parts - 1, 0),
        megabytes=megabytes,
        far_megabytes=far,
        far_slabs=shares.stretch * far / megabytes,
        ragged_slabs=cut * slabs_of_all,
        ragged_tiles=cut * tiles,
        cut_tiles=(element * columns % SECTOR_BYTES > 0) * tiles,
        edge_slabs_of_block=edge * of_block,
        edge_slabs=edge_tiles * ceil_div(shape.terms, variant.slab) / variant.teams,
        prepared_megabytes=prepared(variant, shape, multiprocessors),
    )


def energy(variant: Variant, shape: Shape, shares: Shares, multiprocessors: int) -> Energy:
    """What is multiplied, ragged rows as if they were somewhat more, what waits and is stored."""
    if shape.operations < LARGE:
        return Energy()
    rows, columns = variant.tile
    copies = RAGGED_ENERGY if ragged(variant, shape) else 1
    slab = copies * rows * columns * variant.slab / 1e6
    mean = shares.slabs / multiprocessors
    of_block = ceil_div(shares.longest, variant.teams)
    busiest = variant.teams * sum(crowded(variant, shares, of_block, multiprocessors))
    c = variant.kernel.product.sizes(shape)[-1]
    return Energy(slab * mean, slab * max(busiest - mean, 0), c / 1e6)


def prepared(variant: Variant, shape: Shape, multiprocessors: int) -> float:
    """The megabytes of A and B that the busiest multiprocessor reads in the first launch before the
    one that multiplies, whose blocks have equal parts of them; 0 without such a launch."""
    if not variant.kernel.before:
        return 0
    blocks = evaluate(variant.kernel.before[0].blocks, variant.constants(None) | vars(shape))
    factors = sum(variant.kernel.product.sizes(shape)[:-1]) / 1e6
    return factors * ceil_div(blocks, multiprocessors) / blocks


def additions(variant: Variant, shape: Shape, shares: Shares) -> int:
    """The longest chain of additions in one register: of a whole sum, or of the share of a team, a
    block or one of the CHAINS of a sum, which begin anew."""
    chains = variant.parameters.get("CHAINS", 1)
    longest = ceil_div(shares.longest, variant.teams)
    whole = ceil_div(ceil_div(shape.terms, variant.slab), variant.teams * chains)
    return min(longest, whole) * variant.slab


def crowded(
    variant: Variant, shares: Shares, of_block: int, multiprocessors: int
) -> tuple[float, float, float, float]:
    """The slabs of the busiest multiprocessor's first, second, third and further blocks.

    A second block takes what the first one leaves unused, so its slabs cost less, and those of a
    third one may cost more again: that depends on the kernel. Whole tiles run in waves; in the last
    one fewer of them may run beside each other.
    """
    share = shares.slabs / shares.blocks / variant.teams / of_block  # of a mean block
    places = clusters_at_once(variant.at_once * multiprocessors, variant.cluster) * variant.cluster
    full, left = divmod(shares.blocks, places) if places else (0, shares.blocks)
    waves = [
        (full, max(variant.at_once * share, 1)),
        (left > 0, max(ceil_div(left, multiprocessors) * share, 1)),
    ]

    def slabs(number: int, most: float = 1) -> float:
        """Of the block of this number, from 0 on, and up to `most` together."""
        return of_block * sum(n * min(max(blocks - number, 0), most) for n, blocks in waves)

    return slabs(0), slabs(1), slabs(2), slabs(3, math.inf)
