"""What holds a kernel back: by its hardware counters, and by the machine code of its hot loop."""

from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import Results, size_name
from matmul_sweep.experiment.report.facts.machine_code import GROUPS
from matmul_sweep.experiment.report.numbers import known
from matmul_sweep.operations import shape_of

# Percentages of peaks, of which the largest counts.
UNITS = {
    "multiply": ["fma_percent", "fp64_percent", "tensor_percent"],
    "load_store": ["load_store_percent"],
    "memory": ["memory_percent"],
    "issue": ["issue_percent"],
}
BUSY = 80  # percent from which on a unit limits a kernel, as NVIDIA's Nsight Compute has it
READY = "stall_not_selected"  # another warp went first, so nothing was waited for


def hot_loop(results: Results, variant: str | None) -> dict[str, Any] | None:
    """The loop of a variant: its instructions, those that multiply, their share, and those that
    load; None if none is on record."""
    rows = results.instructions
    rows = rows[(rows.variant == variant) & (rows.status == "ok")]
    if rows.empty:
        return None
    row = rows.iloc[0]
    whole = int(row.loop_instructions)
    multiply = sum(int(row[column]) for column in GROUPS["multiply"])
    loads = sum(int(row[c]) for name in ("global", "shared") for c in GROUPS[name])
    return {
        "whole": whole,
        "multiply": multiply,
        "share": multiply / whole,
        "loads": loads,
        "excerpt": row.excerpt.split("; "),
    }


def counted(results: Results, variant: str) -> list[dict[str, Any]]:
    """The counters of a variant at each size, the smallest first; empty if none are on record."""
    rows = results.counters
    rows = rows[(rows.variant == variant) & (rows.status == "ok")].sort_values("n")
    return [at_size(row) for _, row in rows.iterrows()]


def at_size(row: pd.Series) -> dict[str, Any]:
    """One product: shares of peaks, the units that limit it, and what warps wait for most. A
    counter that the card lacks is None."""
    shares = {name: highest(row, columns) for name, columns in UNITS.items()}
    shown = {name: share for name, share in shares.items() if share is not None}
    order = sorted(shown, key=lambda name: -shown[name])
    waits = [name for name in row.index if name.startswith("stall_") and name != READY]
    longest = highest(row, waits)
    return {
        "size": size_name(shape_of(row)),
        "busy": [name for name in order if shown[name] >= BUSY],
        "busiest": order[0] if order else None,
        "wait": longest and row[waits].astype(float).idxmax().removeprefix("stall_"),
        "warps": longest,
    } | {name: share and share / 100 for name, share in shares.items()}


def highest(row: pd.Series, columns: list[str]) -> float | None:
    """The largest of some counters; None if all of them are unknown."""
    return known(row[columns].astype(float).max())
