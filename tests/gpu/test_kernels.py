"""The kernels on the device: right at every shape, measured in pairs, no harm from bad ones."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from support import CUDA_ENTRY, RIGHT_KERNEL, ROOT, write_experiment

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.tables import read_table
from matmul_sweep.experiment.measure.instruments import Instruments, as_bytes
from matmul_sweep.experiment.verify.runner import GpuRunner
from matmul_sweep.experiment.verify.verification import accuracy, verification_shapes
from matmul_sweep.launch.device import Gpu
from matmul_sweep.launch.products import gpu_product
from matmul_sweep.operations import fills
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.process.errors import HANG_SECONDS
from matmul_sweep.process.files import read_json

pytestmark = pytest.mark.gpu

VARIANTS = [v for v in load_catalogue().variants.values() if v.kernel.on_gpu]
HOPPER = load_catalogue(ROOT / "tests" / "unit" / "hopper" / "catalogue.yaml")
LIBRARY = yaml.safe_load((ROOT / "kernels" / "catalogue.yaml").read_text())["cublas_sgemm"]
STRAY = RIGHT_KERNEL.replace("= sum;", "= sum;\n    if (m >= 100) C[1ull << 40] = sum;")
# The loop's store is volatile, and m never changes: from 100 rows on no thread comes out of it.
LOOP = "while (m >= 100) *(volatile float*)C = 0.0f;\n    float sum"
ENDLESS = RIGHT_KERNEL.replace("float sum", LOOP)
LAUNCHES = 100  # that overlap
PHASES = {"first", "kernel", "h2d", "d2h", "end_to_end", "unified", "submitted"}

Compiled = Callable[[Variant], Path]


def run_script(name: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess:
    """A step as the workflow runs it: a process of its own, which may lose its context."""
    [script] = (ROOT / "scripts").rglob(f"{name}.py")
    command = [sys.executable, script, *arguments]
    return subprocess.run(
        [*map(str, command)], env=os.environ | environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
@pytest.mark.parametrize("fill", ["uniform", "digits"])
def test_a_kernel_is_right_at_its_verification_shapes(
    gpu: Gpu, compiled: Compiled, variant: Variant, fill: str
) -> None:
    """C starts as NaN, A and B end in NaN, and the zone behind C is watched."""
    run = GpuRunner(compiled(variant), HANG_SECONDS, gpu)
    kernel = variant.kernel
    extra = {"gram": ["257x192"]}.get(kernel.operation, ["129x257x65", "256"])
    for shape in verification_shapes(variant, [*map(kernel.product.parse, extra)]):
        inputs = fills.inputs(fill, 7, shape, kernel.dtype)
        product = run.multiply(variant, shape, *inputs)
        assert accuracy(kernel, product, *inputs).share <= 1, shape


@pytest.mark.parametrize("name", ["exchange", "split"])
def test_hopper_does_what_the_cpu_says_of_it(gpu: Gpu, compiled: Compiled, name: str) -> None:
    """The small kernels that use every wrapper, several launches, a workspace and tensor maps."""
    variant = HOPPER.variant(name)
    if not variant.runs_on(gpu.architecture):
        pytest.skip(f"it needs compute capability {variant.kernel.since}")
    run = GpuRunner(compiled(variant), HANG_SECONDS, gpu)
    for text in ("64", "40x48x72", "136x264x520"):
        shape = variant.kernel.product.parse(text)
        inputs = fills.inputs("uniform", 7, shape, variant.kernel.dtype)
        product = run.multiply(variant, shape, *inputs)
        assert accuracy(variant.kernel, product, *inputs).share <= 1, shape


def measure(
    gpu: Gpu, variant: Variant, catalogue: Path, build: Path, folder: Path, *shapes: str,
    **changes: Any,
) -> None:  # fmt: skip
    """measure.py of one variant in its own process, to exit code 0, into `folder`/measured; it
    verifies the variant first."""
    brief = {"minimum": 6, "maximum": 12, "seconds": 0.2, "copy_seconds": 0.02}
    given = {"kernels": [variant.name], "sampling": brief | changes.pop("sampling", {})}
    experiment = folder / "experiment.json"
    write_experiment(
        experiment, catalogue, "gpu", *shapes, arch=gpu.architecture, sweep={"copies": "all"},
        **given, **changes,
    )  # fmt: skip
    done = run_script(
        "measure", "gpu", "--sweep", "gemm", "--experiment", experiment, "--build", build,
        "--records", folder / "records", "--journal", folder / "journal",
        "--output", folder / "measured", "--log", folder / "log",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def output(folder: Path, variant: Variant, name: str) -> Path:
    return folder / "measured" / variant.slug / name


def tables(folder: Path, variant: Variant) -> tuple[pd.DataFrame, pd.DataFrame]:
    names = ("points.csv", "samples.csv.gz")
    points, samples = (read_table(name, output(folder, variant, name)) for name in names)
    return points, samples


def test_a_job_measures_every_phase_in_pairs_and_skips_what_does_not_fit(
    gpu: Gpu, compiled: Compiled, tmp_path: Path
) -> None:
    catalogue = ROOT / "kernels" / "catalogue.yaml"
    variant = load_catalogue(catalogue).variant("shared_rect")
    measure(gpu, variant, catalogue, compiled(variant), tmp_path, "64", "130x70x33", "400000")
    points, samples = tables(tmp_path, variant)

    fitting, large = points[points.m < 400000], points[points.m == 400000]
    assert set(fitting.status) == {"ok"}
    for m in (64, 130):
        assert set(fitting[fitting.m == m].phase) == PHASES
    timed = fitting[fitting.phase == "kernel"]
    assert set(zip(timed.m, timed.cache, strict=True)) == {
        (m, cache) for m in (64, 130) for cache in ("hot", "cold")
    }
    assert timed.error.between(0, 1).all()
    assert set(large.status) == {"skipped"}
    assert large.reason.str.contains("GB of GPU memory").all()

    assert (samples.time_ms > 0).all()
    kernel = samples[samples.phase == "kernel"]
    counts = kernel.groupby(["m", "cache", "variant"]).size().unstack()
    assert set(counts.columns) == {variant.name, "cublas_sgemm"}
    assert (counts[variant.name] == counts["cublas_sgemm"]).all()
    assert counts.min().min() >= 6

    facts = read_json(output(tmp_path, variant, "facts.json"))
    assert facts["gpu"] == gpu.device.name()
    assert facts["uuid"] == gpu.uuid
    assert 0 < facts["occupancy"] <= 1
    assert facts["cublas_file"].startswith("libcublas")
    assert "no TF32" in facts["math_mode"]


def test_every_fill_mode_and_cache_is_a_point_with_its_states(
    gpu: Gpu, compiled: Compiled, tmp_path: Path
) -> None:
    catalogue = ROOT / "kernels" / "catalogue.yaml"
    variant = load_catalogue(catalogue).variant("shared_rect")
    axes = {"fills": ["uniform", "normal"], "modes": ["burst", "sustained"],
            "caches": ["hot", "rotated", "cold"],
            "sampling": {"warm_seconds": 0, "load_seconds": 0.3}}  # fmt: skip
    shapes = ("300x200x100", "4096")
    measure(gpu, variant, catalogue, compiled(variant), tmp_path, *shapes, **axes)
    points, samples = tables(tmp_path, variant)
    timed = points[points.phase == "kernel"]
    case = ["m", "fill", "mode", "cache"]
    assert len(timed) == timed[case].drop_duplicates().shape[0] == 2 * 2 * 2 * 3
    too_large = (timed.m == 4096) & (timed.cache == "rotated")
    assert set(timed[too_large].status) == {"skipped"}
    assert set(timed[~too_large].status) == {"ok"}
    assert set(timed[~too_large].stopped) <= {"interval", "maximum", "seconds"}
    assert (timed[~too_large].mean_error < timed[~too_large].largest_error).all()

    medians = samples[samples.phase == "kernel"].groupby(["variant", *case]).time_ms.median()
    ours = medians[variant.name]
    for fill in ("uniform", "normal"):  # from the memory is slower than from the L2
        assert ours[300, fill, "burst", "hot"] <= ours[300, fill, "burst", "cold"]

    states = read_table("states.csv", output(tmp_path, variant, "states.csv"))
    assert set(states.when) == {"before", "during", "after"}
    assert len(states) == 3 * (~too_large).sum()
    if gpu.nvml:
        assert (states.readings >= 1).all()
        assert (states[["sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c"]] > 0).all(
            axis=None
        )


def test_a_hot_card_is_waited_for_within_the_budget(
    gpu: Gpu, compiled: Compiled, tmp_path: Path
) -> None:
    if not gpu.nvml:
        pytest.skip("NVML does not answer here")
    catalogue = ROOT / "kernels" / "catalogue.yaml"
    variant = load_catalogue(catalogue).variant("naive")
    changes = {"limits": {"cool_celsius": 1, "cool_seconds": 2}, "sampling": {"warm_seconds": 0}}
    measure(gpu, variant, catalogue, compiled(variant), tmp_path, "32", "64", "96", **changes)
    points, _ = tables(tmp_path, variant)
    assert set(points.status) == {"ok"}
    assert 2 <= read_json(output(tmp_path, variant, "facts.json"))["split"]["cooling_s"] < 4


def test_a_long_launch_is_timed_hot_only_and_its_cold_row_says_so(
    gpu: Gpu, compiled: Compiled, tmp_path: Path
) -> None:
    catalogue = ROOT / "kernels" / "catalogue.yaml"
    variant = load_catalogue(catalogue).variant("naive")
    measure(gpu, variant, catalogue, compiled(variant), tmp_path, "512", "8192")
    points, samples = tables(tmp_path, variant)
    (row,) = points.query("m == 8192 and cache == 'cold' and phase == 'kernel'").itertuples()
    assert (row.status, row.reason) == (
        "skipped",
        "cold and hot are alike: a launch takes over 50 ms",
    )
    timed = samples[samples.phase == "kernel"]
    assert set(timed[timed.m == 8192].cache) == {"hot"}
    assert set(timed[timed.m == 512].cache) == {"hot", "cold"}


@pytest.fixture
def bad_kernel(tmp_path: Path) -> Callable[[str], tuple[Path, Variant]]:
    """A catalogue in which kernel `mine`, compared with cuBLAS, has the given source."""

    def write(source: str) -> tuple[Path, Variant]:
        (tmp_path / "mine.cu").write_text(source)
        entries = {"mine": CUDA_ENTRY, "cublas_sgemm": LIBRARY}
        path = tmp_path / "catalogue.yaml"
        path.write_text(yaml.safe_dump(entries))
        return path, load_catalogue(path).variant("mine")

    return write


def test_a_stray_write_fails_its_point_and_the_rest_but_not_the_job(
    bad_kernel: Callable, gpu: Gpu, compiled: Compiled, tmp_path: Path
) -> None:
    """An address far outside takes the context with it: what was measured before is kept."""
    catalogue, variant = bad_kernel(STRAY)
    measure(gpu, variant, catalogue, compiled(variant), tmp_path, "64", "128", "256")
    points, samples = tables(tmp_path, variant)
    assert set(points[points.m == 64].status) == {"ok"}
    for m in (128, 256):
        failed = points[points.m == m]
        assert set(failed.cache) == {"hot", "cold"}
        assert set(failed.status) == {"failed"}
        assert failed.reason.str.contains("the launch failed").all()
    assert points[points.m == 256].reason.str.contains("not run: at 128x128x128").all()
    assert set(samples.m) == {64}
    assert read_json(output(tmp_path, variant, "facts.json"))["gpu"]


def compile_mine(catalogue: Path, arch: str, build: Path) -> None:
    """compile.py of kernel `mine`, and of the instruments, into a folder of their own."""
    experiment = build / "compiled.json"
    write_experiment(experiment, catalogue, "gpu", 64, arch=arch)
    for name in ("mine", "instruments"):
        done = run_script(
            "compile", name, "--experiment", experiment, "--arch", arch, "--build", build
        )
        assert done.returncode == 0, done.stderr
    assert read_json(build / arch / "mine" / "mine.json")["status"] == "ok"


def verified(
    catalogue: Path, arch: str, folder: Path, *shapes: str, **changes: Any
) -> pd.DataFrame:
    """The table of verify.py, on the GPU, of kernel `mine`."""
    experiment = folder / "experiment.json"
    write_experiment(
        experiment, catalogue, "gpu", 64, arch=arch, kernels=["mine"],
        sweep={"verify_shapes": [*shapes]}, **changes,
    )  # fmt: skip
    done = run_script(
        "verify", "gemm", "--experiment", experiment, "--build", folder,
        "--records", folder / "records", "--output", folder / "verified.csv",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return read_table("verification.csv", folder / "verified.csv")


def test_a_launch_that_never_ends_fails_its_point_and_the_rest_but_not_the_job(
    bad_kernel: Callable, gpu: Gpu, tmp_path: Path
) -> None:
    """The job leaves without waiting for it, its files written, and the card is free again."""
    catalogue, variant = bad_kernel(ENDLESS)
    compile_mine(catalogue, gpu.architecture, tmp_path)
    start = time.perf_counter()
    given_up = {"hang_seconds": 3}
    measure(gpu, variant, catalogue, tmp_path, tmp_path, "64", "128", "256", limits=given_up)
    assert time.perf_counter() - start < 60
    points, samples = tables(tmp_path, variant)
    assert set(points[points.m == 64].status) == {"ok"}
    reason = "the launch did not finish within 3 s"
    for m, said in ((128, reason), (256, f"not run: at 128x128x128 {reason}")):
        failed = points[points.m == m]
        assert set(failed.cache) == {"hot", "cold"}
        assert set(failed.status) == {"failed"}
        assert set(failed.reason) == {said}
    assert set(samples.m) == {64}
    assert read_json(output(tmp_path, variant, "facts.json"))["gpu"]
    assert "Result is Correct" in run_script("multiply", "naive", "64").stdout


def test_verification_and_multiply_give_up_a_launch_that_never_ends(
    bad_kernel: Callable, gpu: Gpu, tmp_path: Path
) -> None:
    catalogue, _ = bad_kernel(ENDLESS)
    compile_mine(catalogue, gpu.architecture, tmp_path)
    given_up = {"hang_seconds": 3}
    table = verified(catalogue, gpu.architecture, tmp_path, "128", "256", limits=given_up)
    table = table.set_index("m")
    assert table.reason[128] == "the launch did not finish within 3 s"
    assert table.reason[256].startswith("not run: at 128x128x128 the launch did not finish")
    assert set(table.status.drop([128, 256])) == {"ok"}
    done = run_script("multiply", "mine", "128", "--catalogue", catalogue, "--hang-seconds", 3)
    assert done.returncode == 1, done.stdout + done.stderr
    last = done.stderr.splitlines()[-1]
    assert last == "error: mine at 128x128x128: the launch did not finish within 3 s"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (STRAY, "the launch failed"),
        (RIGHT_KERNEL.replace("p < k", "p < k - 1"), "wrong result"),
        (RIGHT_KERNEL.replace("= sum;", "= sum; C[m * n] = 0.0f;"), "past the end of C"),
        (RIGHT_KERNEL.replace("p < k", "p < k + 1"), "wrong result"),
        (RIGHT_KERNEL.replace("col >= n) return", "col >= n - 1) return"), "wrong result"),
    ],
    ids=["stray write", "lost term", "behind C", "behind A and B", "column left out"],
)
def test_verification_finds_a_mistake_and_leaves_a_table(
    bad_kernel: Callable, gpu: Gpu, build: Path, tmp_path: Path, source: str, reason: str
) -> None:
    catalogue, variant = bad_kernel(source)
    compile_mine(catalogue, gpu.architecture, tmp_path)
    table = verified(catalogue, gpu.architecture, tmp_path, "128")
    failed = table[table.status == "failed"]
    assert failed.reason.str.contains(reason).any()
    assert set(table["where"]) == {"gpu"}
    assert len(table) == len(verification_shapes(variant, [Gemm(128, 128, 128)]))


def test_multiply_says_the_documents_lines(gpu: Gpu) -> None:
    done = run_script("multiply", "shared_rect", "3200x2400x1600")
    assert done.returncode == 0, done.stderr
    assert "CUDA kernel launch with 7500 blocks of 1024 threads" in done.stdout
    assert "Result is Correct" in done.stdout
    [line] = [line for line in done.stdout.splitlines() if line.startswith("Duration: ")]
    assert 1e-4 < float(line.split()[1]) < 1


def test_an_inherited_tf32_override_does_not_reach_cublas(gpu: Gpu) -> None:
    """With ten bits of mantissa this product would be wrong."""
    done = run_script("multiply", "cublas_sgemm", "256", NVIDIA_TF32_OVERRIDE="1")
    assert "Result is Correct" in done.stdout, done.stdout + done.stderr


def test_a_hidden_gpu_is_said_and_the_cpu_used_instead(gpu: Gpu) -> None:
    done = run_script("multiply", "naive", "33", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stderr
    assert "finds no" in done.stdout
    assert "not timed" in done.stdout


def test_products_of_one_kernel_are_reproducible(gpu: Gpu, compiled: Compiled) -> None:
    """No race: the same inputs give the same bits."""
    variant = load_catalogue().variant("shared_rect_split")
    run = GpuRunner(compiled(variant), HANG_SECONDS, gpu)
    shape = Gemm(333, 222, 111)
    a = fills.matrix("uniform", 7, 0, shape.m, shape.k)
    b = fills.matrix("uniform", 7, 1, shape.k, shape.n)
    first = run.multiply(variant, shape, a, b)
    assert all(np.array_equal(first, run.multiply(variant, shape, a, b)) for _ in range(5))


@pytest.mark.parametrize(
    "variant", [v for v in VARIANTS if v.kernel.overlaps], ids=lambda v: v.name
)
def test_a_launch_that_overlaps_reads_what_the_last_one_wrote(
    gpu: Gpu, compiled: Compiled, variant: Variant
) -> None:
    """Products in a row, each of the last one's C and a matrix that moves columns by one; what was
    read too early, or written over too early, stays behind."""
    if not variant.runs_on(gpu.architecture):
        pytest.skip(f"it needs compute capability {variant.kernel.since}")
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
