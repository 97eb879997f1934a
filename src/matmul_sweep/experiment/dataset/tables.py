"""The files of a data set: their columns, writing them whole, and naming a broken one."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matmul_sweep import __version__ as VERSION
from matmul_sweep.experiment.dataset import renamed
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import remedy, write_text

if TYPE_CHECKING:
    import pandas as pd

    from matmul_sweep.operations.shapes import Shape

PRODUCT = ["operation", "dtype", "m", "n", "k"]
POINT = ["sweep", *PRODUCT, "fill", "mode"]
STATE = ["sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c", "throttled"]
# The kinds of instructions of a hot loop; each instruction is of one.
LOOP = [
    "ffma", "dfma", "tensor", "copies",
    "global_loads_32", "global_loads_64", "global_loads_128",
    "shared_loads_32", "shared_loads_64", "shared_loads_128",
    "stores", "local", "barriers", "integer", "rest",
]  # fmt: skip
# Hardware counters of a product: nanoseconds, counts, bytes, percent of a peak, and how many warps
# wait for what at an issue.
COUNTERS = [
    "duration_ns", "shared_wavefronts", "bank_conflicts", "l1_bytes", "l2_bytes", "dram_bytes",
    "fma_percent", "fp64_percent", "tensor_percent", "load_store_percent", "memory_percent",
    "dram_percent", "issue_percent", "occupancy_percent",
    "stall_barrier", "stall_lg_throttle", "stall_long_scoreboard", "stall_math_pipe_throttle",
    "stall_mio_throttle", "stall_not_selected", "stall_no_instruction", "stall_short_scoreboard",
    "stall_wait",
]  # fmt: skip
COLUMNS = {
    "kernels.csv": [
        "kernel", "variant", "sha256", "registers", "shared_bytes", "spill_bytes",
        "occupancy", "status", "reason",
    ],
    "samples.csv.gz": [
        "variant", *POINT, "baseline_of", "phase", "cache", "sample", "time_ms",
    ],
    "points.csv": [
        "variant", "ran", *POINT, "phase", "cache", "status", "reason", "stopped",
        "launches", "error", "largest_error", "mean_error", *STATE,
    ],
    "states.csv": ["variant", *POINT, "phase", "cache", "when", "readings", *STATE],
    "summary.csv": [
        "kernel", "variant", "ran", *POINT, "phase", "cache", "status", "reason", "samples",
        "launches", "stopped", "time_ms", "time_low_ms", "time_high_ms", "tflops",
        "error", "largest_error", "mean_error", *STATE,
    ],
    "ratios.csv": [
        "kernel", "variant", "baseline", *POINT, "cache", "pairs",
        "ratio", "ratio_low", "ratio_high",
    ],
    "verification.csv": ["kernel", "variant", *PRODUCT, "where", "status", "reason", "error"],
    "jobs.csv": [
        "sweep", "variant", "uuid",
        "wall_s", "start_s", "inputs_s", "verification_s", "cooling_s", "timed_s",
    ],
    "cross_check.csv": [
        "variant", *POINT, "cache", "rounds", "do_bench_ms", "do_bench_low_ms", "do_bench_high_ms",
        "torch", "triton", "cublas", "uuid",
    ],
    "timer_check.csv": [
        "variant", "n", "recorder", "readings", "samples", "time_ms", "time_low_ms", "time_high_ms",
        "ratio", "ratio_low", "ratio_high", "uuid",
    ],
    "ceilings.csv": [
        "name", "unit", "value", "value_low", "value_high", "samples", "status", "reason", *STATE,
        "gpu", "uuid", "sha256",
    ],
    "instructions.csv": [
        "kernel", "variant", "architecture", "sha256", "status", "reason", "registers",
        "spill_bytes", "code_bytes", "loop_start", "loop_instructions", *LOOP, "excerpt",
    ],
    "counters.csv": ["kernel", "variant", *PRODUCT, "status", "reason", *COUNTERS],
    "loads.csv": [
        "kernel", "variant", "operation", "m", "n", "k", "loads", "multiply_adds", "status",
        "reason",
    ],
}  # fmt: skip
# The version of the project that added a column, for columns that older data sets lack.
ADDED = {
    ("points.csv", "ran"): "1.0.0",
    ("summary.csv", "ran"): "1.0.0",
    ("points.csv", "launches"): "1.1.0",
    ("summary.csv", "launches"): "1.1.0",
}
BEFORE = "0"  # for data sets and jobs from before versions
# Files that the checks of the timing leave beside a data set.
CHECKS = ["cross_check.csv", "timer_check.csv"]
# A data set is complete without these: checks are run by hand, older ones lack others, and loads
# are the same on every machine, so that none is published with them.
OPTIONAL = [*CHECKS, "ceilings.csv", "instructions.csv", "counters.csv", "loads.csv"]
# A finished data set. points.csv belongs to a job, before its samples are summarised.
DATA_SET = ["device.json", *(name for name in COLUMNS if name not in ("points.csv", *OPTIONAL))]
TEXT = [
    "kernel", "variant", "ran", "baseline", "baseline_of", "operation", "dtype", "phase", "cache",
    "status", "reason", "sha256", "throttled", "where", "sweep", "fill", "mode", "stopped", "when",
    "torch", "triton", "cublas", "uuid", "recorder", "name", "unit", "gpu",
    "architecture", "excerpt",
]  # fmt: skip


def write_rows(rows: Sequence[Mapping[str, Any]], kind: str, path: Path) -> None:
    """Write rows as one of the kinds of COLUMNS, gzipped if the name says so, and whole.

    This is for measuring jobs, to save them the time of importing pandas.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS[kind], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(text.getvalue(), path)


def read_rows(kind: str, path: Path) -> list[dict[str, str]]:
    """The rows of a plain table, as text. Raises UserError for a missing or foreign file."""
    try:
        text = path.read_bytes().decode()
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        names, rows = reader.fieldnames, list(reader)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise UserError(f"{path}: damaged; {remedy(path)}") from None
    whole = all(None not in row and None not in row.values() for row in rows)
    if not text.endswith("\n") or not whole or names != COLUMNS[kind]:
        raise UserError(f"{path}: cut short or not a {kind}; {remedy(path)}")
    return rows


def write_table(table: pd.DataFrame, kind: str, path: Path) -> None:
    """Write `table` as one of the kinds of COLUMNS, gzipped if the name says so, and whole."""
    write_text(table[COLUMNS[kind]].to_csv(None, index=False, lineterminator="\n"), path)


def read_table(kind: str, path: Path, version: str = VERSION) -> pd.DataFrame:
    """Read one of the kinds of COLUMNS as `version` of the project wrote it. Later columns are
    empty, and variants have today's names.

    Raises UserError for a missing, cut or foreign file, and for text in the place of a number.
    """
    import pandas as pd  # here, because measuring jobs need other parts of this module

    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        if not data.endswith(b"\n"):  # pandas would fill up an incomplete last line
            raise EOFError("its last line does not end")
        empty = {column: [""] for column in COLUMNS[kind] if column not in TEXT}
        types = dict.fromkeys(TEXT, str)
        table = pd.read_csv(io.BytesIO(data), dtype=types, keep_default_na=False, na_values=empty)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except (EOFError, ValueError, OSError, zlib.error) as error:
        raise UserError(f"{path}: cut short or damaged ({error}); {remedy(path)}") from None
    if missing := [name for name in columns_of(kind, version) if name not in table.columns]:
        raise UserError(
            f"{path}: no column {', '.join(missing)}, which {kind} of version {version} has; "
            f"{remedy(path)}"
        )
    if order_of(version) < order_of(renamed.SINCE):
        for column in table.columns.intersection(["variant", "baseline_of"]):
            table[column] = table[column].map(lambda name: renamed.RENAMED.get(name, name))
    for column in COLUMNS[kind]:
        if column not in table.columns:
            table[column] = "" if column in TEXT else float("nan")
        elif column not in TEXT:
            table[column] = numbers(table[column], path)
    return table[COLUMNS[kind]]


def columns_of(kind: str, version: str) -> list[str]:
    """The columns that `version` of the project wrote."""
    return [
        column
        for column in COLUMNS[kind]
        if order_of(ADDED.get((kind, column), BEFORE)) <= order_of(version)
    ]


def version_of(device: Mapping[str, Any]) -> str:
    """The version of the project that measured a data set, by its device.json. Raises UserError for
    one that is no version."""
    version = str(device.get("version", BEFORE))
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise UserError(
            f"device.json: version '{version}' is not of the form 1.0.0; restore the file, or "
            f"delete the data set and run again"
        )
    return version


def order_of(version: str) -> tuple[int, ...]:
    """A key that sorts 1.10.0 after 1.9.0."""
    return tuple(map(int, version.split(".")))


def numbers(column: pd.Series, path: Path) -> pd.Series:
    """A column of numbers; k, which gram lacks, as whole numbers. Raises UserError for text."""
    import pandas as pd

    whole = column.name == "k"
    if column.dtype.kind in "iuf" and not whole:
        return column
    read = pd.to_numeric(column.astype(object), errors="coerce")
    wrong = read.isna() & column.notna() & (column != "nan")
    if whole:
        wrong |= read % 1 > 0
    if wrong.any():
        line = column.index[wrong][0]
        raise UserError(
            f"{path}, line {line + 2}, column {column.name}: '{column[line]}' is not a "
            f"{'whole ' if whole else ''}number; {remedy(path)}"
        )
    return read.astype("Int64") if whole else read


def read_optional(kind: str, path: Path, version: str = VERSION) -> pd.DataFrame:
    """The same; without rows if there is no such file."""
    import pandas as pd

    if not path.exists():
        return pd.DataFrame(columns=COLUMNS[kind])
    return read_table(kind, path, version)


def product_of(dtype: str, shape: Shape) -> dict[str, Any]:
    """The columns that identify the product of a row; k stays empty if there is none."""
    product = {"operation": shape.operation, "dtype": dtype}
    return product | {"m": shape.m, "n": shape.n, "k": shape.k}
