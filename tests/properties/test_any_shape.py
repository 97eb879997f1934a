"""Any text for a shape is read as what it says, or refused in one line; its grid covers C."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matmul_sweep.operations import OPERATIONS, parse_shape
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import LARGEST, Shape, grid_of
from matmul_sweep.process.errors import UserError, one_line

EXTENTS = st.integers(1, LARGEST)
SHAPES = st.builds(Gemm, EXTENTS, EXTENTS, EXTENTS) | st.builds(Gram, EXTENTS, EXTENTS)
SMALL = st.integers(1, 12)
SMALL_SHAPES = st.builds(Gemm, SMALL, SMALL, SMALL) | st.builds(Gram, SMALL, SMALL)
# Near misses: numbers of any length, signs, blanks, other alphabets' digits.
PARTS = EXTENTS.map(str) | st.text("0123456789-+ .e²٣\n", max_size=11)
TEXTS = st.lists(PARTS, min_size=1, max_size=4).flatmap(
    lambda parts: st.sampled_from("x××X*").map(lambda sign: sign.join(parts))
)


@settings(max_examples=1000)
@given(SHAPES, st.sampled_from("x×"))
def test_a_printed_shape_is_read_as_itself(shape: Shape, sign: str) -> None:
    assert parse_shape(str(shape).replace("x", sign), shape.operation) == shape


def read(text: str, count: int) -> list[int] | None:
    """The numbers that a text gives for so many dimensions, by the rule in words."""
    parts = text.replace("×", "x").split("x")
    if not all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts):
        return None
    numbers = [int(part) for part in parts] * (count if len(parts) == 1 else 1)
    right = len(numbers) == count and all(1 <= number <= LARGEST for number in numbers)
    return numbers if right else None


@settings(max_examples=1000)
@given(TEXTS | st.text(max_size=8), st.sampled_from([*OPERATIONS]))
def test_other_text_is_refused_in_one_line_that_names_it(text: str, operation: str) -> None:
    kind = OPERATIONS[operation].shape
    expected = read(text, len(kind.__match_args__))
    if expected:
        assert parse_shape(text, operation) == kind(*expected)
        if len({*expected}) == 1:  # one number is every dimension
            assert parse_shape(expected[0], operation) == kind(*expected)
        return
    with pytest.raises(UserError) as caught:
        parse_shape(text, operation)
    assert one_line(repr(text)) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@settings(max_examples=600)
@given(SMALL_SHAPES)
def test_a_shape_describes_its_product(shape: Shape) -> None:
    inputs = [np.ones(extents) for extents in shape.inputs]
    a, b = inputs if len(inputs) == 2 else (inputs[0].T, inputs[0])
    c = a @ b
    assert shape.output == c.shape
    assert (c == shape.terms).all()
    assert shape.elements == (*(x.size for x in inputs), c.size)
    computed = c if shape.operation == "gemm" else np.triu(c)
    assert shape.operations == 2 * computed.sum()


@settings(max_examples=1500)
@given(SHAPES, st.tuples(st.integers(1, 200), st.integers(1, 200)))
def test_the_grid_reaches_the_end_of_c_and_has_no_idle_block(
    shape: Shape, tile: tuple[int, int]
) -> None:
    x, y, z = grid_of(shape, tile)
    for extent, step, blocks in zip(shape.output, tile, (y, x), strict=True):
        assert (blocks - 1) * step < extent <= blocks * step
    assert z == 1
