"""Any data set is read back as it was written: each bit, all text, and missing values."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matmul_sweep.experiment.dataset.tables import (
    COLUMNS,
    TEXT,
    product_of,
    read_rows,
    read_table,
    write_rows,
    write_table,
)
from matmul_sweep.operations import shape_of
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import LARGEST, Shape
from matmul_sweep.process.files import read_json, write_json

WHOLE = ["m", "n", "sample"]
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "NA", "nan", "null", "007", "1e5", "inf", "a,b", 'say "x"', '"', "two\nlines", "end\r\n",
     "\r", " ", "#", "naive/32", "×·²"]
)  # fmt: skip
NUMBERS = st.floats(allow_nan=False) | st.sampled_from([5e-324, 1.7976931348623157e308, -0.0, 0.1])
EXTENTS = st.integers(1, LARGEST)


def column_values(name: str) -> st.SearchStrategy[Any]:
    if name in TEXT:
        return WORDS
    if name == "k":
        return st.none() | EXTENTS
    return EXTENTS if name in WHOLE else st.none() | NUMBERS


Rows = tuple[str, list[dict[str, Any]]]


def rows_of(kinds: list[str]) -> st.SearchStrategy[Rows]:
    """One of these kinds of table, and rows of it."""
    rows = {
        kind: st.lists(
            st.fixed_dictionaries({name: column_values(name) for name in COLUMNS[kind]}),
            min_size=1, max_size=3,
        )
        for kind in kinds
    }  # fmt: skip
    return st.sampled_from(kinds).flatmap(lambda kind: st.tuples(st.just(kind), rows[kind]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


def exact(value: Any) -> Any:
    """A cell so that equal means equal to the last bit and the sign of zero, or missing alike."""
    if value is None or value is pd.NA or value != value:
        return None
    return repr(value) if isinstance(value, float) else read(value)


def read(value: Any) -> Any:
    """What a reader gets from a cell: everything, but a space for a carriage return."""
    return value.replace("\r", " ") if isinstance(value, str) else value


def cells(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: exact(value) for name, value in row.items()} for row in rows]


@settings(max_examples=180)
@given(rows_of([*COLUMNS]))
def test_a_table_is_read_back_as_it_was_written(folder: Path, written: Rows) -> None:
    kind, rows = written
    table = pd.DataFrame(rows)
    if "k" in table:
        table["k"] = pd.array([row["k"] for row in rows], "Int64")
    write_table(table, kind, folder / kind)
    assert cells(read_table(kind, folder / kind).to_dict("records")) == cells(rows)


@settings(max_examples=180)
@given(rows_of([*COLUMNS]))
def test_rows_of_a_job_are_read_back_as_they_were_written(folder: Path, written: Rows) -> None:
    kind, rows = written
    write_rows(rows, kind, folder / kind)
    assert cells(read_table(kind, folder / kind).to_dict("records")) == cells(rows)


@settings(max_examples=300)
@given(rows_of([kind for kind in COLUMNS if not kind.endswith(".gz")]))
def test_rows_of_a_job_are_read_as_text_too(folder: Path, written: Rows) -> None:
    kind, rows = written
    write_rows(rows, kind, folder / kind)
    assert read_rows(kind, folder / kind) == [
        {name: "" if value is None else str(read(value)) for name, value in row.items()}
        for row in rows
    ]


@settings(max_examples=200)
@given(st.lists(st.builds(Gemm, *[EXTENTS] * 3) | st.builds(Gram, *[EXTENTS] * 2), min_size=1))
def test_a_shape_comes_back_from_a_table(folder: Path, shapes: list[Shape]) -> None:
    """Of both operations in one table, of which gram has no k."""
    rows = [product_of("float32", shape) for shape in shapes]
    path = folder / "verification.csv"
    write_rows(rows, path.name, path)
    assert [shape_of(row) for row in read_table(path.name, path).itertuples()] == shapes


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=400)
@given(JSON)
def test_json_is_read_back_as_it_was_written(folder: Path, content: Any) -> None:
    write_json(content, folder / "facts.json")
    assert repr(read_json(folder / "facts.json")) == repr(content)
