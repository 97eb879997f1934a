"""Write the verdict of a run. If all went well, it is one line and a line about the card's state;
otherwise `failed` and a line per variant.

It is written before the report and does not depend on it. The workflow prints it last, and fails if
its first word is `failed`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import (
    points_of,
    power_capped,
    state_absence,
    thermally_throttled,
)
from matmul_sweep.experiment.dataset.tables import read_folder
from matmul_sweep.experiment.dataset.words import THERMAL
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_text

FAILED = "failed"  # the first word of such a verdict
# In the order in which something fails; without a GPU there are no ceilings.
JUDGED = ["kernels.csv", "verification.csv", "summary.csv", "ceilings.csv"]


def failures(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """A line per failed variant or ceiling of a data set: its first reason, and how many more there
    are. Failures to compile come before wrong results, and those before later failures.
    """
    ceilings = tables["ceilings.csv"]
    named = {**tables, "ceilings.csv": ceilings.assign(variant="ceiling " + ceilings.name)}
    failed = [named[kind].query("status == 'failed'")[["variant", "reason"]] for kind in JUDGED]
    return [
        f"{name}: {own.iloc[0]}" + (f" (and {len(own) - 1} more)" if len(own) > 1 else "")
        for name, own in pd.concat(failed).groupby("variant", sort=False).reason
    ]


def outcome(device: Mapping[str, Any], points: pd.DataFrame) -> str:
    """What was measured and where, in one line. points: the kernel rows of the summary."""
    shapes = points_of(points).status.value_counts()
    where = device["gpu"] or "no GPU here: CPU variants measured, kernels verified on the CPU"
    thermal = thermally_throttled(points.throttled).any()
    state = "; the card throttled thermally, so do not quote its times" if thermal else ""
    return (
        f"{shapes.get('ok', 0)} points measured, {shapes.get('skipped', 0)} skipped, "
        f"none failed ({where}){state}"
    )


def card(device: Mapping[str, Any], points: pd.DataFrame) -> str:
    """The state of the card during these points, in one line."""
    read = points[(points.status == "ok") & points.temperature_c.notna()]
    if read.empty:
        return f"card's state unknown: {state_absence(device)}"
    temperature, clock = read.temperature_c, read.sm_clock_mhz
    thermal = read[thermally_throttled(read.throttled)]
    reasons = sorted({r for text in thermal.throttled for r in text.split("+") if r in THERMAL})
    heat = f"thermal throttle in {len(thermal)} ({', '.join(reasons)})" if reasons else ""
    return (
        f"card: {temperature.min():.0f} to {temperature.max():.0f} °C, "
        f"SM clock {clock.median():.0f} MHz (lowest {clock.min():.0f}), "
        f"at its power cap in {power_capped(read.throttled).sum()} of {len(read)} series, "
        f"{heat or 'no thermal throttle'}"
    )


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data set")
    parser.add_argument("--report", type=Path, required=True, help="its path, for the text")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()

    device, tables = read_folder(options.data, JUDGED)
    if failed := failures(tables):
        lines = [f"{FAILED}: {len(failed)}, listed in {options.report}", *failed]
    else:
        points = tables["summary.csv"].query("phase == 'kernel'")
        lines = [f"{outcome(device, points)}: {options.report}"]
        lines += [card(device, points)] if device["gpu"] else []
    write_text("".join(f"{line}\n" for line in lines), options.output)


if __name__ == "__main__":
    main()
