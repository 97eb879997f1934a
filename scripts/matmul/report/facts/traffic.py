"""The bytes that a product requests from global memory, and its operations per byte."""

from matmul.catalogue.entries import Variant
from matmul.catalogue.layout import Layout
from matmul.operations.dtypes import DTYPES
from matmul.operations.shapes import Shape
from matmul.report.sourced_numbers import Number


def asked(variant: Variant | None, shape: Shape) -> Number | None:
    """Bytes per element of C, before caching: the reads of the threads, of the warps if these share
    operands, or of the blocks if they stage them in shared memory, and C written once. Edges and
    the tiles on the diagonal count like other tiles. None if the catalogue does not say how a block
    reads."""
    if variant is None or variant.layout is None:
        return None
    size = DTYPES[variant.kernel.dtype].bytes
    return reads(variant, variant.layout).times(shape.terms * size) + Number(size, str(size))


def reads(variant: Variant, layout: Layout) -> Number:
    """Elements read for one term of one element of C."""
    rows, columns = variant.tile if layout.slab else layout.warp or layout.thread
    own = Number(1 / rows + 1 / columns, f"1 / {rows} + 1 / {columns}")
    return own.times(0.5) if variant.kernel.half else own


def least(shape: Shape, dtype: str) -> Number:
    """Bytes per element of C for a product that moves each matrix once."""
    elements, size = shape.elements, DTYPES[dtype].bytes
    own = Number(sum(elements) / elements[-1], f"{sum(elements)} / {elements[-1]}")
    return own.times(size)


def intensity(asked: Number, shape: Shape) -> Number:
    """Operations per byte."""
    elements = shape.elements[-1]
    return Number(shape.operations / elements, f"{shape.operations} / {elements}") / asked
