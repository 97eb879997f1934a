"""What holds a kernel back: by its hardware counters, and by the machine code of its hot loop."""

from typing import Any

from matmul_sweep.experiment.dataset.selection import Results, at, row_of, size_name
from matmul_sweep.experiment.report.numbers import known
from matmul_sweep.operations import shape_of

# The columns of the machine code's table that are added up.
GROUPS = {
    "multiply": ["ffma", "dfma", "tensor"],
    "global": ["global_loads_32", "global_loads_64", "global_loads_128"],
    "shared": ["shared_loads_32", "shared_loads_64", "shared_loads_128"],
}
# Percentages of peaks, of which the largest counts.
UNITS = {
    "multiply": ["fma_percent", "fp64_percent", "tensor_percent"],
    "load_store": ["load_store_percent"],
    "memory": ["memory_percent"],
    "issue": ["issue_percent"],
}
BUSY = 0.8  # from this share on a unit limits a kernel, as NVIDIA's Nsight Compute has it
READY = "stall_not_selected"  # another warp went first, so nothing was waited for


def hot_loop(results: Results, variant: str | None) -> dict[str, Any] | None:
    """The loop of a variant: its instructions, those that multiply, their share, and those that
    load; None if none is on record."""
    row = row_of(results.instructions, variant)
    if row is None:
        return None
    multiply, *loads = (int(row[columns].sum()) for columns in GROUPS.values())
    return {
        "whole": int(row.loop_instructions),
        "multiply": multiply,
        "share": multiply / row.loop_instructions,
        "loads": sum(loads),
        "excerpt": row.excerpt.split("; "),
    }


def counted(results: Results, variant: str) -> dict[str, Any] | None:
    """The counters of a variant at its largest size, with its rate there: shares of peaks, the
    units that limit it, and what warps wait for most; None if none are on record. A counter that
    the card lacks is None."""
    rows = results.counters
    rows = rows[(rows.variant == variant) & (rows.status == "ok")]
    if rows.empty:
        return None
    row = rows.loc[rows.n.idxmax()]
    timed = at(results.leads[results.leads.variant == variant], shape_of(row))
    shares = {unit: known(row[columns].max() / 100) for unit, columns in UNITS.items()}
    recorded = {unit: share for unit, share in shares.items() if share is not None}
    order = sorted(recorded, key=lambda unit: -recorded[unit])
    waits = row.filter(like="stall_").drop(READY).astype(float).dropna()
    return shares | {
        "size": size_name(shape_of(row)),
        "tflops": known(timed.tflops.max()),
        "busy": [unit for unit in order if recorded[unit] >= BUSY],
        "busiest": next(iter(order), None),
        "wait": str(waits.idxmax()).removeprefix("stall_") if len(waits) else None,
        "warps": known(waits.max()),
    }
