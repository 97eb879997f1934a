"""Each planted bug is found as cuda_on_cpu.h says, and correct kernels pass."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import FIRST_BARRIER, TILED_KERNEL

from matmul_sweep.catalogue.plans import Grid, Launch, Plan
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.operations.gemm import GEMM, Gemm
from matmul_sweep.operations.gram import GRAM, Gram
from matmul_sweep.process.errors import Unfinished

SANITIZERS = [None, "address", "thread"]
RAGGED = (37, 29, 41)
NO_KERNEL = r'has no kernel called f \(is it extern "C"\?\)$'

# Bugs: a part of a line of TILED_KERNEL each, and what stands in its place.
B_LINE = "b[y][x] = start + y < k && col < n ? B[(start + y) * n + col] : 0.0f;"
PLANTED = {
    "before_the_start": (B_LINE, B_LINE.replace("start + y)", "start + y - 1000)")),
    "divergent_barriers": (FIRST_BARRIER, "if (y < 8) __syncthreads();\nelse __syncthreads();"),
    "divergent_return": ("float sum", "if (row >= m || col >= n) return; float sum"),
    "missing_first_barrier": (FIRST_BARRIER, ""),
    "missing_second_barrier": ("__syncthreads();  // until they are read", ""),
    "out_of_bounds_read": ("row < m && start + x < k", "start + x < k"),
    "out_of_bounds_write": ("if (row < m && col < n)", "if (col < n)"),
    "shared_index": ("p < 16", "p <= 16"),
    "unwritten_shared": (
        B_LINE,
        "if (start + y < k && col < n) b[y][x] = B[(start + y) * n + col];",
    ),
}
RIGHT = Path(__file__).parent / "cuda_on_cpu"  # kernels without a bug, of the words of real ones

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised")]

Build = Callable[..., Path]


def one(grid: Grid, block: Grid, shared_bytes: int = 0) -> Plan:
    """The plan of one launch."""
    return Plan((Launch(grid, block, shared_bytes),))


ONE = one((1, 1, 1), (1, 1, 1))


def planted(name: str) -> str:
    """TILED_KERNEL with a bug."""
    assert TILED_KERNEL.count(PLANTED[name][0]) == 1
    return TILED_KERNEL.replace(*PLANTED[name])


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles a kernel without a bug, or a planted one, once per sanitizer."""
    folder = tmp_path_factory.mktemp("kernels")

    def build(name: str, sanitizer: str | None = None) -> Path:
        executable = folder / f"{name}-{sanitizer}"
        function, operation, defines = {
            "tiled": ("multiply_tiled", GEMM, {"TILE_WIDTH": 16}),
            "gram": ("gram", GRAM, {}),
        }.get(name, ("mine", GEMM, {}))
        source = RIGHT / f"{name}.cu"
        if name in PLANTED:
            source = folder / f"{name}.cu"
            source.write_text(planted(name))
        if not executable.exists():
            emulation.build(source, [function], operation, defines, executable, sanitizer)
        return executable

    return build


def multiply(executable: Path, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """C as the kernel computes it, from NaN, and as float64 does."""
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (m, k)).astype(np.float32)
    b = rng.uniform(-1, 1, (k, n)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    grid = (-(-n // 16), -(-m // 16), 1)
    result = emulation.launch(executable, one(grid, (16, 16, 1)), Gemm(m, n, k), (a, b), c)
    assert np.isnan(c).all()
    return result, a.astype(np.float64) @ b


def gram(executable: Path, m: int, n: int, shared_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    a = np.random.default_rng(0).uniform(-1, 1, (m, n))
    c = np.full((n, n), np.nan)
    plan = one((3, 1, 1), (n // 2, 1, 1), shared_bytes)
    result = emulation.launch(executable, plan, Gram(m, n), (a,), c)
    return result, a.T @ a


def line_of(name: str, code: str) -> int:
    """The number of the only line of a planted kernel that holds `code`."""
    lines = planted(name).splitlines()
    [number] = [number for number, line in enumerate(lines, 1) if code in line]
    return number


@pytest.mark.parametrize("shape", [(15, 17, 1), RAGGED])
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_right_gemm_passes(
    build: Build, sanitizer: str | None, shape: tuple[int, int, int]
) -> None:
    computed, expected = multiply(build("tiled", sanitizer), *shape)
    np.testing.assert_allclose(computed, expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 2), (23, 14)])
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_right_gram_passes(build: Build, sanitizer: str | None, shape: tuple[int, int]) -> None:
    computed, expected = gram(build("gram", sanitizer), *shape, shared_bytes=8 * shape[1])
    np.testing.assert_allclose(computed, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("out_of_bounds_write", r"block \(\d,2,0\), thread \(.*\): \d+ bytes past the end of C$"),
        ("out_of_bounds_read", r"block \(\d,2,0\), thread \(.*\): \d+ bytes past the end of A$"),
        ("before_the_start", r"block \(0,0,0\), thread \(.*\): \d+ bytes before B$"),
    ],
)
def test_plain_build_traps(build: Build, name: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        multiply(build(name), *RAGGED)


@pytest.mark.parametrize(
    ("name", "finding", "code"),
    [
        ("out_of_bounds_write", "heap-buffer-overflow", "C[row * n + col] = sum"),
        ("out_of_bounds_read", "heap-buffer-overflow", "a[y][x] ="),
        ("before_the_start", "AddressSanitizer", "b[y][x] ="),
        ("shared_index", "runtime error: index 16 out of bounds", "sum +="),
    ],
)
def test_address_build_names_the_line(build: Build, name: str, finding: str, code: str) -> None:
    with pytest.raises(EmulationError, match=finding) as caught:
        multiply(build(name, "address"), *RAGGED)
    assert f"{name}.cu:{line_of(name, code)}" in str(caught.value)


def test_address_build_sees_the_end_of_dynamic_shared_memory(build: Build) -> None:
    with pytest.raises(EmulationError, match=r"use-after-poison .*/gram\.cu:\d+"):
        gram(build("gram", "address"), 23, 14, shared_bytes=8 * 13)


@pytest.mark.parametrize("name", ["missing_first_barrier", "missing_second_barrier"])
def test_missing_barrier_gives_a_wrong_result(build: Build, name: str) -> None:
    computed, expected = multiply(build(name), *RAGGED)
    assert not np.allclose(computed, expected, atol=1e-2)


@pytest.mark.parametrize("name", ["missing_first_barrier", "missing_second_barrier"])
def test_thread_build_names_the_race(build: Build, name: str) -> None:
    with pytest.raises(EmulationError, match=r"data race") as caught:
        multiply(build(name, "thread"), *RAGGED)
    lines = [line_of(name, code) for code in ("a[y][x] =", "b[y][x] =", "sum +=")]
    found = re.search(rf"/{name}\.cu:(\d+)", str(caught.value))
    assert found and int(found[1]) in lines


@pytest.mark.parametrize(
    ("name", "message", "sanitizer"),
    [
        ("divergent_return", r"waits at line 11, thread \(\d+,\d+,0\) has returned$", None),
        ("divergent_return", r"waits at line 11, thread \(\d+,\d+,0\) has returned$", "thread"),
        ("divergent_barriers", r"waits at line 11, thread \(0,8,0\) waits at line 12$", None),
        ("divergent_barriers", r"waits at line 11, thread \(0,8,0\) waits at line 12$", "address"),
    ],
)
def test_divergent_barrier_is_reported(
    build: Build, name: str, message: str, sanitizer: str | None
) -> None:
    with pytest.raises(EmulationError, match=r"^divergent __syncthreads in block .*" + message):
        multiply(build(name, sanitizer), *RAGGED)


@pytest.mark.parametrize("sanitizer", [None, "address"])
def test_unwritten_shared_memory_reads_as_nan(build: Build, sanitizer: str | None) -> None:
    computed, expected = multiply(build("unwritten_shared", sanitizer), 37, 29, 11)
    assert np.isnan(computed).all() and np.isfinite(expected).all()


def test_a_failure_repeats(build: Build) -> None:
    executable = build("missing_second_barrier")
    first, second = (multiply(executable, *RAGGED)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_elements_that_no_thread_writes_stay_nan(build: Build) -> None:
    a = b = np.ones((32, 32), np.float32)
    c = np.full((32, 32), np.nan, np.float32)
    shape = Gemm(32, 32, 32)
    computed = emulation.launch(build("tiled"), one((1, 2, 1), (16, 16, 1)), shape, (a, b), c)
    assert (computed[:, :16] == 32).all() and np.isnan(computed[:, 16:]).all()


def build_text(text: str, folder: Path) -> Path:
    source, executable = folder / "f.cu", folder / "f"
    source.write_text(text)
    emulation.build(source, ["f"], replace(GRAM, dtype="float32", output="float32"), {}, executable)
    return executable


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("void f(const float* A, float* C, int m, int n) { C[0] = missing; }", r"'?missing'?"),
        (
            "void f(const double* A, double* C, int m, int n) {}",
            r"conflicting.* takes \(const float\* A, float\* C, int m, int n\)$",
        ),
        (
            "void g(const float* A, float* C, int m, int n) {}",
            r'has no kernel called f \(is it extern "C"\?\)$',
        ),
    ],
)
def test_compile_error_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message) as caught:
        build_text('extern "C" __global__ ' + text, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_kernel_that_is_not_extern_c_is_refused_as_nvcc_does(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match=NO_KERNEL):
        build_text("__global__ void f(const float* A, float* C, int m, int n) {}", tmp_path)


def shared_kernel(name: str, floats: int) -> str:
    """A kernel that copies A by way of so many floats of static shared memory."""
    return (
        f'extern "C" __global__ void {name}(const float* A, float* C, int m, int n)\n'
        f"{{ __shared__ float t[{floats}]; t[n] = A[0]; __syncthreads(); C[0] = t[n]; }}\n"
    )


def test_static_shared_memory_ends_at_48_kib(tmp_path: Path) -> None:
    """That of the kernel: another one of the same source has its own."""
    a, c = np.full((1, 1), 7, np.float32), np.full((1, 1), np.nan, np.float32)
    for floats in (12 * 1024, 12 * 1024 + 1):
        text = shared_kernel("f", floats) + shared_kernel("other", 12 * 1024)
        executable = build_text(text, tmp_path)
        launch = (executable, ONE, Gram(1, 1), (a,), c)
        if floats == 12 * 1024:
            np.testing.assert_array_equal(emulation.launch(*launch), a)
        else:
            with pytest.raises(EmulationError, match=r"^49156 bytes of static .* over 49152"):
                emulation.launch(*launch)


def test_missing_compiler_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmulationError, match=r"apt install g\+\+"):
        build_text("", tmp_path)


def test_endless_kernel_is_stopped(tmp_path: Path) -> None:
    signature = 'extern "C" __global__ void f(const float* A, float* C, int m, int n)'
    executable = build_text(signature + "{ while (n) *(volatile float*)C = n; }", tmp_path)
    a = np.ones((1, 1), np.float32)
    with pytest.raises(Unfinished, match=r"did not finish within 0\.5 s"):
        emulation.launch(executable, ONE, Gram(1, 1), (a,), a, timeout=0.5)


def test_a_compiler_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    source = tmp_path / "f.cu"
    source.write_text(TILED_KERNEL)
    with pytest.raises(EmulationError, match=r"g\+\+ needs more than 0\.01 s"):
        emulation.build(source, ["tiled"], GEMM, {}, tmp_path / "f", seconds=0.01)
    assert not (tmp_path / "f").exists()


def test_arrays_have_to_fit_the_shape(build: Build) -> None:
    a = np.ones((4, 4), np.float32)
    with pytest.raises(EmulationError, match="does not hold the 80 bytes of B"):
        emulation.launch(build("tiled"), ONE, Gemm(4, 5, 4), (a, a), a)


@pytest.mark.skipif(
    subprocess.run("setarch -R true", shell=True, capture_output=True).returncode != 0,
    reason="no setarch, or a container that may not switch address randomization off",
)
def test_thread_sanitizer_runs_where_addresses_are_random(tmp_path: Path) -> None:
    """A stand-in for an executable that starts only without address randomization (0x0040000)."""
    executable = tmp_path / "stand-in"
    executable.write_text(
        "#!/bin/sh\ngrep -q '^.*4....$' /proc/self/personality && exit\n"
        "echo FATAL: ThreadSanitizer: unexpected memory mapping >&2; exit 66\n"
    )
    executable.chmod(0o755)
    c = np.ones((1, 1), np.float32)
    computed = emulation.launch(executable, ONE, Gram(1, 1), (c,), c)
    np.testing.assert_array_equal(computed, c)
