"""The launch of a hand-in is read from its host program, at any sizes."""

import re
from pathlib import Path

import pytest

from matmul_sweep.classroom import syntax
from matmul_sweep.classroom.file_launch import FileLaunch, file_launch, zeroes
from matmul_sweep.classroom.signature import signature_of
from matmul_sweep.classroom.source import Source
from matmul_sweep.operations.gemm import Gemm

KERNEL = "__global__ void f(const float* A, const float* B, float* C, {numbers}) {{ C[0] = 0; }}\n"
SQUARE, ANY = KERNEL.format(numbers="int n"), KERNEL.format(numbers="int m, int n, int k")
TEMPLATE = f"template <int T> {SQUARE}"
CEIL = "int ceil(int a, int b) { return (a + b - 1) / b; }\n"
OTHER = SQUARE.replace("f(", "g(")
OBJECT = "struct Go { int t; dim3 g; void run(int n) { f<<<g, this->t>>>(0, 0, 0, n); } };\n"
GO = "void go(float* a, float* b, float* c, int m, int n, int k) "


def main(code: str, extents: str = "", n: object = 9) -> str:
    """A kernel and a program of a size. code: in front of its launch, if that has extents."""
    launch = f" f<<<{extents}>>>(0, 0, 0, n);" * bool(extents)
    return f"{SQUARE}int main(int argc, char** argv) {{ int n = {n}; {code}{launch} }}"


# A file, its size or sizes, and what it launches there: grid and block.
LAUNCHES = {
    "another name of a macro that is the size": (
        "#define N 512\n#ifdef __CUDACC__\n#define T 16\n#else\n#define T 8\n#endif\n"
        + main("", "dim3(N / T, N / T), dim3(T, T)", "N"), 64, "4x4 of 16x16"),
    "a function that is called as one of C": (
        CEIL + main("", "ceil(n, 16), 16"), 33, "3 of 16"),
    "ceil of a quotient": (main("", "(unsigned)ceil((float)n / 16), 16"), 33, "3 of 16"),
    "extents one by one": (
        main("dim3 b, g; b.x = 8; b.y = b.x; g.x = g.y = n / b.x + 1;", "g, b"), 16, "3x3 of 8x8"),
    "a branch for cards of today": (
        TEMPLATE + "void g(int n, cudaDeviceProp* p) { if (p->major < 2) f<4><<<n / 4, 4>>>(0, 0, 0"
        ", n); else f<8><<<n / 8, 8>>>(0, 0, 0, n); }", 24, "3 of 8"),
    "a macro that launches": (
        "#define LAUNCH(k, g, b, ...) k<<<g, b>>>(__VA_ARGS__)\n" + SQUARE
        + "int main() { int n = 7; LAUNCH(f, (n + 31) / 32, 32, 0, 0, 0, n); }", 70, "3 of 32"),
    "arrays are filled before": (
        main("int t = 1, i; float* a = new float[n * n]; for (i = 0; i < n * n; i++) a[i] = i; "
             "for (i = 0; i < 4; i++) t *= 2;", "n / 16, t", 4096), 32, "2 of 16"),
    "the way out of an error": (
        SQUARE + "void g(int n) { float* a = NULL; if (n == cards()) return; cudaMalloc(&a, n);"
        " if (a == 0) return; f<<<n, 8>>>(a, 0, 0, n); }", 9, "9 of 8"),
    "sizes from the command line": (
        SQUARE + "int main(int argc, char** argv) { if (argc != 5) { puts(argv[0]); return 1; }"
        " const int n = atoi(argv[1]); f<<<(n + 31) / 32, 32>>>(0, 0, 0, n); }", 70, "3 of 32"),
    "what is not understood": (
        main("auto t = duration_cast<ms>(b - a).count(); dim3(1, 2, 3, 4); "
             "int u = min(), s = sizes[][7];", "n, 8"), 9, "9 of 8"),
    "an array of kernels": (
        OTHER + main("void (*all[])(const float*, const float*, float*, int) = {g, f}; "
                     "for (int i = 0; i < 2; i++) all[i]<<<n, 8 + i>>>(0, 0, 0, n);"), 9, "9 of 9"),
    "an array outside of functions": (
        SQUARE + "Kernel all[] = {g, f};\nvoid go(int i, int n) { all[i]<<<n, 8>>>(0, 0, 0, n); }",
        9, "9 of 8"),
    "a variable that is given one": (
        main("Kernel one; if (argc > 1) one = f; else one = g; one<<<n, 8>>>(0, 0, 0, n);"),
        9, "9 of 8"),
    "an argument of a template": (
        SQUARE + "template <void (*K)(const float*, const float*, float*, int), int T> void go(int "
        "n) { K<<<n / T, T>>>(0, 0, 0, n); }\nint main() { int n = 9; go<f, 3>(n); }", 9, "3 of 3"),
    "a function of an object that is made for it": (
        OBJECT + main("Go{8, dim3(n / 8)}.run(n);"), 64, "8 of 8"),
    "a function of an object": (OBJECT + main("Go go = {8, n / 8}; go.run(n);"), 64, "8 of 8"),
    "a list that grows": (
        TEMPLATE + "int main() { int n = 9; std::vector<Kernel> all; all.push_back({\"f\", f<8>});"
        " for (auto& one : all) one.kernel<<<n, 8>>>(0, 0, 0, n); }", 9, "9 of 8"),
    "a function that changes its references": (
        "void sides(int n, dim3& g, dim3* b) { g = dim3(n, 2); *b = dim3(8, 4); }\n"
        + main("dim3 g, b; sides(n, g, &b);", "g, b"), 9, "9x2 of 8x4"),
    "a function that changes nothing": (
        "void read(int argc, int* b) { if (argc > 1) *b = atoi(x); if (ok()) *b = y(); }\n"
        + main("int b = 8; read(argc, &b);", "n, b"), 9, "9 of 8"),
    "a function's choice": (
        SQUARE + "Kernel pick(int i) { return i ? f : g; }\nvoid go(int i, int n) "
        "{ Kernel one = pick(i); one<<<n, 8>>>(0, 0, 0, n); }", 9, "9 of 8"),
    "sizes that have to be the same": (
        ANY + "int main() { int r = 3, c = 2, d = 2, e = 9; if (c != d) { puts(s); return 1; }"
        " f<<<d, dim3(r, e)>>>(0, 0, 0, r, e, c); }", (5, 6, 7), "7 of 5x6"),
    "a side of the grid by another name of the size": (
        main("int r = 2000;", "dim3(n / 8, r / 8), 64", 2000), 64, "8x8 of 64"),
    "lists of sizes": (
        "const int SIDES[] = {8, 16};\n" + main(
            "int sides[] = {4, 32}; for (int i = 0; i < 2; i++) { int t = sides[i]; "
            "f<<<n / t, SIDES[1]>>>(0, 0, 0, n); }"), 32, "8 of 16"),
    "a comma is no dim3": (main("", "(n, 3), (16, 8)"), 5, "3 of 8"),
}  # fmt: skip


def launch_in(text: str, path: Path = Path("f.cu")) -> FileLaunch | None:
    source = Source(path, text)
    kernel = source.kernel("f")
    types = {one.name: "16" for one in kernel.template}
    return file_launch(source, kernel, signature_of(source, kernel, {}, {}, types))


@pytest.mark.parametrize(("text", "sizes", "wanted"), LAUNCHES.values(), ids=[*LAUNCHES])
def test_the_launch_at_a_shape(text, sizes, wanted):
    program = launch_in(text)
    told = program and program.at(Gemm(*(sizes if isinstance(sizes, tuple) else [sizes] * 3)))
    grid, block = (re.sub("(x1)+$", "", "x".join(map(str, one))) for one in (told.grid, told.block))
    assert f"{grid} of {block}" == wanted


def test_a_program_is_searched_once_for_all_shapes():
    program = launch_in(SQUARE + f"{GO}{{ int t = 8; f<<<n / t, t>>>(a, b, c, n); }}")
    searched = syntax.constants.cache_info().misses
    told = program and program.at(Gemm(24, 24, 24))
    assert told and told.grid == (3, 1, 1) and syntax.constants.cache_info().misses == searched


def test_a_size_by_a_shift_is_no_huge_multiple():
    program = launch_in(
        SQUARE + "int main() { int j = 3; int n = 2 << j; f<<<n, 16>>>(0, 0, 0, n); }"
    )
    assert program and program.multiple == 1


def test_constants_and_macros_of_a_header_beside_count(tmp_path):
    (tmp_path / "sizes.h").write_text(
        "const int T = 8;\n#define UP(a, b) (((a) + (b) - 1) / (b))\n"
    )
    text = f'#include "sizes.h"\n{SQUARE}void g(int n) {{ f<<<UP(n, T), T>>>(0, 0, 0, n); }}'
    program = launch_in(text, tmp_path / "f.cu")
    told = program and program.at(Gemm(17, 17, 17))
    assert told and (told.grid, told.block) == ((3, 1, 1), (8, 1, 1))


MATRIX = "struct Matrix { int rows, cols; float* data; };\n"
OF_STRUCTS = (
    f"{MATRIX}__global__ void f(Matrix A, Matrix B, Matrix C) {{ C.data[0] = C.rows + C.cols; }}\n"
)


@pytest.mark.parametrize("copy", ["Matrix d = C;", "Matrix c, d; c = d, d = C;",
    "Matrix d; int w; d.rows = C.rows; d.cols = w = C.cols;"])  # fmt: skip
def test_a_copy_of_a_struct_has_its_sizes(copy):
    program = launch_in(
        f"{OF_STRUCTS}void go(Matrix A, Matrix B, Matrix C) {{ {copy}"
        "f<<<dim3(C.cols / 8, C.rows / 4), dim3(8, 4)>>>(A, B, d); }"
    )
    told = program and program.at(Gemm(12, 40, 5))
    assert told and told.grid == (5, 3, 1)


def test_a_struct_whose_members_are_rounded_up_has_multiples():
    program = launch_in(
        OF_STRUCTS + "void go(Matrix M) { Matrix A, B, C; A.rows = (M.rows + 31) / 32 * 32; "
        "f<<<dim3(C.cols / 32, A.rows / 32), dim3(32, 32)>>>(A, B, C); }"
    )
    assert program and program.multiple == 32


@pytest.mark.parametrize(
    ("passed", "wanted"),
    [("0", "0"), ("64", "64"), ("m * k", "m*k"), ("(n + 15) / 16", "(n+15)/16"), ("k / 32", "k/32"),
     ("sms()", ""), ("m + n + k", ""), ("p->r * n", "")],
)  # fmt: skip
def test_what_is_passed_beside_the_dimensions_follows_from_them(passed, wanted):
    program = launch_in(
        KERNEL.format(numbers="int m, int n, int k, int other")
        + f"{GO}{{ f<<<dim3(n / 8, m / 8), 64>>>(a, b, c, m, n, k, {passed}); }}"
    )
    assert program and program.expression(6) == wanted


def test_the_size_of_a_matrix_has_the_dimension_that_is_not_passed():
    program = launch_in(
        KERNEL.format(numbers="int n, int k, int all")
        + "void go(P* p) { f<<<p->m, 64>>>(0, 0, 0, p->n, p->k, p->m * p->n); }"
    )
    assert program and program.expression(5) == "m*n" and program.far.grid == (70001, 1, 1)


def test_what_is_not_known_is_none():
    assert launch_in(SQUARE + "int main() {}") is None
    unknown = launch_in(SQUARE + "int main() { f<<<sms(), 64>>>(0, 0, 0, 9); }")
    assert unknown and unknown.own.grid is None and unknown.own.block == (64, 1, 1)
    squares = launch_in(ANY + "void g(int n) { f<<<n, n>>>(0, 0, 0, n, n, n); }")
    assert squares and squares.at(Gemm(2, 3, 4)) is None
    told = squares.at(Gemm(3, 3, 3))
    assert told and told.grid == (3, 1, 1)


def test_a_program_that_goes_on_for_ever_is_given_up():
    again = "int again(int n) { return again(n); }\n"
    assert launch_in(again + SQUARE + "int main() { f<<<again(1), 1>>>(0, 0, 0, 1); }") is None


@pytest.mark.parametrize(
    ("text", "own", "constant", "cleared"),
    [
        ("f<<<dim3(7, 7, 4), 16>>>(0, 0, c, 100);", Gemm(100, 100, 100), True, False),
        ("int n = 40; cudaMemset(c, 0, n); f<<<n, 16>>>(0, 0, c, n);", Gemm(40, 40, 40), False,
         True),
        ("int n = 40; cudaMemset(a, 0, n); f<<<n, 16>>>(a, 0, c, n);", Gemm(40, 40, 40), False,
         False),
        ("int n = 40; for (int i = 0; i < n * n; i++) c[i] = 0.0f; f<<<n, 16>>>(a, 0, c, n);",
         Gemm(40, 40, 40), False, True),
        ("int n = 40; thrust::device_vector<float> z(n * n, 0); f<<<n, 16>>>(a, 0, raw(z), n);",
         Gemm(40, 40, 40), False, True),
        ("int n = atoi(s); f<<<8, 16>>>(0, 0, c, n);", None, True, False),
    ],
)  # fmt: skip
def test_what_the_program_says_of_sizes_and_of_c(text, own, constant, cleared):
    program = launch_in(SQUARE + f"int main() {{ float *a, *c; {text} }}")
    assert program
    assert (program.own_shape, program.constant) == (own, constant)
    assert zeroes(program.source, program.text_of_c) == cleared


DIM3 = "void go(dim3 p, dim3 q) { f<<<dim3(q.x / 8, p.y / 4), 32>>>(0, 0, 0, p.x, q.x, 7); }\n"


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        (f"{ANY}{DIM3}int main() {{ int w = 64; dim3 p(w, 2 * w), q(5 * w, w); go(p, q); }}",
         (40, 32, 1)),
        (f"{ANY}{DIM3}int main() {{ dim3 p(64, 128), q(320, 64); if (option()) q.x = number();"
         " if (p.x != q.y) exit(1); go(p, q); }", (40, 32, 1)),
        (f"{SQUARE}void go(int n, int t) {{ f<<<n / t, t>>>(0, 0, 0, n); }}\n"
         "void all(int n, int t) { go(n, t); }\nint main() { int n = 512, t = 16; all(n, t); }",
         (32, 1, 1)),
        (f"{SQUARE}void go(int n) {{ f<<<n / 16, 16>>>(0, 0, 0, n); }}\n"
         "int main() { for (int n : {512, 96}) go(n); }", (32, 1, 1)),
        (f"{SQUARE}void go(int n, int mode) {{ if (mode == 2) f<<<n / 16, 16>>>(0, 0, 0, n); }}\n"
         "int main() { int n = 64, m = 1; go(n, m); m = 2; go(n, m); }", (4, 1, 1)),
        (f"{OF_STRUCTS}void go(Matrix A, Matrix B, Matrix C) {{ Matrix a = A; "
         "f<<<dim3(B.cols / 8, a.rows / 4), dim3(8, 4)>>>(a, B, C); }\n"
         "int main() { Matrix A, B, C; A.rows = 64; B.cols = 80; go(A, B, C); }", (10, 16, 1)),
        (f"{TEMPLATE}template <int S> void run(int n) {{ f<S><<<64 / S, 8>>>(0, 0, 0, n); }}\n"
         "#define ROW(S) {S, run<S>}\nauto all[] = {ROW(4), ROW(8)};", (16, 1, 1)),
        (f"{TEMPLATE}void go(int n) {{ auto f2 = [&](auto g, int b) {{ g<<<b, 8>>>(0, 0, 0, n); }};"
         " f2(f<4>, 9); }", (9, 1, 1)),
        (f"namespace k {{ {SQUARE} }}\nvoid f(int n) {{ k::f<<<n / 16, 16>>>(0, 0, 0, n); }}\n"
         "int main() { f(512); }", (32, 1, 1)),
    ],
)  # fmt: skip
def test_a_call_gives_what_the_variables_of_its_function_are_there(text, grid):
    program = launch_in(text)
    assert program and program.own.grid == grid
