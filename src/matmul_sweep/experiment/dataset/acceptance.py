"""What a data set must fulfil beyond following from its samples: a known card, the sources of this
checkout, every point of its configuration, rates that the card can reach.

Findings are lines like those of matmul_sweep.experiment.dataset.consistency.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from matmul_sweep import __version__ as VERSION
from matmul_sweep.build.binaries import tool_source
from matmul_sweep.catalogue.architectures import ARCHITECTURES, peak_terms
from matmul_sweep.catalogue.entries import Catalogue, kernel_name
from matmul_sweep.experiment.dataset.consistency import DIGEST, DataSet, findings, read_set
from matmul_sweep.experiment.dataset.derived import SPAN
from matmul_sweep.experiment.dataset.intervals import Rule
from matmul_sweep.experiment.dataset.selection import changed_variants
from matmul_sweep.experiment.dataset.tables import BEFORE, version_of
from matmul_sweep.experiment.dataset.words import CACHES, REASONS
from matmul_sweep.experiment.plan.configuration import sweep_of, takes_place
from matmul_sweep.operations import parse_shape, shape_of
from matmul_sweep.operations.dtypes import DTYPES, UNITS
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.programs import program_digest
from matmul_sweep.process.project import ROOT

FACTS = {
    "date": r"\d{4}-\d\d-\d\d",
    "commit": r"\S+",
    "code": rf"{DIGEST}(\+{DIGEST})*",
}
Point = tuple[Shape, str, str]  # with fill and mode
NEARLY = 1.01  # the clock of a card is a whole number of MHz, and a timer has a step


def check_set(folder: Path, catalogue: Catalogue, earlier: bool = False) -> DataSet:
    """Read a data set and hold it against its samples, its configuration and this checkout.

    earlier: accept one that another version or other kernels measured. Raises UserError with the
    first finding.
    """
    data = read_set(folder)
    checks = [
        other_version(data, catalogue) if not earlier else [],
        unlikely_machine(data),
        findings(data),
        unlikely_states(data),
        incomplete(data),
        stopped_otherwise(data),
        too_fast(data, catalogue),
    ]
    for finding in itertools.chain.from_iterable(checks):
        raise UserError(finding)
    return data


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

    def wrong(key: str, why: str) -> str:
        return data.said("device.json", f"{key} is '{device.get(key)}', {why}")

    if "sweeps" not in (device.get("configuration") or {}):
        yield wrong("configuration", "without sweeps")
    for key, pattern in FACTS.items():
        if not re.fullmatch(pattern, str(device.get(key))):
            yield wrong(key, f"not of the form {pattern}")
    if not device.get("gpu"):
        return
    known = ARCHITECTURES.get(str(device.get("compute_capability")))
    if known is None:
        cards = ", ".join(ARCHITECTURES)
        yield wrong("compute_capability", f"of a card that is unknown here (known: {cards})")
    for key in ("multiprocessors", "clock_mhz", "memory_bytes", "l2_bytes"):
        if not isinstance(device.get(key), int) or device[key] <= 0:
            yield wrong(key, "not a whole number above zero")
    for key, peak in peaks(device).items():
        if key in device and not np.isclose(device[key] or 0, peak, rtol=NEARLY - 1):
            yield wrong(key, f"and multiprocessors, units and clock give {peak:.5g}")
    ceilings = data["ceilings.csv"]
    other = ~ceilings.gpu.isin(["", device["gpu"]])
    yield from data.rows("ceilings.csv", other, "gpu", f"not device.json's {device['gpu']}")


def peaks(device: Mapping[str, Any]) -> dict[str, float]:
    """The peak of each kind of units by its name in device.json, 0 where it has none or they are
    not known. An older set does not record all of them."""
    rates = [units.rate for units in UNITS.values()]
    terms = {f"{rate}_peak_tflops": peak_terms(device, rate) for rate in rates}
    return {key: math.prod(own) if own else 0 for key, own in terms.items()}


def unlikely_states(data: DataSet) -> Iterator[str]:
    """Throttle reasons that the recorder does not know."""
    reasons = {"", *REASONS.values()}
    for kind in ("states.csv", "summary.csv", "ceilings.csv"):
        wrong = ~data[kind].throttled.map(lambda text: {*text.split("+")} <= reasons)
        yield from data.rows(kind, wrong, "throttled", "which is no throttle reason")


def incomplete(data: DataSet) -> Iterator[str]:
    """Points, cache states, phases and kernels of the configuration that are missing, and points
    that are not in it."""
    configuration, summary = data.device["configuration"], data["summary.csv"]
    points = [(shape_of(row), row.fill, row.mode) for row in summary.itertuples()]
    summary = summary.assign(point=points)
    for name in sorted({*summary.sweep} | {*configuration["sweeps"]}):
        if name not in configuration["sweeps"]:
            yield data.said("device.json", f"the configuration has no sweep {name}")
        sweep, rows = sweep_of(configuration, name), summary[summary.sweep == name]
        texts = sweep["shapes"] if takes_place(sweep, bool(data.device["gpu"])) else []
        shapes = [parse_shape(text, sweep["operation"]) for text in texts]
        wanted = set(itertools.product(shapes, sweep["fills"], sweep["modes"]))
        lists = [names for names in (sweep["kernels"], configuration["kernels"]) if names != "all"]
        asked = {*map(bare_name, lists[0] if lists else [])}
        for kernel in asked.intersection(*(map(bare_name, names) for names in lists)):
            if wanted and kernel not in {*rows.kernel}:
                yield data.said("summary.csv", f"{name}: no row of {kernel}, which it measures")
        cold = set() if sweep["cold"] == "all" else {"cold"}
        for variant, own in rows.groupby("variant"):
            caches = {*sweep["caches"]} - cold if data.on_gpu(own).any() else set()
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
    summary, samples = data["summary.csv"], data["samples.csv.gz"]
    kernel = samples.baseline_of.where(samples.baseline_of != "", samples.variant)
    series = samples.assign(who=samples.variant, variant=kernel)
    configuration = data.device["configuration"]
    rules = {name: rule_of(configuration, name) for name in configuration["sweeps"]}
    ended = (
        series[series.phase == "kernel"]
        .groupby(SPAN, sort=False, dropna=False)[["who", "time_ms"]]
        .apply(lambda rows: how_it_ended(rows, rules[rows.name[1]]))
        .rename("rule")
        .reset_index()
    )
    timed = summary[(summary.phase == "kernel") & (summary.status == "ok")]
    both = timed[SPAN].reset_index().merge(ended, on=SPAN)
    rule = both.set_index("index").rule.reindex(timed.index)
    wrong = summary.index.isin(timed.index[timed.stopped != rule])
    why = rule.map(lambda name: f"and by its samples and the configuration {name} ended it")
    yield from data.rows("summary.csv", wrong, "stopped", why)


def how_it_ended(rows: pd.DataFrame, rule: Rule) -> str:
    """What ended the sampling of a point, by the times of a kernel and its rivals."""
    times = [own.to_numpy() for _, own in rows.groupby("who", sort=False).time_ms]
    return rule.enough(times) or "seconds"


def rule_of(configuration: Mapping[str, Any], sweep: str) -> Rule:
    """When the sampling of a sweep's points stops."""
    sampling = sweep_of(configuration, sweep)["sampling"]
    return Rule(*(sampling[field.name] for field in fields(Rule)))


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
