"""Collect the results of the jobs into a data set: summary, ratios, samples, kernels, device.

A data set belongs to one GPU model. If jobs ran on several, as on a cluster, each model has its
own. Nothing is timed here, and the same inputs give the same bytes. Points for which the run has
no device get their rows here.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from matmul_sweep import __version__ as VERSION
from matmul_sweep.build.binaries import binary_of, digest
from matmul_sweep.catalogue.entries import Catalogue
from matmul_sweep.experiment.dataset.derived import pair_ratios, summarise
from matmul_sweep.experiment.dataset.provenance import commit, host_facts
from matmul_sweep.experiment.dataset.selection import published_name
from matmul_sweep.experiment.dataset.tables import (
    COLUMNS,
    order_of,
    read_table,
    version_of,
    write_table,
)
from matmul_sweep.experiment.measure.sweep import Sweep
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.plan.experiment import Experiment, read_experiment
from matmul_sweep.experiment.plan.settings import GPU
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import read_json, write_json

JOB_ONLY = ("settings", "split", "occupancy")
# What a job says of itself, if there is none.
NOTHING = {"version": VERSION, "code": ""}
# Facts in which all jobs of a data set must agree; their cards may be several of one model.
ALIKE = {
    "cpu": "processor",
    "driver_cuda": "CUDA driver",
    "cublas": "cuBLAS",
    "power_limit_w": "power limit in W",
    "clock_mhz": "highest clock in MHz",
    "multiprocessors": "number of multiprocessors",
    "memory_bytes": "size of memory in bytes",
}


@dataclass(frozen=True)
class Job:
    """A finished job: the folder of its files, and its facts.json. A run that can measure nothing
    has one without a folder."""

    folder: Path | None
    facts: dict[str, Any]

    @property
    def gpu(self) -> str | None:
        return self.facts.get("gpu")

    @property
    def cpu(self) -> str:
        return self.facts["cpu"]


def collect_tables(kind: str, files: Sequence[Path]) -> pd.DataFrame:
    """The rows of all files; whole numbers stay whole."""
    tables = [pd.DataFrame(columns=COLUMNS[kind]), *(read_table(kind, file) for file in files)]
    filled = [table for table in tables if not table.empty]
    return pd.concat(filled or tables[:1], ignore_index=True)


def kernel_rows(catalogue: Catalogue, names: Sequence[str], records: dict[str, dict[str, Any]],
                occupancies: Mapping[str, float | None]) -> pd.DataFrame:  # fmt: skip
    """kernels.csv: the source and the compiled form of each variant."""
    rows = []
    for name in names:
        variant = catalogue.variant(name)
        record = records.get(name, {"status": "ok", "reason": "", "sha256": digest(variant)})
        row = dict.fromkeys(COLUMNS["kernels.csv"]) | record
        row |= {"kernel": variant.kernel.name, "variant": name}
        rows.append(row | {"occupancy": occupancies.get(name)})
    table = pd.DataFrame(rows)
    whole = ["registers", "shared_bytes", "spill_bytes"]
    return table.astype(dict.fromkeys(whole, "Int64"))


def worst_records(records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The compile record of each variant: among several architectures a failed one, if any."""
    kept: dict[str, dict[str, Any]] = {}
    for record in records:
        name = record["variant"]
        if name not in kept or kept[name]["status"] == "ok":
            kept[name] = record
    return kept


def by_gpu(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs of each GPU model, with the CPU jobs that ran on the same processor as its hosts.

    The model with the most jobs comes first. CPU jobs that belong to no GPU form their own group.
    """
    models = Counter(job.gpu for job in jobs if job.gpu)
    ordered = sorted(models, key=lambda model: (-models[model], model))
    hosts = {model: {job.cpu for job in jobs if job.gpu == model} for model in ordered}
    groups = [
        [job for job in jobs if job.gpu == model or (not job.gpu and job.cpu in hosts[model])]
        for model in ordered
    ]
    alone = [job for job in jobs if not job.gpu and job.cpu not in set().union(*hosts.values())]
    return groups + ([alone] if alone else [])


def ceilings_of(rows: pd.DataFrame, gpu: str | None) -> pd.DataFrame:
    """The ceilings measured on a card of this model, or why there are none."""
    if set(rows.gpu) <= {"", gpu}:
        return rows
    names = rows[["name", "unit", "gpu", "uuid", "sha256"]]
    reason = f"measured on {names.gpu.iloc[0]} alone"
    return names.assign(samples=0, status="skipped", reason=reason).reindex(columns=rows.columns)


def machine(jobs: Sequence[dict[str, Any]], records: dict[str, dict[str, Any]],
            configuration: Mapping[str, Any]) -> dict[str, Any]:  # fmt: skip
    """device.json. Raises UserError if jobs on the same GPU model ran under different
    conditions."""
    for key in ALIKE:
        seen = sorted({str(job[key]) for job in jobs if job.get(key) is not None})
        if len(seen) > 1:
            raise UserError(
                f"points of more than one {ALIKE[key]} ({', '.join(seen)}): delete "
                "results/local and run again"
            )
    merged: dict[str, Any] = {"gpu": None, "compute_capability": None}
    for job in jobs:
        merged |= {key: value for key, value in job.items() if key not in JOB_ONLY}
    merged["date"] = max(job["date"] for job in jobs)
    merged["version"] = min(map(version_of, jobs), key=order_of)
    merged["commit"] = "+".join(sorted({job["commit"] for job in jobs}))
    merged["code"] = "+".join(sorted({job["code"] for job in jobs}))
    merged["uuid"] = "+".join(sorted({job["uuid"] for job in jobs if job.get("uuid")})) or None
    merged["dirty"] = any(job["dirty"] for job in jobs)
    compilers = {
        Path(record["compiler_path"]).name: {
            key: record[key] for key in ("compiler", "architecture")
        }
        for record in records.values()
    }
    flags = {name: record["flags"] for name, record in records.items()}
    return merged | {"compilers": compilers, "flags": flags, "configuration": configuration}


def unmeasured(experiment: Experiment, failed: pd.DataFrame) -> pd.DataFrame:
    """The points of variants for which the run has no device, as rows of points.csv; `failed` are
    the failed verifications."""
    reasons = dict(zip(failed.variant[::-1], failed.reason[::-1], strict=True))
    rows: list[dict[str, Any]] = []
    for name, variant in experiment.unmeasured:
        sweep = Sweep(name, variant, experiment.settings(name, variant), Path(), "")
        if variant.name in reasons:
            why = ("failed", f"verification: {reasons[variant.name]}")
        else:
            why = ("skipped", "there is no GPU on this machine")
        sweep.refuse_all(experiment.cases(name), *why)
        rows += sweep.rows
    return pd.DataFrame(rows, columns=COLUMNS["points.csv"])


def tables(
    experiment: Experiment, jobs: Sequence[Job], records: dict[str, dict[str, Any]],
    verified: pd.DataFrame,
) -> dict[str, pd.DataFrame]:  # fmt: skip
    """The results of these jobs, by file name in the data set."""

    def of_all(kind: str) -> pd.DataFrame:
        return collect_tables(kind, [job.folder / kind for job in jobs if job.folder])

    catalogue = experiment.catalogue
    names = {variant.name: variant.kernel.name for variant in catalogue.buildable.values()}
    facts = [job.facts for job in jobs if job.folder]
    splits = [own["split"] | {"uuid": own.get("uuid")} for own in facts]
    occupancies = {own["split"]["variant"]: own.get("occupancy") for own in facts}
    there = {split["variant"] for split in splits}
    there |= {variant.name for _, variant in experiment.unmeasured}
    samples, points = of_all("samples.csv.gz"), of_all("points.csv")
    if experiment.unmeasured:
        refused = unmeasured(experiment, verified[verified.status == "failed"])
        points = pd.concat([points, refused], ignore_index=True)
    in_order = [name for name in names if name in there]
    return {
        "summary.csv": summarise(points, samples, names),
        "ratios.csv": pair_ratios(samples, names),
        "samples.csv.gz": samples,
        "states.csv": of_all("states.csv"),
        "kernels.csv": kernel_rows(catalogue, in_order, records, occupancies),
        "jobs.csv": pd.DataFrame(splits, columns=COLUMNS["jobs.csv"]),
        "verification.csv": verified,
    }


def write(device: dict[str, Any], found: Mapping[str, pd.DataFrame], folder: Path) -> None:
    """Write a data set, with device.json last, because without it there is no data set."""
    for name, table in found.items():
        write_table(table, name, folder / name)
    write_json(device, folder / "device.json")


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_experiment(parser)
    parser.add_argument("--results", type=Path, required=True, help="folder of the steps' results")
    parser.add_argument("--output", type=Path, required=True, help="folder of the data set")
    parser.add_argument(
        "--others", type=Path, required=True, help="folder for the data sets of other GPU models"
    )
    options = arguments.parsed(parser)

    experiment, results = read_experiment(options.experiment), options.results
    folders = [
        results / "measured" / sweep / part / variant.slug
        for (sweep, part), own in experiment.measured.items()
        for variant in own
    ]
    jobs = [Job(folder, read_json(folder / "facts.json")) for folder in folders]
    jobs = jobs or [Job(None, host_facts() | commit() | NOTHING)]
    records = worst_records(
        read_json(binary_of(variant, results / "build" / arch).with_suffix(".json"))
        for (arch, _), own in experiment.binaries.items() for variant in own
    )  # fmt: skip
    verified = collect_tables(
        "verification.csv", [results / "verified" / f"{name}.csv" for name in experiment.operations]
    )
    ceilings = results / "measured" / "ceilings.csv"
    found = []
    for group in by_gpu(jobs):
        device = machine([job.facts for job in group], records, experiment.configuration)
        own = tables(experiment, group, records, verified)
        if experiment.device == GPU:
            rows = read_table("ceilings.csv", ceilings)
            own["ceilings.csv"] = ceilings_of(rows, device["gpu"])
        found.append((device, own))
    first, *others = found
    write(*first, options.output)
    shutil.rmtree(options.others, ignore_errors=True)
    options.others.mkdir(parents=True)
    for device, own in others:
        write(device, own, options.others / published_name(device))


if __name__ == "__main__":
    main()
