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
from matmul_sweep.experiment.dataset.tables import read_optional, read_table
from matmul_sweep.experiment.dataset.words import THERMAL
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import read_json, write_text

FAILED = "failed"  # the first word of such a verdict


def failures(data: Path, summary: pd.DataFrame) -> list[str]:
    """A line per failed variant or ceiling of a data set: its first reason, and how many more there
    are. Failures to compile come before wrong results, and those before later failures.
    """
    kernels = read_table("kernels.csv", data / "kernels.csv")
    ceilings = read_optional("ceilings.csv", data / "ceilings.csv")
    tables = (
        kernels[kernels.status != "ok"],
        read_table("verification.csv", data / "verification.csv").query("status == 'failed'"),
        summary[summary.status == "failed"],
        ceilings.assign(variant="ceiling " + ceilings.name).query("status == 'failed'"),
    )
    reasons: dict[str, list[str]] = {}
    for row in pd.concat([table[["variant", "reason"]] for table in tables]).itertuples():
        reasons.setdefault(row.variant, []).append(row.reason)
    return [
        f"{name}: {first}" + (f" (and {len(rest)} more)" if rest else "")
        for name, (first, *rest) in reasons.items()
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


def card(device: Mapping[str, Any], points: pd.DataFrame) -> str | None:
    """The state of the card during these points, in one line; None without a GPU."""
    if not device["gpu"]:
        return None
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

    summary = read_table("summary.csv", options.data / "summary.csv")
    lines: list[str | None]
    if failed := failures(options.data, summary):
        lines = [f"{FAILED}: {len(failed)}, listed in {options.report}", *failed]
    else:
        device = read_json(options.data / "device.json")
        points = summary.query("phase == 'kernel'")
        lines = [f"{outcome(device, points)}: {options.report}", card(device, points)]
    write_text("".join(f"{line}\n" for line in lines if line), options.output)


if __name__ == "__main__":
    main()
