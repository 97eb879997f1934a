"""What the hot loops of the kernels are made of."""

from typing import Any

import pandas as pd

from matmul.report.sourced_numbers import Number, cell, total

TABLE = "instructions.csv"
# The columns that the report adds up, by what it calls them.
GROUPS = {
    "multiply": ["ffma", "dfma", "tensor"],
    "global": ["global_loads_32", "global_loads_64", "global_loads_128"],
    "shared": ["shared_loads_32", "shared_loads_64", "shared_loads_128"],
    "copies": ["copies"],
    "stores": ["stores", "local"],
    "barriers": ["barriers"],
    "integer": ["integer"],
    "rest": ["rest"],
}


def loop(row: pd.Series) -> dict[str, Any]:
    """One loop: its instructions, how many there are of each group, the share that multiplies."""
    whole = cell(row, "loop_instructions", TABLE)
    groups = {name: total(cell(row, c, TABLE) for c in columns) for name, columns in GROUPS.items()}
    share: Number = groups["multiply"] / whole
    counts = {name: number.whole() for name, number in groups.items()}
    return {"variant": row.variant, "whole": whole.whole(), "share": share.json()} | counts
