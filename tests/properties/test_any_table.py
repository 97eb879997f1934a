"""Any data set is read back as it was written: each bit, all text, and missing values."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matmul_sweep.experiment.dataset.tables import (
    COLUMNS,
    DICTIONARY,
    NUMBER,
    TEXT,
    read_table,
    write_rows,
    write_table,
)
from matmul_sweep.operations.shapes import LARGEST

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "NA", "nan", "null", "007", "1e5", "inf", "a,b", 'say "x"', '"', "two\nlines", "end\r\n",
     "\r", " ", "#", "naive/32", "×·²"]
)  # fmt: skip
NUMBERS = st.floats(allow_nan=False) | st.sampled_from([5e-324, 1.7976931348623157e308, -0.0, 0.1])
EXTENTS = st.integers(1, LARGEST)


def column_values(name: str) -> st.SearchStrategy[Any]:
    kind = DICTIONARY[name].kind
    if kind == TEXT:
        return WORDS
    cells = NUMBERS if kind == NUMBER else EXTENTS
    return cells if name in ("m", "n", "sample") else st.none() | cells


ROWS = {
    kind: st.lists(
        st.fixed_dictionaries({name: column_values(name) for name in columns}),
        min_size=1, max_size=3,
    )
    for kind, columns in COLUMNS.items()
}  # fmt: skip
ANY_ROWS = st.sampled_from([*COLUMNS]).flatmap(lambda kind: st.tuples(st.just(kind), ROWS[kind]))


def exact(value: Any) -> Any:
    """A cell so that equal means equal to the last bit and the sign of zero, or missing alike; a
    reader gets a space for a carriage return, and perhaps a whole number as a float."""
    if value is None or value is pd.NA or value != value:
        return None
    return value.replace("\r", " ") if isinstance(value, str) else repr(float(value))


def cells(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: exact(value) for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("write", [write_table, write_rows])
@given(written=ANY_ROWS)
def test_a_table_is_read_back_as_it_was_written(tmp_path_factory, write, written):
    """By a job, and by what reads tables."""
    (kind, rows), folder = written, tmp_path_factory.getbasetemp()
    write(pd.DataFrame(rows) if write is write_table else rows, kind, folder / kind)
    assert cells(read_table(kind, folder / kind).to_dict("records")) == cells(rows)
