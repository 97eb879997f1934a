"""Random shapes: reproducible, within their bounds, and of the kinds that their positions say."""

import pytest

from matmul_sweep.operations import operation_of, parse_shape
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.random_shapes import random_shapes

LOW, HIGH = Gemm(64, 100, 32), Gemm(4096, 2000, 12000)


def test_a_seed_gives_these_shapes_on_every_machine():
    ends = Gemm(64, 64, 64), Gemm(4096, 4096, 4096)
    shapes = random_shapes(Gemm, 5, 22001, *ends)
    expected = ["98x98x98", "3416x2392x264", "568x88x2000", "92x2238x4081", "296x296x296"]
    assert [*map(str, shapes)] == expected
    assert random_shapes(Gemm, 5, 1, *ends) != shapes
    assert random_shapes(Gemm, 90, 22001, *ends)[:5] == shapes


def test_shapes_are_distinct_within_their_bounds_and_of_their_kinds():
    shapes = random_shapes(Gemm, 240, 7, LOW, HIGH, operations=1e9)
    assert len(set(shapes)) == 240
    for position, shape in enumerate(shapes):
        bounds = zip(LOW.dimensions, shape.dimensions, HIGH.dimensions, strict=True)
        assert all(low <= side <= high for low, side, high in bounds)
        assert shape.operations <= 1e9
        if position % 4 == 0:
            assert shape.square
        if position % 3:
            assert all(side % 8 == 0 for side in shape.dimensions)
    assert sum(any(side % 8 for side in shape.dimensions) for shape in shapes) > 70
    # Log-uniform: half of the depths lie below the geometric mean of their bounds.
    depths = [shape.k for shape in random_shapes(Gemm, 240, 7, LOW, HIGH) if not shape.square]
    assert 0.4 < sum(depth < (32 * 12000) ** 0.5 for depth in depths) / len(depths) < 0.6


CLASSES = {
    "gemm": {640: "square", "100x200x800": "deep", "100x200x799": "compact",
             "400x800x100": "shallow", "100x400x100": "flat", "400x100x400": "narrow"},
    "gemm_bf16": {"400x100x400": "narrow"},
    "gram": {500: "square", "400x100": "tall", "100x400": "wide", "100x399": "compact"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "text", "word"),
    [(name, *case) for name, cases in CLASSES.items() for case in cases.items()],
)
def test_the_dimension_that_stands_out_names_the_class(operation, text, word):
    shape = parse_shape(text, operation)
    assert operation_of(shape).class_of(shape) == word
