"""Whole-number expressions of compile-time parameters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.process.errors import UserError

PARAMETERS = {"TILE_WIDTH": 32, "R": 3}
ATOMS = st.sampled_from(["TILE_WIDTH", "R", "1", "7", "16"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "//"]), inner).map(
        lambda parts: "({} {} {})".format(*parts)
    ),
)


@given(EXPRESSIONS)
def test_value_is_what_python_computes(expression: str) -> None:
    try:
        expected = eval(expression, {}, PARAMETERS)
    except ZeroDivisionError:
        with pytest.raises(UserError, match="expression"):
            evaluate(expression, PARAMETERS)
    else:
        assert evaluate(expression, PARAMETERS) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [(7, 7), ("2 + 3 * 4", 14), ("TILE_WIDTH - 1 - 1", 30), ("7 // 2 * 2", 6)],
)
def test_precedence(expression: int | str, expected: int) -> None:
    assert evaluate(expression, PARAMETERS) == expected


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("TILE", "'TILE'"),
        ("TILE_WIDTH ** 2", "TILE_WIDTH ** 2"),
        ("TILE_WIDTH / 2", "TILE_WIDTH / 2"),
        ("-R", "-R"),
        ("1.5", "1.5"),
        ("print(1)", "print(1)"),
        ("R //", "R //"),
        ("(R", "(R"),
        ("", "''"),
        ("R // (R - 3)", "R // (R - 3)"),
    ],
)
def test_anything_else_is_refused_by_name(expression: str, named: str) -> None:
    with pytest.raises(UserError) as caught:
        evaluate(expression, PARAMETERS)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
