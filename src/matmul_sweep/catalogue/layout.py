"""How the threads of a block share its tile of C, and what they stage, for the pictures."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from matmul_sweep.catalogue.architectures import WARP
from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.catalogue.keys import OwnLayout
from matmul_sweep.operations.shapes import Extent
from matmul_sweep.process.errors import UserError


@dataclass(frozen=True)
class Layout:
    """The catalogue's key `layout` with its expressions evaluated; whose class describes each.

    A thread's results are pieces, spread evenly over the `region` of its warp, or over the block's
    tile if warps have no tile of their own. Lanes lie side by side in it, along its rows. `threads`
    are those with results.
    """

    tile: Extent
    threads: int
    slab: int
    stages: int
    teams: int
    warp: Extent | None
    thread: Extent
    piece: Extent
    units: str

    @property
    def region(self) -> Extent:
        return self.warp or self.tile

    @property
    def pieces(self) -> Extent:
        """The number of pieces of a thread, down and across."""
        return self.thread[0] // self.piece[0], self.thread[1] // self.piece[1]

    @property
    def step(self) -> Extent:
        """The distance from one piece of a thread to the next, down and across."""
        return self.region[0] // self.pieces[0], self.region[1] // self.pieces[1]

    @property
    def lanes(self) -> Extent:
        """Lanes of one warp, down and across."""
        across = min(WARP, self.threads, self.region[1] // self.thread[1])
        return min(WARP, self.threads) // across, across


def layout_of(own: OwnLayout, parameters: Mapping[str, int], tile: Extent, threads: int) -> Layout:
    """The layout of a variant. Raises UserError if its parts do not cover the tile."""

    def extent(sides: tuple[int | str, int | str]) -> Extent:
        return evaluate(sides[0], parameters), evaluate(sides[1], parameters)

    found = Layout(
        tile=tile,
        threads=threads - evaluate(own.producers, parameters),
        slab=evaluate(own.slab, parameters),
        stages=evaluate(own.stages, parameters),
        teams=evaluate(own.teams, parameters),
        warp=extent(own.warp) if own.warp else None,
        thread=extent(own.thread or own.piece),
        piece=extent(own.piece),
        units=own.units,
    )
    for outer, inner in pairwise([found.tile, found.region, found.thread, found.piece]):
        if min(inner) < 1 or outer[0] % inner[0] or outer[1] % inner[1]:
            raise UserError(f"layout: {inner[0]}×{inner[1]} does not divide {outer[0]}×{outer[1]}")
    covered: list[tuple[Extent | None, int]] = [
        (found.tile, found.threads // found.teams),
        (found.warp, WARP),
    ]
    for whole, sharing in covered:
        if whole and math.prod(found.thread) * sharing != math.prod(whole):
            raise UserError(
                f"layout: {sharing} threads of {found.thread[0]}×{found.thread[1]} results "
                f"do not cover a tile of {whole[0]}×{whole[1]}"
            )
    return found
