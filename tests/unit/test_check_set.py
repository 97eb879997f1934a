"""A published set follows from its samples, and whatever is falsified in one is found."""

import gzip
import json
import math
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_data import the_catalogue
from matmul_sweep.experiment.dataset.acceptance import check_set, other_sources, too_fast
from matmul_sweep.experiment.dataset.consistency import DataSet, read_set
from support import ROOT, Command

from matmul_sweep.build.binaries import digest
from matmul_sweep.experiment.dataset import acceptance
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


def read(path: Path) -> pd.DataFrame:
    """A table as text, so that what is not falsified stays as it was written."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


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
    write_device(device, folder)
    for path in folder.glob("*.csv*"):
        table = read(path)
        write(table[[wanted(row) for row in table.itertuples()]], path)
    loop = dict.fromkeys(LOOP, "0") | {"ffma": "64", "loop_instructions": "64"}
    kernels = read(folder / "kernels.csv").query("registers != ''")
    code = kernels.assign(architecture="sm_90", code_bytes="4096", loop_start="0", **loop)
    write(code.reindex(columns=COLUMNS["instructions.csv"]), folder / "instructions.csv")
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


def write_device(device: dict[str, Any], folder: Path) -> None:
    (folder / "device.json").write_text(json.dumps(device))


Change = Any  # what a cell becomes, or a function of what it was


@dataclass(frozen=True)
class Forged:
    """A falsification of the first row of a table that `of` chooses, and what is said of it.
    cells: by column; None removes the row. again: it is there twice."""

    table: str
    cells: Mapping[str, Change] | None
    of: str
    said: str
    again: bool = False

    def of_set(self, data: DataSet) -> DataSet:
        table = data[self.table].copy()
        index = table.query(self.of).index[0]
        if self.again:
            table = pd.concat([table, table.loc[[index]]], ignore_index=True)
        elif self.cells is None:
            table = table.drop(index).reset_index(drop=True)
        for column, change in (self.cells or {}).items():
            if table[column].dtype.kind in "iu":
                table[column] = table[column].astype(float)
            was = table.loc[index, column]
            table.loc[index, column] = change(was) if callable(change) else change
        return replace(data, tables=data.tables | {self.table: table})


def times(factor: float) -> Callable[[float], float]:
    return lambda value: value * factor


SUMMARY, SAMPLES, RATIOS, STATES = "summary.csv", "samples.csv.gz", "ratios.csv", "states.csv"
KERNELS_CSV, VERIFICATION, JOBS = "kernels.csv", "verification.csv", "jobs.csv"
CEILINGS, CODE = "ceilings.csv", "instructions.csv"
TIMED = "phase == 'kernel' and status == 'ok'"
ON_GPU = f"{TIMED} and not kernel.str.startswith('cpu')"
SKIPPED, ANY = "status == 'skipped'", "index >= 0"
OWN, BESIDE = "phase == 'kernel' and baseline_of == ''", "baseline_of != ''"
# A cell for each rule, in the order of the rules.
FORGED = {
    "a row twice": Forged(SAMPLES, {}, OWN, "as in an earlier line", again=True),
    "below what is possible": Forged(SAMPLES, {"time_ms": -1.0}, OWN, "not from 1e-09 to"),
    "above what is possible": Forged(KERNELS_CSV, {"registers": 300}, ANY, "not from 1 to 255"),
    "a clock above the card's": Forged(SUMMARY, {"sm_clock_mhz": 2500.0}, ON_GPU, "from 1 to 1980"),
    "a power above the card's": Forged(STATES, {"power_w": 1800.0}, ANY, "not from 1 to 1050"),
    "below its interval": Forged(CEILINGS, {"value": times(0.9)}, ANY, "outside value_low"),
    "above its interval": Forged(CEILINGS, {"value": times(1.1)}, ANY, "and value_high"),
    "a mean error above the largest": Forged(SUMMARY, {"mean_error": 0.5}, TIMED, "above largest"),
    "a status that is none": Forged(SUMMARY, {"status": "great"}, TIMED, "which is no status"),
    "ok with a reason": Forged(SUMMARY, {"reason": "x"}, TIMED, "does not fit the status"),
    "skipped for no reason": Forged(SUMMARY, {"reason": ""}, SKIPPED, "does not fit the status"),
    "ok without a value": Forged(CEILINGS, {"value_low": math.nan}, ANY, "though the status is ok"),
    "timed without an error": Forged(SUMMARY, {"error": math.nan}, TIMED, "though the product was"),
    "another's kernel": Forged(KERNELS_CSV, {"kernel": "sgemm"}, "variant == 'naive/32'",
                               "not the variant's"),
    "a digest that is none": Forged(KERNELS_CSV, {"sha256": "x" * 64}, "sha256 != ''", "no digest"),
    "a variant that is none": Forged(RATIOS, {"variant": "best"}, ANY, "kernels.csv does not have"),
    "ceilings of two programs": Forged(CEILINGS, {"sha256": "0" * 64}, ANY, "of one program"),
    "another card's job": Forged(JOBS, {"uuid": "GPU-0"}, "uuid != ''", "not among device.json's"),
    "a job without a point": Forged(JOBS, {"variant": "naive/32", "sweep": "gram"}, ANY,
                                    "summary.csv has no row for it"),
    "points without a job": Forged(JOBS, None, ANY, "jobs.csv has no row for it"),
    "a kernel that nobody measured": Forged(KERNELS_CSV, {"variant": "mine", "kernel": "mine"},
                                            "variant.str.startswith('cpu')", "does not have"),
    "a job shorter than its parts": Forged(JOBS, {"wall_s": times(0.5)}, "uuid != ''",
                                           "less than its parts"),
    "a lost sample": Forged(SAMPLES, None, OWN, "out of turn: one is missing"),
    "a number out of turn": Forged(SAMPLES, {"sample": 999}, OWN, "out of turn"),
    "a series that is longer beside": Forged(
        SAMPLES, None, f"{BESIDE} and not (variant + baseline_of).duplicated(keep='last')",
        "beside a kernel that has another number"),
    "a time for nothing": Forged(SUMMARY, {"status": "skipped", "reason": "x"}, TIMED,
                                 "summary.csv has no row for it"),
    "samples of nothing": Forged(SUMMARY, {"status": "ok", "reason": "", "time_ms": 1.0,
                                           "error": 0.1, "largest_error": 0.1, "mean_error": 0.1},
                                 f"{SKIPPED} and phase == 'kernel'",
                                 "samples.csv.gz has no row for it"),
    "a median in its last digits": Forged(SUMMARY, {"time_ms": times(1 + 1e-6)}, ON_GPU,
                                          "and its samples give"),
    "an interval that is not there": Forged(SUMMARY, {"time_low_ms": math.nan}, ON_GPU,
                                            "and its samples give"),
    "a point of another kernel": Forged(SUMMARY, {"kernel": "sgemm"}, "kernel == 'naive'",
                                        "and its samples give naive"),
    "a ratio to another library": Forged(RATIOS, {"baseline": "cublas_dsyrk"},
                                         "baseline == 'cublas_dgemm'", "as in an earlier line"),
    "a ratio of no pairs": Forged(RATIOS, {"mode": "sustained"}, ANY, "samples.csv.gz has no row"),
    "a lost ratio": Forged(RATIOS, None, ANY, "no row beside"),
    "a ratio": Forged(RATIOS, {"ratio": times(1 + 1e-6)}, "ratio_low > 0", "and its samples give"),
    "a state at no time": Forged(STATES, {"when": "later"}, ANY, "which is no time of one"),
    "a state of no point": Forged(STATES, {"mode": "sustained"}, ANY, "summary.csv has no row for"),
    "a lost state": Forged(STATES, None, ANY, "states.csv has no row for it"),
    "a power that was not read": Forged(SUMMARY, {"power_w": times(0.8)}, ON_GPU,
                                        "and states.csv has '"),
    "a power that is left out": Forged(SUMMARY, {"power_w": math.nan}, ON_GPU,
                                       "power_w is 'nan', and states.csv has '"),
    "a verification that failed": Forged(VERIFICATION, {"status": "failed", "reason": "wrong"}, ANY,
                                         "though the variant was timed"),
    "a verification elsewhere": Forged(VERIFICATION, {"where": "cpu"}, "where == 'gpu'",
                                       "not where the variant was timed"),
    "a loop of other instructions": Forged(CODE, {"ffma": 65}, ANY, "not the sum of its kinds"),
    "machine code of other sources": Forged(CODE, {"sha256": "0" * 64}, ANY,
                                            "and kernels.csv has another"),
    "ceilings of another card": Forged(CEILINGS, {"gpu": "B1"}, ANY, "not device.json's NVIDIA"),
    "a throttle that is none": Forged(STATES, {"throttled": "shy"}, "when == 'before'",
                                      "which is no throttle reason"),
    "what ended the sampling": Forged(SUMMARY, {"stopped": "seconds"},
                                      f"{TIMED} and stopped == 'interval'",
                                      "and by its samples and the configuration interval ended it"),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(small: Path) -> DataSet:
    return read_set(small)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, small: Path) -> Callable[[DataSet], str]:
    """The first finding of a set that is in memory."""

    def found(data: DataSet) -> str:
        monkeypatch.setattr(acceptance, "read_set", lambda folder: data)
        with pytest.raises(UserError) as caught:
            check_set(small, the_catalogue(), earlier=True)
        return str(caught.value)

    return found


Refused = Callable[[DataSet], str]


def test_the_part_of_the_set_is_whole(small: Path) -> None:
    check_set(small, the_catalogue(), earlier=True)


@pytest.mark.parametrize("kind", FORGED)
def test_a_falsified_row_is_found(whole: DataSet, refused: Refused, kind: str) -> None:
    said = refused(FORGED[kind].of_set(whole))
    assert FORGED[kind].said in said
    assert re.match(rf"{whole.folder}/\S+\.csv(\.gz)?[:,]", said)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("compute_capability", "3.5", "of a card that is unknown here"),
        ("multiprocessors", None, "not a whole number above zero"),
        ("fp32_peak_tflops", 90.0, "and multiprocessors, units and clock give"),
        ("date", "today", "not of the form"), ("code", "my own", "not of the form"),
        ("configuration", {}, "without sweeps"),
    ],
)  # fmt: skip
def test_a_falsified_machine_is_found(
    whole: DataSet, refused: Refused, key: str, value: Any, why: str
) -> None:
    said = refused(replace(whole, device=whole.device | {key: value}))
    assert said.startswith(f"{whole.folder / 'device.json'}: {key} is '{value}', {why}")


def everywhere(data: DataSet, value: str) -> DataSet:
    """Without the rows that have this value, in every table."""
    kept = {
        name: table[~table.astype(str).isin([value]).any(axis=1)].reset_index(drop=True)
        for name, table in data.tables.items()
    }
    return replace(data, tables=kept)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("sgemm", "gemm: no row of sgemm, which it measures"),
        ("1024", "1024 uniform burst is missing"),
        ("cold", "has no row of cold"),
    ],
)
def test_what_the_configuration_names_and_no_table_has_is_found(
    whole: DataSet, refused: Refused, value: str, said: str
) -> None:
    assert said in refused(everywhere(whole, value))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (dict.fromkeys((SUMMARY, SAMPLES), "variant == 'sgemm' and n == 64 and phase == 'first'"),
         "has no row of first"),
        ({RATIOS: "variant == 'naive/32' and n == 64",
          SAMPLES: "baseline_of == 'naive/32' and n == 64"}, "ratios.csv has no row for it"),
        ({VERIFICATION: "variant == 'naive/32'"}, "verification.csv has no row for it"),
    ],
)  # fmt: skip
def test_what_tables_leave_out_together_is_found(
    whole: DataSet, refused: Refused, rows: dict[str, str], said: str
) -> None:
    tables = dict(whole.tables)
    for kind, query in rows.items():
        tables[kind] = tables[kind].query(f"not ({query})").reset_index(drop=True)
    assert said in refused(replace(whole, tables=tables))


def test_what_the_configuration_does_not_name_is_found(whole: DataSet, refused: Refused) -> None:
    configuration = whole.device["configuration"]
    for sweeps, said in (
        ({"gemm": configuration["sweeps"]["gemm"]}, "the configuration has no sweep gram"),
        (configuration["sweeps"] | {"gemm": configuration["sweeps"]["gemm"] | {"shapes": [64]}},
         "1000x1001x999 uniform burst is not in the configuration"),
    ):  # fmt: skip
        device = whole.device | {"configuration": configuration | {"sweeps": sweeps}}
        assert said in refused(replace(whole, device=device))


def test_a_set_of_a_gpu_need_not_have_what_is_measured_without_one(
    monkeypatch: pytest.MonkeyPatch, whole: DataSet, refused: Refused, small: Path
) -> None:
    own = {"operation": "gemm", "shapes": [64], "kernels": ["cpu_blas"]}
    configuration = whole.device["configuration"]
    configuration = configuration | {"sweeps": configuration["sweeps"] | {"processor": own}}
    data = replace(whole, device=whole.device | {"configuration": configuration})
    assert "processor: no row of cpu_blas, which it measures" in refused(data)
    own["without_gpu"] = True
    monkeypatch.setattr(acceptance, "read_set", lambda folder: data)
    check_set(small, the_catalogue(), earlier=True)


def test_a_set_without_samples_is_no_set(whole: DataSet, refused: Refused) -> None:
    empty = whole.tables | {SAMPLES: whole[SAMPLES][:0]}
    assert "samples.csv.gz: there is no sample" in refused(replace(whole, tables=empty))


def test_a_rate_beyond_the_card_is_found_where_its_peak_is_known(
    whole: DataSet, refused: Refused
) -> None:
    """A kernel nine times as fast in every table. The peak of 8.6 differs between products."""
    tables = dict(whole.tables)
    for kind, factors in {
        SAMPLES: {"time_ms": 1 / 9},
        SUMMARY: {"time_ms": 1 / 9, "time_low_ms": 1 / 9, "time_high_ms": 1 / 9, "tflops": 9},
        RATIOS: {"ratio": 9, "ratio_low": 9, "ratio_high": 9},
    }.items():
        own = tables[kind].variant == "sgemm"
        scaled = {c: tables[kind][c].where(~own, tables[kind][c] * f) for c, f in factors.items()}
        tables[kind] = tables[kind].assign(**scaled)
    fast = replace(whole, tables=tables)
    assert "above the 66.91 TFLOP/s of the card's units" in refused(fast)
    fast.tables[SUMMARY]["dtype"] = "bfloat16"
    fast.tables[SUMMARY]["tflops"] = 1100.0
    assert list(too_fast(fast, the_catalogue()))
    older = replace(fast, device=fast.device | {"compute_capability": "8.6"})
    assert not list(too_fast(older, the_catalogue()))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: write(read(folder / SUMMARY).assign(gflops="1"), folder / SUMMARY),
         "summary.csv: column gflops, which"),
        (lambda folder: (folder / STATES).unlink(), "states.csv: there is no"),
        (lambda folder: write_device({"version": "99.0.0"}, folder), "version 99.0.0 measured it"),
        (lambda folder: (folder / "device.json").write_text("[]"), "device.json: not a mapping"),
    ],
    ids=["another column", "no table", "a later version", "no mapping"],
)  # fmt: skip
def test_files_of_no_set_are_refused_by_name(
    small: Path, tmp_path: Path, spoil: Callable[[Path], Any], said: str
) -> None:
    folder = Path(shutil.copytree(small, tmp_path / "set"))
    spoil(folder)
    with pytest.raises(UserError, match=re.escape(said)):
        read_set(folder)


def test_an_older_version_and_other_kernels_are_refused_unless_asked_for(
    command: Command, small: Path
) -> None:
    assert "a version before 1.0.0 measured it, and this is" in command("check_set", small).error()
    assert command("check_set", small, "--earlier").code == 0


def test_kernels_of_other_sources_are_named(small: Path) -> None:
    kernels = read_table("kernels.csv", small / "kernels.csv", "0")
    today = {variant.name: digest(variant) for variant in the_catalogue().buildable.values()}
    kernels["sha256"] = kernels.variant.map(today).where(kernels.variant != "naive/16", "0" * 64)
    device = {"code": program_digest(ROOT / "scripts" / "steps" / "measure.py")}
    ceilings = pd.DataFrame({"sha256": []})
    assert other_sources(device, kernels, ceilings, the_catalogue()) == ["naive/16"]
    assert other_sources({}, kernels[:0], ceilings, the_catalogue()) == ["scripts/steps/measure.py"]
