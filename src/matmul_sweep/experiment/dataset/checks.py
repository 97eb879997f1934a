"""Whether a data set follows from its own samples, its tables from one another, and the whole from
its configuration, a known card, and the sources of this checkout.

A finding is one line: the file, the line, what stands there, what should, and the remedy. A check
relies on those before it, so only the first finding of a set counts.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from matmul_sweep import __version__ as VERSION
from matmul_sweep.build.binaries import tool_source
from matmul_sweep.catalogue.architectures import ARCHITECTURES, peak_terms
from matmul_sweep.catalogue.entries import Catalogue, kernel_name
from matmul_sweep.experiment.dataset.derived import pair_ratios, summarise
from matmul_sweep.experiment.dataset.intervals import Rule
from matmul_sweep.experiment.dataset.selection import changed_variants
from matmul_sweep.experiment.dataset.sweeps import sweep_of, takes_place
from matmul_sweep.experiment.dataset.tables import (
    BEFORE,
    DICTIONARY,
    DIGEST,
    LOOP,
    NEEDED,
    OPTIONAL,
    PARTS,
    RATIO,
    SPAN,
    STATE,
    TABLES,
    TEXT,
    TIMES,
    WHEN,
    read_folder,
    version_of,
)
from matmul_sweep.experiment.dataset.words import CACHES
from matmul_sweep.operations import parse_shape, shape_of
from matmul_sweep.operations.dtypes import DTYPES, UNITS
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import remedy
from matmul_sweep.process.programs import program_digest
from matmul_sweep.process.project import ROOT

CLOSE = 1e-9  # relative; the same samples give the same numbers but for rounding
NEARLY = 1.01  # the clock of a card is a whole number of MHz, and a timer has a step
OVER_LIMIT = 1.5  # a reading of the power now, over the limit, which holds for an average
PAIR = TABLES["ratios.csv"].key
JOB = TABLES["jobs.csv"].key
SAMPLES = "samples.csv.gz"
# What device.json says, and of a card.
FACTS = {"date": r"\d{4}-\d\d-\d\d", "commit": r"\S+", "code": rf"{DIGEST}(\+{DIGEST})*"}
CARD = {
    "compute_capability": "|".join(map(re.escape, ARCHITECTURES)),
    **dict.fromkeys(["multiprocessors", "clock_mhz", "memory_bytes", "l2_bytes"], r"[1-9]\d*"),
}
Point = tuple[Shape, str, str]  # with fill and mode


@dataclass(frozen=True)
class DataSet:
    """A data set's folder, its device.json and its tables by file name; optional ones may be
    without rows."""

    folder: Path
    device: dict[str, Any]
    tables: dict[str, pd.DataFrame]

    def __getitem__(self, kind: str) -> pd.DataFrame:
        return self.tables[kind]

    @property
    def timed(self) -> pd.DataFrame:
        """The rows of summary.csv that were measured."""
        return self["summary.csv"].query("status == 'ok'")

    @property
    def sweeps(self) -> Mapping[str, Any]:
        return self.device["configuration"]["sweeps"]

    def said(self, kind: str, what: str, place: str = "") -> str:
        """A finding about a file, or a place in it."""
        path = self.folder / kind
        return f"{path}{place}: {what}; {remedy(path)}"

    def rows(self, kind: str, wrong: pd.Series, column: str, why: str | pd.Series) -> Iterator[str]:
        """A finding for each of the rows of a table that are `wrong`, a boolean by index."""
        for index in sorted(wrong.index[wrong.astype(bool)]):
            row, reason = self[kind].loc[index], why if isinstance(why, str) else why[index]
            what = f"{column} is '{row[column]}', {reason}"
            yield self.said(kind, what, f", line {index + 2}, {named(row)}")

    def lacking(
        self, kind: str, rows: pd.DataFrame, other: str, others: pd.DataFrame, key: list[str]
    ) -> Iterator[str]:
        """Findings for `rows`, of the table `kind`, whose key no row of `others`, of `other`,
        has."""
        wrong = ~among(rows, others, key)
        yield from self.rows(kind, wrong, key[0], f"and {other} has no row for it")

    def unlike(
        self, kind: str, given: pd.DataFrame, expected: pd.DataFrame, source: str
    ) -> Iterator[str]:
        """Findings for the cells of `given`, rows of the table `kind`, that differ from those of
        `expected`, which has the same rows in the same order, from `source`."""
        for column in expected.columns:
            theirs, ours = expected[column].set_axis(given.index), given[column]
            wrong = ours != theirs
            if DICTIONARY[column].kind != TEXT:
                pair = ours.astype(float), theirs.astype(float)
                wrong &= ~np.isclose(*pair, CLOSE, 0, equal_nan=True)
            why = theirs.map(lambda value: f"and {source} '{value}'")
            yield from self.rows(kind, wrong, column, why)

    def on_gpu(self, rows: pd.DataFrame) -> pd.Series:
        """Which rows of a table are of jobs that ran on a GPU."""
        return among(rows, self["jobs.csv"].query("uuid != ''"), JOB)


def among(rows: pd.DataFrame, others: pd.DataFrame, key: list[str]) -> pd.Series:
    """Which rows have the key of one of the others."""
    both = rows[key].merge(others[key].drop_duplicates(), how="left", indicator=True)
    return (both["_merge"] == "both").set_axis(rows.index)


def named(row: pd.Series) -> str:
    """What a row is of, in a few words: `naive/32 at 64x64x64, kernel, hot`."""
    sizes = [str(row[name]) for name in ("m", "n", "k") if name in row and pd.notna(row[name])]
    name = row["variant"] if "variant" in row else row["name"]
    at = f"{name} at {'x'.join(sizes)}" if sizes else str(name)
    return ", ".join([at, *(row[name] for name in ("phase", "cache") if name in row)])


def check_set(folder: Path, catalogue: Catalogue, earlier: bool = False) -> DataSet:
    """Read a data set and hold it against its samples, its configuration and this checkout.

    earlier: accept one that another version or other kernels measured. Raises UserError with the
    first finding.
    """
    data = DataSet(folder, *read_folder(folder, NEEDED, OPTIONAL))
    first = [] if earlier else other_version(data, catalogue)
    for finding in itertools.chain(first, findings(data, catalogue)):
        raise UserError(finding)
    return data


def findings(data: DataSet, catalogue: Catalogue) -> Iterator[str]:
    """What in a data set cannot be as it stands, a line each."""
    yield from unlikely_machine(data)
    if data[SAMPLES].empty:
        yield data.said(SAMPLES, "there is no sample, so nothing follows from this set")
    for check in (
        repeated, impossible, reasonless, unknown_names, unlike_jobs, miscounted, unsummarised,
        unpaired, unlike_states, unverified, other_code, incomplete, stopped_otherwise,
    ):  # fmt: skip
        yield from check(data)
    yield from too_fast(data, catalogue)


# What this checkout measures, and on which machine.


def other_version(data: DataSet, catalogue: Catalogue) -> Iterator[str]:
    """Another version of the project, or other sources than this checkout's."""
    remedy = "measure again, or check out the version that measured it (--earlier accepts it)"
    version, file = version_of(data.device), data.folder / "device.json"
    if version != VERSION:
        known = "a version before 1.0.0" if version == BEFORE else f"version {version}"
        yield f"{file}: {known} measured it, and this is {VERSION}; {remedy}"
    others = other_sources(data.device, data["kernels.csv"], data["ceilings.csv"], catalogue)
    if others:
        yield f"{file}: of another {', '.join(others)} than this checkout's; {remedy}"


def other_sources(
    device: Mapping[str, Any], kernels: pd.DataFrame, ceilings: pd.DataFrame, catalogue: Catalogue
) -> list[str]:
    """The programs and variants that measured a data set and are not those of this checkout."""
    others = changed_variants(kernels, catalogue)
    if device.get("code") != program_digest(ROOT / "scripts" / "steps" / "measure.py"):
        others.insert(0, "scripts/steps/measure.py")
    program = ROOT / "scripts" / "steps" / "ceilings.py"
    if set(ceilings.sha256) - {program_digest(program, tool_source("ceilings"))}:
        others.insert(0, "scripts/steps/ceilings.py")
    return others


def unlikely_machine(data: DataSet) -> Iterator[str]:
    """Facts of device.json that are missing, or that do not fit one another."""
    device = data.device

    if "sweeps" not in (device.get("configuration") or {}):
        yield data.said("device.json", "the configuration has no sweeps")
    for key, pattern in (FACTS | CARD if device.get("gpu") else FACTS).items():
        if not re.fullmatch(pattern, str(value := device.get(key))):
            yield data.said("device.json", f"{key} is '{value}', not of the form {pattern}")
    for key, peak in peaks(device).items() if device.get("gpu") else ():
        if key in device and not np.isclose(device[key] or 0, peak, rtol=NEARLY - 1):
            why = f"and multiprocessors, units and clock give {peak:.5g}"
            yield data.said("device.json", f"{key} is '{device[key]}', {why}")


def peaks(device: Mapping[str, Any]) -> dict[str, float]:
    """The peak of each kind of units by its name in device.json, 0 where it has none or they are
    not known. An older set does not record all of them."""
    rates = [units.rate for units in UNITS.values()]
    terms = {f"{rate}_peak_tflops": peak_terms(device, rate) for rate in rates}
    return {key: math.prod(own) if own else 0 for key, own in terms.items()}


# A table by itself.


def repeated(data: DataSet) -> Iterator[str]:
    """Rows that are there twice."""
    for kind, table in data.tables.items():
        if not TABLES[kind].repeats:
            wrong, key = table.duplicated(TABLES[kind].key), TABLES[kind].key[0]
            yield from data.rows(kind, wrong, key, "as in an earlier line of the same point")


def impossible(data: DataSet) -> Iterator[str]:
    """Cells that no run gives: not what their column can be, or outside their own interval."""
    highest = {
        "sm_clock_mhz": data.device.get("clock_mhz"),
        "power_w": OVER_LIMIT * (data.device.get("power_limit_w") or 0),
    }
    for kind, table in data.tables.items():
        for name, cells in table.items():
            column = DICTIONARY[str(name)]
            low, high = column.low, highest.get(column.name) or column.high
            if column.kind != TEXT:
                wrong = cells.notna() & ~cells.astype(float).between(low, high)
                yield from data.rows(kind, wrong, column.name, f"not from {low:g} to {high:g}")
            elif column.words is not None:
                wrong, why = ~cells.str.fullmatch(column.words), f"not of the form {column.words}"
                yield from data.rows(kind, wrong, column.name, why)
        for low in (name for name in table.columns if "_low" in name):
            middle, high = low.replace("_low", ""), low.replace("_low", "_high")
            outside = (table[low] > table[middle]) | (table[middle] > table[high])
            yield from data.rows(kind, outside, middle, f"outside {low} and {high}")
    wrong = data["summary.csv"].mean_error > data["summary.csv"].largest_error
    yield from data.rows("summary.csv", wrong, "mean_error", "above largest_error")


def reasonless(data: DataSet) -> Iterator[str]:
    """A reason where all is well, or none where it is not; a row that is ok without what it was
    measured for."""
    for kind, table in data.tables.items():
        if "status" not in table:
            continue
        ok = table.status == "ok"
        yield from data.rows(kind, ok == (table.reason != ""), "reason", "unlike the status")
        if "phase" in table:
            ok &= table.phase == "kernel"
        for column in (name for name in table.columns if DICTIONARY[name].measured):
            lacking = ok & table[column].isna()
            yield from data.rows(kind, lacking, column, "though the status is ok")


# One table beside another.


def unknown_names(data: DataSet) -> Iterator[str]:
    """Variants, programs and cards that other tables do not know."""
    kernels, ceilings = data["kernels.csv"], data["ceilings.csv"]
    own = kernels.variant.map(lambda name: re.split(r"[/\[]", name)[0])
    yield from data.rows("kernels.csv", kernels.kernel != own, "kernel", "not the variant's")
    for kind in ("jobs.csv", "summary.csv", "verification.csv", "ratios.csv", SAMPLES):
        wrong = ~data[kind].variant.isin(kernels.variant)
        yield from data.rows(kind, wrong, "variant", "which kernels.csv does not have")
    wrong = (ceilings.sha256 == "") | (ceilings.sha256.nunique() > 1)
    yield from data.rows("ceilings.csv", wrong, "sha256", "not the digest of one program")
    for kind, column in (("jobs.csv", "uuid"), ("ceilings.csv", "uuid"), ("ceilings.csv", "gpu")):
        known = str(data.device.get(column) or "")
        wrong = ~data[kind][column].isin(["", known, *known.split("+")])
        yield from data.rows(kind, wrong, column, f"and device.json has {known}")


def unlike_jobs(data: DataSet) -> Iterator[str]:
    """Jobs without rows, rows without jobs, and jobs whose parts took longer than they."""
    jobs, summary, kernels = data["jobs.csv"], data["summary.csv"], data["kernels.csv"]
    yield from data.lacking("jobs.csv", jobs, "summary.csv", summary, JOB)
    if not data.device.get("gpu"):  # what only a GPU runs has rows, and no job
        summary = data.timed
        kernels = kernels[kernels.variant.isin(summary.variant)]
    yield from data.lacking("summary.csv", summary, "jobs.csv", jobs, JOB)
    yield from data.lacking("kernels.csv", kernels, "jobs.csv", jobs, ["variant"])
    wrong = jobs[PARTS].sum(axis=1) > jobs.wall_s + 0.01  # each is rounded to a millisecond
    yield from data.rows("jobs.csv", wrong, "wall_s", "less than its parts together")


def unlike_states(data: DataSet) -> Iterator[str]:
    """States of the card that are missing, or differ from summary.csv's."""
    states, timed = data["states.csv"], data.timed
    timed = timed[(timed.phase == "kernel") & data.on_gpu(timed)]
    for when in WHEN:
        read = states[states.when == when]
        yield from data.lacking("states.csv", read, "summary.csv", timed, SPAN)
        yield from data.lacking("summary.csv", timed, "states.csv", read, SPAN)
    during = states[states.when == "during"]
    read = timed[SPAN].merge(during, on=SPAN, how="left")[STATE]
    yield from data.unlike("summary.csv", timed, read, "states.csv has")


def unverified(data: DataSet) -> Iterator[str]:
    """Variants that were timed without a verification, or after one that failed."""
    verification, timed = data["verification.csv"], data.timed
    passed = verification[verification.status == "ok"]
    yield from data.lacking("summary.csv", timed, "verification.csv", passed, ["variant"])
    failed = (verification.status == "failed") & verification.variant.isin(timed.variant)
    yield from data.rows("verification.csv", failed, "status", "though the variant was timed")
    if data.device.get("gpu"):
        summary = data["summary.csv"]
        on_gpu = verification.variant.isin(summary.variant[data.on_gpu(summary)])
        wrong = verification["where"] != np.where(on_gpu, "gpu", "cpu")
        yield from data.rows("verification.csv", wrong, "where", "not where the variant was timed")


def other_code(data: DataSet) -> Iterator[str]:
    """Hot loops that are not the sum of their instructions, and binaries of other sources."""
    code, kernels = data["instructions.csv"], data["kernels.csv"].set_index("variant")
    wrong = (code.status == "ok") & (code[LOOP].sum(axis=1) != code.loop_instructions)
    yield from data.rows("instructions.csv", wrong, "loop_instructions", "not the sum of its kinds")
    measured = code.variant.map(kernels.sha256)
    wrong = measured.notna() & (code.sha256 != measured)
    yield from data.rows("instructions.csv", wrong, "sha256", "and kernels.csv has another")


# What follows from the samples.


def miscounted(data: DataSet) -> Iterator[str]:
    """Samples that are missing: in a series, or in one of the two series of a pair."""
    samples, who = data[SAMPLES], [*SPAN, "baseline_of"]
    turn = samples.groupby(who, sort=False, dropna=False).cumcount()
    wrong = samples["sample"] != turn
    yield from data.rows(SAMPLES, wrong, "sample", "out of turn: one is missing")
    last = samples[(samples.phase == "kernel") & ~samples.duplicated(who, keep="last")]
    beside, own = (last[(last.baseline_of == "") == alone] for alone in (False, True))
    pairs = beside.assign(variant=beside.baseline_of, row=beside.index)
    both = pairs.merge(own, on=SPAN, how="left", suffixes=("", "_own")).set_index("row")
    wrong = both["sample"] != both.sample_own
    why = "the last one beside a kernel that has another number"
    yield from data.rows(SAMPLES, wrong, "sample", why)


def unsummarised(data: DataSet) -> Iterator[str]:
    """What summary.csv says of samples and they do not give."""
    summary, samples = data["summary.csv"], data[SAMPLES]
    own, derived = samples[samples.baseline_of == ""], ["kernel", "samples", *TIMES, "tflops"]
    yield from data.lacking(SAMPLES, own.drop_duplicates(SPAN), "summary.csv", data.timed, SPAN)
    yield from data.lacking("summary.csv", data.timed, SAMPLES, own, SPAN)
    expected = summarise(summary.drop(columns=derived), samples, kernel_names(data))
    yield from data.unlike("summary.csv", summary, expected[derived], "its samples give")


def unpaired(data: DataSet) -> Iterator[str]:
    """What ratios.csv says of pairs and they do not give; pairs of which it says nothing; points
    without the rivals that their variant has at others."""
    ratios, timed = data["ratios.csv"], data.timed
    expected = pair_ratios(data[SAMPLES], kernel_names(data))
    yield from data.lacking("ratios.csv", ratios, SAMPLES, expected, PAIR)
    for _, row in expected[~among(expected, ratios, PAIR)].iterrows():
        what = f"{named(row)}: no row beside {row.baseline}, and {SAMPLES} has their pairs"
        yield data.said("ratios.csv", what)
    order = ratios[PAIR].merge(expected, on=PAIR)[["kernel", "pairs", *RATIO]]
    yield from data.unlike("ratios.csv", ratios, order, "its samples give")
    rivals = ratios[["variant", "baseline"]].drop_duplicates()
    kernels = timed[timed.phase == "kernel"].reset_index()
    wanted = kernels.merge(rivals, on="variant").set_index("index")
    yield from data.lacking("summary.csv", wanted, "ratios.csv", ratios, PAIR)


def kernel_names(data: DataSet) -> dict[str, str]:
    """The kernel of each variant."""
    return data["kernels.csv"].set_index("variant").kernel.to_dict()


# What the configuration and the card allow.


def incomplete(data: DataSet) -> Iterator[str]:
    """Points, cache states, phases and kernels of the configuration that are missing, and points
    that are not in it."""
    configuration, summary = data.device["configuration"], data["summary.csv"]
    points = [(shape_of(row), row.fill, row.mode) for row in summary.itertuples()]
    summary = summary.assign(point=points)
    for name in sorted({*summary.sweep, *data.sweeps}):
        if name not in data.sweeps:
            yield data.said("device.json", f"the configuration has no sweep {name}")
        sweep, rows = sweep_of(configuration, name), summary[summary.sweep == name]
        texts = sweep["shapes"] if takes_place(sweep, bool(data.device["gpu"])) else []
        shapes = [parse_shape(text, sweep["operation"]) for text in texts]
        wanted = set(itertools.product(shapes, sweep["fills"], sweep["modes"]))
        lists = [names for names in (sweep["kernels"], configuration["kernels"]) if names != "all"]
        asked = [{*map(bare_name, names)} for names in lists] if wanted else []
        for kernel in set.intersection(*asked) - {*rows.kernel} if asked else ():
            yield data.said("summary.csv", f"{name}: no row of {kernel}, which it measures")
        chosen = {"cold"} if sweep["cold"] != "all" else set()
        for variant, own in rows.groupby("variant"):
            caches = {*sweep["caches"]} - chosen if data.on_gpu(own).any() else set()
            for what in lacking_points(own, wanted, caches):
                yield data.said("summary.csv", f"{variant}, {name}: {what}")


def bare_name(text: str) -> str:
    """The kernel of a name in a configuration, of before 1.0.0 too."""
    return kernel_name(text).partition("[")[0]


def lacking_points(rows: pd.DataFrame, wanted: set[Point], caches: set[str]) -> Iterator[str]:
    """What the rows of a job lack: points, these `caches`, or what others of its points have of
    cache states and phases; and points that are not `wanted`."""
    found = rows.assign(span=rows.phase.where(rows.phase != "kernel", rows.cache))
    spans = found.groupby("point", sort=False).span.agg(set)
    for point in sorted({*spans.index} ^ wanted, key=str):
        yield f"{words(point)} {'is not in the configuration' if point in spans else 'is missing'}"
    timed = {*rows.point[(rows.phase == "kernel") & (rows.status == "ok")]}
    everywhere = caches.union(*spans)
    for point, own in spans.items():
        # Only a kernel that was launched has other phases; its cache states are always there.
        expected = everywhere if point in timed else everywhere & {*CACHES}
        if lost := expected - own:
            yield f"{words(point)} has no row of {min(lost)}"


def words(point: Point) -> str:
    return " ".join(map(str, point))


def stopped_otherwise(data: DataSet) -> Iterator[str]:
    """Points that the rule of their sweep would not have ended as they say."""
    samples, timed = data[SAMPLES], data.timed
    timed = timed[timed.phase == "kernel"]
    kernel = samples.baseline_of.where(samples.baseline_of != "", samples.variant)
    series = samples.assign(who=samples.variant, variant=kernel)
    series = series[series.phase == "kernel"].groupby(SPAN, sort=False, dropna=False)
    rules = {name: rule_of(sweep_of(data.device["configuration"], name)) for name in data.sweeps}

    def what_ended(rows: pd.DataFrame) -> str:
        """By the times of a kernel and its rivals at a point."""
        times = [own.to_numpy() for _, own in rows.groupby("who", sort=False).time_ms]
        return rules[rows.name[SPAN.index("sweep")]].enough(times) or "seconds"

    ended = series[["who", "time_ms"]].apply(what_ended).reset_index(name="stopped")
    expected = timed[SPAN].merge(ended, on=SPAN, how="left")[["stopped"]]
    source = "by its samples and the configuration what ended it is"
    yield from data.unlike("summary.csv", timed, expected, source)


def rule_of(sweep: Mapping[str, Any]) -> Rule:
    return Rule(*(sweep["sampling"][field.name] for field in fields(Rule)))


def too_fast(data: DataSet, catalogue: Catalogue) -> Iterator[str]:
    """Rates of full arithmetic above the peak of the card's units, where that is known."""
    summary, known = data["summary.csv"], peaks(data.device)
    reduced = {name for name, kernel in catalogue.items() if kernel.arithmetic != "full"}
    full = data.on_gpu(summary) & ~summary.kernel.isin(reduced)
    for name, dtype in DTYPES.items():  # a kernel of full arithmetic may use any of its units
        peak = max((known[f"{units.rate}_peak_tflops"] for units in dtype.units), default=0)
        wrong = full & (summary.dtype == name) & (summary.tflops > NEARLY * (peak or np.inf))
        why = f"above the {peak:.4g} TFLOP/s of the card's units"
        yield from data.rows("summary.csv", wrong, "tflops", why)
