"""Strict grading: hand-ins that would get "correct" without being it, and honest ones that are not
refused."""

from pathlib import Path

import pytest

from matmul_sweep.classroom import strict
from matmul_sweep.classroom.program import build_for_cpu
from matmul_sweep.classroom.strict import Refused
from matmul_sweep.classroom.verdict import CORRECT, NOT_RUN, Verdict, judge, programs_in
from matmul_sweep.classroom.words import lines_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]

HEAD = """__global__ void mm(const float* A, const float* B, float* C, int m, int n, int k) {
__shared__ float last[1];
int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
if (row >= m || col >= n) return;
"""
LOOP = (
    "for (int p = 0; p < k; ++p) {sum} += A[row * k + p] * B[p * n + col]; "
    "C[row * n + col] = {sum};"
)
RIGHT = HEAD + "float sum = 0;\n" + LOOP.format(sum="sum") + "\n}\n"
RACE = HEAD + "last[0] = 0;\n" + LOOP.format(sum="last[0]") + "\n}\n"
ZERO = "C[row * n + col] = 0; return;"
HIDDEN = f"#ifdef __NVCC__\n{ZERO}\n#endif\n"


def within(code: str) -> str:
    """A right kernel with something behind its guard, in line 5."""
    return RIGHT.replace("return;\n", f"return;\n{code}\n", 1)


# A text, the line, and a part of what is said about it.
REFUSED = {
    "another compiler": (within(HIDDEN), 6, "for sm_75 do not read the same"),
    "one architecture": (
        within(f"#if __CUDA_ARCH__ == 890\n{ZERO}\n#endif"), 6, "for sm_89 do not read the same"),
    "the watcher's macro": (within(f"#ifndef WATCH\n{ZERO}\n#endif"), 6, "do not read the same"),
    "its own name for a compiler": (
        f"#ifndef WATCH\n#define ZERO {ZERO}\n#define WATCH\n#else\n#define ZERO\n#endif\n"
        + within("ZERO"), 2, "do not read the same"),
    "a compiler's number": (within(f"if (__GNUC__ == 12) {{ {ZERO} }}"), 5, "__GNUC__"),
    "a counter": (within(f"if (__COUNTER__ > 3) {{ {ZERO} }}"), 5, "`__COUNTER__`"),
    "a header that is there": (
        within(f'#if !__has_include("watch.h")\n{ZERO}\n#endif'), 5, "`__has_include`"),
    "the name of another file": (f'#line 1 "/usr/include/stdio.h"\n{within(HIDDEN)}', 1, "`#line`"),
    "a linemarker": (f'# 1 "/usr/include/stdio.h" 3\n{within(HIDDEN)}', 1, "`# 1`"),
    "a directive over two lines": (f'#li\\\nne 1 "own.h"\n{RIGHT}', 1, "`#line`"),
    "a digraph": (f"{RIGHT}%:define X\n", 8, "`%:`"),
    "a comment in a raw string": (f'__device__ char* s = R"(/*)";\n{RIGHT}', 1, '`R"`'),
    "an attribute of C++": (f'[[gnu::no_sanitize("thread")]]\n{RACE}', 1, "no_sanitize"),
    "an attribute in pieces": (
        f"#define JOIN(a, b) a##b\n__attribute__((\nJOIN(no_sani, tize_thread)\n))\n{RACE}", 2,
        "no_sanitize_thread"),
    "a pragma in a macro": (
        f'#define HUSH _Pragma("GCC optimize(3)")\nHUSH\n{RACE}', 2, "#pragma GCC optimize"),
    "a builtin": (within(f"if (__builtin_constant_p(k)) {{ {ZERO} }}"), 5, "constant_p"),
    "assembler of the CPU": ("#define NOW asm\n" + within('NOW volatile("nop");'), 6, "`asm`"),
    "the watcher": (within("cuda_on_cpu::current = 0;"), 5, "`cuda_on_cpu`"),
    "a hook": ('extern "C" __device__ void __tsan_write4(void*);\n'
        + within("__tsan_write4(C);"), 1, "__tsan_write4"),
    "a file elsewhere": (f'#include "../secret.h"\n{RIGHT}', 0, "does not lie beside it"),
    "a link elsewhere": (f'#include "link.h"\n{RIGHT}', 0, "does not lie beside it"),
    "a header that differs": (f'#include "beside.h"\n{within("SUM")}', 0, "beside.h, line 3"),
}  # fmt: skip
# A text, and a part of what is said about its object.
REACHING = {
    "the C library's function": (
        'extern "C" __device__ long write(int, const void*, unsigned long n) { return n; }\n'
        + within("write(0, A, 0);"), "defines write"),
    "an inline one": (
        'extern "C" __device__ inline int puts(const char*) { return 0; }\n' + within('puts("");'),
        "defines puts"),
    "memory's operator": (
        "__device__ void* operator new(unsigned long) { return 0; }\n" + within("new int;"),
        "_Znwm"),
    "an end": (
        'extern "C" __device__ void exit(int);\n' + within("exit(0);"), "exit, which no kernel"),
    "before main": (
        "int row(); static int s = row();\n" + within("if (s) return;") + "int row() { return 0; }",
        "before or behind the kernel"),
}  # fmt: skip
HONEST = {
    "words of CUDA, marks of editors, and a header": '#include <cuda_fp16.h>\n#include <cfloat>\n'
    '#include "right.h"\n#pragma mark kernels\n#pragma region one\n#pragma _KERNEL_H_\n'
    "__launch_bounds__(256)\n" + within("if (SIDE < 0) return;\n"
    "__half h = __float2half(FLT_MAX); if (__half2float(h) < 0) return;\n#pragma unroll"),
    "its own macros, old cards, and assembler of a GPU": "#ifndef SIDE\n#define SIDE 16\n#endif\n"
    "#define AT(i) A[i]\n" + within(
        "#if SIDE < 8\nreturn;\n#endif\n#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 600\nreturn;"
        '\n#endif\nint x; asm("mov.u32 %0, 1;" : "=r"(x)); if (x < 0) return;'),
    "functions": "template <class T> __device__ __forceinline__ T twice(T x) { return x + x; }\n"
    "struct Pair { float x, y; };\n"
    "__constant__ float one = 1;\n__device__ int count;\n"
    + within('atomicAdd(&count, 1); if (twice(sqrtf(fabsf(one))) < 0) printf("%f", expf(1.0f));\n'
             "Pair pairs[2] = {}; memset(pairs, 0, sizeof pairs); assert(pairs[0].x == 0);"),
}  # fmt: skip


@pytest.fixture
def hand_in(tmp_path: Path) -> Path:
    (tmp_path / "secret.h").write_text("#define SIDE 1\n")
    folder = tmp_path / "hand-ins"
    folder.mkdir()
    (folder / "link.h").symlink_to(tmp_path / "secret.h")
    (folder / "beside.h").write_text("#define SUM\n#ifdef __NVCC__\n#define SUM return;\n#endif\n")
    (folder / "stdio.h").write_text("#error it takes the place of another header")
    (folder / "right.h").write_text("#pragma once\n#define SIDE 1\n")
    return folder / "mine.cu"


def check(hand_in: Path, text: str, folder: Path) -> None:
    hand_in.write_text(text)
    strict.check_text(programs_in(hand_in, {"block": "16x16"})[0][0], folder)


@pytest.mark.parametrize(("text", "line", "said"), REFUSED.values(), ids=REFUSED)
def test_a_text_is_refused(text: str, line: int, said: str, hand_in: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        check(hand_in, text, tmp_path)
    assert said in refused.value.message and refused.value.line == line


@pytest.mark.parametrize(("text", "said"), REACHING.values(), ids=REACHING)
def test_an_object_is_refused(text: str, said: str, hand_in: Path, tmp_path: Path) -> None:
    hand_in.write_text(text)
    program = programs_in(hand_in, {"block": "16x16"})[0][0]
    with pytest.raises(Refused, match=said):
        strict.check_symbols(program, build_for_cpu(program, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
def test_an_honest_kernel_is_graded(text: str, hand_in: Path) -> None:
    verdict = graded(hand_in, text)
    assert verdict.status == CORRECT, "\n".join(lines_of(verdict))


def graded(hand_in: Path, text: str, seed: int | None = 1) -> Verdict:
    hand_in.write_text(text)
    return judge(hand_in, {"block": "16x16"}, seed)


def test_settings_of_a_hand_in_do_not_count_and_are_shown(hand_in: Path) -> None:
    text = "// try: multiple=64 most_rows=1\n" + RIGHT.replace("row >= m || ", "")
    verdict = graded(hand_in, text)
    assert verdict.mistakes[0].kind == "out of bounds"
    assert "do not count: multiple=64 most_rows=1" in "\n".join(lines_of(verdict))
    assert {"key": "multiple", "value": "64", "from": "hand-in", "counts": False} in (
        verdict.as_json()["settings"]
    )


def test_a_kernel_that_knows_the_usual_shapes_is_found_out(hand_in: Path) -> None:
    verdict = graded(hand_in, within("if (m > 128 || n > 128 || k > 128) return;"))
    assert verdict.mistakes[0].kind == "elements not written"
    assert "--strict --seed 1 repeats it" in "\n".join(lines_of(verdict))


def test_a_seed_repeats_its_shapes_and_another_has_others() -> None:
    first, again, other = (strict.secret_shapes(seed, square=False) for seed in (1, 1, 2))
    assert first == again and first != other


@pytest.mark.long
@pytest.mark.parametrize("code", ["0", "3", "4"])
def test_a_program_that_ends_itself_is_not_correct(
    code: str, hand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict, "check_symbols", lambda *_: None)  # that gets past them
    ends = f"#ifndef __CUDA_ARCH__\nexit({code});\n#endif"
    verdict = graded(hand_in, 'extern "C" void exit(int);\n' + within(ends), None)
    assert verdict.status == NOT_RUN and "ends its whole program" in verdict.message


@pytest.mark.long
def test_what_only_strict_grading_refuses_is_told(hand_in: Path) -> None:
    verdict = graded(hand_in, within("#ifdef __NVCC__\n__threadfence();\n#endif"), None)
    told = "\n".join(lines_of(verdict))
    assert "correct, as far as the CPU reads it" in told and "would refuse it: line 6" in told
