"""Each planted bug is found as cuda_on_cpu.h says, and correct kernels pass."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import FIRST_BARRIER, TILED_KERNEL

from matmul_sweep.catalogue.plans import Launch, Plan
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.operations.gemm import GEMM, Gemm
from matmul_sweep.operations.gram import GRAM, Gram
from matmul_sweep.process.errors import Unfinished

SANITIZERS = [None, "address", "thread"]
RAGGED = (37, 29, 41)
RIGHT = Path(__file__).parent / "cuda_on_cpu"  # kernels without a bug, of the words of real ones

# Bugs: a part of a line of TILED_KERNEL each, and what stands in its place.
A_LINE, B_GUARD, SUM = "a[y][x] =", "start + y < k && col < n", "sum +="
B_LINE = f"b[y][x] = {B_GUARD} ? B[(start + y) * n + col] : 0.0f;"
PLANTED = {
    "before_the_start": (B_LINE, B_LINE.replace("start + y)", "start + y - 1000)")),
    "divergent_barriers": (FIRST_BARRIER, "if (y < 8) __syncthreads();\nelse __syncthreads();"),
    "divergent_return": ("float sum", "if (row >= m || col >= n) return; float sum"),
    "missing_first_barrier": (FIRST_BARRIER, ""),
    "missing_second_barrier": ("__syncthreads();  // until they are read", ""),
    "out_of_bounds_read": ("row < m && start + x < k", "start + x < k"),
    "out_of_bounds_write": ("if (row < m && col < n)", "if (col < n)"),
    "shared_index": ("p < 16", "p <= 16"),
    "unwritten_shared": (B_LINE, f"if ({B_GUARD}) b[y][x] = B[(start + y) * n + col];"),
}
RETURNED = (
    r"^divergent __syncthreads in block .*waits at line 11, thread \(\d+,\d+,0\) has returned$"
)
DIVERGED = (
    r"^divergent __syncthreads in block .*waits at line 11, thread \(0,8,0\) waits at line 12$"
)
OVERFLOW = "heap-buffer-overflow"
# A bug, the build, what it says, and the code in one of whose lines it says it.
SAID = [
    (
        "out_of_bounds_write",
        None,
        r"block \(\d,2,0\), thread \(.*\): \d+ bytes past the end of C$",
        [],
    ),
    (
        "out_of_bounds_read",
        None,
        r"block \(\d,2,0\), thread \(.*\): \d+ bytes past the end of A$",
        [],
    ),
    ("before_the_start", None, r"block \(0,0,0\), thread \(.*\): \d+ bytes before B$", []),
    ("out_of_bounds_write", "address", OVERFLOW, ["C[row * n + col] = sum"]),
    ("out_of_bounds_read", "address", OVERFLOW, [A_LINE]),
    ("before_the_start", "address", "AddressSanitizer", ["b[y][x] ="]),
    ("shared_index", "address", "runtime error: index 16 out of bounds", [SUM]),
    ("missing_first_barrier", "thread", "data race", [A_LINE, "b[y][x] =", SUM]),
    ("missing_second_barrier", "thread", "data race", [A_LINE, "b[y][x] =", SUM]),
    ("divergent_return", None, RETURNED, []),
    ("divergent_return", "thread", RETURNED, []),
    ("divergent_barriers", None, DIVERGED, []),
    ("divergent_barriers", "address", DIVERGED, []),
]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised")]

ONE = Plan((Launch((1, 1, 1), (1, 1, 1)),))
DECLARED = 'extern "C" __global__ void f(const float* A, float* C, int m, int n)'
ONES = np.ones((1, 1), np.float32)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of kernels that are compiled once per sanitizer."""
    return tmp_path_factory.mktemp("kernels")


def multiply(
    name: str, sanitizer: str | None, folder: Path, m: int = 37, n: int = 29, k: int = 41
) -> tuple[np.ndarray, np.ndarray]:
    """C as the tiled kernel computes it from NaN, right or with a bug, and as float64 does."""
    source, executable = RIGHT / "tiled.cu", folder / f"{name}-{sanitizer}"
    if name in PLANTED:
        source = folder / f"{name}.cu"
        source.write_text(planted(name))
    if not executable.exists():
        function = "mine" if name in PLANTED else "multiply_tiled"
        emulation.build(source, [function], GEMM, {"TILE_WIDTH": 16}, executable, sanitizer)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, extents).astype(np.float32) for extents in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    plan = Plan((Launch((-(-n // 16), -(-m // 16), 1), (16, 16, 1)),))
    result = emulation.launch(executable, plan, Gemm(m, n, k), (a, b), c)
    assert np.isnan(c).all()
    return result, a.astype(np.float64) @ b


def planted(name: str) -> str:
    """TILED_KERNEL with a bug."""
    assert TILED_KERNEL.count(PLANTED[name][0]) == 1
    return TILED_KERNEL.replace(*PLANTED[name])


def gram(folder: Path, sanitizer: str | None, m: int, n: int, shared: int) -> None:
    """Fails unless C = AᵀA is right with so many doubles of dynamic shared memory."""
    executable = folder / f"gram-{sanitizer}"
    if not executable.exists():
        emulation.build(RIGHT / "gram.cu", ["gram"], GRAM, {}, executable, sanitizer)
    a = np.random.default_rng(0).uniform(-1, 1, (m, n))
    plan = Plan((Launch((3, 1, 1), (n // 2, 1, 1), 8 * shared),))
    c = emulation.launch(executable, plan, Gram(m, n), (a,), np.full((n, n), np.nan))
    np.testing.assert_allclose(c, a.T @ a, atol=1e-12)


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_right_kernels_pass(folder: Path, sanitizer: str | None) -> None:
    for shape in ((15, 17, 1), RAGGED):
        computed, expected = multiply("tiled", sanitizer, folder, *shape)
        np.testing.assert_allclose(computed, expected, atol=1e-5)
    for m, n in ((1, 2), (23, 14)):
        gram(folder, sanitizer, m, n, n)


@pytest.mark.parametrize(("name", "sanitizer", "message", "codes"), SAID)
def test_a_bug_is_told(
    name: str, sanitizer: str | None, message: str, codes: list[str], folder: Path
) -> None:
    with pytest.raises(EmulationError, match=message) as caught:
        multiply(name, sanitizer, folder)
    lines = enumerate(planted(name).splitlines(), 1)
    named = [f"{name}.cu:{i}" for i, line in lines if any(code in line for code in codes)]
    assert not codes or any(place in str(caught.value) for place in named)


def test_address_build_sees_the_end_of_dynamic_shared_memory(folder: Path) -> None:
    with pytest.raises(EmulationError, match=r"use-after-poison .*/gram\.cu:\d+"):
        gram(folder, "address", 23, 14, 13)


@pytest.mark.parametrize("name", ["missing_first_barrier", "missing_second_barrier"])
def test_missing_barrier_gives_the_same_wrong_result_twice(folder: Path, name: str) -> None:
    (first, expected), (second, _) = (multiply(name, None, folder) for _ in range(2))
    assert not np.allclose(first, expected, atol=1e-2)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("sanitizer", [None, "address"])
def test_unwritten_shared_memory_reads_as_nan(folder: Path, sanitizer: str | None) -> None:
    assert np.isnan(multiply("unwritten_shared", sanitizer, folder, 37, 29, 11)[0]).all()


def build_text(text: str, folder: Path, seconds: float | None = None) -> Path:
    source, executable = folder / "f.cu", folder / "f"
    source.write_text(text)
    floats = replace(GRAM, dtype="float32", output="float32")
    emulation.build(source, ["f"], floats, {}, executable, seconds=seconds)
    return executable


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{DECLARED} {{ C[0] = missing; }}", r"'?missing'?"),
        (DECLARED.replace("float", "double") + " {}",
         r"conflicting.* takes \(const float\* A, float\* C, int m, int n\)$"),
        (DECLARED.replace("f(", "g(") + " {}", r'has no kernel called f \(is it extern "C"\?\)$'),
        (DECLARED.replace('extern "C"', "") + " {}",  # nvcc refuses it too
         r'has no kernel called f \(is it extern "C"\?\)$'),
    ],
)  # fmt: skip
def test_compile_error_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message) as caught:
        build_text(text, tmp_path)
    assert "\n" not in str(caught.value)


def test_static_shared_memory_ends_at_48_kib(tmp_path: Path) -> None:
    """That of the kernel: another one of the same source has its own."""
    text = (
        f"{DECLARED} {{ __shared__ float t[12288]; t[n] = A[0]; __syncthreads(); C[0] = t[n]; }}\n"
    )
    text += text.replace("f(", "other(")
    a = np.full((1, 1), 7, np.float32)
    launch = (ONE, Gram(1, 1), (a,), np.full_like(a, np.nan))
    np.testing.assert_array_equal(emulation.launch(build_text(text, tmp_path), *launch), a)
    executable = build_text(text.replace("12288", "12289", 1), tmp_path)
    with pytest.raises(EmulationError, match=r"^49156 bytes of static .* over 49152"):
        emulation.launch(executable, *launch)


def test_missing_compiler_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EmulationError, match=r"apt install g\+\+"):
        build_text("", tmp_path)


def test_endless_kernel_is_stopped(tmp_path: Path) -> None:
    executable = build_text(f"{DECLARED} {{ while (n) *(volatile float*)C = n; }}", tmp_path)
    with pytest.raises(Unfinished, match=r"did not finish within 0\.5 s"):
        emulation.launch(executable, ONE, Gram(1, 1), (ONES,), ONES, timeout=0.5)


def test_a_compiler_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match=r"g\+\+ needs more than 0\.01 s"):
        build_text(f"{DECLARED} {{}}", tmp_path, seconds=0.01)
    assert not (tmp_path / "f").exists()


def test_arrays_have_to_fit_the_shape(tmp_path: Path) -> None:
    executable = build_text(f"{DECLARED} {{ }}", tmp_path)
    with pytest.raises(EmulationError, match="does not hold the 16 bytes of A"):
        emulation.launch(executable, ONE, Gram(2, 2), (ONES,), ONES)


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
    computed = emulation.launch(executable, ONE, Gram(1, 1), (ONES,), ONES)
    np.testing.assert_array_equal(computed, ONES)
