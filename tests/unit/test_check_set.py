"""A published set follows from its samples, and whatever is falsified in one is found."""

import gzip
import json
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_data import the_catalogue
from support import ROOT, Command

from matmul.build.binaries import digest
from matmul.dataset.consistency import read_set
from matmul.dataset.tables import COLUMNS, LOOP, read_json, read_table
from matmul.process.errors import UserError
from matmul.process.programs import program_digest
from matmul.report.acceptance import check_set, other_sources, too_fast

PUBLISHED = sorted(file.parent for file in (ROOT / "reports/published").glob("*/device.json"))
SEED = 25
SHAPES = {"gemm": [64, 1024, "1000x1001x999"], "gram": [500, "250x500"]}
KERNELS = {
    "gemm": ["cpu_blas", "naive", "sgemm", "cublas_sgemm"],
    "gram": ["gram", "cublas_dgemm", "cublas_dsyrk", "cublas_dsyrk_triangle"],
}
Falsify = Callable[[Path, random.Random], None]


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


def checked(folder: Path) -> None:
    check_set(folder, the_catalogue(), earlier=True)


def test_the_part_of_the_set_is_whole(small: Path) -> None:
    checked(small)


@dataclass(frozen=True)
class Edit:
    """A falsification of one row of a table, among those that `of` chooses; and what it does to
    the row: new cells, or nothing, which removes it."""

    kind: str
    cells: dict[str, Callable[[str], str]] | None
    of: str = "index >= 0"
    twice: bool = False

    def __call__(self, folder: Path, draw: random.Random) -> None:
        table = read(folder / self.kind)
        index = draw.choice([*table.query(self.of).index])
        if self.twice:
            table = pd.concat([table, table.loc[[index]]])
        elif self.cells is None:
            table = table.drop(index)
        for column, change in (self.cells or {}).items():
            table.loc[index, column] = change(table.loc[index, column])
        write(table, folder / self.kind)


def times(factor: float) -> Callable[[str], str]:
    return lambda text: repr(float(text) * factor)


def to(text: str) -> Callable[[str], str]:
    return lambda _: text


TIMED = "phase == 'kernel' and status == 'ok'"
ON_GPU = f"{TIMED} and not kernel.str.startswith('cpu')"
PAIRS = "ratio_low != ''"
OWN, BESIDE = "phase == 'kernel' and baseline_of == ''", "baseline_of != ''"
EDITS = {
    "a median 10% faster": Edit("summary.csv", {"time_ms": times(0.9)}, TIMED),
    "a median in its last digits": Edit("summary.csv", {"time_ms": times(1 + 1e-6)}, TIMED),
    "the lower end of a time": Edit("summary.csv", {"time_low_ms": times(0.99)}, ON_GPU),
    "the upper end of a time": Edit("summary.csv", {"time_high_ms": times(1.01)}, ON_GPU),
    "an interval that is not there": Edit("summary.csv", {"time_low_ms": to("")}, ON_GPU),
    "a rate": Edit("summary.csv", {"tflops": times(1.05)}, TIMED),
    "a rate of a first launch": Edit("summary.csv", {"tflops": to("1.0")}, "phase == 'first'"),
    "a number of samples": Edit("summary.csv", {"samples": to("201")}, TIMED),
    "what ended the sampling": Edit("summary.csv", {"stopped": to("seconds")},
                                    f"{TIMED} and stopped == 'interval'"),
    "a point that never settled": Edit("summary.csv", {"stopped": to("interval")},
                                       f"{TIMED} and stopped == 'maximum'"),
    "a point of another kernel": Edit("summary.csv", {"kernel": to("sgemm")}, "kernel == 'naive'"),
    "a point of a variant that is none": Edit("summary.csv", {"variant": to("best")}, TIMED),
    "a size": Edit("summary.csv", {"m": to("2048"), "n": to("2048"), "k": to("2048")}, TIMED),
    "a sweep": Edit("summary.csv", {"sweep": to("mine")}, TIMED),
    "a mode": Edit("summary.csv", {"mode": to("sustained")}, TIMED),
    "a cache": Edit("summary.csv", {"cache": to("warm")}, TIMED),
    "a failure called ok": Edit("summary.csv", {"status": to("ok")}, "status == 'skipped'"),
    "a skipped point without its reason": Edit("summary.csv", {"reason": to("")},
                                               "status == 'skipped'"),
    "a time called skipped": Edit("summary.csv", {"status": to("skipped"), "reason": to("x")},
                                  TIMED),
    "a status that is none": Edit("summary.csv", {"status": to("great")}, TIMED),
    "an error above the bound": Edit("summary.csv", {"error": to("1.2")}, TIMED),
    "an error that is not there": Edit("summary.csv", {"error": to("")}, TIMED),
    "a mean error above the largest": Edit("summary.csv", {"mean_error": to("0.5")}, TIMED),
    "a negative error": Edit("summary.csv", {"largest_error": to("-1e-9")}, TIMED),
    "a clock that the card lacks": Edit("summary.csv", {"sm_clock_mhz": to("2500")}, ON_GPU),
    "a clock below that of the readings": Edit("summary.csv", {"sm_clock_mhz": times(0.9)}, ON_GPU),
    "a power": Edit("summary.csv", {"power_w": times(0.8)}, ON_GPU),
    "a temperature": Edit("summary.csv", {"temperature_c": times(0.8)}, ON_GPU),
    "a cap of the power that was left out": Edit(
        "summary.csv", {"throttled": lambda text: "" if text else "power_cap"}, ON_GPU),
    "a missing point": Edit("summary.csv", None, TIMED),
    "a missing first launch": Edit("summary.csv", None, "phase == 'first'"),
    "a missing skipped row": Edit("summary.csv", None, "status == 'skipped'"),
    "a point that is there twice": Edit("summary.csv", {}, TIMED, twice=True),
    "a missing sample": Edit("samples.csv.gz", None, OWN),
    "a missing sample of the library": Edit("samples.csv.gz", None, BESIDE),
    "a faster sample": Edit("samples.csv.gz", {"time_ms": times(0.5)}, "phase == 'first'"),
    "a time below zero": Edit("samples.csv.gz", {"time_ms": to("-1.0")}, OWN),
    "a time that is no number": Edit("samples.csv.gz", {"time_ms": to("fast")}, OWN),
    "an infinite time": Edit("samples.csv.gz", {"time_ms": to("inf")}, OWN),
    "a sample of another kernel": Edit("samples.csv.gz", {"variant": to("sgemm")},
                                       f"{OWN} and variant == 'cublas_sgemm'"),
    "a sample that is there twice": Edit("samples.csv.gz", {}, OWN, twice=True),
    "a sample's number": Edit("samples.csv.gz", {"sample": to("999")}, OWN),
    "a ratio": Edit("ratios.csv", {"ratio": times(1.001)}, PAIRS),
    "the lower end of a ratio": Edit("ratios.csv", {"ratio_low": times(0.999)}, PAIRS),
    "the upper end of a ratio": Edit("ratios.csv", {"ratio_high": times(1.001)}, PAIRS),
    "a number of pairs": Edit("ratios.csv", {"pairs": to("500")}),
    "a ratio to another library": Edit("ratios.csv", {"baseline": to("cublas_dsyrk")},
                                       "baseline == 'cublas_dgemm'"),
    "a missing ratio": Edit("ratios.csv", None),
    "a ratio that is there twice": Edit("ratios.csv", {}, twice=True),
    "a state's power": Edit("states.csv", {"power_w": times(0.9)}, "when == 'during'"),
    "a state's power beyond the card's": Edit("states.csv", {"power_w": to("1800")}),
    "a state's heat": Edit("states.csv", {"throttled": to("shy")}, "when == 'before'"),
    "a missing state": Edit("states.csv", None),
    "a state at no time": Edit("states.csv", {"when": to("later")}),
    "registers that a thread cannot have": Edit("kernels.csv", {"registers": to("300")}),
    "an occupancy above one": Edit("kernels.csv", {"occupancy": to("1.5")}),
    "a digest that is none": Edit("kernels.csv", {"sha256": lambda text: text[:-1] + "x"},
                                  "sha256 != ''"),
    "a kernel that nobody measured": Edit("kernels.csv", {"variant": to("mine"),
                                                          "kernel": to("mine")}),
    "a missing kernel": Edit("kernels.csv", None),
    "a kernel called skipped": Edit("kernels.csv", {"status": to("skipped")}),
    "a verification that failed": Edit("verification.csv", {"status": to("failed"),
                                                            "reason": to("wrong result")}),
    "a verification above the bound": Edit("verification.csv", {"error": to("1.5")}),
    "a verification elsewhere": Edit("verification.csv", {"where": to("emulation")}),
    "a card of another job": Edit("jobs.csv", {"uuid": to("GPU-0")}, "uuid != ''"),
    "a missing job": Edit("jobs.csv", None),
    "a job shorter than its parts": Edit("jobs.csv", {"wall_s": times(0.5)}, "uuid != ''"),
    "a ceiling outside its interval": Edit("ceilings.csv", {"value": times(1.1)}),
    "a ceiling of another card": Edit("ceilings.csv", {"gpu": to("NVIDIA H200")}),
    "a ceiling of another program": Edit("ceilings.csv", {"sha256": lambda text: text[::-1]}),
    "a loop that multiplies more": Edit("instructions.csv", {"ffma": to("65")}),
    "machine code of other sources": Edit("instructions.csv", {"sha256": to("0" * 64)}),
    "a check outside its interval": Edit("cross_check.csv", {"do_bench_ms": times(1.5)}),
    "a check of the timer outside its interval": Edit("timer_check.csv", {"time_ms": times(2)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", EDITS)
def test_a_falsified_row_is_found(small: Path, tmp_path: Path, kind: str) -> None:
    folder = copied(small, tmp_path)
    EDITS[kind](folder, random.Random(f"{SEED} {kind}"))
    assert str(folder) in refused(folder)


def refused(folder: Path) -> str:
    """The finding: it names a file."""
    with pytest.raises(UserError) as caught:
        checked(folder)
    said = str(caught.value)
    assert re.search(r"(device\.json|\.csv(\.gz)?)[:,]", said)
    return said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("compute_capability", "3.5"), ("multiprocessors", 144), ("multiprocessors", None),
        ("clock_mhz", 3000), ("fp32_peak_tflops", 90.0), ("gpu", "NVIDIA H300"), ("date", "today"),
        ("uuid", "GPU-0"), ("code", "my own"), ("configuration", {}), ("power_limit_w", 300.0),
        ("version", "one"), ("version", "99.0.0"),
    ],
)  # fmt: skip
def test_a_falsified_machine_is_found(small: Path, tmp_path: Path, key: str, value: Any) -> None:
    folder = copied(small, tmp_path)
    write_device(read_json(folder / "device.json") | {key: value}, folder)
    refused(folder)


def copied(small: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small, tmp_path / "set"))


def without_samples(folder: Path) -> None:
    write(read(folder / "samples.csv.gz")[:0], folder / "samples.csv.gz")


def without_anything_timed(folder: Path) -> None:
    without_samples(folder)
    for name in ("summary.csv", "ratios.csv", "states.csv"):
        write(read(folder / name)[:0], folder / name)


def with_a_column(folder: Path) -> None:
    write(read(folder / "summary.csv").assign(gflops="1"), folder / "summary.csv")


def faster(folder: Path) -> None:
    """Every number that follows from the samples of a kernel, with each of them divided by 9."""
    for name, columns in {
        "samples.csv.gz": {"time_ms": 1 / 9},
        "summary.csv": {"time_ms": 1 / 9, "time_low_ms": 1 / 9, "time_high_ms": 1 / 9, "tflops": 9},
    }.items():
        table = read(folder / name)
        own = (table.variant == "sgemm") & (table.phase == "kernel")
        for column, factor in columns.items():
            filled = own & (table[column] != "")
            table.loc[filled, column] = table[column][filled].map(times(factor))
        write(table, folder / name)
    ratios = read(folder / "ratios.csv")
    for column in ("ratio", "ratio_low", "ratio_high"):
        filled = (ratios.variant == "sgemm") & (ratios[column] != "")
        ratios.loc[filled, column] = ratios[column][filled].map(times(9))
    write(ratios, folder / "ratios.csv")


def everywhere(folder: Path, value: str) -> None:
    """Remove the rows with this value from every table."""
    for path in folder.glob("*.csv*"):
        table = read(path)
        write(table[~table.isin([value]).any(axis=1)], path)


SPOILT = {
    "a set without samples": (without_samples, "samples.csv.gz: there is no sample"),
    "a set in which nothing was timed": (without_anything_timed, "there is no sample"),
    "another column": (with_a_column, "summary.csv: column gflops, which"),
    "a missing column": (
        lambda folder: write(read(folder / "ratios.csv").drop(columns="pairs"),
                             folder / "ratios.csv"),
        "no column pairs"),
    "a missing table": (lambda folder: (folder / "states.csv").unlink(), "states.csv: there is no"),
    "a cut table": (lambda folder: (folder / "jobs.csv").write_text("sweep,var"), "cut short"),
    "faster than the card": (faster, "above the 66.91 TFLOP/s"),
    "a kernel left out": (lambda folder: everywhere(folder, "sgemm"),
                          "gemm: no row of sgemm, which it measures"),
    "a size left out": (lambda folder: everywhere(folder, "1024"), "1024 uniform burst is"),
    "a library left out": (lambda folder: everywhere(folder, "cublas_dsyrk"),
                           "gram: no row of cublas_dsyrk, which it measures"),
    "the cold times left out": (lambda folder: everywhere(folder, "cold"), "has no row of cold"),
}  # fmt: skip


def test_a_set_of_a_gpu_need_not_have_what_is_measured_without_one(
    small: Path, tmp_path: Path
) -> None:
    folder = copied(small, tmp_path)
    device = read_json(folder / "device.json")
    own = {"operation": "gemm", "shapes": [64], "kernels": ["cpu_blas"]}
    device["configuration"]["sweeps"]["processor"] = own
    write_device(device, folder)
    assert "processor: no row of cpu_blas, which it measures" in refused(folder)
    own["without_gpu"] = True
    write_device(device, folder)
    checked(folder)


def test_a_peak_that_is_not_known_bounds_no_rate(small: Path) -> None:
    """That of the tensor cores differs between the products of 8.6."""
    data = read_set(small)
    data["summary.csv"]["dtype"] = "bfloat16"
    data["summary.csv"]["tflops"] = 1100.0
    assert list(too_fast(data, the_catalogue()))
    data.device["compute_capability"] = "8.6"
    assert not list(too_fast(data, the_catalogue()))


@pytest.mark.parametrize("kind", SPOILT)
def test_a_set_that_is_spoilt_as_a_whole_is_refused_by_name(
    small: Path, tmp_path: Path, kind: str
) -> None:
    folder = copied(small, tmp_path)
    spoil, said = SPOILT[kind]
    spoil(folder)
    assert said in refused(folder)


def test_an_older_version_and_other_kernels_are_refused_unless_asked_for(
    command: Command, small: Path
) -> None:
    assert "a version before 1.0.0 measured it, and this is" in command("check_set", small).error()
    assert command("check_set", small, "--earlier").code == 0


def test_kernels_of_other_sources_are_named(small: Path, tmp_path: Path) -> None:
    folder = copied(small, tmp_path)
    kernels = read_table("kernels.csv", folder / "kernels.csv", "0")
    today = {variant.name: digest(variant) for variant in the_catalogue().buildable.values()}
    kernels["sha256"] = kernels.variant.map(today).where(kernels.variant != "naive/16", "0" * 64)
    device = {"code": program_digest(ROOT / "scripts" / "measure.py")}
    ceilings = pd.DataFrame({"sha256": []})
    assert other_sources(device, kernels, ceilings, the_catalogue()) == ["naive/16"]
    assert other_sources({}, kernels[:0], ceilings, the_catalogue()) == ["scripts/measure.py"]
