"""Hardware counters of products by NVIDIA's ncu: which are asked for, and what it printed of them.

ncu starts the program of the step a second time, which then launches the products. It launches
MARKER before each, so that the launches of a product, of which a library may make several, are
those up to the next MARKER.
"""

import csv
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from cuda.pathfinder import find_nvidia_binary_utility

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.tables import COUNTED, product_of
from matmul_sweep.experiment.verify.gpu import Gpu, opened
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.products import gpu_product
from matmul_sweep.launch.products import NotCompiled
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError, one_line
from matmul_sweep.process.files import read_json

SEED, SIZE = 2026, 4096
LARGEST_S = 170.0  # ncu's time for everything
MARKER = "empty"  # a kernel of the instruments
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
        name: f"smsp__average_warps_issue_{name.replace('stall', 'stalled')}_per_issue_active.ratio"
        for name, unit in COUNTED.items()
        if unit == "warps"
    },
}
METRICS = SUMS | MEANS
Counted = dict[str, float] | str  # the columns of a product, or why there are none


def product(variant: Variant) -> Shape:
    """The product whose counters are read."""
    return variant.kernel.product.parse(SIZE)


def rows(variants: Sequence[Variant], again: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of counters.csv; `again` is the command line of this program, to which the file is
    added in which the program that ncu starts writes what `launched` returns."""
    found = []
    for variant, counted in zip(variants, watched(len(variants), again), strict=True):
        row: dict[str, Any] = {"kernel": variant.kernel.name, "variant": variant.name}
        row |= product_of(variant.kernel.dtype, product(variant))
        why = {"status": "skipped", "reason": counted}
        known = why if isinstance(counted, str) else {"status": "ok", "reason": ""} | counted
        found.append(row | known)
    return found


def watched(count: int, again: Sequence[str]) -> list[Counted]:
    """The counters of each of `count` products, or why there are none. Clocks stay as they are."""
    program = ncu()
    if program is None:
        return ["there is no ncu on this machine: install NVIDIA Nsight Compute"] * count
    with tempfile.TemporaryDirectory() as name:
        log, told = Path(name) / "log", Path(name) / "told.json"
        command = [
            program, "--csv", "--print-units", "base", "--clock-control", "none",
            "--profile-from-start", "off", "--metrics", ",".join(METRICS.values()),
            "--log-file", str(log), *again, str(told),
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LARGEST_S)
        except subprocess.TimeoutExpired:
            return [f"ncu took more than {LARGEST_S:g} s"] * count
        text = log.read_text() if log.exists() else ""
        reasons = read_json(told) if told.exists() else [""] * count
    return assigned(text, reasons, done.stdout + done.stderr)


def launched(variants: Sequence[Variant], build: Path) -> list[str]:
    """Launch each product; why it was not launched, or an empty text. Raises NoDevice."""
    reasons = []
    with opened() as gpu:
        tools = Instruments(gpu, build)
        for variant in variants:
            reason = variant.refusal(product(variant)) or ""
            try:
                if not reason:
                    launch(gpu, tools, variant, product(variant))
            except (NotCompiled, UserError, *gpu.errors) as error:
                reason = f"not launched: {error}"
            reasons.append(reason)
    return reasons


def launch(gpu: Gpu, tools: Instruments, variant: Variant, shape: Shape) -> None:
    """Launch a product twice, the second time with ncu watching. Raises NotCompiled and the
    driver's errors."""
    multiply, operation = gpu_product(variant, tools, [shape]), variant.kernel.product
    arrays = tools.inputs("uniform", SEED, shape, operation.dtype)
    arrays.append(tools.poisoned(shape.elements[-1], operation.output))
    multiply(shape, *arrays)
    tools.wait()
    gpu.drv.start_profiler()
    try:
        tools.empty()
        multiply(shape, *arrays)
        tools.wait()
    finally:
        gpu.drv.stop_profiler()


def assigned(text: str, reasons: list[str], said: str) -> list[Counted]:
    """The counters in ncu's log `text` of each product that was launched, its reason for the
    others; ncu's own reason, in what it `said` too, where it did not count each launch."""
    found = [combined(own) for own in products(text)]
    if len(found) != reasons.count(""):
        why = refusal(text + said)
        return [reason or why for reason in reasons]
    rest = iter(found)
    return [reason or next(rest) for reason in reasons]


def ncu() -> str | None:
    """Path of ncu, or None."""
    return find_nvidia_binary_utility("ncu") or shutil.which("ncu")


def products(text: str) -> list[pd.DataFrame]:
    """The launches of each product, in ncu's CSV: those after a MARKER, up to the next one. A row
    has the launch's `kernel` and the counters that the card has, in their columns.

    The CSV has a row per launch and metric, among lines of its own that begin with ==.
    """
    rows = pd.DataFrame(csv.DictReader(line for line in text.splitlines() if line[:1] == '"'))
    if rows.empty:
        return []
    values = rows["Metric Value"].str.replace(",", "")
    rows["value"] = pd.to_numeric(values, errors="coerce")  # n/a, or (!) n/a
    rows["column"] = rows["Metric Name"].map({metric: name for name, metric in METRICS.items()})
    rows["kernel"] = rows["Kernel Name"].str.partition("(")[0]
    rows["launch"] = rows.ID.astype(int)
    known = rows.dropna(subset="column")
    launches = known.pivot(index=["launch", "kernel"], columns="column", values="value")
    launches = launches.reindex(columns=[*METRICS]).reset_index("kernel")
    number = (launches.kernel == MARKER).cumsum()
    return [own.iloc[1:] for which, own in launches.groupby(number) if which]


def combined(launches: pd.DataFrame) -> dict[str, float]:
    """The columns of a product from its launches; a counter that one of them lacks is left out."""
    weights = launches[DURATION] / launches[DURATION].sum()
    sums, means = launches[[*SUMS]], launches[[*MEANS]].mul(weights, axis=0)
    return pd.concat([sums, means], axis=1).sum(skipna=False, min_count=1).dropna().to_dict()


def refusal(text: str) -> str:
    """Why ncu measured nothing, in its words: its first error, such as ERR_NVGPUCTRPERM where the
    counters are for administrators only."""
    errors = re.findall(r"==ERROR==\s*(.+)", text) or text.strip().splitlines()[-1:]
    return f"ncu: {one_line(errors[0])}" if errors else "ncu printed nothing"
