"""Whether a data set follows from its own samples, its tables from one another, and the whole from
its configuration, a known card, and the sources of this checkout.

A check relies on those before it, so only the first finding of a set counts.
"""

import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from matmul_sweep import __version__ as VERSION
from matmul_sweep.build.binaries import tool_source
from matmul_sweep.catalogue.entries import Catalogue
from matmul_sweep.experiment.check import consistency, facts, machine, plan, samples
from matmul_sweep.experiment.check.data_set import SAMPLES, DataSet
from matmul_sweep.experiment.dataset.selection import changed_variants
from matmul_sweep.experiment.dataset.tables import EVERY, read_folder, version_of
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.programs import program_digest
from matmul_sweep.process.project import ROOT


def check_set(folder: Path, catalogue: Catalogue, earlier: bool = False) -> DataSet:
    """Read a data set and hold it against its samples, its configuration and this checkout.

    earlier: accept one that another version or other kernels measured. Raises UserError with the
    first finding.
    """
    data = DataSet(folder, *read_folder(folder))
    first = [] if earlier else other_version(data, catalogue)
    for finding in itertools.chain(first, findings(data, catalogue, earlier)):
        raise UserError(finding)
    return data


def check_readable(folder: Path) -> None:
    """Raise UserError with the first fact, row or cell of a stranger's data set that no program
    here expects."""
    data = DataSet(folder, *read_folder(folder, {*EVERY} - {SAMPLES}))
    checks = (
        facts.unlike_facts, consistency.repeated, consistency.impossible, consistency.shapeless
    )  # fmt: skip
    for finding in itertools.chain.from_iterable(check(data) for check in checks):
        raise UserError(finding)


def findings(data: DataSet, catalogue: Catalogue, earlier: bool = True) -> Iterator[str]:
    """What in a data set cannot be as it stands, a line each."""
    yield from facts.unlike_facts(data)
    yield from facts.lacking_facts(data)
    yield from machine.unlikely_machine(data)
    if data[SAMPLES].empty:
        yield data.said(SAMPLES, "there is no sample, so nothing follows from this set")
    for check in (
        consistency.repeated, consistency.impossible, consistency.shapeless,
        consistency.reasonless, consistency.with_a_place, consistency.unknown_names,
        partial(plan.unknown_rivals, catalogue=catalogue), consistency.unlike_jobs,
        samples.miscounted, samples.unsummarised, samples.unpaired,
        partial(plan.unrivalled, catalogue=catalogue, earlier=earlier),
        consistency.unlike_states, consistency.other_code,
        partial(plan.unverified, catalogue=catalogue),
        partial(plan.incomplete, catalogue=catalogue),
        samples.stopped_otherwise, samples.too_few_blocks,
        partial(plan.verified_at_few if earlier else plan.unlike_plan, catalogue=catalogue),
        partial(machine.too_fast, catalogue=catalogue), machine.too_high, machine.unrepeatable,
    ):  # fmt: skip
        yield from check(data)


def other_version(data: DataSet, catalogue: Catalogue) -> Iterator[str]:
    """Another version of the project, or other sources than this checkout's."""
    remedy = "measure again, or check out the version that measured it (--earlier accepts it)"
    version, file = version_of(data.device), data.folder / "device.json"
    if version != VERSION:
        yield f"{file}: version {version} measured it, and this is {VERSION}; {remedy}"
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
