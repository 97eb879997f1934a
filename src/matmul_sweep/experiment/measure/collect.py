"""The results of a run's jobs as a data set: summary, ratios, samples, kernels and the machine.

Nothing is timed here, and the same inputs give the same tables. Points for which the run has no
device get their rows here.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from matmul_sweep import __version__ as VERSION
from matmul_sweep.build.binaries import binary_of, digest
from matmul_sweep.catalogue.entries import Catalogue
from matmul_sweep.experiment.dataset.derived import pair_ratios, summarise
from matmul_sweep.experiment.dataset.provenance import commit, host_facts
from matmul_sweep.experiment.dataset.tables import COLUMNS, order_of, read_table, version_of
from matmul_sweep.experiment.measure.sweep import Sweep
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.experiment.plan.settings import GPU
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json

JOB_ONLY = ("settings", "split", "occupancy")
AGAIN = "delete results/local and run again"
# Facts in which all jobs of a data set must agree, and the remedy; their cards may be several of
# one model.
ALIKE = {
    "gpu": ("model of GPU", f"on a cluster set gpu_model in the profile; {AGAIN}"),
    "cpu": ("processor", AGAIN),
    "driver_cuda": ("CUDA driver", AGAIN),
    "cublas": ("cuBLAS", AGAIN),
    "power_limit_w": ("power limit in W", AGAIN),
    "clock_mhz": ("highest clock in MHz", AGAIN),
    "multiprocessors": ("number of multiprocessors", AGAIN),
    "memory_bytes": ("size of memory in bytes", AGAIN),
}


def collect(
    experiment: Experiment, results: Path
) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """device.json, and the tables by file name, of the jobs whose results lie in this folder.

    Raises UserError for a file that is missing or damaged, and for jobs under unlike conditions.
    """
    folders = [
        results / "measured" / sweep / part / variant.slug
        for (sweep, part), own in experiment.measured.items()
        for variant in own
    ]
    facts = [read_json(folder / "facts.json") for folder in folders]
    compiled = [
        read_json(binary_of(variant, results / "build" / arch).with_suffix(".json"))
        for (arch, _), own in experiment.binaries.items() for variant in own
    ]  # fmt: skip
    # Of several architectures one for which a variant does not compile.
    compiled.sort(key=lambda record: record["status"] != "ok")
    records = {record["variant"]: record for record in compiled}
    verified = [results / "verified" / f"{name}.csv" for name in experiment.operations]
    tables = {"verification.csv": joined("verification.csv", verified)}
    on_cards = facts
    if experiment.device == GPU:
        tables["ceilings.csv"] = read_table("ceilings.csv", results / "measured" / "ceilings.csv")
        on_cards = facts + [{"gpu": gpu} for gpu in tables["ceilings.csv"].gpu if gpu]
    check_alike(on_cards)
    tables |= measured_tables(experiment, folders, facts, tables["verification.csv"])
    occupancies = {own["split"]["variant"]: own.get("occupancy") for own in facts}
    names = {*tables["jobs.csv"].variant, *tables["summary.csv"].variant}
    tables["kernels.csv"] = kernel_rows(experiment.catalogue, names, records, occupancies)
    return machine(facts, records, experiment.configuration), tables


def joined(kind: str, files: Iterable[Path]) -> pd.DataFrame:
    """The rows of all files."""
    tables = [pd.DataFrame(columns=COLUMNS[kind]), *(read_table(kind, file) for file in files)]
    filled = [table for table in tables if not table.empty]
    return pd.concat(filled or tables[:1], ignore_index=True)


def check_alike(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError if jobs ran under different conditions."""
    for key, (words, remedy) in ALIKE.items():
        seen = sorted({str(job[key]) for job in jobs if job.get(key) is not None})
        if len(seen) > 1:
            raise UserError(f"points of more than one {words} ({', '.join(seen)}): {remedy}")


def measured_tables(
    experiment: Experiment, folders: Sequence[Path], facts: Sequence[Mapping[str, Any]],
    verified: pd.DataFrame,
) -> dict[str, pd.DataFrame]:  # fmt: skip
    """What jobs measured, and what there is no device for."""
    samples = joined("samples.csv.gz", (folder / "samples.csv.gz" for folder in folders))
    points = joined("points.csv", (folder / "points.csv" for folder in folders))
    if experiment.unmeasured:
        refused = unmeasured(experiment, verified[verified.status == "failed"])
        points = pd.concat([points, refused], ignore_index=True)
    names = {v.name: v.kernel.name for v in experiment.catalogue.buildable.values()}
    splits = [own["split"] | {"uuid": own.get("uuid")} for own in facts]
    return {
        "summary.csv": summarise(points, samples, names),
        "ratios.csv": pair_ratios(samples, names),
        "samples.csv.gz": samples,
        "states.csv": joined("states.csv", (folder / "states.csv" for folder in folders)),
        "jobs.csv": pd.DataFrame(splits, columns=COLUMNS["jobs.csv"]),
    }


def unmeasured(experiment: Experiment, failed: pd.DataFrame) -> pd.DataFrame:
    """The points of variants for which the run has no device, as rows of points.csv; `failed` are
    the failed verifications."""
    reasons = dict(zip(failed.variant[::-1], failed.reason[::-1], strict=True))
    rows: list[dict[str, Any]] = []
    for name, variant in experiment.unmeasured:
        sweep = Sweep(name, variant, experiment.settings(name, variant), Path(), "")
        why = ("skipped", "there is no GPU on this machine")
        if reason := reasons.get(variant.name):
            why = ("failed", f"verification: {reason}")
        sweep.refuse(experiment.cases(name), *why)
        rows += sweep.rows
    return pd.DataFrame(rows, columns=COLUMNS["points.csv"])


def kernel_rows(
    catalogue: Catalogue, names: Iterable[str], records: Mapping[str, dict[str, Any]],
    occupancies: Mapping[str, float | None],
) -> pd.DataFrame:  # fmt: skip
    """kernels.csv: the source and the compiled form of each of these variants."""
    own = {v.name: v for v in catalogue.buildable.values() if v.name in names}
    rows = [
        records.get(name, {"status": "ok", "reason": "", "sha256": digest(variant)})
        | {"kernel": variant.kernel.name, "variant": name, "occupancy": occupancies.get(name)}
        for name, variant in own.items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS["kernels.csv"])


def machine(
    jobs: Sequence[Mapping[str, Any]], records: Mapping[str, dict[str, Any]],
    configuration: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """device.json."""
    # A run that can measure nothing still has a host.
    jobs = jobs or [host_facts() | commit() | {"version": VERSION}]
    merged: dict[str, Any] = {"gpu": None, "compute_capability": None}
    for job in jobs:
        merged |= {key: value for key, value in job.items() if key not in JOB_ONLY}
    merged["date"] = max(job["date"] for job in jobs)
    merged["cores"] = max(job["cores"] for job in jobs)  # a job on a GPU may have got few
    merged["version"] = min(map(version_of, jobs), key=order_of)
    for key in ("commit", "code", "uuid"):
        merged[key] = "+".join(sorted({job[key] for job in jobs if job.get(key)})) or None
    merged["dirty"] = any(job["dirty"] for job in jobs)
    compilers = {
        Path(own["compiler_path"]).name: {key: own[key] for key in ("compiler", "architecture")}
        for own in records.values()
    }
    flags = {name: record["flags"] for name, record in records.items()}
    return merged | {"compilers": compilers, "flags": flags, "configuration": configuration}
