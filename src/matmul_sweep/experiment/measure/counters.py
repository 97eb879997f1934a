"""Hardware counters of launches by NVIDIA's ncu: which are asked for, and what it printed of them.

A process that ncu watches launches MARKER before each product, so that the launches of a product,
of which a library may make several, are those up to the next MARKER.
"""

import csv
import itertools
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda.pathfinder import find_nvidia_binary_utility

from matmul_sweep.process.errors import one_line

MARKER = "empty"  # a kernel of the instruments
STALLS = (
    "barrier", "lg_throttle", "long_scoreboard", "math_pipe_throttle", "mio_throttle",
    "not_selected", "no_instruction", "short_scoreboard", "wait",
)  # fmt: skip
ACTIVE = "avg.pct_of_peak_sustained_active"
ELAPSED = "avg.pct_of_peak_sustained_elapsed"
DURATION = "duration_ns"
# Columns of counters.csv whose values add up over the launches of a product, by their metrics.
SUMS = {
    DURATION: "gpu__time_duration.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1_bytes": "l1tex__t_bytes.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "dram_bytes": "dram__bytes.sum",
}
# Those whose values are a mean over the time of the launches.
MEANS = {
    "fma_percent": f"sm__pipe_fma_cycles_active.{ACTIVE}",
    "fp64_percent": f"sm__pipe_fp64_cycles_active.{ACTIVE}",
    "tensor_percent": f"sm__pipe_tensor_cycles_active.{ACTIVE}",
    "load_store_percent": f"sm__inst_executed_pipe_lsu.{ACTIVE}",
    "memory_percent": f"gpu__compute_memory_throughput.{ELAPSED}",
    "dram_percent": f"dram__throughput.{ELAPSED}",
    "issue_percent": f"smsp__issue_active.{ACTIVE}",
    "occupancy_percent": f"sm__warps_active.{ACTIVE}",
    **{
        f"stall_{name}": f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"
        for name in STALLS
    },
}
METRICS = SUMS | MEANS


@dataclass(frozen=True)
class Launch:
    """A kernel's name, and the value of each metric that the card has."""

    kernel: str
    values: dict[str, float]


def ncu() -> str | None:
    """Path of ncu, or None."""
    return find_nvidia_binary_utility("ncu") or shutil.which("ncu")


def command(program: str, log: Path, watched: Sequence[str]) -> list[str]:
    """The command line that writes the counters of what `watched` profiles into `log`. Clocks stay
    as they are."""
    return [
        program, "--csv", "--print-units", "base", "--clock-control", "none",
        "--profile-from-start", "off", "--metrics", ",".join(METRICS.values()),
        "--log-file", str(log), *watched,
    ]  # fmt: skip


def parsed(text: str) -> list[Launch]:
    """The launches in ncu's CSV, in order: a row per launch and metric, among lines of its own that
    begin with ==."""
    found: dict[str, Launch] = {}
    for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
        launch = found.setdefault(row["ID"], Launch(row["Kernel Name"].split("(")[0], {}))
        value = row["Metric Value"].replace(",", "")
        if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", value):  # else n/a, or (!) n/a
            launch.values[row["Metric Name"]] = float(value)
    return list(found.values())


def products(launches: Sequence[Launch]) -> Iterator[list[Launch]]:
    """The launches of each product: those after a MARKER, up to the next one."""
    starts = [i for i, launch in enumerate(launches) if launch.kernel == MARKER]
    for start, end in itertools.pairwise([*starts, len(launches)]):
        yield list(launches[start + 1 : end])


def combined(launches: Sequence[Launch]) -> dict[str, float]:
    """The columns of a product from its launches; a counter that one of them lacks is left out."""
    row = {}
    times = [launch.values.get(SUMS[DURATION], 0.0) for launch in launches]
    for column, metric in METRICS.items():
        values = [launch.values[metric] for launch in launches if metric in launch.values]
        if not values or len(values) < len(launches):
            continue
        weights = [time / sum(times) for time in times] if column in MEANS else [1.0] * len(values)
        row[column] = sum(value * weight for value, weight in zip(values, weights, strict=True))
    return row


def refusal(text: str) -> str:
    """Why ncu measured nothing, in its words: its first error, such as ERR_NVGPUCTRPERM where the
    counters are for administrators only."""
    errors = re.findall(r"==ERROR==\s*(.+)", text) or text.strip().splitlines()[-1:]
    return f"ncu: {one_line(errors[0])}" if errors else "ncu printed nothing"
