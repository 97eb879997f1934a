"""The table of faults in docs/reliability.md is what these tests would write."""

import re

import pytest
import reliability


def test_the_table_has_every_fault_and_its_tries(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--write-faults"):
        pytest.skip("it is being written")
    assert reliability.written() == reliability.declared(), (
        "stale: write it anew with `uv run pytest tests/faults -m '' --write-faults`"
    )


def test_a_row_is_one_fault() -> None:
    rows = reliability.ROW.findall(reliability.table({"a fault": ["fine", "fine", "odd"]}))
    assert rows == [("a fault", "3")]
    assert re.search(r"2 × fine; 1 × odd", reliability.table({"a": ["fine", "fine", "odd"]}))
