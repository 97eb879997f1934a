"""A number of a report knows its cell."""

import pandas as pd
import pytest

from matmul_sweep.experiment.dataset.sourced_numbers import Number, cell, cell_if_any
from matmul_sweep.process.errors import UserError

ROW = pd.Series({"time_ms": 1.5, "power_w": None}, name=7)


def test_a_number_names_its_line_and_its_column() -> None:
    assert cell(ROW, "time_ms") == Number(1.5, "summary.csv:9:time_ms")


def test_an_empty_cell_is_none_where_there_need_be_no_number_and_else_refused_by_name() -> None:
    assert cell_if_any(ROW, "power_w", "states.csv") is None
    with pytest.raises(UserError, match=r"states\.csv, line 9: no power_w"):
        cell(ROW, "power_w", "states.csv")
