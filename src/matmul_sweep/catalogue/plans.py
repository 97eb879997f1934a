"""What a product of one shape takes on the device: launches, a workspace, and tensor maps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.catalogue.keys import OwnMap
from matmul_sweep.operations.dtypes import DTYPES, Dtype
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.models import one_of

Grid = tuple[int, int, int]  # extents in x, y, z
MAP_UNIT = 16  # bytes, of which a tensor map's address, strides and rows of a box are multiples
MOST_BOX = 256  # elements of a box along a dimension


@dataclass(frozen=True)
class Launch:
    """One launch of a function; consecutive blocks in x may form clusters."""

    grid: Grid
    block: Grid
    shared_bytes: int = 0  # dynamic, of a block
    cluster: int = 1  # blocks of a cluster


@dataclass(frozen=True)
class TensorMap:
    """How the tensor memory accelerator sees an array; the dimensions are in C's order, the last
    one contiguous."""

    pointer: int  # which of the matrices and, after them, of the workspace's parts, and D
    dtype: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]  # bytes, of each dimension but the last
    box: tuple[int, ...]  # of what one copy moves
    swizzle: int  # bytes of a swizzled row; 0: none

    @property
    def element_bytes(self) -> int:
        return DTYPES[self.dtype].bytes


@dataclass(frozen=True)
class Plan:
    """The launches of a product in their order, the bytes of each part of its workspace, and its
    tensor maps. The functions take matrices, dimensions, alpha, beta and D if they have an
    epilogue, workspace and tensor maps, in this order."""

    launches: tuple[Launch, ...]
    workspace: tuple[int, ...] = ()
    maps: tuple[TensorMap, ...] = ()


def tensor_map(
    own: OwnMap, names: Sequence[str], dtypes: Sequence[Dtype], values: Mapping[str, int]
) -> TensorMap:
    """A tensor map of the catalogue for a shape.

    names: of the pointers, the matrices first. dtypes: of the matrices; others have the inputs' by
    default. values: of parameters and dimensions.
    Raises UserError for one that the accelerator does not take.
    """
    one_of("of", own.of, names)
    pointer = names.index(own.of)
    dtype = DTYPES[own.dtype or dtypes[pointer if pointer < len(dtypes) else 0].name]
    extents, box = (tuple(evaluate(e, values) for e in one) for one in (own.extents, own.box))
    dense = tuple(math.prod(extents[i:]) for i in range(1, len(extents)))
    strides = tuple(dtype.bytes * evaluate(e, values) for e in own.strides or dense)
    found = TensorMap(pointer, dtype.name, extents, strides, box, own.swizzle)
    check_map(found)
    return found


def check_map(found: TensorMap) -> None:
    """Check what the driver would refuse without saying why. Raises UserError."""
    if not len(found.extents) == len(found.box) == len(found.strides) + 1:
        raise UserError("extents and box have one number for each dimension, strides one less")
    row = found.box[-1] * found.element_bytes
    if row % MAP_UNIT or not all(1 <= side <= MOST_BOX for side in found.box):
        raise UserError(
            f"a box has 1 to {MOST_BOX} elements along each dimension, and rows of a multiple of "
            f"{MAP_UNIT} bytes, not {'×'.join(map(str, found.box))} with rows of {row} bytes"
        )
    if found.swizzle and row > found.swizzle:
        raise UserError(
            f"a row of the box has {row} bytes, over the {found.swizzle} of its swizzle"
        )
    for stride in found.strides:
        if stride % MAP_UNIT:
            raise UserError(
                f"its stride of {stride} bytes is no multiple of {MAP_UNIT}: let `accepts` refuse "
                "such shapes, or give the workspace rows with a longer stride"
            )
