"""Any text for a shape is read as what it says, or refused in one line; its grid covers C."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from matmul_sweep.operations import OPERATIONS, parse_shape
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import LARGEST, grid_of
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


@given(SHAPES, st.sampled_from("x×"))
def test_a_printed_shape_is_read_as_itself(shape, sign):
    assert parse_shape(str(shape).replace("x", sign), shape.operation) == shape


@given(TEXTS | st.text(max_size=8), st.sampled_from([*OPERATIONS]))
def test_text_is_read_as_what_it_says_or_refused_in_one_line_that_names_it(text, operation):
    try:
        found = parse_shape(text, operation)
    except UserError as error:
        assert one_line(repr(text)) in str(error)
        assert len(str(error).splitlines()) == 1
        return
    assert re.fullmatch("[0-9x×]+", text)
    numbers = [int(part) for part in re.split("[x×]", text)]
    assert found.dimensions == tuple(numbers) or (found.square and numbers == [found.m])
    assert all(1 <= extent <= LARGEST for extent in numbers)


@given(SMALL_SHAPES)
def test_a_shape_describes_its_product(shape):
    inputs = [np.ones(extents) for extents in shape.inputs]
    a, b = inputs if len(inputs) == 2 else (inputs[0].T, inputs[0])
    c = a @ b
    assert shape.output == c.shape
    assert (c == shape.terms).all()
    assert shape.elements == (*(x.size for x in inputs), c.size)
    computed = c if shape.operation == "gemm" else np.triu(c)
    assert shape.operations == 2 * computed.sum()


@given(SHAPES, st.tuples(st.integers(1, 200), st.integers(1, 200)))
def test_the_grid_reaches_the_end_of_c_and_has_no_idle_block(shape, tile):
    x, y, z = grid_of(shape, tile)
    for extent, step, blocks in zip(shape.output, tile, (y, x), strict=True):
        assert (blocks - 1) * step < extent <= blocks * step
    assert z == 1
