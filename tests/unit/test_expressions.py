"""Whole-number expressions of compile-time parameters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.process.errors import UserError

PARAMETERS = {"TILE_WIDTH": 32, "R": 3}
OPERATORS = st.sampled_from(["+", "-", "*", "//"])
# In brackets, or by precedence.
EXPRESSIONS = st.recursive(
    st.sampled_from(["TILE_WIDTH", "R", "1", "7", "16"]),
    lambda inner: (
        st.builds("{1} {0} {2}".format, OPERATORS, inner, inner)
        | st.builds("({1} {0} {2})".format, OPERATORS, inner, inner)
    ),
)


@given(EXPRESSIONS)
def test_value_is_what_python_computes(expression):
    try:
        expected = eval(expression, {}, PARAMETERS)
    except ZeroDivisionError:
        with pytest.raises(UserError, match="expression"):
            evaluate(expression, PARAMETERS)
    else:
        assert evaluate(expression, PARAMETERS) == evaluate(expected, {}) == expected


@pytest.mark.parametrize(
    "expression",
    ["TILE", "TILE_WIDTH ** 2", "TILE_WIDTH / 2", "-R", "1.5", "print(1)", "R //", "(R", ""],
)
def test_anything_else_is_refused_by_name(expression):
    with pytest.raises(UserError) as caught:
        evaluate(expression, PARAMETERS)
    assert f"'{expression}'" in str(caught.value)
    assert "\n" not in str(caught.value)
