"""Whole-number expressions of compile-time parameters."""

import re

import pytest

from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.process.errors import UserError


@pytest.mark.parametrize(
    "expression",
    ["TILE", "TILE_WIDTH ** 2", "TILE_WIDTH / 2", "-R", "1.5", "f(1)", "R //", "(R", "R // 0", ""],
)
def test_anything_else_is_refused_by_name(expression):
    with pytest.raises(UserError, match=re.escape(f"'{expression}'")):
        evaluate(expression, {"TILE_WIDTH": 32, "R": 3})
