"""Collecting made-up jobs: medians, rates and ratios by hand, and nothing left out."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_data import Row
from support import experiment, the_catalogue

from matmul_sweep.build.binaries import binary_of
from matmul_sweep.experiment.dataset.tables import write_rows
from matmul_sweep.experiment.measure.collect import collect
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import write_json

POINT = {"sweep": "gemm", "operation": "gemm", "dtype": "float32", "m": 64, "n": 32, "k": 16,
         "fill": "uniform", "mode": "burst"}  # fmt: skip
NAIVE, CUBLAS = "naive_rect/32", "cublas_sgemm"
FACTS = {"version": "1.0.0", "date": "2026-01-02", "commit": "abc", "code": "c0de", "dirty": False,
         "cpu": "a CPU", "cores": 4, "gpu": "a GPU", "uuid": "GPU-1", "compute_capability": "9.0",
         "driver_cuda": 12090, "cublas": "12.9", "power_limit_w": 350.0, "occupancy": 0.75,
         "settings": {}}  # fmt: skip
HOST = dict.fromkeys(["gpu", "uuid", "compute_capability", "occupancy", "power_limit_w"])
SPLIT = {"wall_s": 5.0, "start_s": 1.0, "timed_s": 3.0}
OK = {"status": "ok", "reason": ""}
COLD = OK | {"cache": "cold"}
STATE = {"phase": "kernel", "cache": "hot", "when": "during", "readings": 9, "power_w": 300.5}
CEILING = {"name": "copy", "unit": "GB/s", "value": 2e3, "samples": 20, **OK,
           "gpu": "a GPU", "uuid": "GPU-1", "sha256": "d19e57"}  # fmt: skip
UNKNOWN = dict.fromkeys(["registers", "shared_bytes", "spill_bytes"])
RECORD = {"sha256": "5ha", "compiler": "release 13.0", "compiler_path": "/x/nvcc", "flags": "-O3",
          **OK, "registers": 40, "shared_bytes": 8192, "spill_bytes": 0}  # fmt: skip

Times = dict[tuple[str, str, str], list[float]]


class Jobs:
    """A cluster's finished jobs, as compile.py, verify.py and measure.py leave them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []
        self.device, self.architectures = "gpu", ("sm_90",)
        self.records: dict[tuple[str, str], Row] = {}  # what compiling came to, where it matters
        self.failed: dict[str, Row] = {}  # verifications, with their reason
        self.ceiling = dict(CEILING)

    def add(self, name: str, times: Times | None = None, *rows: Row, **facts: Any) -> None:
        """`times`: by (variant, phase, cache), the variant's own or its baselines'; without them a
        millisecond."""
        variant = the_catalogue().variant(name)
        self.names.append(name)
        times = {(name, "kernel", "hot"): [1.0]} if times is None else times
        of = {"variant": name} | POINT | {"phase": "kernel", "cache": "hot"}
        samples = [
            POINT | {"variant": who, "baseline_of": "" if who == name else name, "phase": phase,
                     "cache": cache, "sample": i, "time_ms": time_ms}
            for (who, phase, cache), taken in times.items()
            for i, time_ms in enumerate(taken)
        ]  # fmt: skip
        folder = self.folder / "measured" / "gemm" / variant.kernel.name / variant.slug
        write_rows([of | row for row in rows or [OK]], "points.csv", folder / "points.csv")
        write_rows(samples, "samples.csv.gz", folder / "samples.csv.gz")
        write_rows([of | STATE], "states.csv", folder / "states.csv")
        split = {"sweep": "gemm", "variant": name} | SPLIT
        write_json(FACTS | facts | {"split": split}, folder / "facts.json")

    def experiment(self) -> Experiment:
        sweeps = {"gemm": {"operation": "gemm", "shapes": ["64x32x16"]}}
        how = {"spread": True, "caches": ["hot"], "sweeps": sweeps}
        run = experiment(*self.names, device=self.device, **how)
        return replace(run, architectures=self.architectures)

    def collect(self) -> tuple[Row, dict[str, pd.DataFrame]]:
        run = self.experiment()
        run.write(self.folder / "experiment.json")
        write_rows([self.ceiling], "ceilings.csv", self.folder / "measured" / "ceilings.csv")
        for (arch, _), own in run.binaries.items():
            for variant in own:
                record = RECORD | {"kernel": variant.kernel.name, "variant": variant.name}
                record |= {"architecture": arch} | self.records.get((variant.name, arch), {})
                path = binary_of(variant, self.folder / "build" / arch).with_suffix(".json")
                write_json(record, path)
        for operation, own in run.operations.items():
            rows = [{"kernel": v.kernel.name, "variant": v.name, "where": "gpu"} | POINT
                    | self.failed.get(v.name, OK) for v in own]  # fmt: skip
            path = self.folder / "verified" / f"{operation}.csv"
            write_rows(rows, "verification.csv", path)
        return collect(run, self.folder)


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(tmp_path)


def test_a_ratio_is_the_median_of_the_pairs(jobs, command):
    """Pairs 4/1, 2/2, 12/4: median 3; the ratio of the medians would be 2."""
    times = {
        (NAIVE, "kernel", "hot"): [1.0, 2.0, 4.0],
        (CUBLAS, "kernel", "hot"): [4.0, 2.0, 12.0],
        (NAIVE, "kernel", "cold"): [2.0, 2.0, 2.0],
        (CUBLAS, "kernel", "cold"): [1.0, 1.0, 9.0],
        (NAIVE, "end_to_end", "cold"): [50.0, 50.0, 50.0],
    }
    jobs.add(NAIVE, times, OK, COLD, COLD | {"phase": "end_to_end"})
    # The library's own job has another clock; it takes no part in the ratio.
    jobs.add(CUBLAS, {(CUBLAS, "kernel", "hot"): [100.0] * 3})
    _, tables = jobs.collect()
    summary, ratios = tables["summary.csv"], tables["ratios.csv"]
    assert ratios.set_index("cache").ratio.to_dict() == {"hot": 3.0, "cold": 0.5}
    names = ratios[["kernel", "variant", "baseline", "pairs"]].drop_duplicates()
    assert names.to_numpy().tolist() == [["naive_rect", NAIVE, CUBLAS, 3]]
    assert summary[summary.variant == CUBLAS].time_ms.tolist() == [100.0]
    taken = [time for own in times.values() for time in own]
    assert tables["samples.csv.gz"].time_ms.tolist() == taken + [100.0] * 3
    for output in ("local", "again"):
        done = command("collect", "--experiment", jobs.folder / "experiment.json",
                       "--results", jobs.folder, "--output", jobs.folder / output,
                       "--log", jobs.folder / "collect.log")  # fmt: skip
        assert done.code == 0
    files = sorted((jobs.folder / "local").iterdir())
    assert [file.name for file in files] == sorted(["device.json", *tables])
    for file in files:
        assert file.read_bytes() == (jobs.folder / "again" / file.name).read_bytes(), file.name


def test_what_this_run_has_no_device_for_is_in_its_data_set_with_the_reason(jobs):
    jobs.device = "cpu"
    jobs.add("cpu_blas", **HOST)
    jobs.names += [NAIVE, "naive/16", CUBLAS]
    jobs.failed = {"naive/16": {"status": "failed", "reason": "wrong result at 3x4x5"}}
    _, tables = jobs.collect()
    rows = tables["summary.csv"].set_index("variant")
    nowhere = ["skipped", "there is no GPU on this machine"]
    assert rows[["status", "reason"]].T.to_dict("list") == {
        "cpu_blas": ["ok", ""], NAIVE: nowhere, CUBLAS: nowhere,
        "naive/16": ["failed", "verification: wrong result at 3x4x5"],
    }  # fmt: skip
    assert set(tables["kernels.csv"].variant) == set(rows.index)
    assert "ceilings.csv" not in tables


@pytest.mark.parametrize(
    ("facts", "ceiling", "times", "said"),
    [
        ({}, {}, {}, f"{CUBLAS} at 64x32x16 has no samples"),
        ({"gpu": "a T4"}, {}, None, "model of GPU (a GPU, a T4): on a cluster set gpu_model in"),
        ({}, {"gpu": "a T4"}, None, "points of more than one model of GPU (a GPU, a T4): "),
        ({"cpu": "a Xeon"}, {}, None, "processor (a CPU, a Xeon): delete results/local and run"),
        ({"driver_cuda": 13000}, {}, None, "CUDA driver (12090, 13000): delete"),
        ({"cublas": "13.1"}, {}, None, "cuBLAS (12.9, 13.1): delete"),
        ({"power_limit_w": 700.0}, {}, None, "power limit in W (350.0, 700.0): delete"),
    ],
)
def test_no_samples_or_unlike_conditions_are_refused(jobs, facts, ceiling, times, said):
    jobs.ceiling |= ceiling
    jobs.add(NAIVE)
    jobs.add(CUBLAS, times, **facts)
    with pytest.raises(UserError, match=re.escape(said)):
        jobs.collect()


def test_the_device_file_says_which_cards_of_one_model_and_which_host_were_used(jobs):
    jobs.add(NAIVE, uuid="GPU-2", dirty=True)
    jobs.add(CUBLAS, commit="def", code="0ther", date="2026-02-01")
    jobs.add("cpu_blas", cores=12, **HOST)
    found, tables = jobs.collect()
    cards = tables["jobs.csv"].set_index("variant").uuid.fillna("").to_dict()
    assert cards == {NAIVE: "GPU-2", CUBLAS: "GPU-1", "cpu_blas": ""}
    assert tables["ceilings.csv"].value.tolist() == [2e3]
    assert (found["gpu"], found["uuid"]) == ("a GPU", "GPU-1+GPU-2")
    assert (found["commit"], found["code"]) == ("abc+def", "0ther+c0de")
    assert (found["dirty"], found["date"], found["cores"]) == (True, "2026-02-01", 12)
    assert found["configuration"] == jobs.experiment().configuration
    assert found["compilers"]["nvcc"] == {"compiler": "release 13.0", "architecture": "sm_90"}


def test_kernels_are_listed_as_compiled_and_a_failure_for_one_card_is_not_lost(jobs):
    jobs.architectures = ("sm_80", "sm_90")
    failed = {"status": "failed", "reason": 'does not compile: expected a ";"'}
    jobs.add(NAIVE)
    jobs.add(CUBLAS, occupancy=None)
    jobs.add("shared/16", {}, failed, occupancy=None)
    jobs.records[NAIVE, "sm_80"] = {"spill_bytes": 24}
    jobs.records["shared/16", "sm_80"] = failed | UNKNOWN
    kernels = jobs.collect()[1]["kernels.csv"].set_index("variant")
    whole = [*UNKNOWN, "occupancy"]
    assert kernels.loc[NAIVE, [*whole, "sha256"]].tolist() == [40, 8192, 0, 0.75, "5ha"]
    assert kernels.loc[CUBLAS, ["status", "sha256"]].tolist() == ["ok", ""]
    assert kernels.loc["shared/16", ["status", "reason"]].tolist() == [*failed.values()]
    assert kernels.loc["shared/16", whole].isna().all()
