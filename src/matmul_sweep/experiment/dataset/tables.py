"""The tables of a data set, declared once for reading, writing, checking and docs/data-sets.md; the
files, written whole and refused by name when broken.

A name of a column means the same in every table.
"""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matmul_sweep import __version__ as VERSION
from matmul_sweep.build.machine_code import kinds
from matmul_sweep.experiment.dataset.words import CACHES, MODES, REASONS
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.shapes import LARGEST
from matmul_sweep.process.errors import UserError, shown
from matmul_sweep.process.files import read_bytes, read_json, remedy, write_text

if TYPE_CHECKING:
    import pandas as pd

    from matmul_sweep.operations.shapes import Shape

FIRST = "1.0.0"  # earlier data sets are read by the version that measured them
DIGEST = r"[0-9a-f]{64}"
REASON = f"({'|'.join(REASONS)})"
WHEN = ("before", "during", "after")
LEAST = 1e-9  # of what is above zero
LARGEST_TABLE = 256 << 20  # bytes of a table, unpacked; a published set's samples take 21 MB
TEXT, NUMBER, WHOLE = "text", "number", "whole number"


@dataclass(frozen=True)
class Column:
    """What a cell holds; it may be empty.

    low, high: what a number can be. words: what a text can be, a regular expression. measured: a
    kernel's row with status ok has it. since: the version of the project that added it; older data
    sets lack it.
    """

    name: str
    kind: str
    unit: str = ""
    low: float = -inf
    high: float = inf
    words: str | None = None
    measured: bool = False
    since: str = FIRST


LOOP = kinds()  # of instructions of a hot loop
# Hardware counters of a product: percent of a peak, and how many warps wait for what at an issue.
COUNTED = {
    "duration_ns": "ns", "shared_wavefronts": "", "bank_conflicts": "",
    **dict.fromkeys(["l1_bytes", "l2_bytes", "dram_bytes"], "bytes"),
    **dict.fromkeys(
        ["fma_percent", "fp64_percent", "tensor_percent", "load_store_percent", "memory_percent",
         "dram_percent", "issue_percent", "occupancy_percent"], "%"),
    **dict.fromkeys(
        ["stall_barrier", "stall_lg_throttle", "stall_long_scoreboard",
         "stall_math_pipe_throttle", "stall_mio_throttle", "stall_not_selected",
         "stall_no_instruction", "stall_short_scoreboard", "stall_wait"], "warps"),
}  # fmt: skip
ERRORS = ["error", "largest_error", "mean_error"]
PARTS = ["start_s", "inputs_s", "verification_s", "cooling_s", "timed_s"]  # of a job
# Texts of which nothing is known but that they are.
PLAIN = [
    "kernel", "variant", "baseline", "baseline_of", "sweep", "dtype", "fill", "phase", "reason",
     "stopped", "where", "uuid", "torch", "triton", "cublas", "name", "unit", "gpu",
    "architecture", "excerpt",
]  # fmt: skip
DICTIONARY: Mapping[str, Column] = {column.name: column for column in [
    *(Column(name, TEXT) for name in PLAIN),
    Column("operation", TEXT, words="|".join(OPERATIONS)),
    Column("ran", TEXT),
    *(Column(name, WHOLE, low=1, high=LARGEST) for name in ("m", "n", "k")),
    Column("mode", TEXT, words="|".join(MODES)),
    Column("cache", TEXT, words="|".join(CACHES)),
    Column("status", TEXT, words="ok|skipped|failed"),
    *(Column(name, WHOLE, low=0, high=1e5) for name in ("sample", "samples", "pairs")),
    Column("launches", WHOLE, low=1, high=1e6, since="1.1.0"),
    Column("time_ms", NUMBER, "ms", LEAST, 1e9, measured=True),
    *(Column(name, NUMBER, "ms") for name in ("time_low_ms", "time_high_ms")),
    Column("tflops", NUMBER, "TFLOP/s", low=0),
    Column("ratio", NUMBER, low=LEAST, high=1e9),
    *(Column(name, NUMBER) for name in ("ratio_low", "ratio_high")),
    *(Column(name, NUMBER, low=0, high=1, measured=True) for name in ERRORS),
    Column("when", TEXT, words="|".join(WHEN)),
    Column("readings", WHOLE, low=0, high=1e6),
    *(Column(name, NUMBER, "MHz", 1, 1e5) for name in ("sm_clock_mhz", "memory_clock_mhz")),
    Column("power_w", NUMBER, "W", 1, 1e5),
    Column("block_w", NUMBER, "W", 1, 1e5, since="1.2.0"),
    Column("block_mhz", NUMBER, "MHz", 1, 1e5, since="1.2.0"),
    Column("temperature_c", NUMBER, "°C", 1, 110),
    Column("throttled", TEXT, words=rf"({REASON}(\+{REASON})*)?"),
    Column("sha256", TEXT, words=f"({DIGEST})?"),
    Column("registers", WHOLE, low=1, high=255),
    Column("shared_bytes", WHOLE, "bytes", 0, 232448),
    Column("spill_bytes", WHOLE, "bytes", 0, 1e6),
    Column("occupancy", NUMBER, low=LEAST, high=1),
    Column("wall_s", NUMBER, "s", LEAST, 1e9),
    *(Column(name, NUMBER, "s", 0, 1e9) for name in PARTS),
    Column("rounds", WHOLE, low=1, high=1e6),
    Column("do_bench_ms", NUMBER, "ms", LEAST, 1e9),
    *(Column(name, NUMBER, "ms") for name in ("do_bench_low_ms", "do_bench_high_ms")),
    Column("recorder", TEXT, words="off|on"),
    Column("value", NUMBER, "as in `unit`", LEAST, 1e9, measured=True),
    *(Column(name, NUMBER, "as in `unit`", measured=True) for name in ("value_low", "value_high")),
    Column("code_bytes", WHOLE, "bytes", 0, measured=True),
    Column("loop_start", WHOLE, "bytes", 0),
    Column("loop_instructions", WHOLE, low=0),
    *(Column(name, WHOLE, low=0, measured=True) for name in LOOP),
    *(Column(name, NUMBER, unit, 0, 100 if unit == "%" else inf, measured=name == "duration_ns")
      for name, unit in COUNTED.items()),
    *(Column(name, WHOLE, low=0) for name in ("loads", "multiply_adds")),
]}  # fmt: skip

PRODUCT = ["operation", "dtype", "m", "n", "k"]
POINT = ["sweep", *PRODUCT, "fill", "mode"]
SPAN = ["variant", *POINT, "phase", "cache"]
STATE = ["sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c", "throttled"]
# What a table is: a part of each data set, of some, of a job only, or of a folder of results only.
SET, EXTRA, JOB, LOCAL = "set", "extra", "job", "local"


# The columns by which a row is known, as far as its table has them.
IDENTITY = {*SPAN, "baseline", "baseline_of", "sample", "when", "recorder", "name", "architecture"}


@dataclass(frozen=True)
class Table:
    """A table's place and its columns in order; `repeats`: whether rows may be alike."""

    place: str
    columns: list[str]
    repeats: bool = False

    @property
    def key(self) -> list[str]:
        return [name for name in self.columns if name in IDENTITY]


TIMES = ["time_ms", "time_low_ms", "time_high_ms"]
RATIO = ["ratio", "ratio_low", "ratio_high"]
WHY = ["status", "reason"]
TABLES: Mapping[str, Table] = {
    "kernels.csv": Table(
        SET, ["kernel", "variant", "sha256", "registers", "shared_bytes", "spill_bytes",
              "occupancy", *WHY]
    ),
    "samples.csv.gz": Table(
        SET, ["variant", *POINT, "baseline_of", "phase", "cache", "sample", "time_ms", "block_w",
              "block_mhz"]
    ),
    "points.csv": Table(
        JOB, ["variant", "ran", *POINT, "phase", "cache", *WHY, "stopped", "launches", *ERRORS,
              *STATE]
    ),
    "states.csv": Table(SET, [*SPAN, "when", "readings", *STATE]),
    "summary.csv": Table(
        SET, ["kernel", "variant", "ran", *POINT, "phase", "cache", *WHY, "samples", "launches",
              "stopped", *TIMES, "tflops", *ERRORS, *STATE]
    ),
    "ratios.csv": Table(
        SET, ["kernel", "variant", "baseline", *POINT, "cache", "pairs", *RATIO]
    ),
    "verification.csv": Table(
        SET, ["kernel", "variant", *PRODUCT, "where", *WHY, "error"], repeats=True
    ),
    "jobs.csv": Table(SET, ["sweep", "variant", "uuid", "wall_s", *PARTS]),
    "cross_check.csv": Table(
        EXTRA, ["variant", *POINT, "cache", "rounds", "do_bench_ms", "do_bench_low_ms",
                "do_bench_high_ms", "torch", "triton", "cublas", "uuid"]
    ),
    "timer_check.csv": Table(
        EXTRA, ["variant", "n", "recorder", "readings", "samples", *TIMES, *RATIO, "uuid"]
    ),
    "ceilings.csv": Table(
        EXTRA, ["name", "unit", "value", "value_low", "value_high", "samples", *WHY, *STATE, "gpu",
                "uuid", "sha256"]
    ),
    "instructions.csv": Table(
        EXTRA, ["kernel", "variant", "architecture", "sha256", *WHY, "registers", "spill_bytes",
                "code_bytes", "loop_start", "loop_instructions", *LOOP, "excerpt"]
    ),
    "counters.csv": Table(EXTRA, ["kernel", "variant", *PRODUCT, *WHY, *COUNTED]),
    "loads.csv": Table(LOCAL, ["kernel", "variant", *PRODUCT, "loads", "multiply_adds", *WHY]),
}  # fmt: skip
COLUMNS = {name: table.columns for name, table in TABLES.items()}
# Files that the checks of the timing leave beside a data set.
CHECKS = ["cross_check.csv", "timer_check.csv"]
NEEDED = [name for name, table in TABLES.items() if table.place == SET]
EVERY = [name for name, table in TABLES.items() if table.place != JOB]
DATA_SET = ["device.json", *NEEDED]
TEXTS = [column.name for column in DICTIONARY.values() if column.kind == TEXT]


def write_rows(rows: Sequence[Mapping[str, Any]], kind: str, path: Path) -> None:
    """Write rows as one of TABLES, gzipped if the name says so, and whole.

    This is for measuring jobs, to save them the time of importing pandas.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS[kind], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(text.getvalue(), path)


def write_table(table: pd.DataFrame, kind: str, path: Path) -> None:
    """Write `table` as one of TABLES, gzipped if the name says so, and whole. Whole numbers are
    written without a point, in columns with empty cells too."""
    whole = [name for name in COLUMNS[kind] if DICTIONARY[name].kind == WHOLE]
    rows = table[COLUMNS[kind]].astype(dict.fromkeys(whole, "Int64"))
    write_text(rows.to_csv(None, index=False, lineterminator="\n"), path)


def read_table(kind: str, path: Path, version: str = VERSION) -> pd.DataFrame:
    """Read one of TABLES as `version` of the project wrote it. Later columns are empty.

    Raises UserError for a missing, cut or foreign file, and for text in the place of a number.
    """
    import pandas as pd  # here, because measuring jobs need other parts of this module

    try:
        data = read_bytes(path, LARGEST_TABLE)
        if not data.endswith(b"\n"):  # pandas would fill up an incomplete last line
            raise EOFError("its last line does not end")
        header = data.partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
        check_header(kind, next(csv.reader([header])), version, path)
        empty = {column: [""] for column in COLUMNS[kind] if column not in TEXTS}
        types = dict.fromkeys(TEXTS, object)  # compared in half the time that pandas' str takes
        table = pd.read_csv(io.BytesIO(data), dtype=types, keep_default_na=False, na_values=empty)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except (EOFError, ValueError, OSError, csv.Error, zlib.error) as error:
        raise UserError(f"{path}: cut short or damaged ({error}); {remedy(path)}") from None
    for column in COLUMNS[kind]:
        if column not in table.columns:
            table[column] = "" if column in TEXTS else float("nan")
        elif column not in TEXTS:
            table[column] = numbers(table[column], path)
    return table[COLUMNS[kind]]


def check_header(kind: str, found: Sequence[str], version: str, path: Path) -> None:
    """Raise UserError unless a table has the columns that this version writes, and none that no
    version does."""
    early = [
        name for name in COLUMNS[kind] if order_of(DICTIONARY[name].since) <= order_of(version)
    ]
    wrong = [f"no column {name}" for name in early if name not in found]
    wrong += [f"column {name}" for name in found if name not in COLUMNS[kind]]
    wrong += [f"column {name} twice" for name in COLUMNS[kind] if found.count(name) > 1]
    if wrong:
        said = f"{shown(', '.join(wrong), 200)}, unlike {kind} of version {version}"
        raise UserError(f"{path}: {said}; {remedy(path)}")


def version_of(device: Mapping[str, Any]) -> str:
    """The version of the project that measured a data set, by its device.json. Raises UserError for
    one that is no version, or that this one does not read."""
    version = str(device.get("version", "0"))
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})*", version):
        raise UserError(
            f"device.json: version '{shown(version)}' is not of the form 1.0.0; restore the file, "
            f"or delete the data set and run again"
        )
    if not order_of(FIRST) <= order_of(version) <= order_of(VERSION):
        raise UserError(
            f"device.json: version {version} measured it, and this reads those from {FIRST} to "
            f"{VERSION}; check out that one"
        )
    return version


def order_of(version: str) -> tuple[int, ...]:
    """A key that sorts 1.10.0 after 1.9.0."""
    return tuple(map(int, version.split(".")))


def numbers(column: pd.Series, path: Path) -> pd.Series:
    """A column of numbers; k, which gram lacks, as pandas' whole numbers with gaps. Raises
    UserError for text, and for a fraction of a whole number."""
    import pandas as pd

    whole, read = DICTIONARY[str(column.name)].kind == WHOLE, column
    if column.dtype.kind not in "iuf":
        read = pd.to_numeric(column.astype(str), errors="coerce")
    wrong = read.isna() & column.notna() & (column != "nan")
    if whole:
        wrong |= read % 1 > 0
    if wrong.any():
        line = column.index[wrong][0]
        raise UserError(
            f"{path}, line {line + 2}, column {column.name}: '{shown(column[line])}' is not a "
            f"{WHOLE if whole else NUMBER}; {remedy(path)}"
        )
    return read.astype("Int64") if column.name == "k" else read


def read_folder(
    folder: Path, kinds: Collection[str] = EVERY
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """device.json and these tables of a data set by their file names; one that a set need not have
    and that is missing is without rows. Raises UserError for a missing, cut or foreign file, and
    for columns that the version which measured it does not write."""
    import pandas as pd

    device = read_json(folder / "device.json")
    if not isinstance(device, dict):
        raise UserError(f"{folder / 'device.json'}: not a mapping; {remedy(folder)}")
    version, tables = version_of(device), {}
    for kind in kinds:
        if kind in NEEDED or (folder / kind).exists():
            tables[kind] = read_table(kind, folder / kind, version)
        else:
            tables[kind] = pd.DataFrame(columns=COLUMNS[kind])
    return device, tables


def product_of(dtype: str, shape: Shape) -> dict[str, Any]:
    """The columns that identify the product of a row; k stays empty if there is none."""
    product = {"operation": shape.operation, "dtype": dtype}
    return product | {"m": shape.m, "n": shape.n, "k": shape.k}
