"""The studies of one large product: what the inputs hold, and seconds of load."""

from typing import Any

from matmul_sweep.experiment.dataset.selection import AXES, Results, limits_of, size_name
from matmul_sweep.experiment.report.numbers import known
from matmul_sweep.operations import shape_of

STATES = ("power_w", "sm_clock_mhz", "mean_error")


def studies(results: Results) -> dict[str, list[dict[str, Any]]]:
    """For each axis that a sweep varies, fill or mode, a row for each kernel and value: its rate in
    TFLOP/s, the card's power and clock, and the mean error, each None if it is not known.
    Empty if nothing was timed at two values of the axis."""
    return {
        axis: [
            {
                "kernel": results.title(row.kernel),
                "own": results.hand_written(row.kernel),
                "value": getattr(row, axis),
                "size": size_name(shape_of(row)),
                "rate": row.tflops,
                "limits": limits_of(row.throttled),
            }
            | {name: known(getattr(row, name)) for name in STATES}
            for row in results.study_points(axis).itertuples()
        ]
        for axis in AXES
    }


def exact_inputs(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What cuBLAS errs on the documents' own inputs (`index`), as a multiple of what it errs on
    random ones, and what the fastest kernel errs there. None if they were not both timed."""
    errors = {(row["own"], row["value"]): row for row in sorted(rows, key=lambda row: row["rate"])}
    keys = (False, "index"), (False, "uniform"), (True, "index")
    theirs, usual, own = map(errors.get, keys)
    if not (theirs and usual and own and theirs["mean_error"] and usual["mean_error"]):
        return None
    return {
        "library": theirs["kernel"],
        "size": theirs["size"],
        "error": theirs["mean_error"],
        "times": theirs["mean_error"] / usual["mean_error"],
        "kernel": own["kernel"],
        "own": own["mean_error"],
    }
