"""Whether a data set follows from its own samples, and its tables from one another.

A finding is one line: the file, the line, what stands there, what should, and the remedy. A check
relies on those before it, so only the first finding of a set counts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from matmul_sweep import __version__ as VERSION
from matmul_sweep.experiment.dataset.derived import SPAN, pair_ratios, summarise
from matmul_sweep.experiment.dataset.tables import (
    LOOP,
    OPTIONAL,
    POINT,
    PRODUCT,
    STATE,
    columns_of,
    order_of,
    read_optional,
    read_table,
    version_of,
)
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json, remedy

CLOSE = 1e-9  # relative; the same samples give the same numbers but for rounding
PAIR = ["variant", "baseline", *POINT, "cache"]
KEYS = {
    "kernels.csv": ["variant"],
    "jobs.csv": ["sweep", "variant"],
    "samples.csv.gz": [*SPAN, "baseline_of", "sample"],
    "summary.csv": SPAN,
    "ratios.csv": PAIR,
    "states.csv": [*SPAN, "when"],
    "ceilings.csv": ["name"],
    "cross_check.csv": ["variant", *POINT, "cache"],
    "timer_check.csv": ["variant", "n", "recorder"],
    "instructions.csv": ["variant", "architecture"],
    "counters.csv": ["variant", *PRODUCT],
}
DERIVED = ["kernel", "samples", "time_ms", "time_low_ms", "time_high_ms", "tflops"]
RATIOS = ["kernel", "pairs", "ratio", "ratio_low", "ratio_high"]
# A number with both ends of its interval, in this order.
INTERVALS = [
    ("time_low_ms", "time_ms", "time_high_ms"),
    ("ratio_low", "ratio", "ratio_high"),
    ("value_low", "value", "value_high"),
    ("do_bench_low_ms", "do_bench_ms", "do_bench_high_ms"),
]
LEAST = 1e-9  # of what is above zero
# What a number can be, in whichever table it stands; empty cells are allowed here.
BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(["time_ms", "ratio", "value", "do_bench_ms", "wall_s"], (LEAST, 1e9)),
    **dict.fromkeys(["error", "largest_error", "mean_error"], (0, 1)),
    **dict.fromkeys(["start_s", "inputs_s", "verification_s", "cooling_s", "timed_s"], (0, 1e9)),
    **dict.fromkeys(["m", "n", "k"], (1, 2**31 - 1)),
    **dict.fromkeys(["launches", "rounds"], (1, 1e6)),
    "readings": (0, 1e6),
    "occupancy": (LEAST, 1),
    "registers": (1, 255),
    "shared_bytes": (0, 232448),
    "spill_bytes": (0, 1e6),
    "temperature_c": (1, 110),
    "memory_clock_mhz": (1, 1e5),
}
OVER_LIMIT = 1.5  # a reading of the power now, over the limit, which holds for an average
# A row with the status ok has these.
MEASURED = {
    "summary.csv": ["time_ms"],
    "verification.csv": ["error"],
    "ceilings.csv": ["value", "value_low", "value_high"],
    "instructions.csv": ["code_bytes", *LOOP],
    "counters.csv": ["duration_ns"],
}
STATUSES = ("ok", "skipped", "failed")
WHEN = ("before", "during", "after")
DIGEST = r"[0-9a-f]{64}"


@dataclass(frozen=True)
class DataSet:
    """A data set's folder, its device.json and its tables by file name; optional ones may be
    without rows."""

    folder: Path
    device: dict[str, Any]
    tables: dict[str, pd.DataFrame]

    def __getitem__(self, kind: str) -> pd.DataFrame:
        return self.tables[kind]

    def said(self, kind: str, what: str) -> str:
        """A finding about a file as a whole, or about a key of device.json."""
        path = self.folder / kind
        return f"{path}: {what}; {remedy(path)}"

    def rows(self, kind: str, wrong: Any, column: str, why: str | pd.Series) -> Iterator[str]:
        """A finding for each of the rows of a table that are `wrong`, a boolean per row."""
        path, table = self.folder / kind, self[kind]
        for index in table.index[np.asarray(wrong, bool)]:
            row = table.loc[index]
            reason = why if isinstance(why, str) else why[index]
            yield (
                f"{path}, line {index + 2}, {named(row)}: {column} is '{row[column]}', {reason}; "
                f"{remedy(path)}"
            )

    def on_gpu(self, rows: pd.DataFrame) -> np.ndarray:
        """Which rows of a table are of jobs that ran on a GPU."""
        jobs, key = self["jobs.csv"], ["sweep", "variant"]
        ran = pd.MultiIndex.from_frame(jobs.loc[jobs.uuid != "", key])
        return pd.MultiIndex.from_frame(rows[key]).isin(ran)


def named(row: pd.Series) -> str:
    """What a row is of, in a few words: `naive/32 at 64x64x64, kernel, hot`."""
    sizes = [str(row[name]) for name in ("m", "n", "k") if name in row and pd.notna(row[name])]
    name = row["variant"] if "variant" in row else row["name"]
    at = f"{name} at {'x'.join(sizes)}" if sizes else str(name)
    return ", ".join([at, *(row[name] for name in ("phase", "cache") if name in row)])


def read_set(folder: Path) -> DataSet:
    """Read all tables of a data set. Raises UserError for a missing, cut or foreign file, and for
    columns that the version which measured it does not write."""
    device = read_json(folder / "device.json")
    if not isinstance(device, dict):
        raise UserError(f"{folder / 'device.json'}: not a mapping; {remedy(folder)}")
    version = version_of(device)
    if order_of(version) > order_of(VERSION):
        raise UserError(
            f"{folder / 'device.json'}: version {version} measured it, and this is {VERSION}; "
            "check out that version"
        )
    found = {}
    for kind in KEYS.keys() | {"verification.csv"}:
        read = read_optional if kind in OPTIONAL else read_table
        found[kind] = read(kind, folder / kind, version)
        if (folder / kind).exists():
            check_header(kind, folder / kind, version)
    return DataSet(folder, device, found)


def check_header(kind: str, path: Path, version: str) -> None:
    """Raise UserError if a table has a column that this version does not write."""
    known = columns_of(kind, version)
    others = [name for name in pd.read_csv(path, nrows=0).columns if name not in known]
    if others:
        raise UserError(
            f"{path}: column {', '.join(others)}, which {kind} of version {version} does not have; "
            f"{remedy(path)}"
        )


def findings(data: DataSet) -> Iterator[str]:
    """What in a data set cannot be as it stands, a line each."""
    if data["samples.csv.gz"].empty:
        yield data.said("samples.csv.gz", "there is no sample, so nothing follows from this set")
    for check in (
        repeated, out_of_bounds, reasonless, unknown_names, unlike_jobs, miscounted, unsummarised,
        unpaired, unlike_states, unverified, other_code,
    ):  # fmt: skip
        yield from check(data)


def repeated(data: DataSet) -> Iterator[str]:
    """Rows that are there twice."""
    for kind, key in KEYS.items():
        wrong = data[kind].duplicated(key)
        yield from data.rows(kind, wrong, key[0], "as in an earlier line of the same point")


def out_of_bounds(data: DataSet) -> Iterator[str]:
    """Numbers that no run gives: beyond what is possible, or outside their own interval."""
    highest = data.device.get("clock_mhz") or 1e5
    limit = data.device.get("power_limit_w") or 1e5
    bounds = BOUNDS | {"sm_clock_mhz": (1, highest), "power_w": (1, OVER_LIMIT * limit)}
    for kind, table in data.tables.items():
        for column in table.columns.intersection([*bounds]):
            low, high = bounds[column]
            values = table[column].astype(float)
            wrong = values.notna() & ~values.between(low, high)
            yield from data.rows(kind, wrong, column, f"not from {low:g} to {high:g}")
        for low, middle, high in INTERVALS:
            if {low, middle, high} <= {*table.columns}:
                outside = (table[low] > table[middle]) | (table[middle] > table[high])
                yield from data.rows(kind, outside, middle, f"outside {low} and {high}")
    summary = data["summary.csv"]
    wrong = summary.mean_error > summary.largest_error
    yield from data.rows("summary.csv", wrong, "mean_error", "above largest_error")


def reasonless(data: DataSet) -> Iterator[str]:
    """A status that is none; a reason where all is well, or none where it is not; a row that is ok
    without what it was measured for."""
    for kind, table in data.tables.items():
        if "status" not in table:
            continue
        yield from data.rows(kind, ~table.status.isin(STATUSES), "status", "which is no status")
        wrong = (table.status == "ok") == (table.reason != "")
        yield from data.rows(kind, wrong, "reason", "which does not fit the status")
        for column in MEASURED.get(kind, []):
            lacking = (table.status == "ok") & table[column].isna()
            yield from data.rows(kind, lacking, column, "though the status is ok")
    summary = data["summary.csv"]
    timed = (summary.phase == "kernel") & (summary.status == "ok")
    for column in ("error", "largest_error", "mean_error"):
        wrong = timed & summary[column].isna()
        yield from data.rows("summary.csv", wrong, column, "though the product was verified")


def unknown_names(data: DataSet) -> Iterator[str]:
    """Variants, digests and cards that other tables do not know."""
    kernels = data["kernels.csv"]
    own = kernels.variant.map(lambda name: re.split(r"[/\[]", name)[0])
    yield from data.rows("kernels.csv", kernels.kernel != own, "kernel", "not the variant's")
    wrong = ~kernels.sha256.str.fullmatch(f"({DIGEST})?")
    yield from data.rows("kernels.csv", wrong, "sha256", "which is no digest")
    for kind in ("jobs.csv", "summary.csv", "verification.csv", "ratios.csv", "samples.csv.gz"):
        wrong = ~data[kind].variant.isin(kernels.variant)
        yield from data.rows(kind, wrong, "variant", "which kernels.csv does not have")
    ceilings = data["ceilings.csv"]
    wrong = ~ceilings.sha256.str.fullmatch(DIGEST) | (ceilings.sha256.nunique() > 1)
    yield from data.rows("ceilings.csv", wrong, "sha256", "not the digest of one program")
    cards = str(data.device.get("uuid") or "").split("+")
    for kind in ("jobs.csv", "ceilings.csv"):
        wrong = ~data[kind].uuid.isin(["", *cards])
        yield from data.rows(kind, wrong, "uuid", f"not among device.json's {'+'.join(cards)}")


def unlike_jobs(data: DataSet) -> Iterator[str]:
    """Jobs without rows, rows without jobs, and jobs whose parts took longer than they."""
    jobs, key = data["jobs.csv"], ["sweep", "variant"]
    yield from lacking(data, "jobs.csv", jobs, "summary.csv", data["summary.csv"], key)
    summary, kernels = data["summary.csv"], data["kernels.csv"]
    if not data.device.get("gpu"):  # what only a GPU runs has rows, and no job
        summary = summary[summary.status == "ok"]
        kernels = kernels[kernels.variant.isin(summary.variant)]
    yield from lacking(data, "summary.csv", summary, "jobs.csv", jobs, key)
    yield from lacking(data, "kernels.csv", kernels, "jobs.csv", jobs, ["variant"])
    parts = jobs[["start_s", "inputs_s", "verification_s", "cooling_s", "timed_s"]].sum(axis=1)
    wrong = parts > jobs.wall_s + 0.01  # each is rounded to a millisecond
    yield from data.rows("jobs.csv", wrong, "wall_s", "less than its parts together")


def lacking(
    data: DataSet, kind: str, rows: pd.DataFrame, other: str, others: pd.DataFrame, key: list[str]
) -> Iterator[str]:
    """Findings for `rows`, of the table `kind`, whose key no row of `others`, of `other`, has."""
    known = others[key].drop_duplicates()
    both = rows[key].reset_index().merge(known, on=key, how="left", indicator=True)
    missing = both["index"][both["_merge"] == "left_only"]
    wrong = data[kind].index.isin(missing)
    yield from data.rows(kind, wrong, key[0], f"and {other} has no row for it")


def miscounted(data: DataSet) -> Iterator[str]:
    """Samples that are missing: in a series, or in one of the two series of a pair."""
    samples = data["samples.csv.gz"]
    series = samples.groupby([*SPAN, "baseline_of"], sort=False, dropna=False)
    wrong = samples["sample"] != series.cumcount()
    yield from data.rows("samples.csv.gz", wrong, "sample", "out of turn: one is missing")
    last = samples[~samples.duplicated([*SPAN, "baseline_of"], keep="last")]
    last = last[last.phase == "kernel"].assign(row=lambda table: table.index)
    beside = last[last.baseline_of != ""].assign(variant=lambda table: table.baseline_of)
    own = last[last.baseline_of == ""]
    both = beside.merge(own, on=SPAN, how="left", suffixes=("", "_own"))
    wrong = samples.index.isin(both.row[both["sample"] != both.sample_own])
    yield from data.rows(
        "samples.csv.gz", wrong, "sample", "the last one beside a kernel that has another number"
    )


def unsummarised(data: DataSet) -> Iterator[str]:
    """What summary.csv says of samples and they do not give."""
    summary, samples = data["summary.csv"], data["samples.csv.gz"]
    own, timed = samples[samples.baseline_of == ""], summary[summary.status == "ok"]
    yield from lacking(
        data, "samples.csv.gz", own.drop_duplicates(SPAN), "summary.csv", timed, SPAN
    )
    yield from lacking(data, "summary.csv", timed, "samples.csv.gz", own, SPAN)
    points = summary.drop(columns=DERIVED)
    expected = summarise(points, samples, kernel_names(data))
    yield from unlike(data, "summary.csv", summary, expected, DERIVED)


def unpaired(data: DataSet) -> Iterator[str]:
    """What ratios.csv says of pairs and they do not give; pairs of which it says nothing; points
    without the rivals that their variant has at others."""
    ratios, summary = data["ratios.csv"], data["summary.csv"]
    expected = pair_ratios(data["samples.csv.gz"], kernel_names(data))
    yield from lacking(data, "ratios.csv", ratios, "samples.csv.gz", expected, PAIR)
    both = expected.merge(ratios[PAIR], on=PAIR, how="left", indicator=True)
    for _, row in both[both["_merge"] == "left_only"].iterrows():
        what = f"{named(row)}: no row beside {row.baseline}, and samples.csv.gz has their pairs"
        yield data.said("ratios.csv", what)
    order = ratios[PAIR].merge(expected, on=PAIR)
    yield from unlike(data, "ratios.csv", ratios, order, RATIOS)
    timed = summary[(summary.phase == "kernel") & (summary.status == "ok")].reset_index()
    rivals = ratios[["variant", "baseline"]].drop_duplicates()
    wanted = timed.merge(rivals, on="variant").set_index("index")
    yield from lacking(data, "summary.csv", wanted, "ratios.csv", ratios, PAIR)


def unlike(
    data: DataSet, kind: str, given: pd.DataFrame, expected: pd.DataFrame, columns: list[str]
) -> Iterator[str]:
    """Findings for the cells that differ from what the samples give; the rows are in one order."""
    for column in columns:
        theirs, ours = expected[column].set_axis(given.index), given[column]
        if column == "kernel":
            wrong = theirs != ours
        else:
            wrong = ~np.isclose(
                ours.astype(float), theirs.astype(float), rtol=CLOSE, atol=0, equal_nan=True
            )
        why = theirs.map(lambda value: f"and its samples give {value}")
        yield from data.rows(kind, wrong, column, why)


def kernel_names(data: DataSet) -> dict[str, str]:
    """The kernel of each variant."""
    kernels = data["kernels.csv"]
    return dict(zip(kernels.variant, kernels.kernel, strict=True))


def unlike_states(data: DataSet) -> Iterator[str]:
    """States of the card that are missing, or differ from summary.csv's."""
    states, summary = data["states.csv"], data["summary.csv"]
    yield from data.rows("states.csv", ~states.when.isin(WHEN), "when", "which is no time of one")
    timed = summary[(summary.phase == "kernel") & (summary.status == "ok") & data.on_gpu(summary)]
    for when in WHEN:
        read = states[states.when == when]
        yield from lacking(data, "states.csv", read, "summary.csv", timed, SPAN)
        yield from lacking(data, "summary.csv", timed, "states.csv", read, SPAN)
    during = states[states.when == "during"][[*SPAN, *STATE]]
    read = timed[SPAN].reset_index().merge(during, on=SPAN).set_index("index")
    for column in STATE:
        ours, theirs = timed[column], read[column].reindex(timed.index)
        differs = (ours != theirs) & ~(ours.isna() & theirs.isna())
        wrong = summary.index.isin(timed.index[differs])
        why = theirs.map(lambda value: f"and states.csv has '{value}'")
        yield from data.rows("summary.csv", wrong, column, why)


def unverified(data: DataSet) -> Iterator[str]:
    """Variants that were timed without a verification, or after one that failed."""
    verification, summary = data["verification.csv"], data["summary.csv"]
    timed = summary[summary.status == "ok"]
    passed = verification[verification.status == "ok"]
    yield from lacking(data, "summary.csv", timed, "verification.csv", passed, ["variant"])
    failed = (verification.status == "failed") & verification.variant.isin(timed.variant)
    yield from data.rows("verification.csv", failed, "status", "though the variant was timed")
    if data.device.get("gpu"):
        on_gpu = verification.variant.isin(summary.variant[data.on_gpu(summary)])
        wrong = verification["where"] != np.where(on_gpu, "gpu", "cpu")
        yield from data.rows("verification.csv", wrong, "where", "not where the variant was timed")


def other_code(data: DataSet) -> Iterator[str]:
    """Hot loops that are not the sum of their instructions, and binaries of other sources."""
    code, kernels = data["instructions.csv"], data["kernels.csv"].set_index("variant")
    known = code[code.status == "ok"]
    wrong = code.index.isin(known.index[known[LOOP].sum(axis=1) != known.loop_instructions])
    yield from data.rows("instructions.csv", wrong, "loop_instructions", "not the sum of its kinds")
    measured = code.variant.map(kernels.sha256)
    wrong = measured.notna() & (code.sha256 != measured)
    yield from data.rows("instructions.csv", wrong, "sha256", "and kernels.csv has another")
