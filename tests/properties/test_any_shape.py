"""Any text for a shape is read as what it says, or refused in one line."""

import re

from hypothesis import given
from hypothesis import strategies as st

from matmul_sweep.operations import OPERATIONS, parse_shape
from matmul_sweep.operations.shapes import LARGEST
from matmul_sweep.process.errors import UserError, one_line

EXTENTS = st.integers(1, LARGEST)
# Near misses: numbers of any length, signs, blanks, other alphabets' digits.
PARTS = EXTENTS.map(str) | st.text("0123456789-+ .e²٣\n", max_size=11)
TEXTS = st.lists(PARTS, min_size=1, max_size=4).flatmap(
    lambda parts: st.sampled_from("x××X*").map(lambda sign: sign.join(parts))
)


@given(TEXTS | st.text(max_size=8), st.sampled_from([*OPERATIONS]))
def test_text_is_read_as_what_it_says_or_refused_in_one_line_that_names_it(text, operation):
    try:
        found = parse_shape(text, operation)
    except UserError as error:
        assert one_line(repr(text)) in str(error)
        return
    assert re.fullmatch("[0-9x×]+", text)
    numbers = [int(part) for part in re.split("[x×]", text)]
    assert found.dimensions == tuple(numbers) or (found.square and numbers == [found.m])
    assert all(1 <= extent <= LARGEST for extent in numbers)
