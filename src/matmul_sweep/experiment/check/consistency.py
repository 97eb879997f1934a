"""Whether the cells of a data set are possible, and its tables agree with one another."""

import sys
from collections.abc import Iterator

from matmul_sweep.catalogue.entries import kernel_name
from matmul_sweep.experiment.check.data_set import JOB, SAMPLES, DataSet
from matmul_sweep.experiment.check.machine import PLACE
from matmul_sweep.experiment.dataset.tables import (
    DICTIONARY,
    LOOP,
    PARTS,
    SPAN,
    STATE,
    TABLES,
    TEXT,
    TEXTS,
    WHEN,
)
from matmul_sweep.operations import OPERATIONS

FINITE = sys.float_info.max
OVER_LIMIT = 1.5  # a reading of the power now, over the limit, which holds for an average


# A table by itself.


def repeated(data: DataSet) -> Iterator[str]:
    """Rows that are there twice."""
    for kind, table in data.tables.items():
        if not TABLES[kind].repeats:
            wrong, key = table.duplicated(TABLES[kind].key), TABLES[kind].key[0]
            yield from data.rows(kind, wrong, key, "as in an earlier line of the same point")


def impossible(data: DataSet) -> Iterator[str]:
    """Cells that no run gives: not what their column can be, or outside their own interval. What
    failed may have any error."""
    clock, power = (data.device.get(name) or 0 for name in ("clock_mhz", "power_limit_w"))
    highest = dict.fromkeys(["sm_clock_mhz", "block_mhz"], clock)
    highest |= dict.fromkeys(["power_w", "block_w"], OVER_LIMIT * power)
    for kind, table in data.tables.items():
        for name, cells in table.items():
            column = DICTIONARY[str(name)]
            low = max(column.low, -FINITE)
            high = min(highest.get(column.name) or column.high, FINITE)
            if column.kind != TEXT:
                wrong = cells.notna() & ~cells.astype(float).between(low, high)
                wrong &= table.status != "failed" if "status" in table else True
                why = f"not from {low:g} to {high:g}"
                yield from data.rows(kind, wrong, column.name, why)
            elif column.words is not None:
                wrong, why = ~cells.str.fullmatch(column.words), f"not of the form {column.words}"
                yield from data.rows(kind, wrong, column.name, why)
        for low in (name for name in table.columns if "_low" in name):
            middle, high = low.replace("_low", ""), low.replace("_low", "_high")
            outside = (table[low] > table[middle]) | (table[middle] > table[high])
            yield from data.rows(kind, outside, middle, f"outside {low} and {high}")
    wrong = data["summary.csv"].mean_error > data["summary.csv"].largest_error
    yield from data.rows("summary.csv", wrong, "mean_error", "above largest_error")


def shapeless(data: DataSet) -> Iterator[str]:
    """Products that lack a dimension."""
    for kind, table in data.tables.items():
        for operation in OPERATIONS.values() if "operation" in table else ():
            own = table[table.operation == operation.name]
            for name in operation.shape.__match_args__:
                wrong = own[name].isna()
                yield from data.rows(kind, wrong, name, f"which a shape of {operation.name} has")


def reasonless(data: DataSet) -> Iterator[str]:
    """A reason where all is well, or none where it is not; a row that is ok without what it was
    measured for."""
    for kind, table in data.tables.items():
        if "status" not in table:
            continue
        ok = table.status == "ok"
        yield from data.rows(kind, ok == (table.reason != ""), "reason", "unlike the status")
        ok &= table.phase == "kernel" if "phase" in table else True
        for column in (name for name in table.columns if DICTIONARY[name].measured):
            yield from data.rows(kind, ok & table[column].isna(), column, "though the status is ok")


def with_a_place(data: DataSet) -> Iterator[str]:
    """Paths of a machine, which nobody else has and which may name a person."""
    for kind, table in data.tables.items():
        for name in table.columns.intersection(TEXTS):
            wrong = table[name].str.contains(PLACE, regex=True)
            yield from data.rows(kind, wrong, name, "a path of the machine that measured it")


# One table beside another.


def unknown_names(data: DataSet) -> Iterator[str]:
    """Variants, programs and cards that other tables do not know."""
    kernels, ceilings = data["kernels.csv"], data["ceilings.csv"]
    own = kernels.variant.map(kernel_name)
    yield from data.rows("kernels.csv", kernels.kernel != own, "kernel", "not the variant's")
    for kind in ("jobs.csv", "summary.csv", "verification.csv", "ratios.csv", SAMPLES):
        table = data[kind].query("baseline_of == ''") if kind == SAMPLES else data[kind]
        wrong = ~table.variant.isin(kernels.variant)
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
    """States of the card that are missing, or differ from summary.csv's. Alone each block has
    its own."""
    states, timed = data["states.csv"], data.timed
    timed = timed[(timed.phase == "kernel") & (timed.cache != "alone") & data.on_gpu(timed)]
    for when in WHEN:
        read = states[states.when == when]
        yield from data.lacking("states.csv", read, "summary.csv", timed, SPAN)
        yield from data.lacking("summary.csv", timed, "states.csv", read, SPAN)
    read = timed[SPAN].merge(states[states.when == "during"], on=SPAN, how="left")[STATE]
    yield from data.unlike("summary.csv", timed, read, "states.csv has")


def other_code(data: DataSet) -> Iterator[str]:
    """Hot loops that are not the sum of their instructions, and binaries of other sources."""
    code, kernels = data["instructions.csv"], data["kernels.csv"].set_index("variant")
    wrong = (code.status == "ok") & (code[LOOP].sum(axis=1) != code.loop_instructions)
    yield from data.rows("instructions.csv", wrong, "loop_instructions", "not the sum of its kinds")
    measured = code.variant.map(kernels.sha256)
    wrong = measured.notna() & (code.sha256 != measured)
    yield from data.rows("instructions.csv", wrong, "sha256", "and kernels.csv has another")
