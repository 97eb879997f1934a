"""Whether device.json can be of a run, and of a card of its model; rates beside its peaks."""

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from matmul_sweep.catalogue.architectures import peak_terms
from matmul_sweep.catalogue.cards import CARDS
from matmul_sweep.catalogue.entries import Catalogue, kernel_name
from matmul_sweep.experiment.check.data_set import DataSet
from matmul_sweep.experiment.dataset.provenance import COMMIT
from matmul_sweep.experiment.dataset.words import CEILINGS
from matmul_sweep.operations import shape_of
from matmul_sweep.operations.dtypes import DTYPES, UNITS
from matmul_sweep.process.errors import shown

NEARLY = 1.01  # the clock of a card is a whole number of MHz, and a timer has a step
BEGUN = datetime.date(2026, 11, 21)  # the project
COMMITS = rf"{COMMIT}(\+{COMMIT})*"
# At least two folders: a rate has a slash too, and so has a variant's name.
PLACE = r"(?:^|file://|[^\w/.])/(?:[\w.~+-]+/)+[\w.~+-]"


def unlikely_machine(data: DataSet) -> Iterator[str]:
    """Facts of device.json that no machine has, or not this model of card."""
    yield from undated(data)
    for text in texts(data.device):
        if re.search(PLACE, text):
            what = f"'{shown(text)}' is a path of the machine that measured it"
            yield data.said("device.json", what)
    if data.device["gpu"]:
        yield from other_model(data)
        yield from other_peaks(data)


def undated(data: DataSet) -> Iterator[str]:
    """A day that is not in the calendar, or on which nobody can have measured."""
    given, today = data.device["date"], datetime.datetime.now(datetime.UTC).date()
    try:
        possible = BEGUN <= datetime.date.fromisoformat(given) <= today
    except ValueError:
        possible = False
    if not possible:
        yield data.said("device.json", f"date is '{given}', no day from {BEGUN} to {today}")


def texts(content: Any) -> Iterator[str]:
    """All texts in what was read from JSON, the keys too."""
    if isinstance(content, Mapping):
        content = [*content, *content.values()]
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            yield from texts(part)


def other_model(data: DataSet) -> Iterator[str]:
    """What a card of this model has not, if it is one of CARDS."""
    device = data.device
    known = CARDS.get(device["gpu"])
    if known is None:
        return
    for key in ("compute_capability", "multiprocessors", "clock_mhz"):
        if device[key] != getattr(known, key):
            what = f"{key} is '{device[key]}', and {device['gpu']} has {getattr(known, key)}"
            yield data.said("device.json", what)
    for key in ("memory_bytes", "l2_bytes", "power_limit_w"):
        if (device.get(key) or 0) > (most := getattr(known, key)):
            what = f"{key} is '{device[key]}', above the {most} that {device['gpu']} has"
            yield data.said("device.json", what)


def other_peaks(data: DataSet) -> Iterator[str]:
    """Peaks that do not follow from the card."""
    for key, peak in peaks(data.device).items():
        given = data.device.get(key, peak) or 0
        if not isinstance(given, int | float) or not math.isclose(given, peak, rel_tol=NEARLY - 1):
            why = f"and multiprocessors, units and clock give {peak:.5g}"
            yield data.said("device.json", f"{key} is '{shown(given)}', {why}")


def peaks(device: Mapping[str, Any]) -> dict[str, float]:
    """The peak of each kind of units by its name in device.json, 0 where it has none or they are
    not known. An older set does not record all of them."""
    rates = [units.rate for units in UNITS.values()]
    terms = {f"{rate}_peak_tflops": peak_terms(device, rate) for rate in rates}
    return {key: math.prod(own) if own else 0 for key, own in terms.items()}


def memory_gb_s(device: Mapping[str, Any]) -> float:
    """The peak of the card's memory, infinite where it is not known."""
    known = CARDS.get(device["gpu"])
    return known.memory_gb_s if known else np.inf


def too_fast(data: DataSet, catalogue: Catalogue) -> Iterator[str]:
    """Rates of full arithmetic above the peak of the card's units, where that is known, and
    traffic above that of its memory."""
    jobs, counters, known = data["jobs.csv"], data["counters.csv"], peaks(data.device)
    reduced = {name for name, kernel in catalogue.items() if kernel.arithmetic != "full"}
    for kind, (column, rates) in rates_of(data).items():
        table = data[kind]
        full = ~table.variant.map(kernel_name).isin(reduced)
        full &= ~table.variant.isin(jobs.variant[jobs.uuid == ""])
        for name, dtype in DTYPES.items():  # a kernel of full arithmetic may use any of its units
            peak = max((known[f"{units.rate}_peak_tflops"] for units in dtype.units), default=0)
            wrong = full & (table.dtype == name) & (rates > NEARLY * (peak or np.inf))
            why = f"above the {peak:.4g} TFLOP/s of the card's units"
            yield from data.rows(kind, wrong, column, why)
    most = memory_gb_s(data.device)
    wrong = counters.dram_bytes > NEARLY * most * counters.duration_ns
    why = f"in that time above the {most} GB/s of the card"
    yield from data.rows("counters.csv", wrong, "dram_bytes", why)


def rates_of(data: DataSet) -> dict[str, tuple[str, pd.Series]]:
    """The column of each table that gives a rate of its rows, and these rates in TFLOP/s."""
    found = {"summary.csv": ("tflops", data["summary.csv"].tflops)}
    for kind, column, unit in (("cross_check.csv", "do_bench_ms", 1e9),
                               ("counters.csv", "duration_ns", 1e3)):  # fmt: skip
        work = np.array([shape_of(row).operations for row in data[kind].itertuples()], float)
        found[kind] = column, work / unit / data[kind][column].astype(float)
    return found


def too_high(data: DataSet) -> Iterator[str]:
    """Ceilings above the peak of what they measure, where that is known."""
    ceilings, known = data["ceilings.csv"], peaks(data.device)
    most = {name: known[f"{units.rate}_peak_tflops"] or np.inf for name, units in UNITS.items()}
    most["copy"] = memory_gb_s(data.device)
    units = ceilings.name.map(CEILINGS)
    yield from data.rows("ceilings.csv", units.isna(), "name", "no known ceiling")
    yield from data.rows("ceilings.csv", ceilings.unit != units, "unit", "not that of the ceiling")
    peak = ceilings.name.map(most)
    why = peak.map(lambda limit: f"above the {limit:.4g} of the card")
    yield from data.rows("ceilings.csv", ceilings.value > NEARLY * peak, "value", why)


def unrepeatable(data: DataSet) -> Iterator[str]:
    """Programs that nobody else has."""
    device, again = data.device, "commit, then delete the data set and run again"
    where = f"{data.folder / 'device.json'}: commit is '{shown(device['commit'])}'"
    if not re.fullmatch(COMMITS, device["commit"]):
        yield f"{where}, no commit of git; {again}"
    if device["dirty"]:
        yield f"{where}, and files differed from it (dirty); {again}"
