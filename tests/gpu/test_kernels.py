"""The kernels on the device: right at every shape, measured in pairs, no harm from bad ones."""

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from support import CUDA_ENTRY, RIGHT_KERNEL, ROOT, experiment

from matmul_sweep.build.binaries import compile_instruments
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.tables import read_table
from matmul_sweep.experiment.verify.gpu import Gpu
from matmul_sweep.experiment.verify.instruments import Instruments, as_bytes
from matmul_sweep.experiment.verify.products import gpu_product
from matmul_sweep.experiment.verify.verification import accuracy, verification_shapes
from matmul_sweep.operations import fills
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.process.files import read_json

pytestmark = pytest.mark.gpu

# A tuned entry is what passes of all that the library offers; a contest looks at each.
VARIANTS = [v for v in load_catalogue().variants.values() if v.kernel.on_gpu and not v.kernel.tuned]
SMALL = load_catalogue(ROOT / "tests" / "unit" / "hopper" / "catalogue.yaml")
HOPPER = [SMALL.variant(name) for name in ("exchange", "split")]
LIBRARY = yaml.safe_load((ROOT / "kernels" / "catalogue.yaml").read_text())["cublas_sgemm"]
STRAY = RIGHT_KERNEL.replace("= sum;", "= sum;\n    if (m >= 100) C[1ull << 40] = sum;")
# The loop's store is volatile, and m never changes: from 100 rows on no thread comes out of it.
LOOP = "while (m >= 100) *(volatile float*)C = 0.0f;\n    float sum"
ENDLESS = RIGHT_KERNEL.replace("float sum", LOOP)
# Right but for a launch with the same C and shape as the last one.
AGAIN = "if (last == C && size == m + 9973 * n + 99991 * k) { %s return; }\n    float sum"
NOTED = """= kept[row * n + col] = sum;
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0 && atomicAdd(&done, 1) == gridDim.x * gridDim.y - 1)
        last = C, size = m + 9973 * n + 99991 * k, done = 0;"""
REMEMBERS = "__device__ float *last, kept[1 << 20];\n__device__ unsigned size, done;\n" + (
    RIGHT_KERNEL.replace("float sum", AGAIN).replace("= sum;", NOTED)
)
ONCE, KEEPS = REMEMBERS % "", REMEMBERS % "C[row * n + col] = kept[row * n + col];"
LAUNCHES = 100  # that overlap
PHASES = {"first", "kernel", "h2d", "d2h", "end_to_end", "unified", "submitted"}


def run_script(name: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess:
    """A step as the workflow runs it: a process of its own, which may lose its context."""
    [script] = (ROOT / "scripts").rglob(f"{name}.py")
    command = [*map(str, (sys.executable, script, *arguments))]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)


@pytest.mark.parametrize("variant", [*VARIANTS, *HOPPER], ids=lambda v: v.name)
def test_a_kernel_is_right_at_its_verification_shapes(runner, compiled, variant):
    """C starts as NaN, A and B end in NaN, and the zone behind C is watched. Hopper's small kernels
    use every wrapper, several launches, a workspace and tensor maps."""
    compiled(variant)
    kernel = variant.kernel
    extra = ["257x192", "520x1000"] if kernel.product.symmetric else ["129x257x65", "256"]
    shapes = verification_shapes(variant, [*map(kernel.product.parse, extra)])
    if variant in HOPPER:
        shapes = [*map(kernel.product.parse, ("64", "40x48x72", "136x264x520"))]
    for shape, fill in itertools.product(shapes, ("uniform", "digits")):
        inputs = fills.inputs(fill, 7, shape, kernel.dtype)
        found = runner.multiply(variant, shape, *inputs)
        assert accuracy(kernel, found, *inputs).share <= 1, (shape, fill)
        if kernel.product.symmetric and kernel.writes == "full":
            assert found.tobytes() == found.T.tobytes(), (shape, fill)


@dataclass
class Job:
    """A folder in which steps run as the workflow runs them, on one kernel."""

    gpu: Gpu
    catalogue: Path
    build: Path
    folder: Path

    def experiment(self, *shapes: str, **changes: Any) -> list[object]:
        """The options that say what is measured of which binaries."""
        path = self.folder / "experiment.json"
        changes = {"sweeps": {"gemm": {"operation": "gemm", "shapes": [*shapes]}}} | changes
        arch = self.gpu.architecture
        experiment(catalogue=self.catalogue, device="gpu", arch=arch, **changes).write(path)
        return ["--experiment", path, "--build", self.build, "--records", self.folder / "records"]

    def measured(
        self, name: str, *shapes: str, **changes: Any
    ) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, Any]]:
        """Points, samples, states and facts of measure.py, which verifies the variant first and
        ends with exit code 0."""
        brief = {"minimum": 6, "maximum": 12, "seconds": 0.2, "copy_seconds": 0.02}
        changes |= {f"sampling__{key}": value for key, value in brief.items()}
        variant = load_catalogue(self.catalogue).variant(name)
        given = {"kernels": [variant.name], "sweeps__gemm__copies": "all"}
        done = run_script(
            "measure", "gpu", "--sweep", "gemm", *self.experiment(*shapes, **given, **changes),
            "--journal", self.folder / "journal", "--output", self.folder / "measured",
            "--log", self.folder / "log",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        found = self.folder / "measured" / variant.slug
        names = ("points.csv", "samples.csv.gz", "states.csv")
        points, samples, states = (read_table(name, found / name) for name in names)
        return points, samples, states, read_json(found / "facts.json")


@pytest.fixture
def job(gpu: Gpu, compiled: Callable[[Variant], Path], tmp_path: Path) -> Job:
    """Of the project's kernels."""
    for name in ("shared_rect", "naive"):
        build = compiled(load_catalogue().variant(name))
    return Job(gpu, ROOT / "kernels" / "catalogue.yaml", build, tmp_path)


@pytest.fixture
def bad(gpu: Gpu, tmp_path: Path) -> Callable[[str], Job]:
    """Of kernel `mine`, compared with cuBLAS, that has the given source; compiled by compile.py."""

    def make(source: str) -> Job:
        (tmp_path / "mine.cu").write_text(source)
        path, arch = tmp_path / "catalogue.yaml", gpu.architecture
        path.write_text(yaml.safe_dump({"mine": CUDA_ENTRY, "cublas_sgemm": LIBRARY}))
        compiled = tmp_path / "compiled.json"
        experiment(catalogue=path, device="gpu", arch=arch).write(compiled)
        done = run_script(
            "compile", "mine", "--experiment", compiled, "--arch", arch, "--build", tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert read_json(tmp_path / arch / "mine" / "mine.json")["status"] == "ok"
        compile_instruments(arch, tmp_path / arch / "instruments.cubin")
        return Job(gpu, path, tmp_path, tmp_path)

    return make


def test_a_job_measures_every_phase_in_pairs_and_skips_what_does_not_fit(job):
    points, samples, _, facts = job.measured("shared_rect", "64", "130x70x33", "400000")
    fitting, large = points[points.m < 400000], points[points.m == 400000]
    assert set(fitting.status) == {"ok"}
    assert all(set(fitting[fitting.m == m].phase) == PHASES for m in (64, 130))
    timed = fitting[fitting.phase == "kernel"]
    every = itertools.product((64, 130), ("hot", "cold"))
    assert {*zip(timed.m, timed.cache, strict=True)} == {*every}
    assert timed.error.between(0, 1).all()
    assert set(large.status) == {"skipped"}
    assert large.reason.str.contains("GB of GPU memory").all()

    assert (samples.time_ms > 0).all()
    counts = samples[samples.phase == "kernel"].groupby(["m", "cache", "variant"]).size().unstack()
    assert set(counts.columns) == {*samples.variant} and len(counts.columns) == 2
    assert (counts.max(axis=1) == counts.min(axis=1)).all()
    assert counts.min().min() >= 6

    assert (facts["gpu"], facts["uuid"]) == (job.gpu.name, job.gpu.uuid)
    assert 0 < facts["occupancy"] <= 1
    assert facts["cublas_file"].startswith("libcublas")
    assert "no TF32" in facts["math_mode"]


def test_alone_a_kernel_has_six_blocks_beside_those_of_the_library(job):
    points, samples, _, facts = job.measured("naive", "64", "4096", caches=["alone"])
    assert set(points.status) == {"ok"} and points.error.between(0, 1).all()
    assert (samples.groupby(["m", "variant"]).size() == 6).all()
    for m in (64, 4096):
        names = set(samples[samples.m == m].variant)
        assert "naive/32" in names and names & {"cublas_sgemm", "cublas_tuned"}
    own = samples[(samples.variant == "naive/32") & (samples.m == 4096)].time_ms
    assert own.max() < 1.05 * own.min()
    if job.gpu.nvml:
        large = points[points.m == 4096]
        assert large.power_w.between(100, facts["power_limit_w"]).all()
        assert (large.sm_clock_mhz > 500).all()


def test_every_fill_mode_and_cache_is_a_point_with_its_states(job):
    axes = {"fills": ["uniform", "normal"], "modes": ["burst", "sustained"],
            "caches": ["hot", "cold"],
            "sampling__warm_seconds": 0, "sampling__load_seconds": 0.3}  # fmt: skip
    points, samples, states, _ = job.measured("shared_rect", "300x200x100", "4096", **axes)
    timed = points[points.phase == "kernel"]
    case = ["m", "fill", "mode", "cache"]
    assert len(timed) == timed[case].drop_duplicates().shape[0] == 2 * 2 * 2 * 2
    assert set(timed.status) == {"ok"}
    assert set(timed.stopped) <= {"interval", "maximum", "seconds"}
    assert (timed.mean_error < timed.largest_error).all()

    medians = samples[samples.phase == "kernel"].groupby(["variant", *case]).time_ms.median()
    ours = medians[points.variant[0]]
    for fill in ("uniform", "normal"):  # from the memory is slower than from the L2
        assert ours[300, fill, "burst", "hot"] <= ours[300, fill, "burst", "cold"]

    assert set(states.when) == {"before", "during", "after"}
    assert len(states) == 3 * len(timed)
    if job.gpu.nvml:
        assert (states.readings >= 1).all()
        read = states[["sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c"]]
        assert (read > 0).all(axis=None)


def test_a_hot_card_is_waited_for_within_the_budget(job):
    if not job.gpu.nvml:
        pytest.skip("NVML does not answer here")
    changes = {"limits__cool_celsius": 1, "limits__cool_seconds": 2, "sampling__warm_seconds": 0}
    points, _, _, facts = job.measured("naive", "32", "64", "96", **changes)
    assert set(points.status) == {"ok"}
    assert 2 <= facts["split"]["cooling_s"] < 4


def test_a_long_launch_is_timed_hot_only_and_its_cold_row_says_so(job):
    points, samples, _, _ = job.measured("naive", "512", "8192")
    (row,) = points.query("m == 8192 and cache == 'cold' and phase == 'kernel'").itertuples()
    reason = "cold and hot are alike: a launch takes over 50 ms"
    assert (row.status, row.reason) == ("skipped", reason)
    timed = samples[samples.phase == "kernel"]
    assert set(timed[timed.m == 8192].cache) == {"hot"}
    assert set(timed[timed.m == 512].cache) == {"hot", "cold"}


@pytest.mark.parametrize("caches", [["hot", "cold"], ["alone"]], ids=["in turn", "alone"])
@pytest.mark.parametrize(
    ("source", "reason"),
    [(STRAY, "the launch failed"), (ENDLESS, "the launch did not finish within 3 s")],
    ids=["stray write", "no end"],
)
def test_a_launch_that_costs_the_card_fails_its_point_and_the_rest(bad, source, reason, caches):
    """An address far outside takes the context with it, and a launch without an end is not waited
    for: what was measured before is kept, and the card is free again."""
    start, how = time.perf_counter(), {"limits__hang_seconds": 3, "caches": caches}
    points, samples, _, facts = bad(source).measured("mine", "64", "128", "256", **how)
    assert time.perf_counter() - start < 60
    assert set(points[points.m == 64].status) == {"ok"}
    for m, said in ((128, reason), (256, f"not run: at 128x128x128 {reason}")):
        failed = points[points.m == m]
        assert set(failed.cache) == {*caches}
        assert set(failed.status) == {"failed"}
        assert failed.reason.str.startswith(said).all()
    assert set(samples.m) == {64}
    assert facts["gpu"]
    assert "Result is Correct" in run_script("multiply", "naive", "64").stdout


@pytest.mark.parametrize("cache", ["hot", "alone"])
@pytest.mark.parametrize("source", [ONCE, KEEPS], ids=["nothing again", "an earlier answer"])
def test_a_kernel_that_is_right_once_is_a_failed_row(bad, source, cache):
    points, *_ = bad(source).measured("mine", "64", "128", caches=[cache])
    assert set(points.status) == {"failed"}
    said = r"wrong result of mine in its last timed launch: error \S+ times the bound"
    assert points.reason.str.fullmatch(said).all()


def verified(job: Job, *shapes: str, **changes: Any) -> pd.DataFrame:
    """The table of verify.py, on the GPU, of kernel `mine`."""
    output = job.folder / "verified.csv"
    changes |= {"kernels": ["mine"], "sweeps__gemm__verify_shapes": [*shapes]}
    options = job.experiment("64", **changes)
    done = run_script("verify", "gemm", *options, "--output", output)
    assert done.returncode == 0, done.stdout + done.stderr
    return read_table("verification.csv", output)


def test_verification_and_multiply_give_up_a_launch_that_never_ends(bad):
    job, reason = bad(ENDLESS), "the launch did not finish within 3 s"
    table = verified(job, "128", "256", limits__hang_seconds=3).set_index("m")
    assert table.reason[128] == reason
    assert table.reason[256] == f"not run: at 128x128x128 {reason}"
    assert set(table.status.drop([128, 256])) == {"ok"}
    done = run_script("multiply", "mine", "128", "--catalogue", job.catalogue, "--hang-seconds", 3)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == f"error: mine at 128x128x128: {reason}"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (STRAY, "the launch failed"),
        (RIGHT_KERNEL.replace("= sum;", "= sum; C[m * n] = 0.0f;"), "past the end of C"),
        (RIGHT_KERNEL.replace("p < k", "p < k + 1"), "wrong result"),
    ],
    ids=["stray write", "behind C", "behind A and B"],
)
def test_verification_finds_a_mistake_and_leaves_a_table(bad, source, reason):
    job = bad(source)
    table = verified(job, "128")
    assert table[table.status == "failed"].reason.str.contains(reason).any()
    assert set(table["where"]) == {"gpu"}
    variant = load_catalogue(job.catalogue).variant("mine")
    assert len(table) == len(verification_shapes(variant, [Gemm(128, 128, 128)]))


DOCUMENTED = (
    r"CUDA kernel launch with 7500 blocks of 1024 threads\n.*"
    r"Result is Correct.*\nDuration: 0\.0{0,3}[1-9]\d* s"
)


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        ("shared_rect 3200x2400x1600", {}, DOCUMENTED),
        # With ten bits of mantissa this product would be wrong.
        ("cublas_sgemm 256", {"NVIDIA_TF32_OVERRIDE": "1"}, "Result is Correct"),
        ("naive 33", {"CUDA_VISIBLE_DEVICES": ""}, "finds no.*not timed"),
    ],
    ids=["the documents' lines", "TF32 is asked for", "the GPU is hidden"],
)
def test_multiply_says_the_documents_lines_whatever_the_environment(gpu, words, environment, said):
    done = run_script("multiply", *words.split(), **environment)
    assert done.returncode == 0, done.stderr
    assert re.search(said, done.stdout, re.DOTALL)


CHAINED = [v for v in VARIANTS if v.kernel.overlaps and v.kernel.product.output == v.kernel.dtype
           and not v.kernel.product.symmetric
           and v.may_be_chosen(v.kernel.product.parse(520))]  # fmt: skip


@pytest.mark.parametrize("variant", CHAINED, ids=lambda v: v.name)
def test_a_launch_that_overlaps_reads_what_the_last_one_wrote(gpu, compiled, variant):
    """Products in a row, each of the last one's C and a matrix that moves columns by one; what was
    read too early, or written over too early, stays behind."""
    tools, drv, n = Instruments(gpu, compiled(variant)), gpu.drv, 520
    product, shape = gpu_product(variant, tools), variant.kernel.product.parse(n)
    start = fills.inputs("digits", 7, shape, variant.kernel.dtype)[0]
    moves = np.roll(np.eye(n), 1, axis=1).astype(start.dtype)
    first, second, by = (drv.to_device(as_bytes(each)) for each in (start, start, moves))
    for _ in range(LAUNCHES // 2):
        product(shape, first, by, second)
        product(shape, second, by, first)
    tools.wait()
    moved = np.empty_like(start)
    drv.memcpy_dtoh(as_bytes(moved), first)
    assert (moved == np.roll(start, LAUNCHES, axis=1)).all()
