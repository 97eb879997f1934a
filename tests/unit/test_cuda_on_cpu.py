"""Each planted bug is found as cuda_on_cpu.h says, and correct kernels pass."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated import build_text
from support import FIRST_BARRIER, TILED_KERNEL

from matmul_sweep.catalogue.plans import Launch, Plan
from matmul_sweep.classroom.cuda_on_cpu import emulation, watched
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.classroom.cuda_on_cpu.watched import Watched
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
# What the plain build says of a bug.
SAID = [
    (BEYOND_C, f"{PAST_THE_END} C$"),
    (BEYOND_A, f"{PAST_THE_END} A$"),
    (BEFORE_B, r"block \(0,0,0\), thread \(.*\): \d+ bytes before B$"),
    (RETURN, RETURNED),
    (TWO_BARRIERS, DIVERGED),
]
# What the watcher finds: a kind, and a pattern of the lines in one of which it does, or of a text.
FOUND = [
    (BEYOND_C, "outside", r"C\[.*\] ="),
    (BEYOND_A, "outside", r"a\[.*\] ="),
    (BEFORE_B, "outside", r"b\[.*\] ="),
    (BEYOND_TILE, "index", r"sum \+="),
    (NO_FIRST_BARRIER, "race", r"[ab]\[.*\] =|sum \+="),
    (NO_SECOND_BARRIER, "race", r"[ab]\[.*\] =|sum \+="),
    (RETURN, "divergent", RETURNED),
    (TWO_BARRIERS, "divergent", DIVERGED),
    (UNWRITTEN, "unwritten", r"sum \+="),
]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised")]

ONE = Plan((Launch((1, 1, 1), (1, 1, 1)),))
DECLARED = 'extern "C" __global__ void f(const float* A, float* C, int m, int n)'
ONES = np.ones((1, 1), np.float32)


def product(
    bug: Edit, folder: Path, m: int = 37, n: int = 29, k: int = 41, watch: bool = False
) -> tuple[Any, np.ndarray]:
    """C as TILED_KERNEL with a bug computes it from NaN, or what the watched launch did; and C as
    float64 has it."""
    assert TILED_KERNEL.count(bug[0]) == 1
    source = folder / "mine.cu"
    source.write_text(TILED_KERNEL.replace(*bug))
    emulation.build(source, ["mine"], GEMM, {}, folder / "mine", watch)
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, extents).astype(np.float32) for extents in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    plan = Plan((Launch((-(-n // 16), -(-m // 16), 1), (16, 16, 1)),))
    launch = (folder / "mine", plan, Gemm(m, n, k), (a, b), c)
    result = watched.launch(*launch, 10) if watch else emulation.launch(*launch)
    assert np.isnan(c).all()
    return result, a.astype(np.float64) @ b


def gram(folder: Path, m: int, n: int, shared: int) -> Watched:
    """A watched launch for C = AᵀA with so many doubles of dynamic shared memory; C is right."""
    source = Path(__file__).parent / "cuda_on_cpu" / "gram.cu"
    emulation.build(source, ["gram"], GRAM, {}, folder / "gram", watch=True)
    a = np.random.default_rng(0).uniform(-1, 1, (m, n))
    plan = Plan((Launch((3, 1, 1), (n // 2, 1, 1), 8 * shared),))
    launch = (folder / "gram", plan, Gram(m, n), (a,), np.full((n, n), np.nan))
    done = watched.launch(*launch, 10)
    assert not done.ended or np.allclose(done.c, a.T @ a, atol=1e-12)
    return done


def test_right_kernels_pass(tmp_path):
    for shape in ((15, 17, 1), (37, 29, 41)):
        np.testing.assert_allclose(*product(RIGHT, tmp_path, *shape), atol=1e-5)
        done, expected = product(RIGHT, tmp_path, *shape, watch=True)
        np.testing.assert_allclose(done.c, expected, atol=1e-5)
        assert not done.findings
    for m, n in ((1, 2), (23, 14)):
        assert not gram(tmp_path, m, n, n).findings


@pytest.mark.parametrize(("bug", "message"), SAID)
def test_a_bug_is_told(bug, message, tmp_path):
    with pytest.raises(EmulationError, match=message):
        product(bug, tmp_path)


@pytest.mark.parametrize(("bug", "kind", "where"), FOUND)
def test_the_watcher_finds_a_bug_with_its_line(bug, kind, where, tmp_path):
    done, _ = product(bug, tmp_path, watch=True)
    found = [one for one in done.findings if one["kind"] == kind]
    lines = TILED_KERNEL.replace(*bug).splitlines()
    texts = [one.get("text") or lines[done.lines[one["places"][0]][1] - 1] for one in found]
    assert any(re.search(where, text) for text in texts), done.findings


def test_the_watcher_sees_the_end_of_dynamic_shared_memory(tmp_path):
    done = gram(tmp_path, 23, 14, 13)
    assert [(one["kind"], one["array"]) for one in done.findings] == [("outside", "shared")]
    assert done.lines[done.findings[0]["places"][0]][0].endswith("gram.cu")


def test_a_copy_of_run_time_size_is_watched(tmp_path):
    text = f"{DECLARED} {{\nmemcpy(C, A, 4 * (m + n)); }}"
    done = watched.launch(
        build_text(text, tmp_path, watch=True), ONE, Gram(1, 1), (ONES,), ONES, 10
    )
    [found] = done.findings
    assert (found["kind"], found["array"], found["element"]) == ("outside", "A", 1)
    assert done.lines[found["places"][0]][1] == 2


@pytest.mark.parametrize("bug", [NO_FIRST_BARRIER, NO_SECOND_BARRIER])
def test_missing_barrier_gives_the_same_wrong_result_twice(tmp_path, bug):
    (first, expected), (second, _) = (product(bug, tmp_path) for _ in range(2))
    assert not np.allclose(first, expected, atol=1e-2)
    np.testing.assert_array_equal(first, second)


def test_unwritten_shared_memory_reads_as_nan(tmp_path):
    assert np.isnan(product(UNWRITTEN, tmp_path, k=11)[0]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{DECLARED} {{ C[0] = missing; }}", r"'?missing'?"),
        (DECLARED.replace("float", "double") + " {}",
         r"conflicting.* takes \(const float\* A, float\* C, int m, int n\)$"),
        (DECLARED.replace("f(", "g(") + " {}", r'has no kernel called f \(is it extern "C"\?\)$'),
        (DECLARED.replace('extern "C"', "") + " {}",  # nvcc refuses it too
         r'has no kernel called f \(is it extern "C"\?\)$'),
        (f"#include <cub/cub.cuh>\n{DECLARED} {{}}", r"^not runnable on the CPU: cub/cub\.cuh$"),
        (f"{DECLARED} {{ C[0] = __vadd4(1, 2); }}", r"^not runnable on the CPU: __vadd4$"),
        (f'{DECLARED} {{ asm volatile("elect.sync;"); }}',
         r"^not runnable .*: PTX instruction elect"),
        (f'#define ALL\n{DECLARED} {{ asm volatile("bar.sync 0;" : ALL); }}',
         r"^not .*: inline PTX$"),
    ],
)  # fmt: skip
def test_what_does_not_compile_is_one_line(tmp_path, text, message):
    with pytest.raises(EmulationError, match=message) as caught:
        build_text(text, tmp_path)
    assert "\n" not in str(caught.value)


def test_another_kernels_static_shared_memory_does_not_count(tmp_path):
    """Both have as much as a block may."""
    text = f"{DECLARED} {{ __shared__ float t[12288]; t[n] = A[0]; C[0] = t[n]; }}\n"
    executable, c = build_text(text + text.replace("f(", "other("), tmp_path), np.zeros_like(ONES)
    np.testing.assert_array_equal(emulation.launch(executable, ONE, Gram(1, 1), (ONES,), c), ONES)


@pytest.mark.parametrize(
    ("body", "n", "message"),
    [
        ("__shared__ float t[12321]; C[0] = t[n];", 1, "^49284 bytes of static .* over 49152"),
        ("while (n) *(volatile float*)C = n;", 1, r"did not finish within 0\.5 s"),
        ("", 2, "does not hold the 16 bytes of A"),
    ],
)
def test_what_cannot_be_launched(body, n, message, tmp_path):
    executable = build_text(f"{DECLARED} {{ {body} }}", tmp_path)
    with pytest.raises((EmulationError, Unfinished), match=message):
        emulation.launch(executable, ONE, Gram(n, n), (ONES,), ONES, timeout=0.5)


def test_missing_compiler_names_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"apt install g\+\+"):
        build_text(f"{DECLARED} {{}}", tmp_path)


def test_a_compiler_that_takes_too_long_is_given_up(tmp_path):
    with pytest.raises(EmulationError, match=r"g\+\+ needs more than 0\.01 s"):
        build_text(f"{DECLARED} {{}}", tmp_path, seconds=0.01)
    assert [file.name for file in tmp_path.iterdir()] == ["f.cu"]
