"""A published set follows from its samples, and whatever is falsified in one is found."""

import gzip
import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_data import the_catalogue
from support import ROOT, Command

from matmul_sweep.build.binaries import digest
from matmul_sweep.experiment.dataset.checks import (
    DataSet,
    findings,
    other_sources,
    read_set,
    too_fast,
)
from matmul_sweep.experiment.dataset.tables import COLUMNS, LOOP, read_table
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json
from matmul_sweep.process.programs import program_digest

pytestmark = pytest.mark.slow

PUBLISHED = sorted(file.parent for file in (ROOT / "reports/published").glob("*/device.json"))
SHAPES = {"gemm": [64, 1024, "1000x1001x999"], "gram": [500, "250x500"]}
KERNELS = {
    "gemm": ["cpu_blas", "naive", "sgemm", "cublas_sgemm"],
    "gram": ["gram", "cublas_dgemm", "cublas_dsyrk", "cublas_dsyrk_triangle"],
}


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)
def test_a_published_set_follows_from_its_samples(command: Command, folder: Path) -> None:
    told = command("check_set", "--earlier", folder)
    assert (told.code, told.err) == (0, "")
    assert "follow from" in told.out


def write(table: pd.DataFrame, path: Path) -> None:
    data = table.to_csv(None, index=False, lineterminator="\n").encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of the first published set, as a run of few kernels at few shapes would leave it."""
    folder = tmp_path_factory.mktemp("small") / "set"
    shutil.copytree(PUBLISHED[0], folder)
    device = read_json(folder / "device.json")
    sweeps = device["configuration"]["sweeps"]
    device["configuration"]["sweeps"] = {
        name: sweeps[name] | {"shapes": SHAPES[name], "kernels": KERNELS[name]} for name in SHAPES
    }
    (folder / "device.json").write_text(json.dumps(device))
    kernels = pd.DataFrame()
    for path in folder.glob("*.csv*"):
        table = pd.read_csv(path, dtype=str, keep_default_na=False)  # as text, to stay as it was
        table = table[[wanted(row) for row in table.itertuples()]]
        kernels = table if path.name == KERNEL else kernels
        write(table, path)
    loop = dict.fromkeys(LOOP, "0") | {"ffma": "64", "loop_instructions": "64"}
    code = kernels[kernels.registers != ""].assign(architecture="sm_90", code_bytes="4096", **loop)
    write(code.reindex(columns=COLUMNS[CODE]).assign(loop_start="0"), folder / CODE)
    return folder


def wanted(row: Any) -> bool:
    """Whether a row of any table is of SHAPES and KERNELS, as far as it says."""
    kernels = {"", "empty kernel", *KERNELS["gemm"], *KERNELS["gram"]}
    names = (getattr(row, name, "") for name in ("variant", "baseline_of", "baseline"))
    sweep = getattr(row, "sweep", None)
    return (
        all(name.partition("[")[0] in kernels for name in names)
        and sweep in (None, *SHAPES)
        and (not hasattr(row, "fill") or shape_text(row) in map(str, SHAPES[sweep]))
    )


def shape_text(row: Any) -> str:
    sizes = [size for size in (row.m, row.n, row.k) if size]
    return sizes[0] if len({*sizes}) == 1 else "x".join(sizes)


@pytest.fixture(scope="module")
def whole(small: Path) -> DataSet:
    data = read_set(small)
    assert not list(findings(data, the_catalogue()))
    return data


Forge = Callable[[DataSet], DataSet]


def cell(table: str, of: str, **cells: Any) -> Forge:
    """Cells of the first row that `of` chooses; a function changes what was there."""

    def forged(data: DataSet) -> DataSet:
        changed = data[table].copy()
        index = changed.query(of).index[0]
        for column, change in cells.items():
            if changed[column].dtype.kind in "iu":
                changed[column] = changed[column].astype(float)
            was = changed.loc[index, column]
            changed.loc[index, column] = change(was) if callable(change) else change
        return replace(data, tables=data.tables | {table: changed})

    return forged


def rows(chosen: dict[str, str]) -> Forge:
    """Without the rows that a query chooses, by table."""

    def forged(data: DataSet) -> DataSet:
        kept = {
            kind: data[kind].query(f"not ({of})").reset_index(drop=True)
            for kind, of in chosen.items()
        }
        return replace(data, tables=data.tables | kept)

    return forged


def first(table: str, of: str = "index >= 0", times: int = 0) -> Forge:
    """The first row that `of` chooses is there so many times."""

    def forged(data: DataSet) -> DataSet:
        index = data[table].query(of).index[:1]
        own = data[table].loc[index.repeat(times)]
        rest = pd.concat([data[table].drop(index), own], ignore_index=True)
        return replace(data, tables=data.tables | {table: rest})

    return forged


def device(**facts: Any) -> Forge:
    return lambda data: replace(data, device=data.device | facts)


def everywhere(value: str) -> Forge:
    """Without the rows that have this value, in every table."""
    return lambda data: replace(data, tables={
        name: table[~table.astype(str).isin([value]).any(axis=1)].reset_index(drop=True)
        for name, table in data.tables.items()
    })  # fmt: skip


def sweeps(**changes: Any) -> Forge:
    """With these keys of the sweep over gemm alone."""

    def forged(data: DataSet) -> DataSet:
        configuration = data.device["configuration"]
        own = configuration["sweeps"] | {"gemm": configuration["sweeps"]["gemm"] | changes}
        own = own if changes else {"gemm": own["gemm"]}
        return device(configuration=configuration | {"sweeps": own})(data)

    return forged


def by(factor: float) -> Callable[[float], float]:
    return lambda value: value * factor


def nine_times_as_fast(data: DataSet) -> DataSet:
    """A kernel, in every table."""
    tables = dict(data.tables)
    for kind, factors in {
        SAMPLES: {"time_ms": 1 / 9},
        SUMMARY: {"time_ms": 1 / 9, "time_low_ms": 1 / 9, "time_high_ms": 1 / 9, "tflops": 9},
        RATIOS: {"ratio": 9, "ratio_low": 9, "ratio_high": 9},
    }.items():
        own = tables[kind].variant == "sgemm"
        scaled = {c: tables[kind][c].where(~own, tables[kind][c] * f) for c, f in factors.items()}
        tables[kind] = tables[kind].assign(**scaled)
    return replace(data, tables=tables)


SUMMARY, SAMPLES, RATIOS, STATES = "summary.csv", "samples.csv.gz", "ratios.csv", "states.csv"
KERNEL, VERIFICATION, JOBS = "kernels.csv", "verification.csv", "jobs.csv"
CEILINGS, CODE = "ceilings.csv", "instructions.csv"
TIMED = "phase == 'kernel' and status == 'ok'"
ON_GPU = f"{TIMED} and not kernel.str.startswith('cpu')"
ANY, OWN, BESIDE = "index >= 0", "phase == 'kernel' and baseline_of == ''", "baseline_of != ''"
NAIVE = "variant == 'naive/32' and n == 64"
ERRORS = dict.fromkeys(("error", "largest_error", "mean_error"), 0.1)
# What is forged, for each rule in their order, and what is said of it.
FORGED: list[tuple[Forge, str]] = [
    (device(compute_capability="3.5"), "compute_capability is '3.5', not of the form"),
    (device(multiprocessors=None), "multiprocessors is 'None', not of the form"),
    (device(code="my own"), "code is 'my own', not of the form"),
    (device(fp32_peak_tflops=90.0), "and multiprocessors, units and clock give"),
    (device(configuration={}), "the configuration has no sweeps"),
    (rows({SAMPLES: ANY}), "there is no sample"),
    (first(SAMPLES, OWN, times=2), "as in an earlier line"),
    (cell(SAMPLES, OWN, time_ms=-1.0), "time_ms is '-1.0', not from 1e-09 to"),
    (cell(KERNEL, ANY, registers=300), "not from 1 to 255"),
    (cell(SUMMARY, ON_GPU, sm_clock_mhz=2500.0), "not from 1 to 1980"),
    (cell(STATES, ANY, power_w=1800.0), "not from 1 to 1050"),
    (cell(STATES, ANY, when="later"), "not of the form before|during|after"),
    (cell(STATES, "when == 'before'", throttled="shy"), "throttled is 'shy', not of the form"),
    (cell(KERNEL, "sha256 != ''", sha256="x" * 64), "not of the form ([0-9a-f]{64})?"),
    (cell(CEILINGS, ANY, value=by(0.9)), "outside value_low"),
    (cell(CEILINGS, ANY, value=by(1.1)), "and value_high"),
    (cell(SUMMARY, TIMED, mean_error=0.5), "above largest_error"),
    (cell(SUMMARY, TIMED, reason="x"), "unlike the status"),
    (cell(SUMMARY, "status == 'skipped'", reason=""), "unlike the status"),
    (cell(CEILINGS, ANY, value_low=math.nan), "though the status is ok"),
    (cell(SUMMARY, TIMED, error=math.nan), "though the status is ok"),
    (cell(KERNEL, "variant == 'naive/32'", kernel="sgemm"), "not the variant's"),
    (cell(RATIOS, ANY, variant="best"), "which kernels.csv does not have"),
    (cell(CEILINGS, ANY, sha256="0" * 64), "not the digest of one program"),
    (cell(JOBS, "uuid != ''", uuid="GPU-0"), "and device.json has GPU-"),
    (cell(CEILINGS, ANY, gpu="B1"), "and device.json has NVIDIA"),
    (cell(JOBS, ANY, variant="naive/32", sweep="gram"), "summary.csv has no row for it"),
    (first(JOBS), "jobs.csv has no row for it"),
    (cell(JOBS, "uuid != ''", wall_s=by(0.5)), "less than its parts"),
    (first(SAMPLES, OWN), "out of turn: one is missing"),
    (first(SAMPLES, f"{BESIDE} and not (variant + baseline_of).duplicated(keep='last')"),
     "beside a kernel that has another number"),
    (cell(SUMMARY, TIMED, status="skipped", reason="x"), "summary.csv has no row for it"),
    (cell(SUMMARY, "status == 'skipped' and phase == 'kernel'",
          status="ok", reason="", time_ms=1.0, **ERRORS), "samples.csv.gz has no row for it"),
    (cell(SUMMARY, ON_GPU, time_ms=by(1 + 1e-6)), "and its samples give '"),
    (cell(SUMMARY, ON_GPU, time_low_ms=math.nan), "and its samples give '"),
    (cell(SUMMARY, "kernel == 'naive'", kernel="sgemm"), "and its samples give 'naive'"),
    (cell(RATIOS, ANY, mode="sustained"), "samples.csv.gz has no row"),
    (first(RATIOS), "no row beside"),
    (cell(RATIOS, "ratio_low > 0", ratio=by(1 + 1e-6)), "and its samples give '"),
    (rows({RATIOS: NAIVE, SAMPLES: "baseline_of == 'naive/32' and n == 64"}),
     "ratios.csv has no row for it"),
    (cell(STATES, ANY, mode="sustained"), "summary.csv has no row for"),
    (first(STATES), "states.csv has no row for it"),
    (cell(SUMMARY, ON_GPU, power_w=by(0.8)), "and states.csv has '"),
    (cell(SUMMARY, ON_GPU, power_w=math.nan), "power_w is 'nan', and states.csv has '"),
    (rows({VERIFICATION: "variant == 'naive/32'"}), "verification.csv has no row for it"),
    (cell(VERIFICATION, ANY, status="failed", reason="wrong"), "though the variant was timed"),
    (cell(VERIFICATION, "where == 'gpu'", where="cpu"), "not where the variant was timed"),
    (cell(CODE, ANY, ffma=65), "not the sum of its kinds"),
    (cell(CODE, ANY, sha256="0" * 64), "and kernels.csv has another"),
    (sweeps(), "the configuration has no sweep gram"),
    (sweeps(shapes=[64]), "1000x1001x999 uniform burst is not in the configuration"),
    (everywhere("1024"), "1024 uniform burst is missing"),
    (everywhere("sgemm"), "gemm: no row of sgemm, which it measures"),
    (everywhere("cold"), "has no row of cold"),
    (rows(dict.fromkeys((SUMMARY, SAMPLES), "variant == 'sgemm' and n == 64 and phase == 'first'")),
     "has no row of first"),
    (cell(SUMMARY, f"{TIMED} and stopped == 'interval'", stopped="seconds"),
     "by its samples and the configuration what ended it is 'interval'"),
    (nine_times_as_fast, "above the 66.91 TFLOP/s of the card's units"),
]  # fmt: skip


@pytest.mark.parametrize(("forge", "said"), FORGED, ids=[said for _, said in FORGED])
def test_what_is_forged_is_found(whole: DataSet, forge: Forge, said: str) -> None:
    found = next(findings(forge(whole), the_catalogue()))
    assert said in found
    assert re.match(rf"{whole.folder}/\S+\.(csv|csv\.gz|json)[:,]", found)


def test_a_set_of_a_gpu_need_not_have_what_is_measured_without_one(whole: DataSet) -> None:
    own: dict[str, Any] = {"operation": "gemm", "shapes": [64], "kernels": ["cpu_blas"]}
    configuration = whole.device["configuration"]
    configuration = configuration | {"sweeps": configuration["sweeps"] | {"processor": own}}
    data = device(configuration=configuration)(whole)
    assert "no row of cpu_blas, which it measures" in next(findings(data, the_catalogue()))
    own["without_gpu"] = True
    assert not list(findings(data, the_catalogue()))


def test_a_rate_is_held_against_the_units_of_its_type_where_they_are_known(whole: DataSet) -> None:
    """The peak of 8.6 differs between products."""
    rates = whole[SUMMARY].assign(dtype="bfloat16", tflops=1100.0)
    fast = replace(whole, tables=whole.tables | {SUMMARY: rates})
    assert list(too_fast(fast, the_catalogue()))
    assert not list(too_fast(device(compute_capability="8.6")(fast), the_catalogue()))


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (STATES, None, "states.csv: there is no"),
        ("device.json", '{"version": "99.0.0"}', "version 99.0.0 measured it"),
        ("device.json", "[]", "device.json: not a mapping"),
    ],
)
def test_files_of_no_set_are_refused_by_name(
    small: Path, tmp_path: Path, file: str, content: str | None, said: str
) -> None:
    path = Path(shutil.copytree(small, tmp_path / "set")) / file
    path.unlink()
    if content:
        path.write_text(content)
    with pytest.raises(UserError, match=re.escape(said)):
        read_set(path.parent)


def test_an_older_version_and_other_kernels_are_refused_unless_asked_for(
    command: Command, small: Path
) -> None:
    assert "a version before 1.0.0 measured it, and this is" in command("check_set", small).error()
    assert command("check_set", small, "--earlier").code == 0


def test_kernels_of_other_sources_are_named(small: Path) -> None:
    kernels = read_table(KERNEL, small / KERNEL, "0")
    today = {variant.name: digest(variant) for variant in the_catalogue().buildable.values()}
    kernels["sha256"] = kernels.variant.map(today).where(kernels.variant != "naive/16", "0" * 64)
    code = {"code": program_digest(ROOT / "scripts" / "steps" / "measure.py")}
    ceilings = pd.DataFrame({"sha256": []})
    assert other_sources(code, kernels, ceilings, the_catalogue()) == ["naive/16"]
    assert other_sources({}, kernels[:0], ceilings, the_catalogue()) == ["scripts/steps/measure.py"]
