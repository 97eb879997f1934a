"""A published set follows from its samples, and whatever is falsified in one is found."""

import copy
import math
import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from support import PUBLISHED_SETS, the_catalogue

from matmul_sweep.experiment.check.check_set import findings
from matmul_sweep.experiment.check.consistency import impossible
from matmul_sweep.experiment.check.data_set import DataSet
from matmul_sweep.experiment.check.machine import too_fast
from matmul_sweep.experiment.dataset.derived import pair_ratios, summarise
from matmul_sweep.experiment.dataset.tables import COLUMNS, TIMES, product_of, read_folder
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.experiment.verify.tasks import planned
from matmul_sweep.operations import shape_of

pytestmark = pytest.mark.slow

CHECKED = PUBLISHED_SETS[0]
SHAPES = {"gemm": ["64x64x64", "1024x1024x1024", "1000x1001x999"], "gram": ["500x500", "250x500"],
          "gemm_alone": ["1024x1024x1024"]}  # fmt: skip
KERNELS = {
    "gemm": ["cpu_blas", "naive", "vectors", "sgemm", "cublas_sgemm"],
    "gram": ["gram", "cublas_dgemm", "cublas_dsyrk", "cublas_dsyrk_triangle"],
    "gemm_alone": ["naive/32", "vectors", "sgemm", "cublas_sgemm"],
}


@pytest.mark.long
@pytest.mark.parametrize("folder", PUBLISHED_SETS, ids=lambda folder: folder.name)
def test_a_published_set_follows_from_its_samples(command, folder):
    told = command("check_set", "--earlier", folder)
    assert (told.code, told.err) == (0, "")
    assert "follow from" in told.out


def wanted(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table that are of SHAPES and KERNELS, as far as it says."""
    kernels = ["", "empty kernel", *KERNELS["gemm"], *KERNELS["gram"]]
    for name in table.columns.intersection(["variant", "baseline_of", "baseline"]):
        table = table[table[name].str.split("/").str[0].isin(kernels)]
    table = table[table.sweep.isin(SHAPES)] if "sweep" in table else table
    if "fill" in table:
        table = table[[str(shape_of(row)) in SHAPES[row.sweep] for row in table.itertuples()]]
    return table.reset_index(drop=True)


@pytest.fixture(scope="module")
def whole() -> DataSet:
    """A part of a published set, as a run of few kernels at few shapes would leave it."""
    device, tables = read_folder(CHECKED)
    configuration = device["configuration"]
    configuration["sweeps"] = {
        name: configuration["sweeps"][name] | {"shapes": SHAPES[name], "kernels": KERNELS[name]}
        for name in SHAPES
    }
    data = DataSet(CHECKED, device, {name: wanted(table) for name, table in tables.items()})
    assert not list(findings(data, the_catalogue()))
    return data


def derive(data: DataSet) -> None:
    """Make the samples' medians and ratios anew."""
    names_of, samples = data.kernel_names, data["samples.csv.gz"]
    rest = data["summary.csv"].drop(columns=["kernel", "samples", *TIMES, "tflops"])
    data.tables["summary.csv"] = summarise(rest, samples, names_of)[COLUMNS["summary.csv"]]
    data.tables["ratios.csv"] = pair_ratios(samples, names_of)[COLUMNS["ratios.csv"]]


@pytest.fixture(scope="module")
def current(whole: DataSet) -> DataSet:
    """The same, verified as this checkout would."""
    data = copy.deepcopy(whole)
    run = Experiment(data.device["configuration"], the_catalogue(), "gpu", ("sm_90",))
    rows = [
        {"kernel": v.kernel.name, "variant": v.name, "where": "gpu" if v.kernel.on_gpu else "cpu",
         "status": "ok", "reason": "", "error": 0.5} | product_of(v.kernel.dtype, shape)
        for operation in run.operations for v, shape in planned(run, operation)
    ]  # fmt: skip
    data.tables["verification.csv"] = pd.DataFrame(rows, columns=COLUMNS["verification.csv"])
    assert not list(findings(data, the_catalogue(), earlier=False))
    return data


Forge = Callable[[DataSet], object]  # changes a data set


def cell(table: str, of: str, **cells: Any) -> Forge:
    """Cells of the first row that `of` chooses; a function changes what was there."""

    def forge(data: DataSet) -> None:
        index = data[table].query(of).index[0]
        for column, change in cells.items():
            was = data[table].loc[index, column]
            data[table].loc[index, column] = change(was) if callable(change) else change

    return forge


def first(table: str, of: str = "index >= 0", times: int = 0) -> Forge:
    """The first row that `of` chooses is there so many times."""

    def forge(data: DataSet) -> None:
        rows = data[table]
        index = rows.query(of).index[:1]
        parts = [rows.drop(index), rows.loc[index.repeat(times)]]
        data.tables[table] = pd.concat(parts, ignore_index=True)

    return forge


def without(of: str, *tables: str) -> Forge:
    """Without the rows that a query chooses."""
    return lambda data: data.tables.update(
        {name: data[name].query(f"not ({of})").reset_index(drop=True) for name in tables}
    )


def device(**facts: Any) -> Forge:
    return lambda data: data.device.update(facts)


def gemm(**changes: Any) -> Forge:
    """With these keys of the sweep over gemm."""
    return lambda data: data.sweeps["gemm"].update(changes)


def by(factor: float) -> Callable[[float], float]:
    return lambda value: value * factor


SUMMARY, SAMPLES, RATIOS, STATES = "summary.csv", "samples.csv.gz", "ratios.csv", "states.csv"
KERNEL, VERIFICATION, JOBS = "kernels.csv", "verification.csv", "jobs.csv"
CEILINGS, CODE = "ceilings.csv", "instructions.csv"
TIMED = "phase == 'kernel' and status == 'ok'"
ON_GPU = f"{TIMED} and not kernel.str.startswith('cpu')"
ANY, OWN, BESIDE = "index >= 0", "phase == 'kernel' and baseline_of == ''", "baseline_of != ''"
ERRORS = dict.fromkeys(("error", "largest_error", "mean_error"), 0.1)
# What is forged, for each rule in their order, and all that is said of it.
FORGED: list[tuple[list[Forge], list[str]]] = [
    ([device(code="my own")], ["code: 'my own': string should match pattern"]),
    ([device(fp32_peak_tflops=90.0)], ["and multiprocessors, units and clock give"]),
    ([device(configuration={})], ["configuration: 'catalogue' is missing"]),
    ([device(power_limit_w="700")], ["power_limit_w: '700': input should be a valid number"]),
    ([lambda data: data.device.pop("uuid")], ["'uuid' is missing, and there is a GPU"]),
    ([gemm(shapes=["9x"])], ["configuration.sweeps.gemm: gemm shape '9x'"]),
    ([gemm(shapes={"random": 10**9, "seed": 1, "from": 1, "to": 9})], ["1000000000, more than"]),
    ([lambda data: data.device["configuration"]["sampling"].pop("maximum")],
     ["'maximum' is missing"]),
    ([device(date="2026-13-45", compilers={"nvcc": {"compiler": "in /opt/cuda/bin/nvcc"}})],
     ["date is '2026-13-45', no day from", "is a path of the machine"]),
    *(([device(date=f"{year}-01-01")], [f"date is '{year}-01-01', no day from"])
      for year in (1999, 2099)),
    ([device(multiprocessors=264, clock_mhz=2475)],
     ["multiprocessors is '264', and NVIDIA H100 80GB HBM3 has 132",
      "clock_mhz is '2475', and NVIDIA H100 80GB HBM3 has 1980"]),
    ([device(power_limit_w=701.0, memory_bytes=1 << 40, l2_bytes=1 << 30)],
     ["power_limit_w is '701.0', above the 700 that NVIDIA H100 80GB HBM3 has", "memory_bytes is '",
      "l2_bytes is '"]),
    ([device(host="see file:///home/ada/x")], ["is a path of the machine"]),
    ([without(ANY, SAMPLES)], ["there is no sample"]),
    ([first(SAMPLES, OWN, times=2)], ["as in an earlier line"]),
    ([cell(KERNEL, "registers > 0", registers=300),
      cell(SUMMARY, ON_GPU, sm_clock_mhz=2500),
      cell(SUMMARY, TIMED, mean_error=0.5),
      cell(SAMPLES, "cache == 'alone'", block_mhz=2500),
      cell(STATES, ANY, power_w=1800),
      cell(STATES, "when == 'before'", throttled="shy"),
      cell(CEILINGS, "name == 'copy'", value=by(0.9)),
      cell(CEILINGS, "name == 'multiply_add_float64'", value=by(1.1)),
      cell("counters.csv", "fma_percent > 0", fma_percent=500.0),
      cell("counters.csv", "dram_bytes > 0", dram_bytes=-5.0),
      cell("counters.csv", "stall_wait > 0", stall_wait=math.inf),
      cell("cross_check.csv", ANY, do_bench_low_ms=-math.inf)],
     ["not from 1 to 255", "sm_clock_mhz is '2500.0', not from 1 to 1980", "above largest_error",
      "block_mhz is '2500.0', not from 1 to 1980", "not from 1 to 1050",
      "throttled is 'shy', not of the form", "copy: value is", "float64: value is",
      "not from 0 to 100", "dram_bytes is '-5.0', not from 0", "stall_wait is 'inf', not from 0",
      "do_bench_low_ms is '-inf', not from"]),
    ([cell(SUMMARY, "operation == 'gemm'", k=pd.NA),
      cell(SUMMARY, "status == 'skipped'", reason="no /home/ada/a.cu"),
      cell(SUMMARY, TIMED, reason="x", error=math.nan),
      cell(CEILINGS, ANY, value_low=math.nan)],
     ["which a shape of gemm has", "reason is 'x', unlike the status",
      "error is 'nan', though the status is ok", "value_low is 'nan', though the status is ok",
      "a path of the machine"]),
    ([cell(KERNEL, "variant == 'naive/32'", kernel="sgemm"),
      cell(RATIOS, ANY, variant="best"),
      cell(CEILINGS, ANY, sha256="0" * 64),
      cell(JOBS, "uuid != ''", uuid="GPU-0"),
      cell(CEILINGS, ANY, gpu="B1")],
     ["not the variant's", "which kernels.csv does not have", "not the digest of one program",
      "and device.json has GPU-", "and device.json has NVIDIA"]),
    ([cell(SAMPLES, BESIDE, variant="naive/32")], ["no library that the catalogue compares"]),
    ([cell(JOBS, "uuid != ''", wall_s=by(0.5)),
      cell(JOBS, ANY, variant="naive/32", sweep="gram")],
     ["sweep is 'gram', and summary.csv has no", "jobs.csv has no row for it",
      "less than its parts"]),
    ([first(SAMPLES, OWN)], ["out of turn: one is missing"]),
    ([first(SAMPLES, f"{BESIDE} and not (variant + baseline_of).duplicated(keep='last')")],
     ["beside a kernel that has another number"]),
    ([cell(SUMMARY, "status == 'skipped' and phase == 'kernel'",
           status="ok", reason="", time_ms=1.0, **ERRORS)], ["samples.csv.gz has no row for it"]),
    ([cell(SUMMARY, TIMED, status="skipped", reason="x"),
      cell(SUMMARY, ON_GPU, time_ms=by(1 + 1e-6), time_low_ms=math.nan),
      cell(SUMMARY, "kernel == 'naive'", kernel="sgemm")],
     ["summary.csv has no row for it", "time_ms is", "time_low_ms is 'nan', and its samples give '",
      "and its samples give 'naive'"]),
    ([cell(RATIOS, "ratio_low > 0", ratio=by(1 + 1e-6)), cell(RATIOS, ANY, mode="sustained")],
     ["samples.csv.gz has no row", "no row beside"]),
    ([cell(RATIOS, "ratio_low > 0", ratio=by(1 + 1e-6))], ["and its samples give '"]),
    ([without("variant == 'naive/32' and n == 64", RATIOS),
      without("baseline_of == 'naive/32' and n == 64", SAMPLES)], ["ratios.csv has no row for it"]),
    ([without("variant == 'naive/32' and cache == 'alone'", RATIOS),
      without("baseline_of == 'naive/32' and cache == 'alone'", SAMPLES)],
     ["ratios.csv has no row for it"]),
    ([cell(STATES, ANY, mode="sustained"), cell(SUMMARY, f"{ON_GPU} and n > 64", power_w=by(0.8))],
     ["summary.csv has no row for", "states.csv has no row for it", "and states.csv has '"]),
    ([cell(CODE, ANY, ffma=65), cell(CODE, "variant == 'naive/32'", sha256="0" * 64)],
     ["not the sum of its kinds", "and kernels.csv has another"]),
    ([without("variant == 'naive/32'", VERIFICATION),
      cell(VERIFICATION, ANY, status="failed", reason="wrong"),
      cell(VERIFICATION, "variant == 'vectors/128'", status="skipped", reason="x"),
      cell(VERIFICATION, "variant == 'cublas_sgemm'", where="cpu")],
     ["verification.csv has no row for it", "status is 'failed', though the variant was timed",
      "status is 'skipped', though the variant was timed", "not where the variant was timed"]),
    ([lambda data: data.sweeps.pop("gram")], ["the configuration has no sweep gram"]),
    ([gemm(shapes=[64, 1024, 96], kernels=[*KERNELS["gemm"], "shared"], cold="all")],
     ["1000x1001x999 uniform burst is not in the configuration",
      "96x96x96 uniform burst is missing", "gemm: no row of shared, which it measures",
      "vectors/128, gemm: 64x64x64 uniform burst has no row of cold"]),
    ([without("variant == 'sgemm' and n == 64 and phase == 'first'", SUMMARY, SAMPLES)],
     ["has no row of first"]),
    ([cell(SUMMARY, f"{TIMED} and stopped == 'interval'", stopped="seconds"),
      without("cache == 'alone' and sample == 5", SAMPLES), derive],
     ["by its samples and the configuration what ended it is 'interval'",
      "samples is '5', fewer than 6 blocks"]),
    ([lambda data: data.tables.update(
        {VERIFICATION: data[VERIFICATION].drop_duplicates("variant")})], ["was verified at 1 of"]),
    ([lambda data: data[VERIFICATION].update(
        data[VERIFICATION].query("variant == 'sgemm'").assign(m=7))],
     ["sgemm was verified at 0 of 15 shapes"]),
    ([lambda data: data[CEILINGS].update(3 * data[CEILINGS][["value", "value_low", "value_high"]]),
      cell(CEILINGS, "name == 'copy'", value=5000, value_high=5001, value_low=4999,
           unit="TFLOP/s"),
      cell("counters.csv", "dram_bytes > 0", dram_bytes=by(1000)),
      cell("counters.csv", "variant == 'sgemm'", duration_ns=by(0.1)),
      cell("cross_check.csv", "do_bench_ms > 0", do_bench_ms=by(0.1), do_bench_low_ms=math.nan),
      device(commit="x", dirty=True)],
     ["duration_ns is", "do_bench_ms is", "in that time above the 3350 GB/s of the card",
      "above the 66.91 of the card", "above the 3350 of the card", "not that of the ceiling",
      "commit is 'x', no commit of git", "files differed from it"]),
]  # fmt: skip
# What only the catalogue that measured a set can tell.
FORGED_TODAY: list[tuple[list[Forge], list[str]]] = [
    ([first(VERIFICATION, "variant == 'naive/32'")], ["naive/32, 1x1x1: a row is missing"]),
    ([first(CEILINGS, "name == 'copy'")], ["ceilings.csv: copy: a row is missing"]),
    ([first(VERIFICATION, "variant == 'naive/32'", 2)],
     ["a row that the configuration does not give"]),
    ([without("variant == 'cublas_dsyrk'", SUMMARY, JOBS, KERNEL, VERIFICATION, SAMPLES, STATES),
      without("baseline == 'cublas_dsyrk'", RATIOS),
      lambda data: data.sweeps["gram"]["kernels"].remove("cublas_dsyrk")],
     ["ratios.csv has no row for it"]),
    ([without("variant == 'naive/16'", SUMMARY, JOBS, KERNEL, VERIFICATION, SAMPLES, STATES, RATIOS,
              CODE),
      without("baseline_of == 'naive/16'", SAMPLES)], ["gemm, naive/16: a row is missing"]),
]  # fmt: skip


def check_finds(whole: DataSet, forged: list[Forge], said: list[str], **options: Any) -> None:
    """That all of it is said of a forged set, and something of it first."""
    data = copy.deepcopy(whole)
    for forge in forged:
        forge(data)
    left = said
    for found in findings(data, the_catalogue(), **options):
        assert left != said or any(one in found for one in said), found
        assert re.match(rf"{whole.folder}/\S+\.(csv|csv\.gz|json)[:,]", found)
        left = [one for one in left if one not in found]
        if not left:
            return
    pytest.fail(f"not found: {left}")


@pytest.mark.parametrize(("forged", "said"), FORGED, ids=[said[0] for _, said in FORGED])
def test_what_is_forged_is_found(whole, forged, said):
    check_finds(whole, forged, said)


@pytest.mark.parametrize(
    ("forged", "said"), FORGED_TODAY, ids=[said[0] for _, said in FORGED_TODAY]
)
def test_what_is_cut_from_a_current_set_is_missed(current, forged, said):
    check_finds(current, forged, said, earlier=False)


def test_a_set_of_a_gpu_need_not_have_what_is_measured_without_one(whole):
    data = copy.deepcopy(whole)
    data.sweeps["processor"] = {"operation": "gemm", "shapes": [64], "kernels": ["cpu_blas"]}
    assert "no row of cpu_blas, which it measures" in next(findings(data, the_catalogue()))
    data.sweeps["processor"]["without_gpu"] = True
    assert not list(findings(data, the_catalogue()))


def test_a_list_of_kernels_holds_for_the_sweeps_of_their_operation(whole):
    data = copy.deepcopy(whole)
    names = KERNELS["gemm"] + KERNELS["gram"]
    data.device["configuration"]["kernels"] = names
    for sweep in ("gemm", "gram"):
        data.sweeps[sweep]["kernels"] = "all"
    assert not list(findings(data, the_catalogue()))
    names.append("gram_naive")
    assert "gram: no row of gram_naive" in next(findings(data, the_catalogue()))


def test_a_product_that_failed_may_have_any_error(whole):
    data = copy.deepcopy(whole)
    cell(VERIFICATION, ANY, status="failed", reason="wrong result", error=math.inf)(data)
    assert not list(impossible(data))


def test_a_rate_is_held_against_the_units_of_its_type_where_they_are_known(whole):
    """The peak of 8.6 differs between products."""
    data = copy.deepcopy(whole)
    data[SUMMARY].loc[whole[SUMMARY].variant == "sgemm", "tflops"] = 67.6
    *_, found = findings(data, the_catalogue())
    assert "above the 66.91 TFLOP/s of the card's units" in found
    data.tables[SUMMARY] = whole[SUMMARY].assign(dtype="bfloat16", tflops=1100.0)
    assert list(too_fast(data, the_catalogue()))
    data.device["compute_capability"] = "8.6"
    data.tables.update({name: data[name][:0] for name in ("counters.csv", "cross_check.csv")})
    assert not list(too_fast(data, the_catalogue()))
