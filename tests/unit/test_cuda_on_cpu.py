"""Each planted bug is found as cuda_on_cpu.h says, and correct kernels pass."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from emulated import build_text
from support import FIRST_BARRIER, TILED_KERNEL

from matmul_sweep.catalogue.plans import Launch, Plan
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.operations.gemm import GEMM, Gemm
from matmul_sweep.operations.gram import GRAM, Gram
from matmul_sweep.process.errors import Unfinished, UserError

Edit = tuple[str, str]

# Bugs: a part of TILED_KERNEL each, and what stands in its place.
B_GUARD = "start + y < k && col < n"
B_LINE = f"b[y][x] = {B_GUARD} ? B[(start + y) * n + col] : 0.0f;"
RIGHT = (B_LINE, B_LINE)
BEFORE_B = (B_LINE, B_LINE.replace("start + y)", "start + y - 1000)"))
BEYOND_A = ("row < m && start + x < k", "start + x < k")
BEYOND_C = ("if (row < m && col < n)", "if (col < n)")
BEYOND_TILE = ("p < 16", "p <= 16")
NO_FIRST_BARRIER = (FIRST_BARRIER, "")
NO_SECOND_BARRIER = ("__syncthreads();  // until they are read", "")
TWO_BARRIERS = (FIRST_BARRIER, "if (y < 8) __syncthreads();\nelse __syncthreads();")
RETURN = ("float sum", "if (row >= m || col >= n) return; float sum")
UNWRITTEN = (B_LINE, f"if ({B_GUARD}) b[y][x] = B[(start + y) * n + col];")
# What is said of them.
PAST_THE_END = r"block \(\d,2,0\), thread \(.*\): \d+ bytes past the end of"
WAITS = "^divergent __syncthreads in block .*waits at line 11, thread "
RETURNED = rf"{WAITS}\(\d+,\d+,0\) has returned$"
DIVERGED = rf"{WAITS}\(0,8,0\) waits at line 12$"
OVERFLOW, RACE = "heap-buffer-overflow", "data race"
# A bug, the build, what it says, and a pattern of the lines in one of which it says it.
SAID = [
    (BEYOND_C, None, f"{PAST_THE_END} C$", ""),
    (BEYOND_A, None, f"{PAST_THE_END} A$", ""),
    (BEFORE_B, None, r"block \(0,0,0\), thread \(.*\): \d+ bytes before B$", ""),
    (BEYOND_C, "address", OVERFLOW, r"C\[.*\] ="),
    (BEYOND_A, "address", OVERFLOW, r"a\[.*\] ="),
    (BEFORE_B, "address", "AddressSanitizer", r"b\[.*\] ="),
    (BEYOND_TILE, "address", "runtime error: index 16 out of bounds", r"sum \+="),
    (NO_FIRST_BARRIER, "thread", RACE, r"[ab]\[.*\] =|sum \+="),
    (NO_SECOND_BARRIER, "thread", RACE, r"[ab]\[.*\] =|sum \+="),
    (RETURN, None, RETURNED, ""),
    (RETURN, "thread", RETURNED, ""),
    (TWO_BARRIERS, None, DIVERGED, ""),
    (TWO_BARRIERS, "address", DIVERGED, ""),
]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised")]

ONE = Plan((Launch((1, 1, 1), (1, 1, 1)),))
DECLARED = 'extern "C" __global__ void f(const float* A, float* C, int m, int n)'
ONES = np.ones((1, 1), np.float32)


def product(
    bug: Edit, sanitizer: str | None, folder: Path, m: int = 37, n: int = 29, k: int = 41
) -> tuple[np.ndarray, np.ndarray]:
    """C as TILED_KERNEL with a bug computes it from NaN, and as float64 does."""
    assert TILED_KERNEL.count(bug[0]) == 1
    source = folder / "mine.cu"
    source.write_text(TILED_KERNEL.replace(*bug))
    emulation.build(source, ["mine"], GEMM, {}, folder / "mine", sanitizer)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, extents).astype(np.float32) for extents in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    plan = Plan((Launch((-(-n // 16), -(-m // 16), 1), (16, 16, 1)),))
    result = emulation.launch(folder / "mine", plan, Gemm(m, n, k), (a, b), c)
    assert np.isnan(c).all()
    return result, a.astype(np.float64) @ b


def check_gram(folder: Path, sanitizer: str | None, m: int, n: int, shared: int) -> None:
    """Fails unless C = AᵀA is right with so many doubles of dynamic shared memory."""
    source = Path(__file__).parent / "cuda_on_cpu" / "gram.cu"
    emulation.build(source, ["gram"], GRAM, {}, folder / "gram", sanitizer)
    a = np.random.default_rng(0).uniform(-1, 1, (m, n))
    plan = Plan((Launch((3, 1, 1), (n // 2, 1, 1), 8 * shared),))
    c = emulation.launch(folder / "gram", plan, Gram(m, n), (a,), np.full((n, n), np.nan))
    np.testing.assert_allclose(c, a.T @ a, atol=1e-12)


@pytest.mark.parametrize("sanitizer", [None, "address", "thread"])
def test_right_kernels_pass(tmp_path: Path, sanitizer: str | None) -> None:
    for shape in ((15, 17, 1), (37, 29, 41)):
        np.testing.assert_allclose(*product(RIGHT, sanitizer, tmp_path, *shape), atol=1e-5)
    for m, n in ((1, 2), (23, 14)):
        check_gram(tmp_path, sanitizer, m, n, n)


@pytest.mark.parametrize(("bug", "sanitizer", "message", "where"), SAID)
def test_a_bug_is_told(
    bug: Edit, sanitizer: str | None, message: str, where: str, tmp_path: Path
) -> None:
    with pytest.raises(EmulationError, match=message) as caught:
        product(bug, sanitizer, tmp_path)
    lines = enumerate(TILED_KERNEL.replace(*bug).splitlines(), 1)
    named = [f"mine.cu:{i}" for i, line in lines if where and re.search(where, line)]
    assert not where or any(place in str(caught.value) for place in named)


def test_address_build_sees_the_end_of_dynamic_shared_memory(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match=r"use-after-poison .*/gram\.cu:\d+"):
        check_gram(tmp_path, "address", 23, 14, 13)


@pytest.mark.parametrize("bug", [NO_FIRST_BARRIER, NO_SECOND_BARRIER])
def test_missing_barrier_gives_the_same_wrong_result_twice(tmp_path: Path, bug: Edit) -> None:
    (first, expected), (second, _) = (product(bug, None, tmp_path) for _ in range(2))
    assert not np.allclose(first, expected, atol=1e-2)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("sanitizer", [None, "address"])
def test_unwritten_shared_memory_reads_as_nan(tmp_path: Path, sanitizer: str | None) -> None:
    assert np.isnan(product(UNWRITTEN, sanitizer, tmp_path, k=11)[0]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{DECLARED} {{ C[0] = missing; }}", r"'?missing'?"),
        (DECLARED.replace("float", "double") + " {}",
         r"conflicting.* takes \(const float\* A, float\* C, int m, int n\)$"),
        (DECLARED.replace("f(", "g(") + " {}", r'has no kernel called f \(is it extern "C"\?\)$'),
        (DECLARED.replace('extern "C"', "") + " {}",  # nvcc refuses it too
         r'has no kernel called f \(is it extern "C"\?\)$'),
        (f"#include <mma.h>\n{DECLARED} {{}}", r"^not runnable on the CPU: mma\.h$"),
        (f"#include <cub/cub.cuh>\n{DECLARED} {{}}", r"^not runnable on the CPU: cub/cub\.cuh$"),
        (f"{DECLARED} {{ C[0] = __dp4a(1, 2, 3); }}", r"^not runnable on the CPU: __dp4a$"),
        (f'{DECLARED} {{ asm volatile("bar.sync 0;"); }}', r"^not runnable .*: inline PTX$"),
    ],
)  # fmt: skip
def test_what_does_not_compile_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message) as caught:
        build_text(text, tmp_path)
    assert "\n" not in str(caught.value)


def test_another_kernels_static_shared_memory_does_not_count(tmp_path: Path) -> None:
    """Both have as much as a block may."""
    text = f"{DECLARED} {{ __shared__ float t[12288]; t[n] = A[0]; C[0] = t[n]; }}\n"
    executable, c = build_text(text + text.replace("f(", "other("), tmp_path), np.zeros_like(ONES)
    np.testing.assert_array_equal(emulation.launch(executable, ONE, Gram(1, 1), (ONES,), c), ONES)


@pytest.mark.parametrize(
    ("body", "n", "message"),
    [
        ("__shared__ float t[12289]; C[0] = t[n];", 1, "^49156 bytes of static .* over 49152"),
        ("while (n) *(volatile float*)C = n;", 1, r"did not finish within 0\.5 s"),
        ("", 2, "does not hold the 16 bytes of A"),
    ],
)
def test_what_cannot_be_launched(body: str, n: int, message: str, tmp_path: Path) -> None:
    executable = build_text(f"{DECLARED} {{ {body} }}", tmp_path)
    with pytest.raises((EmulationError, Unfinished), match=message):
        emulation.launch(executable, ONE, Gram(n, n), (ONES,), ONES, timeout=0.5)


def test_missing_compiler_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"apt install g\+\+"):
        build_text(f"{DECLARED} {{}}", tmp_path)


def test_a_compiler_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match=r"g\+\+ needs more than 0\.01 s"):
        build_text(f"{DECLARED} {{}}", tmp_path, seconds=0.01)
    assert [file.name for file in tmp_path.iterdir()] == ["f.cu"]


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
