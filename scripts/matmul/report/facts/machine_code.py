"""What the hot loops of the kernels are made of."""

from typing import Any

import pandas as pd

from matmul.report.selection import Results
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


def machine_code(results: Results) -> dict[str, Any]:
    """The loops in the order of the catalogue, in counts of instructions; an excerpt of the loop of
    each operation that multiplies with the largest share of them; and why other variants have
    none."""
    table = results.instructions.sort_values(
        "kernel", key=lambda names: names.map(results.position), kind="stable"
    )
    known = table[table.status == "ok"]
    shares = known[GROUPS["multiply"]].sum(axis=1) / known.loop_instructions
    operations = known.kernel.map(lambda name: results.catalogue[name].operation)
    densest = known.loc[shares.groupby(operations, sort=False).idxmax()]
    others = table[table.status != "ok"]
    return {
        "rows": [loop(row) for _, row in known.iterrows()],
        "excerpts": [
            {"variant": row.variant, "lines": row.excerpt.split("; ")}
            for row in densest.itertuples()
        ],
        "reasons": {
            reason: list(rows.variant) for reason, rows in others.groupby("reason", sort=False)
        },
    }


def loop(row: pd.Series) -> dict[str, Any]:
    """One loop: its instructions, how many there are of each group, the share that multiplies."""
    whole = cell(row, "loop_instructions", TABLE)
    groups = {name: total(cell(row, c, TABLE) for c in columns) for name, columns in GROUPS.items()}
    share: Number = groups["multiply"] / whole
    counts = {name: number.whole() for name, number in groups.items()}
    return {"variant": row.variant, "whole": whole.whole(), "share": share.json()} | counts
