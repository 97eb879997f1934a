"""Checks of the timing: another program's times beside ours, and what our timer reads for an empty
kernel and with its recorder running."""

from pathlib import Path
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import Results, at, limits_of
from matmul_sweep.experiment.dataset.sourced_numbers import cell
from matmul_sweep.experiment.dataset.tables import CHECKS
from matmul_sweep.operations import shape_of
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json

CROSS, TIMER = CHECKS
EMPTY = "empty kernel"  # in timer_check.csv's column `variant`
JOB = ["variant", "sweep"]  # of a measuring job
SAME = [*JOB, "fill", "mode"]  # of a point, besides its shape and cache


def check_card(data: Path, gpu: str) -> None:
    """Raise UserError if the data set in `data` is of another GPU model than `gpu`."""
    measured = read_json(data / "device.json")["gpu"]
    if measured != gpu:
        raise UserError(f"{data} was measured on {measured or 'no GPU'}, but here is {gpu}")


def cross_check(results: Results) -> dict[str, Any]:
    """Rows of cuBLAS's points with our time, do_bench's, and by how much ours is longer.

    There are no rows if the check was not made, or at no point in the data set.
    """
    check = results.cross_check
    found = [cross_row(results, row) for _, row in check.iterrows()]
    rows = [row for row in found if row]
    if not rows:
        return {"rows": []}
    first = check.iloc[0]
    return {
        "rows": rows,
        "rounds": cell(first, "rounds", CROSS).whole(),
        "own_cublas": results.device.get("cublas"),
        "programs": {name: first[name] for name in ("triton", "torch", "cublas")},
    }


def cross_row(results: Results, row: pd.Series) -> dict[str, Any] | None:
    """One point of cross_check.csv beside the data set's time of it, None if it has none; and
    whether both are of one card, not of two of a model."""
    points = at(results.timed(cache=row.cache), shape_of(row))
    own = points[(points[SAME] == row[SAME]).all(axis=1)]
    if own.empty:
        return None
    ours, theirs = cell(own.iloc[0], "time_ms"), cell(row, "do_bench_ms", CROSS)
    job = results.jobs[(results.jobs[JOB] == row[JOB]).all(axis=1)]
    return {
        "title": results.title(own.iloc[0].kernel),
        "n": int(row.n),
        "cache": row.cache,
        "ours": ours.json(4),
        "do_bench": theirs.json(4),
        "spread": [cell(row, f"do_bench_{end}_ms", CROSS).json(4) for end in ("low", "high")],
        "difference": ((ours - theirs) / theirs).json(),
        "limits": limits_of(own.iloc[0].throttled),
        "same_card": row.uuid in set(job.uuid),
    }


def timer_check(results: Results) -> dict[str, Any]:
    """The reading for the empty kernel in µs, and the times for each size in ms without and with
    the recorder; and whether the card is one of the data set's.

    There are no rows and no reading if the check was not made.
    """
    check = results.timer_check
    empty = check[check.variant == EMPTY]
    timed = check[check.variant != EMPTY]
    return {
        "empty": empty_reading(empty.iloc[0]) if len(empty) else None,
        "rows": [recorder_row(results, rows) for _, rows in timed.groupby("n")],
        "same_card": set(check.uuid) <= results.cards,
    }


def empty_reading(row: pd.Series) -> dict[str, Any]:
    """The empty kernel's median, its interval, and its number of launches."""
    columns = ("time_ms", "time_low_ms", "time_high_ms")
    median, *interval = (cell(row, column, TIMER).times(1e3).json() for column in columns)
    launches = cell(row, "samples", TIMER).whole()
    return {"launches": launches, "time_us": median, "interval": interval}


def recorder_row(results: Results, rows: pd.DataFrame) -> dict[str, Any]:
    """One size's two rows."""
    off, on = (rows[rows.recorder == which].iloc[0] for which in ("off", "on"))
    return {
        "title": results.title(on.variant),
        "n": int(on.n),
        "blocks": cell(on, "samples", TIMER).whole(),
        "readings": cell(on, "readings", TIMER).whole(),
        "off": cell(off, "time_ms", TIMER).json(4),
        "on": cell(on, "time_ms", TIMER).json(4),
        "ratio": cell(on, "ratio", TIMER).json(4),
        "interval": [cell(on, f"ratio_{end}", TIMER).json(4) for end in ("low", "high")],
    }
