"""The forms in which people write a kernel of a product: each has a verdict that names what it
assumes, at first try."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from matmul_sweep.classroom import experiments
from matmul_sweep.classroom.launching import launch_of
from matmul_sweep.classroom.signature import small_sizes
from matmul_sweep.classroom.source import Source, settings_of
from matmul_sweep.classroom.verdict import (
    NOT_RUN,
    UNSURE,
    Verdict,
    pending,
    programs_in,
    verdict_on,
)
from matmul_sweep.classroom.words import lines_of
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.process.errors import UserError

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("unoptimised", "hurried")]

FORMS = Path(__file__).parent / "forms"
VIEW, HELPERS, SCAN, LADDER, TF32, BFLOATS, ABT, SIXTY_FOUR = (
    (FORMS / f"{name}.cu").read_text() for name in (
        "view", "helpers", "scan", "ladder", "tf32", "bfloats", "registers", "sixty_four")
)  # fmt: skip
ROW, COL = "blockIdx.y * blockDim.y + threadIdx.y", "blockIdx.x * blockDim.x + threadIdx.x"
MATRICES = "const float* A, const float* B, float* C"
SQUARE = f"{MATRICES}, int n"
SHAPE = f"{MATRICES}, int m, int n, int k"


def kernel(
    parameters: str = SQUARE, a: str = "A[i * n + p]", b: str = "B[p * n + j]",
    c: str = "C[i * n + j]", m: str = "n", n: str = "n", k: str = "n", head: str = "__global__",
    kind: str = "float", name: str = "f",
) -> str:  # fmt: skip
    """A kernel that is right where m, n, k, and the elements of A, B and C are."""
    return f"""{head} void {name}({parameters})
{{
    int i = {ROW}, j = {COL};
    if (i >= {m} || j >= {n}) return;
    {kind} sum = 0;
    for (int p = 0; p < {k}; p++) sum += {kind}({a}) * {kind}({b});
    {c} = sum;
}}
"""


def rectangular(**given: str) -> str:
    return kernel(**{"parameters": SHAPE, "a": "A[i * k + p]", "m": "m", "k": "k"} | given)


def tiled(counted: str, arrays: str = "As[T * T], Bs[T * T]") -> str:
    """A kernel with tiles of T×T in shared memory. counted: its indices x and y in a tile."""
    return f"""#define T 8
__global__ void f({SQUARE})
{{
    __shared__ float {arrays};
    int {counted}, i = blockIdx.y * T + y, j = blockIdx.x * T + x;
    float sum = 0;
    for (int t = 0; t < n; t += T) {{
        As[y * T + x] = i < n && t + x < n ? A[i * n + t + x] : 0;
        Bs[y * T + x] = t + y < n && j < n ? B[(t + y) * n + j] : 0;
        __syncthreads();
        for (int p = 0; p < T; p++) sum += As[y * T + p] * Bs[p * T + x];
        __syncthreads();
    }}
    if (i < n && j < n) C[i * n + j] = sum;
}}
"""


MATRIX = "typedef struct {{ int width; int height; {0}float* elements; }} Matrix;\n"
OF_MATRIX = "{0}.elements[{1} * {0}.{2} + {3}]"


def of_structs(width: str = "width", more: str = "") -> str:
    a, b, c = (OF_MATRIX.format(*one) for one in (
        ("A", "i", width, "p"), ("B", "p", width, "j"), ("C", "i", width, "j")))  # fmt: skip
    return MATRIX.format(more) + kernel(
        "const Matrix A, const Matrix B, Matrix C", a, b, c, "C.height", "C.width", "A.width"
    )


OF_VIEWS = VIEW + "template <typename T> " + kernel(
    "View<const T> A, View<const T> B, View<T> C", "A(i, p)", "B.at(p, j)", "C(i, j)", "C.rows()",
    "C.cols()", "A.cols()",
)  # fmt: skip
DYNAMIC = tiled("x = threadIdx.x, y = threadIdx.y", "As[T * T]; extern __shared__ float Bs[]")
FIXED = kernel(MATRICES, "A[i * N + p]", "B[p * N + j]", "C[i * N + j]", *"NNN")
ELSEWHERE = "#define N 96\n#define M 64\n#define K 160\n" + kernel(
    MATRICES, "A[i * M + p]", "B[p * K + j]", "C[i * K + j]", *"NKM"
)
UNGUARDED = FIXED.replace("    if (i >= N || j >= N) return;\n", "")
RUN_SCAN = "void run(float* a, float* b, int n) { scan<<<1, 256>>>(a, b, n); }\n"
OWN_SIZES = "int main() { int n = 16; dim3 g(1, 1), b(16, 16); f<<<g, b>>>(0, 0, 0, n); }\n"
COPIED = "cudaMalloc(&d, 1024); cudaMemcpy(a.p, d, 4, cudaMemcpyHostToDevice); f<<<"
TYPED = kernel(
    "const S* A, const S* B, S* C, int n", kind="S", head="template <class S, int T = 8> __global__"
)
BY_ONE_INDEX = """int {0} = {1}; if ({0} < n) for (int {2} = 0; {2} < n; {2}++) {{
    float sum = 0; for (int p = 0; p < n; p++) sum += A[i * n + p] * B[p * n + j];
    C[i * n + j] = sum; }} }}
"""
OVERLAPPING = tiled(
    "x = threadIdx.x, y = threadIdx.y", "As[]; extern __shared__ float Bs[]"
).replace("__shared__ float As", "extern __shared__ float As")
BY_COLUMNS = {"a": "A[i + p * m]", "b": "B[p + j * k]", "c": "C[i + j * m]"}
RUN_LADDER = """void run(int M, int N, int K, float* A, float* B, float* C)
{
    const uint BM = 16, BN{16U}, BK = 1 << 3, TM = 4, TN = 2;
    dim3 grid(N / BN, M / BM), block((BM * BN) / (TM * TN));
    f<BM, BN, BK, TM, TN><<<grid, block>>>(M, N, K, 1, A, B, 0, C);
}
"""
IN_MACROS = TF32.split("void go")[0].replace(", int m, int n, int k", "").replace(
    "16, 16, 8,", "M, N, K,").replace("fill_fragment(sum, 0)", "load_matrix_sync(sum, C + "
    "blockIdx.y * M * n + blockIdx.x * N, n, mem_row_major)")  # fmt: skip
IN_MACROS = re.sub(r"\b([nk])\b", lambda one: f"{one[1].upper()}_GLOBAL", IN_MACROS)
IN_MACROS = f"""#define M 16
#define N 16
#define K 8
#define M_GLOBAL 32
#define N_GLOBAL (M_GLOBAL * 32)
#define K_GLOBAL N_GLOBAL
{IN_MACROS}
void go(float* A, float* B, float* C) {{ cudaMemset(C, 0, 4 * M_GLOBAL * N_GLOBAL);
    f<<<dim3(N_GLOBAL / N, M_GLOBAL / M), 32>>>(A, B, C); }}
"""

BY_ONE_THREAD = (
    rectangular()
    .replace(
        f"int i = {ROW}, j = {COL};",
        "for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {",
    )
    .replace("return;", "continue;")
    .replace("= sum;", "= sum; }")
)
OF_ADDEND = rectangular(
    parameters="const float* A, const float* B, const float* C, float* D, int m, int n, int k",
    c="D[i * n + j]",
)
BY_SIDES = """void go(float* A, float* B, float* C, int n) { const int sides[] = {0, 8};
    for (int s = 0; s < 2; s++) { int side = sides[s];
        if (side == 0) { float most = norm(C, n); g<<<1, 1>>>(A, B, C, n); }
        else f<<<dim3((n + 7) / side, (n + 7) / side), dim3(side, side),
                 side * side * sizeof(REAL)>>>(A, B, C, n, side); } }
"""

OF_TRAITS = f"""namespace lab {{ template <int N> struct Tile {{ static constexpr int side = N; }};
template <class T> {kernel(k="n / T::side * T::side")}
template <int N> void go({SQUARE})
{{ using Own = Tile<N>; f<Own><<<dim3(n, n), dim3(N, N)>>>(A, B, C, n); }} }}
"""

# A program as of courses: structs on the host become structs on the device.
ON_DEVICE = """Matrix copy(const Matrix from) { Matrix on = from; return on; }
void go(Matrix hA, Matrix hB, Matrix hC) { Matrix A = copy(hA), C; Matrix B = copy(hB);
    C = copy(hC); dim3 grid(hC.width / 8 + 1, hC.height / 8); if (hC.height % 8) grid.y++;
    f<<<grid, dim3(8, 8)>>>(A, B, C); }
"""
SQUARE_STRUCTS = of_structs().replace("C.height", "A.width").replace("C.width", "A.width")
SQUARE_STRUCTS = SQUARE_STRUCTS.replace("B.width", "A.width") + ON_DEVICE

# A text, settings, and what the verdicts say.
OF_STEPS = "#define STEP 32\n" + kernel(
    MATRICES, "A[p + i * STEP]", "B[p * WB + j]", "C[i * WB + j]", "HA", "WB", "STEP"
)
VERDICTS = {
    "a setting in the place of a macro": (
        "#define SIDE 4\n" + kernel(k="n - SIDE"), "SIDE=0",
        "f is correct(?s:.*)SIDE is 0, as a setting says, in the place of line 1: #define SIDE 4"),
    "a grid that a setting says, too small": (
        kernel(), "grid=1", "too small, at 17x17x17(?s:.*)setting grid= says 1×1×1 blocks, where"),
    "a comma in extents that are handed on": (
        kernel() + """void go(dim3 grid, dim3 block, int n) { f<<<grid, block>>>(0, 0, 0, n); }
int main() { dim3 block(8, 8), grid = (8, 8); go(grid, block, 64); }""", "", "comma for dim3"),
    "a grid of two constants of one value": (
        "#define M 96\n#define N 96\n" + kernel("const float *A, const float *B, float *C",
            "A[i * N + p]", "B[p * N + j]", "C[i * N + j]", "M", "N", "N") + """int main()
    { f<<<dim3(N / 8 + 1, M / 8 + 1), dim3(8, 8)>>>(0, 0, 0); }""", "",
        "f is correct(?!(?s:.*)at every size)"),
    "a grid of numbers at every size": (
        rectangular() + "void go(int m, int n, int k) { f<<<dim3(4, 3), dim3(2, 4)>>>(0, 0, 0, m, n"
        ", k); }", "", "f is correct(?s:.*)its program launches 4×3×1 blocks.*cover a C of 12×8"),
    "a block that has no threads at a far size": (
        kernel().replace(ROW, "(blockIdx.x + blockIdx.y) * blockDim.y + threadIdx.y").replace(
        COL, "threadIdx.x") + "void go(int n) { dim3 b(n, n), g(1, 1); if (n * n > 1024) { b.y = "
        "1024 / n; g.x = n * n / b.y; } f<<<g, b>>>(0, 0, 0, n); }", "", "f is correct"),
    "a kernel behind a word that is misspelt": (
        kernel() + "global__ void g(float* a) { a[threadIdx.x] = 1; }", "",
        "does not compile: line 9"),
    "two strides, and a grid that rounds down": (
        rectangular(a="A[i * n + p]", b="B[p * m + j]") + "void go(int m, int n, int k) { f<<<dim3("
        "n / 8, m / 8), dim3(8, 8)>>>(0, 0, 0, m, n, k); }", "", "f is not correct.*: wrong index, "
        "line 6(?s:.*)A is read with rows of n elements; they have k, and B is read with rows of m"
        "(?s:.*)Also: grid too small"),
    "a line of blocks for a kernel of two axes": (
        kernel() + "int main() { int n = 4; f<<<n * n / 8, 8>>>(0, 0, 0, n); }", "",
        "grid too small in line 9, at 4x4x4\n(?s:.*)Cure: a block has 1×8 elements of C"),
    "m, n and k from a setting, x along the rows, and B by columns": (
        rectangular(b="B[j * k + p]").replace("int i", "int j").replace(", j =", ", i ="),
        "m=m n=n k=k", "f is not correct: wrong index, line 6(?s:.*)say b=transposed(?s:.*)"
        "blockIdx.y runs along the columns"),
    "a loop that repeats a number of times": (
        BY_ONE_THREAD.replace("for", "for (int r = 0; r < 100000; r++) for", 1), "block=1",
        "f: not enough shapes tried(?s:.*)all of them right"),
    "one block, of which a thread has every eighth row": (
        BY_ONE_THREAD.replace("i = 0", "i = threadIdx.x").replace("i++", "i += blockDim.x")
        + "void go(int m, int n, int k, int t) { f<<<1, t>>>(0, 0, 0, m, n, k); }", "block=8",
        "f is correct(?s:.*)One block of 8×1 threads, because"),
    "one block, as the program launches it": (
        BY_ONE_THREAD.replace("i = 0", "i = threadIdx.x").replace("i++", "i += blockDim.x")
        + "void go(int m, int n, int k) { f<<<1, 8>>>(0, 0, 0, m, n, k); }", "",
        r"f is correct(?s:.*)as in line \d+\."),
    "a C that every thread computes": (
        BY_ONE_THREAD, "block=8",
        "f is not correct: race(?s:.*)write the same(?s:.*)In all: C has the right values in"),
    "a C that the kernel clears": (
        kernel(k="n + 1").replace("float sum = 0", "C[i * n + j] = 0").replace("sum +=",
        "C[i * n + j] +=").replace("C[i * n + j] = sum;", ""), "",
        "f is not correct: out of bounds(?!(?s:.*)adds to C)"),
    "a loop that goes on by one": (
        "#define N 16\n" + FIXED.replace("p < N", "p <= N") + "int main() { f<<<dim3(2, 2), dim3("
        "8, 8)>>>(0, 0, 0); }", "", "out of bounds(?s:.*)how far the loop of line 7 goes: no"),
    "a loop that begins at a thread's own": (
        tiled("x = threadIdx.x, y = threadIdx.y").replace("    float sum", "    for (int j = "
        "blockIdx.x * T + threadIdx.x; j < n; j += T * gridDim.x) {\n    float sum").replace(
        "if (i < n && j < n) C[i * n + j] = sum;", "if (i < n) C[i * n + j] = sum; }"), "",
        "divergent barrier(?s:.*)go through the loop of line 6"),
    "products that are rounded to half on purpose": (
        "#include <cuda_fp16.h>\n" + kernel(SQUARE.replace("const float", "const half")).replace(
        "float(A[i * n + p]) * float(B[p * n + j])", "float(__hmul(A[i * n + p], B[p * n + j]))")
        + kernel(name="g"), "", "f is correct(?s:.*)remark: it computes in float16(?s:.*)g is co"),
    "blocks that repeat what others do": (
        rectangular().replace(ROW, "blockIdx.x").replace(COL, "threadIdx.x").replace("if (i >= m ||"
        " j >= n) return;", "for (; j < n; j += blockDim.x) {").replace("= sum;", "= sum; }")
        + "void go(int m, int n, int k) { f<<<dim3(m, n), 32>>>(0, 0, 0, m, n, k); }", "",
        "f is correct(?s:.*)128×64×1 blocks at 128x64x128; all but 128×1×1 repeat"),
    "a block by variables of the size's value": (
        kernel(a="A[i + p * n]", b="B[p + j * n]") + "int main() { int n = 3, m = 3; "
        "f<<<1, dim3(n, m)>>>(0, 0, 0, n); }", "", "f is not correct: wrong(?s:.*)transposed"),
    "a size that is the side of a block, too": (
        "#define BW 33\n" + rectangular() + "int main() { int m = BW, n = BW, k = BW; dim3 "
        "b(BW, BW), g((n + BW - 1) / BW, (m + BW - 1) / BW); f<<<g, b>>>(0, 0, 0, m, n, k); }", "",
        r"too many threads, line 10, at 33x33x33(?s:(?!.*Also).*)launch fewer"),
    "grid and block exchanged by their names": (
        kernel() + "void run(int n) { n = 1000; dim3 block(16, 16), grid((n + 15) / 16, "
        "(n + 15) / 16); f<<<block, grid>>>(0, 0, 0, n); }", "",
        r"f is not correct: grid and block exchanged, line 9(?s:.*)kernel<<<grid, block>>>"),
    "grid and block exchanged in a launch without names": (
        DYNAMIC + "void run(int n) { f<<<dim3(T, T), dim3((n + T - 1) / T, (n + T - 1) / T), 256>>>"
        "(0, 0, 0, n); }", "", "f is not correct: grid and block exchanged, line 16"),
    "a block that is called like a grid": (
        kernel() + "void run(int n) { dim3 threads((n + 15) / 16, (n + 15) / 16), blocks(16, 16);"
        " f<<<threads, blocks>>>(0, 0, 0, n); }", "", "f is correct\n"),
    "a function that is gone": (
        '#include "util.h"\n' + kernel(b="__shfl(B[p * n + j], 0)"), "",
        r"line 7: __shfl is gone since sm_70: write __shfl_sync\(0xffffffff, value, lane\)\n"),
    "a type whose header is missing": (
        kernel("half* A, half* B, half* C, int n"), "",
        'line 1: identifier "half" is undefined; write #include <cuda_fp16.h>\n'),
    "names that are no numbers": (
        kernel().replace(ROW, "IDX_Y").replace(COL, "IDX_X"), "", '"IDX_Y" is undefined\n'),
    "a number that is a length of rows of A, and the rows of C": (
        kernel(f"{MATRICES}, int widthA, int widthB", "A[i * widthA + p]", "B[p * widthB + j]",
        "C[i * widthB + j]", "widthA", "widthB", "widthA"), "",
        r"f is correct(?s:.*)\(m=widthA n=widthB k=widthA\)"),
    "lengths of rows that say which number is which": (
        kernel(f"{MATRICES}, int p, int q, int r", "A[i * q + p0]", "B[p0 * r + j]",
        "C[i * r + j]", "p", "r").replace("int p = 0; p < n; p++", "int p0 = 0; p0 < r; p0++")
        + "int main() { int p = 64, q = 32, r = 128, *a, *b, *c; cudaMalloc(&a, p * q * 4); "
        "cudaMalloc(&b, q * r * 4); cudaMalloc(&c, p * r * 4); "
        "f<<<dim3(8, 4), dim3(16, 16)>>>(a, b, c, p, q, r); }", "",
        r"f is not correct(?s:(?!.*allocate).*)\(m=p n=r k=q\)"),
    "a grid that follows from a block which the file is given": (
        kernel().replace(COL, f"({COL}) % n").replace(ROW, f"({COL}) / n") + "void run(int n, "
        "int many) { int t = many; f<<<(n * n + t - 1) / t, t>>>(0, 0, 0, n); }", "",
        r"f is correct\n(?s:.*)as in line 9; guessed, .*: block=128"),
    "a block that is declared nowhere": (
        kernel() + "int main() { int n = 100; dim3 block(16, 16), grid(n / 16, n / 16); "
        "f<<<grid, blck>>>(0, 0, 0, n); }", "", "not compile: line 9: blck is declared nowhere"),
    "a declaration without its end": (
        kernel() + "void run(int n) {\n float ms = 0\n printf(\"%d\", n); f<<<dim3(n, n), 1>>>(0, "
        "0, 0, n); }", "", 'does not compile: line 10: expected a ";"'),
    "a word before a macro that is declared nowhere": (
        kernel() + "#define CHECK(x) x\nvoid run(int n) { f<<<dim3(n, n), 1>>>(0, 0, 0, n); word "
        "CHECK(sync()); }", "", "does not compile: line 10: word is declared nowhere"),
    "a kernel that is not for edges": (
        kernel() + kernel(k="n - 1", name="tiledGemm"), "", "tiledGemm is not correct"),
    "a grid with exchanged sides, and a block of two": (
        rectangular() + "void run(int m, int n, int k) { dim3 b(4, 8), g((m + 3) / 4, (n + 7) / 8);"
        " f<<<g, b>>>(0, 0, 0, m, n, k); }", "", "f is not correct: grid exchanged, line 9"),
    "a size of the grid that is declared nowhere": (
        kernel() + "int main() { int n; scanf(\"%d\", &n); dim3 b(16, 16), g((nn + 15) / 16, n / 16"
        "); f<<<g, b>>>(0, 0, 0, n); }", "", "does not compile: line 9: nn is declared nowhere"),
    "a value that is declared nowhere": (
        kernel() + "void run(int n) { float ms = zero; f<<<dim3(n, n), 1>>>(0, 0, 0, n); }", "",
        "does not compile: line 9: zero is declared nowhere"),
    "no barrier but a name": (
        tiled("x = threadIdx.x, y = threadIdx.y").replace("__syncthreads()", "int _sync", 1), "",
        r"put __syncthreads\(\) between lines 8 and 11"),
    "a cure of tiles that stick out": (
        tiled("x = threadIdx.x, y = threadIdx.y").replace("i < n && t + x", "i < n && j"), "",
        "beyond an edge of C write nothing, but load its part of each tile"),
    "a grid that is too high at the program's own size": (
        kernel().replace(ROW, "blockIdx.y") + "int main() { int n = 1 << 18; "
        "f<<<dim3(n / 8, n), 8>>>(0, 0, 0, n); }", "", "too many blocks, line 9, at 262144x"),
    "blocks beyond C of a large grid": (
        FIXED.replace(">= N", "> 24").replace("N", "24") + "int main() { f<<<dim3(500, 500), "
        "dim3(10, 10)>>>(0, 0, 0); }", "m=24 n=24 k=24", "f is not correct: out of bounds"),
    "a launch behind a flag that is false": (
        rectangular() + "int main() { const bool fast = false; int m = 64, n = 64, k = 64; if (fast"
        ") { dim3 g(n / 8, m / 4); f<<<g, dim3(8, 4)>>>(0, 0, 0, m, n, k); } }", "",
        "f is correct as its program(?s:.*)blocks of 8×4×1 threads; as in line"),
    "a size that is the whole grid's": (
        kernel(MATRICES).replace("int i", "int n = blockDim.y * gridDim.y, i"),
        "m=64 n=64 k=64", "f is correct(?s:.*)4×4×1 blocks"),
    "a grid by the kernel's own names": (
        kernel().replace("int n)", "int dim)").replace(" n", " dim"), "grid=(dim+7)/8,(dim+7)/8 "
        "block=8x8", "f is correct(?!(?s:.*)Blocks of)"),
    "two wrong variables in an index": (
        kernel(b="B[i * p + j]"), "", "B is read at row [*] term [+] column, with"),
    "pointers without effect, and numbers that the kernel never uses": (rectangular(
        parameters=f"int opA, const float* s, {MATRICES}, double* t, int tile_size, int m, int n, "
        "int k", kind="float column = 2 * s[i]; float").replace("column = 2 * s[i]; float(", "("),
        "", "f is correct(?s:.*)It gets anything for s and t, on"),
    "a grid that is too large but for an oblong C": (
        rectangular() + "void go(int m, int n, int k) { dim3 g(m + 16 - 1 / 16, n + 16 - 1 / 16);"
        " f<<<g, dim3(16, 16)>>>(0, 0, 0, m, n, k); }", "",
        "f is not correct: grid exchanged, line 9, at 273x1x1(?s:.*)it is wrong only at 273x1"),
    "a function with the kernel's name": (
        f"template <class T>\n{kernel(head='__device__')}extern \"C\" __global__ void f({SQUARE})\n"
        "{ f<float>(A, B, C, n); }", "", "f is correct"),
    "constants of namespaces with one name": (
        "namespace a { constexpr int T = 4; }\nnamespace b {\nconstexpr int T = 8, THREADS = T;\n"
        f"{kernel()}}}\nvoid go(int n) {{ dim3 g((n + b::T - 1) / b::T, (n + 7) / b::THREADS); "
        "b::f<<<g, dim3(b::T, b::T)>>>(0, 0, 0, n); }", "",
        r"\A[^\n]*f is correct(?s:.*)blocks of 8×8×1 threads; as in line"),
    "constants in the rows of arrays alone": (
        "const int M = 96, N = 64, K = 32;\n" + kernel(
            "const float (*A)[K], const float (*B)[N], float (*C)[N]", "A[i][p]", "B[p][j]",
            "C[i][j]", k="K").replace("if (i >= n || j >= n) return;", "")
        + "void go() { f<<<dim3(N / 8, M / 8), dim3(8, 8)>>>(0, 0, 0); }", "",
        "f is correct(?s:.*)is M = 96, N = 64, K = 32"),
    "a tile that is read before its terms are counted": (
        rectangular().replace("if (i >= m || j >= n) return;", "").replace(
            "sum = 0", "sum = 0 * A[i * k + 3]"), "block=8x8",
        "it is right where m and n are multiples of 8 and k is at least 4"),
    "a kernel that a function is given": (f"""{rectangular()}
template <class K, class... P> void run(K* what, dim3 g, dim3 b, P... more)
{{ what<<<g, b>>>(more...); }}
void go(float* A, float* B, float* C, int m, int n, int k)
{{ run(f, dim3((n + 7) / 8, m / 4), dim3(8, 4), A, B, C, m, n, k); }}""", "",
        "f is not correct.*: grid too small, line 13, at"),
    "a kernel that is launched on parts too": (f"""{kernel()}
void parts(float* A, float* B, float* C, int n) {{ for (int s = 0; s < 4; s++)
    f<<<dim3((n + 7) / 8, n / 32), dim3(8, 8)>>>(A + s * n, B, C + s * n, n); }}
void go(float* A, float* B, float* C, int n)
{{ f<<<dim3((n + 7) / 8, (n + 7) / 8), dim3(8, 8)>>>(A, B, C, n); }}""", "", "f is correct"),
    "a side from a list of the program": (
        "#define REAL float\nfloat norm(float* c, int n) { float most = 0; "
        "for (int i = 0; i < n * n; i++) if (c[i] > most) most = c[i]; return most; }\n"
        + kernel(f"{SQUARE}, int tile", k="n / tile * tile") + BY_SIDES, "multiple=8",
        "f is correct(?s:.*)256 bytes of dynamic shared memory"),
    "sums in a function": (
        "__device__ float row(const float* a, const float* b, int n) { float s = 0;\n"
        "for (int p = 0; p < n; p++) s += a[p * n] * b[p * n]; return s; }\n"
        f"__global__ void g({SQUARE}) {{ int i = {ROW}, j = {COL};\n"
        "if (i < n && j < n) C[i * n + j] = row(A + i, A + j, n); }\n" + kernel(), "",
        r"g is not correct(?s:.*)f is correct"),
    "a struct's specialisation, what is for thrust, and a kernel by its whole name": (
        "#include <thrust/copy.h>\nusing namespace thrust::placeholders;\n"
        "template <class T> struct Sum;\n"
        "template <> struct Sum<float> { using type = float; };\n"
        "struct Each { thrust::device_ptr<float> a; __device__ float operator()(int i); };\n"
        "namespace lab { __global__ void f(float*); }\n"
        + kernel(kind="Sum<float>::type", name="lab::f"), "", "f is correct"),
    "D = A·B + C of macros": (
        "#define M_TOTAL 24\n#define N_TOTAL 40\n#define K_TOTAL 56\n" + kernel(
        "float* A, float* B, float* C, float* D", "A[i * K_TOTAL + p]", "B[p * N_TOTAL + j]",
        "D[i * N_TOTAL + j]", "M_TOTAL", "N_TOTAL", "K_TOTAL").replace(
        "= sum;", "= sum + C[i * N_TOTAL + j];"), "", "f is correct"),
    "D = A·B without C": (OF_ADDEND, "", r"it computes A·B, not A·B \+ C"),
    "one tile of fragments": (
        "const int M = 16, N = 16, K = 8;\n" + TF32.split("void go")[0].replace("16, 16, 8,",
        "M, N, K,").replace(", int m, int n, int k", "").replace("p < k", "p < K")
        .replace("k + p, k", "K + p, K").replace("p * n + j, n", "p * N + j, N")
        .replace("i * n + j, sum, n", "i * N + j, sum, N").replace("blockIdx.y * 16", "0")
        .replace("blockIdx.x * 16", "0"), "", "f is correct(?s:.*)16x16x8 alone"),
    "one struct of all matrices": (
        "struct Given { const float* lhs; const float* rhs; float* dst; int m, n, k; };\n"
        + rectangular(parameters="Given g", a="g.lhs[i * g.k + p]", b="g.rhs[p * g.n + j]",
        c="g.dst[i * g.n + j]", m="g.m", n="g.n", k="g.k"), "", "f is correct"),
    "a large size that no smaller one is like": (
        "constexpr int M = 32, N = 16, K = 784;\n" + kernel(MATRICES, "A[i * K + p]",
        "B[p * N + j]", "C[i * N + j]", "M", "N", "K / 16 * 16"), "", "f is correct"),
    "literals of a launch for a size that is made small": (
        "#define N 1024\n#define TILE_WIDTH 8\n" + UNGUARDED.replace("p < N", "p < N / TILE_WIDTH"
        " * TILE_WIDTH") + "int main() { f<<<dim3(128, 128), dim3(8, 8)>>>(0, 0, 0); }", "",
        "f is correct(?s:.*)16×16×1 blocks of 8×8×1 threads"),
    "a type of its dispatch": (
        TYPED.replace("int T = 8", "int T").replace("S", "scalar_t") + "void go(int n) { each([&]"
        " { f<scalar_t, 8><<<dim3((n + 7) / 8, (n + 7) / 8), dim3(8, 8)>>>(0, 0, 0, n); }); }", "",
        "f is correct(?s:.*)guess.*: scalar_t=float"),
    "a kernel for the edges beside it": (
        rectangular() + rectangular(name="f_edges") + "void go(float* A, float* B, float* C, int m,"
        " int n, int k) { f<<<dim3(n / 8, m / 4), dim3(8, 4)>>>(A, B, C, m, n, k);"
        "f_edges<<<dim3(n / 8 + 1, m / 4 + 1), dim3(8, 4)>>>(A, B, C, m, n, k); }", "",
        "f is correct(?s:.*)at multiples of 8 only"),
    "a quotient by a header that is missing": (
        '#include "utils.hpp"\n' + kernel() + "void go(float* A, float* B, float* C, int n) {"
        "f<<<dim3(utils::cdiv(n, 8), n / 4), dim3(8, 4)>>>(A, B, C, n); }", "",
        "f is not correct.*: grid too small"),
    "a tile's side that a setting says": (
        kernel(f"{SQUARE}, int width", k="n / width * width").replace("blockDim.y", "width")
        .replace("blockDim.x", "width") + "void go(float* A, float* B, float* C, int n, int argc) {"
        "int T = argc; f<<<dim3(n / T, n / T), dim3(T, T)>>>(A, B, C, n, T); }",
        "width=4 multiple=4 n=n", "f is correct(?s:.*)of 4×4×1 threads"),
    "one thread beside a macro of other kernels, and C cleared by its rows": (
        "#define OWN threadIdx.x + blockIdx.x\n" + kernel().replace(
        "    int i", "    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {\n//").replace(
        "C[i * n + j] = sum;", "C[i * n + j] += sum; }") + "void go(float* A, float* B, float* C, "
        "int n) { cudaMemset2D((void*)C, 4 * n, 0, 4 * n, n); f<<<1, 1>>>(A, B, C, n); }", "",
        r"f is correct(?s:.*)1×1×1 blocks of 1×1×1 threads(?s:.*)It adds to C, which the program"),
    "a block of half of a constant, which is none at the size 1": (
        f"#define N 16\n{kernel()}int main() {{ size_t t = N / 2; dim3 b(t, t), g(N / t, N / t);"
        "f<<<g, b>>>(0, 0, 0, N); }", "",
        "f is correct as its program launches it(?s:.*)In all"),
    "a grid exchanged without a guard, and a square from a call": (
        rectangular().replace("    if (i >= m || j >= n) return;\n", "") + "void go(int m, int n, "
        "int k) { f<<<dim3((m + 7) / 8, (n + 7) / 8), dim3(8, 8)>>>(0, 0, 0, m, n, k); }\n"
        "int main() { go(4096, 4096, 2048); }", "",
        "f is correct as its program launches it"),
    "rows from a macro of the grid, and C with the rows of A": (
        "#define WA 512\n#define HC 512\n#define WB WA\n" + rectangular(
        parameters=f"{MATRICES}, int k, int n", c="C[i * k + j]").replace(
        "    if (i >= m || j >= n) return;\n", "") + "int main() { f<<<dim3(WB / 8, HC / 8), "
        "dim3(8, 8)>>>(0, 0, 0, WA, WB); }", "",
        "f is correct as its program launches it(?s:.*)512x512x512 is rows"),
    "remainders of terms": (
        kernel(SQUARE.replace("float", "int"), kind="int").replace(
        "sum += int(A[i * n + p]) * int(B[p * n + j])",
        "sum += (A[i * n + p] * B[p * n + j]) % 50"), "",
        "f is not correct: wrong result, line 6, at"),
    "whole numbers beside another mistake": (
        kernel(n="n + 1").replace("float sum", "int sum"), "",
        "f is not correct: out of bounds(?s:.*)Also: wrong result in line 5(?s:.*)sum is of int"),
    "whole numbers where a multiple is in bounds": (
        kernel().replace("float sum", "int sum").replace("    if (i >= n || j >= n) return;\n", "")
        .replace("sum += float(A", "{ float x = A").replace("float(B", "B").replace(
        "]) * B", "], y = B").replace("j]);", "j]; sum += x * y; }"), "",
        "f is not correct: out of bounds(?s:.*)Also: wrong result in line 4, at 16x"),
    "a counter before an address": (
        "__device__ void add(float* sum, const float* a, float b) { *sum += *a * b; }\n"
        + kernel().replace("sum += float(A[i * n + p]) * float(B[p * n + j]);",
        "for (int t = 0; t < 1; t += 1) {\nadd(&sum, &A[i * n + p], B[i * n + j]); }"), "",
        "f is not correct: wrong(?!(?s:.*)t is of int)"),
    "two constants of one value, of which one is passed": (
        kernel().replace("    if (i >= n || j >= n) return;\n", "") + "#define ROWS 64\n#define "
        "COLUMNS 64\nint main() { dim3 g((COLUMNS + 7) / 8, (ROWS + 7) / 8);"
        "f<<<g, dim3(8, 8)>>>(0, 0, 0, COLUMNS); }", "",
        "f is correct as its program launches it(?s:.*)right where n is a multiple of 8"),
    "a grid that is rounded down beyond its program's size": (
        kernel().replace("    if (i >= n || j >= n) return;\n", "") + "int main() { int n = 65536;"
        "f<<<dim3(n / 32, n / 32), dim3(32, 32)>>>(0, 0, 0, n); }",
        "", "f is correct as its program launches it(?s:.*)to (?!257)(?s:.*)grid too small"),
    "a side that a function of the program pads": (
        kernel().replace("    if (i >= n || j >= n) return;\n", "") + "int side(int* a, int x, int"
        " y) { int n = x; if (y > x) n = y; int t = n / 8 + (n % 8 > 0); n = t * 8; return n; }"
        "int main() { int *a, x, y; int n = side(a, x, y);"
        "f<<<dim3(n / 8, n / 8), dim3(8, 8)>>>(0, 0, 0, n); }", "",
        "f is correct(?s:.*)multiples of 8 only"),
    "constants of a struct in the grid": (
        "struct Own { static constexpr int T = 4; static constexpr int SIDE = 2 * T; };\n"
        + kernel() + "#define UP(a, b) (((a) + (b)-1) / (b))\nvoid go(float* A, float* C, int n) {"
        " dim3 g(UP(n, Own::SIDE), n / Own::SIDE); f<<<g, dim3(8, Own::SIDE)>>>(A, A, C, n); }", "",
        "f is not correct except where n is a multiple of 8: grid too small, line 11"),
    "a block that a function makes of the size": (
        f"{kernel()}int side(int n) {{ return n < 8 ? n : 8; }}\nvoid go(float* A, float* C, int n)"
        "{ int t = side(n); dim3 b(t, t), g(n / t + 1, n / t + 1); f<<<g, b>>>(A, A, C, n); }", "",
        r"f is correct(?!(?s:.*)guessed)(?s:.*)blocks of 8×8×1 threads"),
    "a block of a file that launches nothing": (
        f"{kernel()}dim3 own(int n) {{ dim3 dimBlock(32, 4); return dimBlock; }}", "",
        "f is correct(?s:.*)guessed(?s:.*)block=32x4"),
    "strides that settings say": (rectangular(
        parameters=f"{SHAPE}, int a_stride_m, int a_stride_k",
        a="A[i * a_stride_m + p * a_stride_k]"), "a_stride_m=k a_stride_k=1", "f is correct"),
    "a C that the caller clears": (kernel().replace("= sum;\n}", "+= sum;\n}") + OWN_SIZES.replace(
        "int main() { int n = 16;", "void go(float* c, int n) {").replace("0, 0, 0", "0, 0, c"),
        "", "f is correct(?s:.*)adds to C, which its caller has to clear before"),
    "a switch that the launch turns": (
        kernel(f"{SQUARE}, bool turned", b="B[turned ? j * n + p : p * n + j]")
        + OWN_SIZES.replace("n);", "n, true);"), "", "right if B is stored transposed"),
    "C that is square": (kernel(
        f"{MATRICES}, int N, int K", "A[i * K + p]", "B[p * N + j]", "C[i * N + j]", *"NNK"), "",
        r"f is correct(?s:.*)\(m=N n=N k=K\)"),
    "a gradient": (kernel(a="A[p * n + i]", b="B[j * n + p]", name="backward_f"), "",
                   r"backward_f is correct(?s:.*)\(a=transposed b=transposed\)"),
    "a struct with a constructor, a stride, and a second place, and the word": (
        of_structs("stride", "int stride; float* on_device; Matrix(const int w, const int h); ")
        .replace("} Matrix;", "};").replace("typedef struct", "struct Matrix").replace(
        "Matrix B,", "struct Matrix B,").replace(".elements[", ".on_device["), "", "f is correct"),
    "types of std and of the file, a part of std and cuda/cmath": (
        "#include <chrono>\n#include <cuda/cmath>\nusing namespace std::chrono;\n"
        "typedef float real; using count = unsigned long;\n" + rectangular(
        parameters="const real* A, const real* B, real *__restrict__ C, std::int64_t m, "
        "const std::size_t& n, const count k", k="cuda::ceil_div(k, 1)"), "", "f is correct"),
    "rows that a typedef names": (
        "#define N 40\ntypedef float row[N];\n" + kernel(
            "const row* A, const row* B, row* C", "A[i][p]", "B[p][j]", "C[i][j]", "N", "N + 1",
            "N"), "block=16x16", "out of bounds(?s:.*)uses index 40 of B, a row of float"),
    "a fragment that is filled and one that is not": (
        "#include <mma.h>\nusing namespace nvcuda::wmma;\n__global__ void f(const half* A, const "
        "half* B, float* C, int n) { int i = blockIdx.y * 16, j = blockIdx.x * 16;\n"
        "fragment<matrix_a, 16, 16, 16, half, row_major> a; fragment<matrix_b, 16, 16, 16, half, "
        "row_major> b;\nfragment<accumulator, 16, 16, 16, float> sum;\nfragment<accumulator, 16, "
        "16, 16, float> c;\nfill_fragment(sum, 0); for (int p = 0; p < n; p += 16) {\n"
        "load_matrix_sync(a, A + i * n + p, n); load_matrix_sync(b, B + p * n + j, n); mma_sync("
        "sum, a, b, sum); }\nfor (int e = 0; e < c.num_elements; e++) c.x[e] = c.x[e] + sum.x[e];\n"
        "store_matrix_sync(C + i * n + j, c, n, mem_row_major); }\nvoid go(int n) { f<<<dim3(n / 16"
        ", n / 16), 32>>>(0, 0, 0, n); }", "multiple=16", "uninitialised variable, line 6"),
    "a large size in front of smaller ones": (
        kernel().replace(ROW, f"({COL}) / n").replace(f"{COL};", f"({COL}) % n;").replace(
            "    if (i >= n || j >= n) return;\n", "") + "int main() { int n = 512; f<<<(n * n + 12"
        "7) / 128, 128>>>(0, 0, 0, n); }", "", "shapes, from 16x16x16 to 512x512x512"),
    "variables of the file with the names of parameters": (
        "int m = 32, n = 32, k = 32;\n" + rectangular(k="ceil(k / 1.0f)") + "int main() { f<<<dim3("
        "(n + 7) / 8, (m + 7) / 8), dim3(8, 8)>>>(0, 0, 0, m, n, k); }", "", "ct\n  3. shapes"),
    "a decoy": (f"{kernel()}__global__ void g({SQUARE}) {{ C[0] = A[0]; }}\n"
        f"void run({SQUARE}) {{ g<<<1, 1>>>(A, B, C, n); }}", "",
        "f is correct(?s:.*)g is not correct"),
    "a scan, a sum and a convolution that are launched beside a product": (
        SCAN + kernel() + kernel("const float* A, const float* kernel, float* C, int n, int k",
        name="g", b="kernel[p % k]") + f"__global__ void h({SQUARE}, int m) {{ int i = {ROW}; "
        f"if (i < n * m) C[i] = A[i] + B[i]; }}\n{RUN_SCAN}void run({SQUARE}) {{ "
        "g<<<n, n>>>(A, B, C, n, 3); h<<<n, n>>>(A, B, C, n, n); }", "",
        r"\A(?!(?s:.*)\b(?:scan|g|h)\b)[^\n]*f is correct"),
    "dimensions of one kernel of several": (
        kernel() + kernel(f"{MATRICES}, int q, int r, int s, int t", name="g"), "",
        "f is correct(?s:.*)which is which(?s:.*)instance kernel=g m=q n=r(?s:.*)try: kernel=g"),
    "a launch before its kernel": (
        OWN_SIZES + kernel(), "", "does not compile: line 1: it launches f before that is"),
    "a matrix of the host": (kernel() + OWN_SIZES.replace("f<<<", COPIED).replace(
        "(0,", "(a.p,"), "", "matrix of the host, line 9(?s:.*)passes a.p, which"),
    "a copy that says the wrong direction, and a kernel that is declared before its launch": (
        f"__global__ void f({SQUARE});\n{OWN_SIZES}{kernel()}".replace("f<<<", COPIED).replace(
        "0, n", "d, n"), "", "f is correct"),
    "an output of three that are written": (kernel(SQUARE.replace("const ", "").replace("C,",
        "dst,"), c="A[i * n + j]"), "", "f is not correct(?s:.*)write to an input(?!(?s:.*)adds)"),
    "a block outside of functions": (f"const int T = 8;\ndim3 block(T, T);\n{kernel()}"
        f"void run({SQUARE}) {{ f<<<dim3(n / 8 + 1, n / 8 + 1), block>>>(A, B, C, n); }}", "",
        "f is correct(?s:.*)of 8×8×1 threads; as in line"),
    "operators, a number that has a value, and a name that the host has, too": (
        "__device__ float2 operator+(float2 a, float b) { return {a.x + b, a.y}; }\n" + rectangular(
        parameters=f"{SHAPE}, int side = 1", k="k * side").replace("float sum = 0", "float2 sum = "
        "{}").replace("sum +=", "sum = sum +").replace("= sum;", "= sum.x;")
        + "void f(int n) { go(n); }\n__global__ void f(double* A, int n);\n", "", "f is correct"),
    "pointers to structs": (of_structs().replace("Matrix A, const Matrix B, Matrix", "Matrix* A, "
        "const Matrix* B, Matrix*").replace("A.", "A->").replace("B.", "B->").replace("C.", "C->"),
        "", "f is correct(?s:.*) is A->height = 128, B->width = 64, A->width = 128"),
    "structs in structs": (of_structs().replace("int width; int height;", "Sides s;").replace(
        "width", "s.width").replace("height", "s.height").replace(
        "typedef", "struct Sides { int width, height; };\ntypedef", 1), "",
        "f is correct(?s:.*) is A.s.height = 128, B.s.width = 64"),
    "a template's row too long": (OF_VIEWS.replace("i * cols_", "i * rows_"), "",
                                  "f is not correct except at square shapes: (?:wrong|out of)"),
    "a program that refuses some sizes": (
        kernel().replace("    if (i >= n || j >= n) return;", "") + """
int main(int argc, char** argv) { int n = argc > 1 ? atoi(argv[1]) : 4096;
    if (n % 8 != 0 || n > 8192) { throw std::runtime_error("no multiple"); }
    f<<<dim3(n / 8, n / 8), dim3(8, 8)>>>(0, 0, 0, n); }""", "",
        "f is correct(?s:.*)launches it at multiples of 8 only"),
    "sizes of the file in another order": (ELSEWHERE, "",
        "f is correct(?s:.*)A is N×M and B is M×K \\(m=N n=K k=M\\)"),
    "sizes of the file and B transposed": (
        ELSEWHERE.replace("B[p * K + j]", "B[j * M + p]"), "m=N n=K k=M b=transposed",
        "f is correct"),
    "a size that the blocks do not divide": (f"#define N 24\n{UNGUARDED}", "block=16x16",
                                             "out of bounds, line [67], at 24x24x24"),
    "a comment and a switch among arguments": ("template <int T, // the side\n  bool TWICE>\n"
        + kernel(k="(TWICE ? 2 * n : n)") + "int main() { const bool TWICE = false; f<8, TWICE>"
        "<<<dim3(2, 2), dim3(8, 8)>>>(0, 0, 0, 16); }", "", "f is correct"),
    "whole numbers of 64 bits, and an input that is called a result": (kernel(
        "uint64_t* result, unsigned long long* B, long* other, u_int32_t n", "result[i * n + p]",
        c="other[i * n + j]", kind="long"), "", "f is correct"),
    "sums of bytes in bytes": (kernel(
        "const int8_t* A, const int8_t* B, int* C, int n", kind="int8_t"), "",
        "f is not correct: wrong result"),
    "a length of rows in bytes": (rectangular(
        parameters=f"{SHAPE}, size_t pitchA, int pitchB",
        a="((const float*)((const char*)A + i * pitchA))[p]",
        b="B[p * (pitchB / sizeof(float)) + j]"), "", "f is correct"),
    "a condition in assembler": (
        """__device__ float load(const float* place) {
    float found;
    asm("{.reg .pred p;\\n"
#if __CUDACC_VER_MAJOR__ >= 11 && \\
    __CUDA_ARCH__ >= 750
        "ld.global.nc.f32 %0, [%1];}\\n"
#else
        "ld.global.f32 %0, [%1];}\\n"
#endif
        : "=f"(found) : "l"(place)); return found; }
""" + kernel(a="load(A + i * n + p)") + OWN_SIZES, "", "f is correct"),
    "a batch that is called K": (kernel(
        f"{MATRICES}, int M, int N, int P, int K", "A[z * M * N + i * N + p]",
        "B[z * N * P + p * P + j]", "C[z * M * P + i * P + j]", "M", "P", "N").replace(
        "    if (i >=", "    int z = blockIdx.z;\n    if (z >= K || i >="), "", "f is correct"),
    "an instantiation": (f"{TYPED}template __global__ void "
        "f<double>(const double*, const double*, double*, int);", "", r"f is correct(?!(?s:.*)S=)"),
    "arguments of a launch": (LADDER + RUN_LADDER, "multiple=16",
                              r"f is correct(?s:.*)blocks of 32×1×1 threads(?!(?s:.*)guess)"),
    "one product among helpers": (HELPERS + kernel(), "", r"\A[^\n]*f is correct"),
    "a row too long, which a grid of literals hides": (
        rectangular(b="B[p * k + j]") + OWN_SIZES.replace(
            "1, 1", "2, 2").replace("n);", "32, 32, 32);"), "",
        "f is not correct except at shapes with n = k: wrong index, line 6"),
    "one tile for a program of one block": (
        kernel().replace(ROW, "threadIdx.y").replace(COL, "threadIdx.x") + OWN_SIZES, "",
        "f is correct as its program launches it"),
    "a grid of literals that is too small": (
        kernel() + OWN_SIZES.replace("n = 16", "n = 24"), "", "f is not correct: grid too small"),
    "extents of fragments": (IN_MACROS, "", "f is correct(?s:.*)mma cuts the lower bits"),
    "one instruction without a loop": (
        TF32.replace("for (int p = 0; p < k; p += 8)", "int p = 0;").split("void go")[0]
        + "void go(float* A, float* B, float* C) { f<<<1, 32>>>(A, B, C, 16, 16, 8); }\n"
        + kernel(name="g"), "", "f is correct(?s:.*)16x16x8(?s:.*)g is correct"),
    "a setting for another kernel": (
        kernel(f"{SQUARE}, int side", k="n / side * side")
        + kernel(name="g").replace("float sum", "const int side = 8; float sum"), "side=1",
        "f is correct(?s:.*)g is correct"),
    "a tile's side beside the size": (
        kernel(f"{MATRICES}, int N, int N_TOTAL", k="N_TOTAL / N * N", m="N_TOTAL", n="N_TOTAL")
        .replace("* n", "* N_TOTAL"), "n=N_TOTAL N=4 multiple=4", "f is correct"),
    "halves of another header, extern C under a condition, and an attribute behind its array": (
        "#include <torch/all.h>\nfloat right[64 * 64] __attribute__((aligned(64)));\n"
        '#ifdef __cplusplus\nextern "C"\n#endif // C++\nvoid go(int n);\n'
        + kernel(SQUARE.replace("float", "half"), kind="float"), "", "f is correct"),
    "dynamic and aligned rows in shared memory, in a namespace": (
        f"namespace lab {{\n{DYNAMIC}}}".replace("Bs[]", "Bs[][T]").replace("Bs[y * T + x]", "Bs[y]"
        "[x]").replace("Bs[p * T + x]", "Bs[p][x]").replace("float As", "alignas(16) float As"),
        "shared=256", "f is correct"),
    "lengths of columns": (rectangular(
        parameters=f"{SHAPE}, int lda, int ldb, int ldc", a="A[i + p * lda]", b="B[p + j * ldb]",
        c="C[i + j * m]"), "", r"f is correct(?s:.*)\(order=columns\)(?s:.*)it never uses ldc"),
    "said to be by columns": (rectangular(**BY_COLUMNS), "order=columns",
                              "f is correct(?!(?s:.*)order=)"),
    "a C that is taken for a vector": (kernel(c="C[i]"), "", "f is not correct"),
    "C transposed": (rectangular(c="C[i + j * m]"), "",
        "wrong index(?s:.*)it is right if C is stored transposed; .* say c=transposed"),
    "fragments by columns": (
        TF32.replace("tf32, row_major> b", "tf32, col_major> b").replace("B + p * n + j, n",
        "B + j * k + p, k").replace("i * n + j, sum, n, mem_row", "j * m + i, sum, m, mem_col"),
        "multiple=16", r"f is correct(?s:.*)\(b=transposed c=transposed\)"),
    "threads in a line": (tiled("x = threadIdx.x % T, y = threadIdx.x / T"), "",
                          r"f is correct(?s:.*)guessed, .*block=64x1\.(?s:.*)of 64×1 threads"),
    "arrays that overlap": (OVERLAPPING, "shared=512",
                            "overlapping arrays, line 4(?s:.*)Bs begins at the address"),
    "a row for each thread": (
        f"__global__ void f({SQUARE}) {{\n" + BY_ONE_INDEX.format("i", ROW, "j"), "",
        "f is correct(?s:.*)for 128×all elements"),
    "a column for each thread": (
        f"__global__ void f({SQUARE}) {{\n" + BY_ONE_INDEX.format("j", COL, "i"), "",
        "f is correct(?s:.*)for all×128 elements"),
    "float sums of doubles": (kernel("double* A, double* B, double* C, int n"), "",
                              "wrong result(?s:.*)rounded to a smaller type"),
    "registers of B by columns": (ABT, "multiple=16", r"f is correct(?s:.*)\(b=transposed\)"),
    "a block that is tried": (SIXTY_FOUR, "multiple=16", r"f is correct(?s:.*)block=64x1\."),
    "tiles in a line": (
        rectangular().replace(ROW, "blockIdx.x / ((n + 7) / 8) * 4 + threadIdx.x / 8").replace(
            COL, "blockIdx.x % ((n + 7) / 8) * 8 + threadIdx.x % 8"), "block=32",
        "f is correct(?s:.*)in a line"),
    "a constexpr function of the host": (
        "constexpr int one(int x) { return x - x + 1; }\n" + kernel(k="n * one(n)"), "",
        "f is correct(?s:.*)--expt-relaxed-constexpr only"),
    "names of matrices in another order than their product": (kernel(
        "const float* b, const float* a, float* c, int n", "b[i * n + p]", "a[p * n + j]",
        "c[i * n + j]"), "", r"f is correct(?s:.*)shows that c is b·a \(order=columns\)"),
    "names that speak of a transposition": (rectangular(
        parameters=SHAPE.replace("A,", "A_T,").replace("B,", "B_T,"), a="A_T[i * k + p]",
        b="B_T[p * n + j]"), "", r"f is correct(?s:.*)\(a=rows b=rows\)"),
    "dimensions that are called lengths of rows, and a t that is no transposition": (rectangular(
        parameters="const float* A, const float* t_B, float* C, int lda, int ldb, int ldc",
        a="A[i * ldb + p]", b="t_B[p * ldc + j]", c="C[i * ldc + j]", m="lda", n="ldc", k="ldb"),
        "", r"f is correct(?s:.*)\(m=lda n=ldc k=ldb\)"),
    "a part that the file leaves out": (
        f"#ifndef FAST\n#define FAST 0\n#endif\n#if defined(FAST) && FAST\n{kernel()}#endif\n", "",
        "does not compile: line 4: it leaves f out; if another file .* instance FAST=1\n"),
    "square products by columns, of which one has a name for the place in C": (
        "".join(kernel(a="A[i + p * n]", b="B[p + j * n]", c=c, name=name) for name, c in (
            ("f", "C[i + j * n]"), ("g", "int at = i + j * n; C[at]"))), "",
        "f is correct(?s:.*)order=columns(?s:.*)g is correct(?s:.*)order=columns"),
    "inputs that become bfloat16": (BFLOATS, "multiple=16 block=32", "f is correct"),
    "a type with constants": (OF_TRAITS, "T=lab::Tile<8> multiple=8", "f is correct"),
    "sizes that are refused by a number nobody says": (
        kernel().replace("if (i >= n || j >= n) return;", "") + "struct Run { int side; void "
        "go(float* A, float* B, float* C, int n) { if (n % side) throw n; f<<<dim3(n / side, n / "
        "side), dim3(side, side)>>>(A, B, C, n); } };", "",
        "f is correct(?s:.*)multiples of 16 only"),
    "constants in the place of numbers": ("#define N 24\n" + kernel(
        f"{MATRICES}, int n, int p", "A[i * N + p]", "B[p * N + j]", "C[i * N + j]", *"NNN"), "",
        "f is correct(?s:.*)24x24x24 alone"),
    "a number in a macro alone": ("#define SIZE 8\n#define AT(i, j) ((i) * n + (j))\n" + kernel(
        a="A[AT(i, p)]", b="B[AT(p, j)]", c="C[AT(i, j)]", m="SIDE", n="SIDE", k="SIDE").replace(
        "float sum", "__shared__ float s[SIZE]; s[0] = 0; float sum").replace("SIDE", "AT(1, 0)"),
        "block=8x8", "f is correct(?s:.*)is n = 257"),
    "the number of elements of C": (
        f"__global__ void f({MATRICES}, int k, int n, int length) {{ int e = {COL}; float sum = 0;"
        "if (e >= length) return; for (int p = 0; p < k; p++) sum += A[e / n * k + p] * "
        "B[p * n + e % n]; C[e] = sum; } void go(float* A, float* B, float* C, int m, int n, int k)"
        " { f<<<(m * n + 63) / 64, 64>>>(A, B, C, k, n, m * n); }",
        "length=m*n", "f is correct"),
    "a pointer to the kernel": (
        kernel() + "void run(void (*g)(const float*), dim3 b, int n) { g<<<dim3(n / 8 + 1, n / 4 + "
        "1), b>>>(0, 0, 0, n); }\nint main() { void (*own)(const float*) = f; float ms = run(own, "
        "dim3(8, 4), 1 << 10); }", "", "f is correct(?s:.*)blocks of 8×4×1 threads; as in line"),
    "a part for newer cards": (
        kernel(c="\n#if __CUDA_ARCH__ >= 700\nC[i * n + j]").replace("sum;\n}", "sum;\n#endif\n}"),
        "", "f is correct, as far as the CPU reads it"),
    "what other compilers read, and a macro for a launch": (
        "#ifndef __CUDACC__\n#define __shared__\n#define GO(g, b)\n#else\n#define GO(g, b) <<<g, b"
        ">>>\n#endif\n" + tiled("x = threadIdx.x, y = threadIdx.y") + "void go(float* A, float* B, "
        "float* C, int n) { f GO(dim3((n + 7) / 8, n / 8 + 1), dim3(8, 8))(A, B, C, n); }", "",
        "f is correct\n(?s:.*)as in line"),
    "arguments by the shape of C": (
        f"template <int S> {rectangular()}void go(float* A, float* B, float* C, int m, int n, int k"
        ") { if (m > 2 * n) f<8><<<dim3(n, m), 1>>>(A, B, C, m, n, k); else f<4><<<dim3(n, m), 1>>>"
        "(A, B, C, m, n, k); }", "", "f is correct"),
    "rows of a matrix that is transposed by its name": (rectangular(
        parameters="const float* A, const float* B_T, float* C, int A_rows, int A_cols, int B_rows",
        a="A[i * A_cols + p]", b="B_T[j * A_cols + p]", c="C[i * B_rows + j]", m="A_rows",
        n="B_rows", k="A_cols"), "", r"f is correct(?!(?s:.*)\(m=)"),
    "a macro that holds statements": (
        "#define CHECK(call) do { int e = (call); if (e) { throw E(\"a\" + e); } } while (0)\n"
        + kernel() + "void go(float* A, float* B, float* C, int n) { CHECK(first()); "
        "f<<<dim3((n + 7) / 8, n / 8 + 1), dim3(8, 8)>>>(A, B, C, n); CHECK(last()); }", "",
        "f is correct(?s:.*)as in line"),
    "a tile of 256 columns": (f"""template <int T, int R>
{rectangular()}""".replace(COL, "blockIdx.x * 16 * T + threadIdx.x").replace("|| j >= n", "")
        .replace("float sum", "for (int r = 0; r < R; r++, j += 16) { float sum").replace(
        "= sum;", "= sum; }").replace("C[", "if (j < n) C["), "block=16x16 T=16 R=16",
        "Blocks of 16×16 threads for 16×256 elements"),
    "A·Aᵀ": (
        f"__global__ void gram(const double* A, double* C, int rows, int cols) {{ int i = {ROW}, "
        f"j = {COL}; double sum = 0; if (i >= rows || j >= rows) return; for (int p = 0; p < cols;"
        "p++) sum += A[i * cols + p] * A[j * cols + p]; C[i * rows + j] = sum; }", "",
        "gram is not correct(?s:.*)right if A is stored transposed"),
}  # fmt: skip


VERDICTS |= {
    "numbers in another order than the kernel's": (
        rectangular() + "#define M 256\n#define K 512\n#define N 256\nvoid go(float* A, float* B, "
        "float* C) { dim3 g((N + 15) / 16, (M + 15) / 16), b(16, 16); f<<<g, b>>>(A, B, C, M, K, N)"
        "; }", "", "f is not correct: sizes exchanged(?s:.*)passes M, K, N for m, n, k"),
    "numbers in another order, with a grid that cannot be read": (
        rectangular() + "void go(float* A, float* B, float* C, int M, int N, int K) { dim3 g = pick"
        "(M); f<<<g, dim3(16, 16)>>>(A, B, C, M, K, N); }", "",
        "f is correct if launched as guessed(?s:.*)passes M, K, N for m, n, k"),
    "a grid for the turned C of one size": (
        rectangular() + "void go(float* A, int m, int n, int k, dim3 g) { f<<<g, dim3(16, 16)>>>(A,"
        " A, A, m, n, k); }\nint main() { int M = 300, N = 200, K = 100; go(0, M, N, K, dim3(M / 16"
        " + 1, N / 16 + 1)); }", "", "f is not correct: grid exchanged"),
    "a block as large as C": (
        kernel().replace("    if (i >= n || j >= n) return;", "") + "void go(float* A, float* B, "
        "float* C) { int n = 4; f<<<n / n, dim3(n, n)>>>(A, B, C, n); }", "",
        "f is correct as its program launches it(?s:.*)too many threads"),
    "a tile wider than the sizes that are tried": ("#define N 1024\n" + FIXED.replace("float sum",
        "__shared__ float line[256]; line[0] = 0; float sum"), "",
        "f is correct(?s:.*)256x256x256 alone"),
    "how often it computes": (
        "#define N 64\n" + FIXED.replace("float* C", "float* C, int often")
        .replace("float sum", "for (int l = 0; l < often; l++) { float sum")
        .replace("= sum;", "= sum; }")
        + "void go(float* A, float* B, float* C) { f<<<dim3(4, 4), dim3(16, 16)>>>(A, B, C, 3); }",
        "", "f is correct(?s:.*)64x64x64 alone"),
    "an address in a template": (
        "template <int S> " + kernel(SQUARE.replace("float*", "float* __restrict__"), "x").replace(
        "sum +=", """{ float x; asm("ld.global.f32 %0, [%1];" : "=f"(x) : "l"(&A[i * n + p * S]));
        sum +=""").replace("n + j]);", "n + j]); }")
        + "void go(float* A, float* B, float* C, int n) "
        "{ f<1><<<dim3(n / 8 + 1, n / 8 + 1), dim3(8, 8)>>>(A, B, C, n); }", "", "f is correct"),
    "a condition of C++20": (
        "template <int S> requires (S > 1)\n" + kernel(), "", "needs nvcc -std=c\\+\\+20, and"),
    "sizes that a macro of the program pads": (
        "#define PAD(x, y) ((x) % (y) ? ((x) / (y) + 1) * (y) : (x))\n" + kernel().replace(
        "if (i >= n || j >= n) return;", "") + "template <int T = 8> void go(float* A, float* B, "
        "float* C, int size) { int N = PAD(size, T); f<<<dim3(N / T, N / T), dim3(T, T)>>>(A, B, C,"
        " N); }", "", "f is correct(?s:.*)multiples of 8 only"),
    "a C that nothing clears": (
        kernel(kind="float").replace("= sum;", "= sum + C[i * n + j];")
        + OWN_SIZES.replace("f<", "cudaMalloc(&d, 4); f<"), "", "uninitialised C"),
    "a C that the kernel adds to by another name": (kernel(c="P[i * n + j] += sum; //").replace(
        "    int i", "    float *P = C;\n    int i", 1), "", "f is correct(?s:.*)adds to C, which"),
    "only blocks that cover a side of constants, or half of it, which are made small": (
        "#define n 512\n" + "".join(
            f"__global__ void {f}({MATRICES}) {{ {BY_ONE_INDEX.format('i', index, 'j')}"
            f"void go_{f}(float* A, float* B, float* C) {{ {f}<<<1, {side}>>>(A, B, C); }}\n"
            for f, index, side in (("f", COL, "n"), ("g", "threadIdx.x", "n"),
                                   ("h", "threadIdx.x", "512"), ("w", "threadIdx.x", "256"))), "",
        "f is correct\n(?s:.*)g is correct\n(?s:.*)h is correct\n(?s:.*)w is not correct: "
        "elements not written(?s:.*)those of rows 64 to 127"),
    "structs for the device, made of the host's": (
        of_structs() + ON_DEVICE, "", "f is correct(?s:.*)9×16×1 blocks(?!(?s:.*)guessed grid)"),
    "structs of which a program has squares alone": (
        SQUARE_STRUCTS, "m=A.height n=A.height k=A.height", "f is correct(?s:.*)257x257x257"),
    "sizes beside numbers about shared memory": (
        "const int SIZE_K = 512, SIZE_N = 512, SIZE_M = 512, shared_mem_k = 8, iter_shared = 2;\n"
        + kernel(MATRICES, "A[i * SIZE_K + p]", "B[p * SIZE_N + j]", "C[i * SIZE_N + j]", "SIZE_M",
        "SIZE_N", "SIZE_K / shared_mem_k / iter_shared * shared_mem_k * iter_shared"), "",
        "f is correct(?s:.*)128x128x128 alone"),
    "a lambda for the device": (kernel(a="at(A, i, p)").replace("float sum", "auto at = [=] "
        "__device__ (const float* a, int r, int c) { return a[r * n + c]; }; float sum"), "",
        "f is correct(?s:.*)the option --extended-lambda only"),
    "sizes that take too long": (
        "#define N 4096\n" + FIXED.replace("float sum", "__shared__ float s[4096]; s[i] = 0; "
        "float sum"), "", "not enough shapes tried: .*lower them"),
    "a grid of numbers for a size that was made small": (
        "#define STATIC_SIZE 4096\n" + FIXED.replace("N", "STATIC_SIZE") +
        "int main() { dim3 g(2, 2), b(8, 8); f<<<g, b>>>(0, 0, 0); }", "",
        "f is not correct: grid too small(?s:.*)where its own size wants 512×512×1"),
    "a block by an enumerator": (
        kernel() + "int main() { enum { side = 4 }; int n = 64; dim3 b(side, side); "
        "f<<<dim3(n / side, n / side), b>>>(0, 0, 0, n); }", "", "blocks of 4×4×1 threads; as in"),
    "an exchanged grid beside another mistake": (
        rectangular().replace("sum = 0", "sum") + "void go(float* A, int m, int n, int k) { "
        "f<<<dim3((m + 7) / 8, (n + 7) / 8), dim3(8, 8)>>>(A, A, A, m, n, k); }", "",
        "grid exchanged(?s:.*)Also: uninitialised variable"),
    "a counter that all threads share": (
        kernel().replace("int p = 0", "p = 0").replace("float sum", "__shared__ int p; float sum"),
        "", "race in line 6"),
    "a size that is a constant of the kernel, too": (
        "#define N 4096\n" + UNGUARDED.replace("float* C)", "float* C, int n)").replace(
        "p < N", "p < n") + "int main() { f<<<dim3(N / 16, N / 16), dim3(16, 16)>>>(0, 0, 0, N); }",
        "", "f is correct(?s:.*)128x128x128 alone(?s:.*)8×8×1 blocks of 16×16×1 threads; as in"),
    "a branch that a small size would not take": (
        "#define N 10000\n" + FIXED + "int main() { int side = 4; if (N < 100) side = N;\n"
        "f<<<dim3(N / side, N / side), dim3(side, side)>>>(0, 0, 0); }", "",
        "f is correct(?s:.*)28×28×1 blocks of 4×4×1 threads"),
    "a number of a struct that is said, and a macro of one letter": (
        "#define T 8\n" + of_structs("step", "int step; "), "A.step=k B.step=n C.step=n",
        "f is correct"),
    "a sum in half of one element near 0, and all shared memory of a block": (
        "#include <cuda_fp16.h>\n" + rectangular(parameters=SHAPE.replace("float", "half"),
        kind="half").replace("half sum", "__shared__ half s[24576]; s[n] = make_half2(A[0], A[0])"
        ".x; half sum") + "void go(int m, int n, int k) { f<<<dim3((n + 31) / 32, (m + 31) / 32), "
        "dim3(32, 32)>>>(0, 0, 0, m, n, k); }", "", "f is correct"),
    "blocks along an axis that is not used": (
        f"__global__ void f({SQUARE}) {{ int e = {COL}, i = e / n, j = e % n; for (int p = 0; p < n"
        "; p++) C[e] += A[i * n + p] * B[p * n + j]; }\nint main() { int n = 10; float *A, *B, *C; "
        "cudaMemset(C, 0, n * n * 4); f<<<n, n>>>(A, B, C, n); }", "", "f is correct"),
    "a last tile that is left out": (
        tiled("x = threadIdx.x, y = threadIdx.y").replace("t < n;", "t + T <= n;").replace(
        "float", "int"), "", "lost terms, line 7(?s:.*)the last terms are lost where n is no mul"),
    "a block that has a row of C": (
        kernel().replace(ROW, "blockIdx.x").replace(COL, "threadIdx.x"), "",
        "f is correct(?s:.*)a block has a row of C, which has at most 128 columns here"),
    "a block as large as the only C": (
        "#define N 12\n" + FIXED.replace("    if (i >= N || j >= N) return;\n", "").replace(
        ROW, "threadIdx.y").replace(COL, "threadIdx.x"), "", "f is correct(?s:.*)block=12x12"),
    "an exchanged grid by two names of the size": (
        kernel() + "int main() { int rows = 512, columns = 512; f<<<dim3(rows / 8, columns / 32), "
        "dim3(32, 8)>>>(A, B, C, rows); }", "", "grid exchanged, line 9, at 32x32x32"),
    "an exchanged grid of rows that the kernel is not told": (
        kernel(f"{MATRICES}, int wA, int wB", "A[i * wA + p]", "B[p * wB + j]", "C[i * wB + j]",
        "1 << 30", "wB", "wA") + "int main() { int hA = 320, wA = 320, wB = 640; f<<<dim3(hA / 8, "
        "wB / 8), dim3(8, 8)>>>(A, B, C, wA, wB); }", "",
        "exchanged, line 9, at 320x640x320(?s:.*)y of the grid grows with the columns of C, and x"),
    "an exchanged grid at multiples alone": (
        f"__global__ void f({SHAPE}) {{ int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 "
        "+ threadIdx.y; float sum = 0; for (int p = 0; p < k; p++) sum += A[i * k + p] * B[p * n + "
        "j]; C[i * n + j] = sum; }\nvoid go(int m, int n, int k) { f<<<dim3(n / 32, m / 32), "
        "dim3(32, 32)>>>(0, 0, 0, m, n, k); }", "",
        "f is not correct except at multiples of 32 with m = n: grid"),
    "alpha and beta of other names": (
        kernel(f"{SQUARE}, float a, float b", c="C[i * n + j]").replace(
        "= sum;", "= a * sum + b * C[i * n + j];"), "", "f is correct"),
    "a grid without blocks beside another mistake": (
        kernel().replace("    if (i >= n || j >= n) return;\n", "") + "int main() { int n = 1024;"
        "dim3 g(64 / n, 64 / n); f<<<g, dim3(8, 8)>>>(0, 0, 0, n); }", "",
        "no blocks, line 8, at 1024x(?s:.*)0 blocks along x and y(?s:.*)Also: out of bounds"),
    "rows as long as the grid, right at the program's own size": (
        rectangular(a="A[i * n + p]", b="B[p * k + j]", c="C[e]", n="k", k="n").replace(
        "float sum", "int e = i * gridDim.y * blockDim.y + j; float sum") + "int main() { int m = "
        "64, n = 32, k = 64; f<<<dim3((k + 7) / 8, (m + 7) / 8), dim3(8, 8)>>>(0, 0, 0, m, n, k);"
        "}", "", "f is not correct except at the size that(?s:.*)A is m×n and B is n×k"),
    "two kernels of one name": (
        f"{kernel()}template <int T> {kernel()}", "T=2 block=8x8",
        "f is correct(?s:.*)Not judged: f of line 1: line 9 has another of this name"),
    "a grid that is known at squares alone": (
        f"""#define N 6
__global__ void f({MATRICES}, int rows, int cols) {{
    int e = blockIdx.y + blockIdx.x * gridDim.x;
    float sum = 0;
    for (int i = 0; i < cols; i++) sum += A[blockIdx.y + i * rows] * B[i + blockIdx.x * cols];
    if (e < rows * cols) C[e] = sum;
}}
int main() {{ int rows = N, cols = N; f<<<dim3(cols, rows), 1>>>(0, 0, 0, rows, cols); }}""", "",
        "f is correct as its program launches it"),
    "indices by a macro for columns": (
        "#define AT(i, j, ld) (((j) * (ld)) + (i))\n" + kernel(
        a="A[AT(i, p, n)]", b="B[AT(p, j, n)]", c="C[AT(i, j, n)]"), "",
        "f is correct(?s:.*)all matrices are stored by columns"),
    "a C of more than a million elements": (
        kernel().replace("    if (i >= n || j >= n) return;\n", "") + "int main() { int n = 1100; "
        "f<<<dim3(n / 20, n / 20), dim3(20, 20)>>>(0, 0, 0, n); }", "", "f is correct as its pro"),
}  # fmt: skip

VERDICTS |= {
    "a batch on x, columns on y and rows on z of a grid that nobody says": (
        rectangular(a="A[b * m * k + i * k + p]", b="B[b * k * n + p * n + j]").replace(
            "int i = blockIdx.y", "int b = blockIdx.x, i = blockIdx.z").replace(
            COL, COL.replace("Idx.x *", "Idx.y *")), "",
        "f is correct(?s:.*)blockIdx.y runs along the columns of C, blockIdx.z along its rows"),
    "a rule that holds at some multiples only by chance": (
        rectangular().replace(ROW, f"({COL}) / n").replace(f"{COL};", f"({COL}) % n;").replace(
            "    if (i >= m || j >= n) return;\n", "") + "void go(float* A, float* B, float* C, "
        "int m, int n, int k) { f<<<(m * n + 255) / 256, 256>>>(A, B, C, m, n, k); }", "",
        "right where m is a multiple of 4 and n is a multiple of 64"),
    "an allocation of another length than the kernel takes": (
        rectangular(parameters=f"{MATRICES}, int m, int n", a="A[i * m + p]", k="m")
        + "int main() { int *A, *B, *C, m = 48, h = 16, n = 32; cudaMalloc(&A, 4 * m * h); "
        "cudaMalloc(&B, 4 * h * n); cudaMalloc(&C, 4 * m * n); "
        "f<<<dim3(2, 3), dim3(16, 16)>>>(A, B, C, m, n); }", "",
        "not correct: out of bounds(?s:.*)`4 . m . h`, 3072 bytes, for A; the kernel takes m×m"),
    "rows of a grid that go beyond what is allocated": (
        kernel(f"{MATRICES}, int n, int k", a="A[i * k + p]", m="n + blockDim.y", k="k").replace(
            "i >= n + blockDim.y || ", "")
        + "int main() { int *A, *B, *C, h = 44, n = 32, k = 32, all = 4 * h * n; OK(cudaMalloc(&A, "
        "all), 1); cudaMalloc(&B, 4096);\ncudaMalloc(&C, all);\ndim3 g(2, (h + 15) / 16);\n"
        "f<<<g, dim3(16, 16)>>>(A, B, C, n, k); }", "",
        "out of bounds, line 11(?s:.*)`all`, 5632 bytes(?s:.*)the last row do(?!(?s:.*)Also)"),
    "a size that is another one, or the kernel leaves": (
        kernel(f"{MATRICES}, int u, int v, int w, int x", "A[i * u + p]", "B[p * w + j]",
               "C[i * w + j]", "v", "w", "u").replace("    int i", "if (u != x) return; int i"), "",
        "f is correct(?s:.*)A is v×u and B is u×w .m=v n=w k=u."),
    "a block that grows beyond what a GPU launches": (
        kernel().replace("    if (i >= n || j >= n) return;\n", "") + "void go(float* A, float* B, "
        "float* C, int n) { int s = (n + 7) / 8; f<<<dim3(8, 8), dim3(s, s)>>>(A, B, C, n); }", "",
        "except where n is a multiple of 8, up to 256: too many threads"),
    "a concept, a macro of parameters, the size of a warp, and matrices with names of vectors": (
        "const int warpSize = 32;\n#define GIVEN const T* x, const T* y, T* z, \\\n    int n\n"
        "template <typename T> concept Any = requires(T a) { a; };\nnamespace { template <Any T> "
        + kernel("GIVEN", "x[i * n + p]", "y[p * n + j]", "z[i * n + j]", k="n + 0 * warpSize",
        kind="T") + "}", "", "f is correct"),
    "a macro that a setting gives, and the program's grid has": (
        "#ifndef SIDE\n#define SIDE 4\n#endif\n" + kernel(k="n - SIDE % 8")
        + "void go(int n) { f<<<dim3(n / SIDE, n / SIDE), dim3(8, 8)>>>(0, 0, 0, n); }", "SIDE=8",
        "multiple of 8: grid too small, line 12"),
    "a stride that contradicts the index": (f"""__global__ void f({MATRICES}, int M, int N, int P)
{{
    int e = {COL}, i = e / P, j = e % P;
    float sum = 0;
    for (int p = 0; e < M * P && p < N; p++) sum += A[i * N + p] * B[p * N + j];
    if (e < M * P) C[e] = sum;
}}""", "", "wrong index(?s:.*)B is read with rows of N elements; they have P"),
    "a block of as many threads as C has elements": (
        rectangular(parameters=f"{MATRICES}, int n, int k", m="r").replace(ROW, "threadIdx.x / n")
        .replace(COL, "threadIdx.x % n").replace("i >= r ||", "") + "void go(int r, int n,"
        " int k) { f<<<1, r * n>>>(0, 0, c, n, k); }", "", "too many threads(?s:.*) 1×1×1 blocks"),
    "adds to a C that is a pointer and a number, and that another kernel clears": (
        kernel().replace("float sum = 0;", "").replace("sum +=", "*(C + i * n + j) +=").replace(
            "    C[i * n + j] = sum;\n", "") + "__global__ void fill(float* x, int n) { "
        "*(x + threadIdx.x + blockIdx.x * n) = (float)0; }\nint main() { float* c; int n = 16; "
        "fill<<<n, n>>>(c, n); f<<<1, dim3(n, n)>>>(0, 0, (float *)c, n); }", "",
        "f is correct(?s:.*)adds to C, which the program clears or fills before"),
    "a step of the grid that is a constant of the file": (
        f"#define BLOCKS 4\n__global__ void f({SQUARE}) {{ int e = blockIdx.x * 32 + threadIdx.x; "
        "for (; e < n * n; e += BLOCKS * 32) { float sum = 0; for (int p = 0; p < n; p++) sum += "
        "A[e / n * n + p] * B[p * n + e % n]; C[e] = sum; } }\nint main() { int n = 1024; "
        "f<<<BLOCKS, 32>>>(0, 0, 0, n); }", "", "f is correct(?s:.*)4×1×1 blocks of 32×1"),
    "a launch where sizes that the user types are alike": (
        kernel() + "void go(float* A, float* B, float* C) { int m = typed(), n = typed(); dim3 g(m "
        "/ 8, n / 8); if (m == n) { f<<<g, dim3(8, 8)>>>(A, B, C, n); } }", "multiple=8",
        "f is correct\n"),
    "a launch by what the user types": (
        '#include "own.h"\n' + kernel() + 'int main() { int n, p; scanf("%d %d", &n, &p); f<<<dim3('
        "n * p, n * p), dim3(p, p)>>>(0, 0, 0, n); }", "",
        'f is correct if launched as guessed: .*; perhaps "own.h" of line 1(?s:.*)grid='),
    "a grid with exchanged sides by what the user types": (
        rectangular() + "int main() { int m = typed(), n = typed(), k = typed(), t = typed(); dim3 "
        "b(t, t), g((m + t - 1) / t, (n + t - 1) / t); f<<<g, b>>>(0, 0, 0, m, n, k); }", "",
        "f is not correct: grid exchanged"),
    "a program whose one thread does all": (
        f"__global__ void f({SQUARE}) {{ for (int e = 0; e < n; e++) {{"
        f"{BY_ONE_INDEX.format('i', 'e', 'j')}}} void go(int n) {{ f<<<1, 1>>>(0, 0, 0, n); }}", "",
        "f is correct(?!(?s:.*)A remark)"),
    "a loop that ends at another number than the matrices have": (
        "const int HA = 320, WA = 640, WB = 96;\n" + OF_STEPS, "", "not correct(?s:.*)WA = 128"),
    "a loop that ends at a number without a name": (
        "const int HA = 320, WB = 96;\n" + OF_STEPS, "", "f is correct(?s:.*)STEP = 32"),
    "a C of 8 bits, and one length of rows": (kernel(
        f"{MATRICES}, int n, size_t pitch_of_all".replace("float", "signed char"),
        "A[i * pitch_of_all + p]", "B[p * pitch_of_all + j]", "C[i * pitch_of_all + j]",
        kind="int"), "", "f is correct"),
    "a place that is left to fill in": (
        kernel().replace(ROW, "FIXME"), "", '"FIXME" is undefined\n'),
    "a mistake of the first block, whatever the grid": (
        kernel().replace("    if (i >= n || j >= n) return;\n", "")
        + "void go(int n, int* c) { f<<<dim3(c[0], c[1]), dim3(8, 8)>>>(0, 0, "
        "0, n); }", "", "not correct except where n is a multiple of 8: out of bounds"),
    "rows of A that are longer than k": (
        "const int M = 256, N = 512, K = 240, PAD = 16;\nconst int LD = K + PAD;\n"
        + kernel(MATRICES, "A[i * LD + p]", "B[p * N + j]", "C[i * N + j]", *"MNK"), "",
        "f is correct(?s:.*)K = 80, with rows of A that are 16 elements longer"),
    "lengths of rows that are one number, of which one name says nothing": (
        "#define RENS 300\n#define COLS 300\n" + kernel(MATRICES, "A[i * COLS + p]",
        "B[p * RENS + j]", "C[i * COLS + j]", "RENS", "COLS", "RENS"), "", "f is correct"),
    "a loop to a macro that its program passes": (
        f"#define K 2048\n{rectangular(k='K')}int main() {{ f<<<dim3(4, 4), dim3(16, 16)>>>"
        "(0, 0, 0, 64, 64, K); }", "", "f is correct(?s:.*)to [0-9]*x[0-9]*x128;"),
}  # fmt: skip


ASKED = f"#if 32 % SIDE\n#error side\n#endif\n{kernel(k='n + 0 * SIDE')}"
# A text, and how it is read: the roles of its parameters, its block, its grid at 24x40x56.
# C has rows of M elements.
BY_STRIDE = kernel(f"{MATRICES}, int M, int N", "A[i * N + p]", "B[p * M + j]", m="M", n="M", k="N",
                   c="C[i * N + j]")  # fmt: skip
VERDICTS |= {
    "an order that shows at large multiples": (
        kernel(f"{MATRICES}, int M, int N, int K", "A[i * N + p]", "B[p * K + j]", "C[i * K + j]",
        "M", "K", "N").replace("if (i >= M || j >= K) return;", ""), "block=8x8 multiple=128",
        "f is correct(?s:.*)m=M n=K k=N"),
    "what a build defines": (ASKED, "", "not compile: line 1: .*say for instance SIDE=16\n"),
    "what a build defines, as a setting": (ASKED, "SIDE=16", "f is correct"),
    "dimensions of one name": (
        BY_STRIDE.replace("if (i >= M || j >= M) return;", "").replace("C[i * N", "C[i * M"),
        "m=M n=M k=N block=8x8", "it is right where M is a multiple of 8"),
}  # fmt: skip
READ = {
    "a condition that one side decides": (kernel() + "void go(int n) { try { open(); } catch (int) "
        "{ exit(1); } switch (n) { case 0: case 1: exit(1); default: ; } if (!open() && n % 8) { "
        "f<<<1, 1>>>(0, 0, 0, n); return; } f<<<dim3(n / 8, n / 4), dim3(8, 4)>>>(0, 0, 0, n); }",
        "n=m; 1x1, 3x6"),
    "what instantiates a launch": ("template <class T, int S>\n" + kernel() + "template <int S> "
        "void go(int n) { f<float, S><<<dim3(n / S, n / 8), dim3(S, 8)>>>(0, 0, 0, n); }\n"
        "template void go<4>(int n);", "n=m; 4x8, 6x3"),
    "a variable that holds what launches": (
        "template <int R, int S>\n" + kernel() + "template <int R, int S> void run(int n) { f<R, S>"
        "<<<dim3(n / S, n / R), dim3(S, R)>>>(0, 0, 0, n); }\n"
        "void go(int n) { auto own = run<4, 8>; own(n); }", "n=m; 8x4, 3x6"),
    "numbered structs, and members without use": (re.sub(
        r"\b([ABC])(?=[.,)])", lambda one: f"m{ord(one[1]) - 64}", of_structs(more="int size; ")),
        "m1.width=k m1.height=m m1.size=unused m1.size"),
    "a launch behind a lambda": (
        kernel() + "void go(int n) { auto half = [](int x) { return x / 2; }; "
        "f<<<dim3(n / 4, n / 8), dim3(4, 8)>>>(0, 0, 0, n); }", "n=m; 4x8, 6x3"),
    "the size of a matrix, in a variable": (
        kernel(f"{SQUARE}, int all") + "int main() { int n = 96, all = n * n; "
        "f<<<dim3(n / 8, n / 4), dim3(8, 4)>>>(0, 0, 0, n, all); }", "n=m all=given all; 8x4, 3x6"),
}  # fmt: skip


# A text, and the question that it leaves open.
READ |= {
    "conditions within conditions": (
        "#if 1\n#ifndef M\n#define M\n#define N 96\n#else\n#define N (M)\n#endif\n#else\n"
        "#ifndef M\n#define M\n#define N 24\n#else\n#define N (M)\n#endif\n#endif\n" + FIXED,
        "N=m"),
    "sizes that letters tell": (
        "const int N = 4096, M1 = 4096, M2 = 2048;\n" + kernel(
            MATRICES, "*(A + i * M1 + p)", "B[p * M2 + j]", "C[i * M2 + j]", "N", "M2", "M1")
        + "void go() { f<<<dim3(M2 / 8, N / 8), dim3(8, 8)>>>(A, B, C); }",
        "N=m M1=n M2=k; 8x8, 8x16"),
    "a template's sizes that the indices tell": (
        "template <int M, int N, int P> " + kernel(
            MATRICES, "A[i * N + p]", "B[p * P + j]", "C[i * P + j]", "M", "P", "N")
        + "template <int M, int N, int P> void go() { f<M, N, P><<<dim3(P / 8, M / 8), "
        "dim3(8, 8)>>>(A, B, C); }\nint main() { go<96, 64, 512>(); }", "M=m N=k P=n; 8x8, 16x12"),
    "a constant that is two sizes": (
        "#define N 20\n" + kernel(
            f"{MATRICES}, int rows", "A[i * N + p]", "B[p * N + j]", "C[i * N + j]", "rows", "N",
            "N"), "rows=m N=n"),
}  # fmt: skip

QUESTIONS = {
    "a kernel in each of two namespaces": (
        f"namespace one {{ {kernel()} }}\nnamespace two {{ {kernel()} }}",
        "lines 1 and 10 have kernels called f: give one another name"),
    "sizes behind a pointer": (
        "struct Sizes { int u, v, w, x; };\n" + kernel(f"{MATRICES}, Sizes* d", "A[i * d->u + p]",
        "B[p * d->v + j]", "C[i * d->v + j + 0 * d->x]", "d->w", "d->v", "d->u"),
        "instance 'm=d->u' 'n=d->v' 'k=d->w' after"),
    "a switch of a template": (
        "template <bool ON> " + kernel().replace("int i", 'static_assert(!ON, "off"); int i'),
        "Say for instance ON=false after"),
    "a number beside branches that begin a loop each": (
        kernel(f"{SQUARE}, int y, float x").replace(
        "    for", "#if 0\n    for (;;)\n#else\n    for").replace(
        "sum +=", "\n#endif // 0\n    { sum += y * x *").replace("n + j]);", "n + j]); }"),
        "f takes x beside its dimensions"),
    "elements of a fragment by number": (
        TF32.replace("store_matrix_sync(C + i * n + j, sum, n, mem_row_major);", "for (int e = 0; "
        "e < 8; e++) C[(i + e / 4 * 8 + threadIdx.x / 4) * n + j + e % 4 * 4 + threadIdx.x % 4] = "
        "sum.x[e];"), "line 15 takes elements of a fragment by number"),
    "an array of structs": (
        of_structs().replace("const Matrix A", "const Matrix* A").replace("A.", "A[0]."),
        "'const Matrix* A' is an array of such structs"),
    "matrices that are arrays of the file": (
        "#define N 16\n__device__ float A[N][N], B[N][N];\n__constant__ float D[N * N];\n" + kernel(
        "float* C", "A[i][p]", "B[p][j]", "C[i * N + j]", "N", "N", "N"), "A, B are arrays of the "
        "file, which no trial fills: take them as parameters, float A[N][N], float B[N][N]"),
    "sums that are clamped": (
        kernel("const int8_t* A, const int8_t* B, int* C, int n", kind="int").replace(
            "= sum;", "= max(-128, min(127, sum / 2));"),
        "line 7 has `max`, and what it does beside"),
    "packed halves": (
        rectangular().replace("const float*", "const unsigned*").replace("float sum", 'asm("mma.'
        'sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {}"); float sum'),
        "its mma.sync takes f16, of which each number of A and B holds two"),
    "a part of C that no block which is tried computes": (
        "#define TILE 64\n" + rectangular().replace(ROW, "blockIdx.y * TILE + threadIdx.y * 4")
        .replace("blockDim.x", "TILE").replace("if (i", "for (int e = 0; e < 4; e++, i++) {\nif (i")
        .replace("return;", "continue;").replace("= sum;", "= sum; }"), "which block does f take"),
    "a texture reference": (
        "texture<float, 1> t;\n" + kernel("float* C, int n", "tex1Dfetch(t, i * n + p)",
        "tex1Dfetch(t, p * n + j)"), "f reads t, a texture reference, which CUDA has no more"),
    "a block of one kernel of several": (
        SIXTY_FOUR.replace("threadIdx.x >> 4", "threadIdx.x / 96").replace("r += 4", "r += 7")
        + kernel(name="g"), "take? Say for instance kernel="),
    "a comma that is lost": (kernel(f"{MATRICES} int n", b="P[p * n + j]").replace(
        "    float sum", "const float* P = B;\n    float sum"), "line 1 does not compile as it s"),
    "a call of a library": (kernel().replace("    float sum", "    thrust::device_ptr<float> b;"
        " float sum"), "f uses thrust, which a trial on the CPU lacks"),
    "a dimension that is a block of threads": (
        f"__global__ void f({MATRICES}) {{ float s = 0; for (int p = 0; p < blockDim.x; p++) s += "
        "A[threadIdx.x * blockDim.x + p] * B[p * blockDim.x + blockIdx.x]; "
        "C[threadIdx.x * blockDim.x + blockIdx.x] = s; }", "say m=64 n=64 k=64"),
    "names that say nothing, and rows from the grid that are right where both are alike": (
        BY_STRIDE, "f takes M, N: which is which"),
    "a tile that is no block of threads": (
        "#define TILE 128\n" + kernel(k="n / TILE * TILE").replace(COL, "threadIdx.x / 32").replace(
        "threadIdx.y", "threadIdx.x / 32"), "which block does f take"),
    "a number that the kernel never reads": (
        kernel(f"{MATRICES}, int size, int count, int offset", "A[i * size + p]", "B[p * size + j]",
        "C[i * size + j]", "count", "size", "size"),
        "never reads offset, and is right where it is size"),
    "an input and its weights": (rectangular(
        parameters="const float* input, const float* weights, float* C, int m, int n, int k",
        a="input[i * k + p]", b="weights[j * k + p]"),
        "f is right if weights is stored transposed: is it made for that? Say for instance b=tr"),
    "a square product of which nobody says how it lies": (
        kernel(a="B[i * n + p]", b="A[p * n + j]"),
        "stored by columns, and computes B·A if they are stored by rows: which is it"),
    "a file that says how a matrix lies": (
        "// B is stored by columns\n" + rectangular(b="B[j * k + p]"),
        "f is right if B is stored transposed: is it made for that"),
    "a block that the user types, and lost terms": (
        kernel().replace("sum +=", "sum =") + "int main(int c, char** v) { int n = 64, t = atoi(v[1"
        "]); dim3 b(t, t), g(n / 16, n / 16); f<<<g, b>>>(0, 0, 0, n); }",
        "which block does f take"),
    "a file that speaks of a transposed matrix": (
        "// B was transposed before\n" + rectangular(b="B[j * k + p]"),
        "f is right if B is stored transposed: is it made for that"),
    "matrices without a meaning": (rectangular(
        parameters="const float* u, const float* w, float* C, int m, int n, int k",
        a="u[i * k + p]", b="w[p * n + j] * w[p * n]"), "is C to be so? Say for instance order"),
    "a function of the sums": (
        kernel().replace("= sum;", "= fmaxf(sum, 0.25f);"),
        "and no plain product: line 7 has `fmaxf`, and what it does beside A·B cannot be judged"),
    "a macro that a build may change": (
        "#ifndef T\n#define T 2\n#endif\n" + kernel(k="n - T"),
        "with T=2, which a build may change: to what? Say for instance T=2"),
    "the largest of a row": (
        f"__global__ void f({SQUARE}) {{ float most = 0; for (int p = 0; p < n; p++) most = fmaxf("
        "most, A[p]); C[threadIdx.x] = most * B[0]; }", "no kernel in it looks like a product"),
    "a distance": (kernel(a="A[i * n + p] - B[p * n + j]", b="A[i * n + p] - B[p * n + j]").replace(
        "float(", "("), "f adds up no products of elements"),
    "a distance in a variable": (
        kernel(a="d", b="d").replace("sum +=", "{ float d = A[i * n + p] - B[p * n + j]; sum +=")
        .replace("float(d) * float(d);", "d * d; }"), "f adds up no products of elements"),
    "a kernel that is called a matrix and a vector": (
        kernel(b="B[p]", c="C[i + j]", name="matVec"), "matVec multiplies a matrix and a vector"),
    "a kernel that launches": (
        kernel().replace("float sum", "f<<<1, 1>>>(A, B, C, n); float sum"),
        "f launches kernels itself"),
    "a row of each block, and a vector": (
        f"__global__ void f({SQUARE}) {{ __shared__ float s[64]; float sum = 0; for (int p = "
        "threadIdx.x; p < n; p += 64) sum += A[blockIdx.x * n + p] * B[p]; s[threadIdx.x] = sum; "
        "int i = static_cast<int>(blockIdx.x); if (threadIdx.x == 0) C[i] = s[0]; }",
        "f multiplies a matrix and a vector"),
    "bytes that are codes": (
        "__device__ float value(unsigned char a) { return 1.5f * a + 1; }\n" + kernel(
        "const unsigned char* A, const unsigned char* B, float* C, int n", "value(A[i * n + p])",
        "value(B[p * n + j])"), "its int8 seem to be codes of other numbers"),
    "whole numbers that hold floats": (kernel(
        "const int* A, const int* B, float* C, int n", "__int_as_float(A[i * n + p])",
        "__int_as_float(B[p * n + j])"), "its int32 seem to be codes of other numbers"),
    "a switch without which nothing is right": (kernel(
        f"{SQUARE}, bool on", k="(on ? n : n - 1)"), "with on=0, which is a guess, f is"),
    "a type that is a guess": (
        "#include <mma.h>\ntemplate <class T>\n" + kernel().replace("float sum = 0;", "float sum ="
        " 0; nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 8, 8, 4, T> c;"),
        "Say for instance T=double after"),
    "an array in a struct": (of_structs(more="int s[2]; "), "a struct has the array 'int s[2]'"),
    "a number of tiles": (
        of_structs().replace("Matrix C)", "Matrix C, int K)").replace("p < A.width", "p < 8 * K"),
        "takes K beside its dimensions"),
    "a type that is in no file": (
        kernel("const Grid A, const Grid B, Grid C"), "f: parameter 'const Grid A' is of no type "
        "that a trial fills; this file does not define Grid: paste its definition in"),
    "one block, of which nobody says how large C is": (
        kernel().replace(ROW, "threadIdx.y").replace(COL, "threadIdx.x")
        + SCAN + RUN_SCAN, "Say for instance most_rows=16 most_columns=16 after"),
    "a part of the terms for each block along z, of a grid that nobody says": (
        rectangular(c="atomicAdd(&C[i * n + j], sum); //").replace("p = 0;", "p = blockIdx.z * 32;")
        .replace("p < k", "p < min(k, 32 + 32 * (int)blockIdx.z)"), "no program here launches it"),
    "a grid that only large matrices have along z": (
        kernel().replace(COL, "(blockIdx.z * gridDim.x + blockIdx.x) * 16 + threadIdx.x").replace(
        " || j >= n", "") + "void go(float* A, float* B, float* C, int n) { int w = n / 1024 * 256;"
        "int z = (n + w - 1) / w; f<<<dim3((n / 16 + z - 1) / z, n / 16, z), dim3(16, 16)>>>(A, B, "
        "C, n); }", "fails with a guessed grid"),
    "a size that is called a tile, and what is no product": (
        kernel(f"{MATRICES}, int TILE_DIM", b="B[p * n]").replace(
        "int i", "const int n = TILE_DIM, i"), "takes TILE_DIM: which is which"),
    "a size of a name that says nothing, and how often it computes": (
        FIXED.replace("N", "Asize").replace("p < Asize", "p < often").replace(
        "float* C", "float* C, int often").replace("* Asize", "* 64"), "takes no dimensions"),
    "how often it computes, if that is long": (
        VERDICTS["how often it computes"][0].replace("C, 3)", "C, 300)"),
        "takes often beside its dimensions"),
    "a choice that is called a dimension": (
        "#define SHARED 1\n" + FIXED.replace("N", "SHARED"),
        "pass n, or write `#define N 64` and use N"),
    "a type that one of several headers has": (
        '#include "helper_cuda.h"\n#include "cuda_grid.h"\n#include <grid.h>\n'
        + kernel("const Grid A, const Grid B, Grid C"),
        'perhaps "cuda_grid.h" of line 2 or "grid.h" of line 3 has it, which are not here'),
    "a size that a header has": (
        '#include "sizes.h"\n' + FIXED, 'f uses N, which is defined nowhere; perhaps "sizes.h" of'),
    "a brace that is never closed": (
        kernel().replace("= sum;\n}", "= sum;") + "int main() { f<<<1, 1>>>(0, 0, 0, 1); }",
        "line 1 does not compile as it stands: __global__ void f"),
    "structs of which nobody knows whether all are square": (
        SQUARE_STRUCTS, "right at square shapes: which does its program have? Say for instance "
        "m=A.height n=A.height k=A.height after"),
    "sizes of names without a meaning, right where two are alike": (
        rectangular(parameters=f"{MATRICES}, int lda, int ldb, int ldc, int s, int t, int u",
        a="A[i * lda + p]", b="B[p * ldb + j]", c="C[i * ldc + j]", m="s", n="u", k="t"),
        "takes s, t, u: which is which"),
    "a block that does not fit the only size": (
        f"#define N 12\n{UNGUARDED}", "which block does f take? Say for instance block=12x12"),
    "a size that is given by its logarithm": (
        "#define AT(data, q, y, x) data[((y) << (q)) + (x)]\n" + kernel(
        f"{MATRICES}, int m, int n", "AT(A, m, i, p)", "AT(B, m, p, j)", "AT(C, m, i, j)"),
        "f shifts by m, the logarithm of a dimension"),
    "a bias": (kernel(f"const float* bias, {SQUARE}").replace("= sum;", "= sum + bias[j];"),
               "4 pointers (bias, A, B, C); take bias out: it cannot be judged"),
    "clocks beside the matrices": (
        kernel(f"long* begun, {SQUARE}").replace("float sum", "begun[i] = clock(); float sum"),
        "4 pointers (begun, A, B, C); take begun out: it cannot be judged"),
    "sizes in an array": (
        kernel(f"{MATRICES}, int *n").replace(" n", " n[0]"),
        "4 pointers (A, B, C, n); take what is in n as numbers, such as int n"),
    "three matrices that are multiplied": (
        OF_ADDEND.replace("B[p * n + j]", "B[p * n + j] * C[p]"),
        "f multiplies three matrices: C is a factor, too"),
    "a type with constants": (OF_TRAITS, "which type is it? Say for instance T='Tile<64>' after"),
    "a block and numbers that no trial finds": (
        f"template <int R>\n{SIXTY_FOUR}".replace("r += 4", "r += R").replace("r < 4", "r < 3"),
        "which block does f take, with which R? Say for instance R=16 block=256 after"),
    "a sum in loops over a grid": (
        f"__global__ void f({SHAPE}) {{ for (int i = {ROW}; i < m; i += blockDim.y * gridDim.y)\n"
        "for (int j = 0; j < n; j += blockDim.x * gridDim.x) C[i * n + j] = A[i * n + j] + "
        "B[i * n + j]; }", "f adds up no products of elements"),
    "a view of a matrix": (
        kernel(f"cuda::std::mdspan<const double, cuda::std::dims<2>> V, {SQUARE}"),
        "of no type that a trial fills"),
    "pointers to pointers": (
        kernel("float** A, float** B, float** C, int n"), "is in one piece: pass `float* A`"),
    "a view of torch's": (
        kernel(f"torch::PackedTensorAccessor32<T, 2> V, {SQUARE}"),
        "pass `T* V, int n`, and write V["),
    "numbers of which no name says anything": (
        kernel(f"{MATRICES}, int p0, int q, int r, int s", n="p0 + q + r + s"), "which is which"),
    "a matrix times itself": (
        kernel("const float* A, float* C, int n", b="A[p * n + j]"),
        "it multiplies a matrix by itself, which no trial knows"),
}  # fmt: skip


def judge_all(hand_in: Path, settings: Mapping[str, str]) -> list[Verdict]:
    return [*map(verdict_on, pending(hand_in, settings))]


@pytest.mark.parametrize(("text", "settings", "wanted"), VERDICTS.values(), ids=VERDICTS)
def test_the_verdicts_say(text: str, settings: str, wanted: str, hand_in: Path) -> None:
    hand_in.write_text(text)
    found = judge_all(hand_in, settings_of(settings.split(), ""))
    told = "\n".join(line for one in found for line in lines_of(one))
    assert re.search(wanted, told), told


@pytest.mark.parametrize(("text", "wanted"), READ.values(), ids=READ)
def test_a_text_is_read(text: str, wanted: str, hand_in: Path) -> None:
    hand_in.write_text(text)
    ((program,), _) = programs_in(hand_in, {})
    parts = [" ".join(f"{one.name}={one.role}" for one in program.signature.parameters)]
    if own := program.launch.program:
        shape = Gemm(24, 40, 56) if not program.signature.square else Gemm(24, 24, 24)
        x, y, _ = own.at(shape).grid
        parts.append(f"{'x'.join(map(str, own.own.block[:2]))}, {x}x{y}")
    assert wanted in "; ".join(parts)


def test_a_kernel_gets_what_it_may_need(hand_in: Path) -> None:
    hand_in.write_text(
        '#include "cutlass/gemm.h"\n' + DYNAMIC.replace("T];", "T]; //__shared__ q[Q]\n")
    )
    ((program,), _) = programs_in(hand_in, {})
    assert program.launch.shared_bytes == 227 << 10 and "shared" in program.launch.guessed
    assert "cutlass" not in program.text
    hand_in.write_text(kernel(SQUARE.replace("float* A", "float4* A")))
    ((program,), _) = programs_in(hand_in, {})
    assert program.signature.operation.dtype == "float32"
    assert "reinterpret_cast<float4*>(" in program.wrapper


def test_sizes_that_differ_keep_the_sides_of_tiles() -> None:
    sizes = {"m": 5120, "n": 2048, "k": 4096}
    small = {"m": 512, "n": 128, "k": 256}
    assert small_sizes(sizes, [8, 128]) == small == small_sizes(small, [8, 128])
    assert not small_sizes({}, [128])


@pytest.mark.parametrize(("text", "wanted"), QUESTIONS.values(), ids=QUESTIONS)
def test_what_no_trial_tells_is_asked(text: str, wanted: str, hand_in: Path) -> None:
    hand_in.write_text(text)
    with pytest.raises(UserError, match=re.escape(wanted)):
        judge_all(hand_in, {})


def test_an_answer_is_not_asked_again(hand_in: Path) -> None:
    hand_in.write_text(kernel(f"{MATRICES}, int s, int t", m="s", n="t", k="96"))
    with pytest.raises(UserError, match="which number, or which constant of the file, is k"):
        judge_all(hand_in, {"m": "s", "n": "t"})


def test_a_kernel_that_leaves_edges_to_another_is_refused_strictly(hand_in: Path) -> None:
    hand_in.write_text(VERDICTS["a kernel for the edges beside it"][0])
    (verdict,) = map(verdict_on, pending(hand_in, {}, seed=1))
    assert verdict.status == NOT_RUN and "leaves a part of C to f_edges" in verdict.message


INCLUDER = """#include "kernel.cuh"
void go(float* a, float* b, float* c, int m, int n, int k) {
    const int x = 32, y = 4;
    dim3 grid((n + x - 1) / x, (m + y - 1) / y);
    f<x, y><<<grid, x * y>>>(a, b, c, m, n, k);
}
"""
INCLUDED = rectangular(head="template <int X, int Y> __global__")
INCLUDED = INCLUDED.replace(ROW, "blockIdx.y * Y + threadIdx.x / X")
INCLUDED = INCLUDED.replace(COL, "blockIdx.x * X + threadIdx.x % X")
MAIN = "#include <vector>\nvoid f(int);\nint main() { int n = 9; dim3 b(8, 4), g(n / 8, n / 4);\n"
OF_TILE = "__shared__ float s[256]; int t = threadIdx.y * 16 + threadIdx.x; put(s, t); float sum"
# Files beside a text, the text, and what the verdicts say.
BESIDE = {
    "a size of a header is made small": (
        {"size.h": "enum { N = 4096 };\n"}, f"#include <size.h>\n{FIXED}",
        "f is correct(?s:.*)128x128x128 alone"),
    "headers of CUDA are never those beside": (
        {"cuda_runtime.h": "#error another one\n"}, f"#include <cuda_runtime.h>\n{kernel()}",
        "f is correct"),
    "the kernel of a header": (
        {"kernel.cuh": kernel(k="n - 1")}, '#include "kernel.cuh"\nint main() {}\n',
        "kernel.cuh: f is not correct: lost terms, line 6"),
    "one of the kernels of headers": (
        {"kernel.cuh": kernel(), "other.cuh": kernel(name="g")},
        '#include "kernel.cuh"\n#include "other.cuh"\n// try: kernel=g', r"\A[^\n]*g is correct"),
    "a header's kernel is launched as by its includer": (
        {"kernel.cuh": INCLUDED}, INCLUDER,
        "f is correct(?s:.*)×1 blocks of 128×1×1 threads; as in line 5 of hand_in.cu"),
    "its grid is too small": (
        {"kernel.cuh": INCLUDED}, INCLUDER.replace("(m + y - 1)", "m"),
        r"too small, at(?s:.*)\(line 4 of hand_in.cu\)(?s:(?!.*an edge))"),
    "its block is too large": (
        {"kernel.cuh": INCLUDED}, INCLUDER.replace("x * y", "2048"),
        r"too many threads, at(?s:.*)\(line 5 of hand_in.cu\)"),
    "the launch of the only program beside": (
        {"main.cpp": MAIN + "f<<<g, b>>>(0, 0, 0, n); }",
         "other.cu": f"{kernel(k='0')} void go() {{ f<<<1, 1>>>(0, 0, 0, 1); }}"}, kernel(),
        "grid too small(?s:.*)main.cpp"),
    "lines of headers in the place of the file's own": (
        {"tile.h": "__device__ void put(float* s, int i) { s[i] = 1; }\n"
                   "__device__ float get(float* s, int i) { return s[i]; }\n"},
        '// try: block=16x16\n#include "tile.h"\n' + kernel().replace("float sum", OF_TILE)
        .replace("= sum;", "= sum * get(s, 255 - t);"),
        "(?s:(?!.*line 0).*)line 1 of tile.h while(?s:.*)in line 2 of tile.h"),
    "what the kernel uses of a header": (
        {"tile.h": "#pragma once\n#include <vector>\nconstexpr int SIDE = 8;\n"
                   "inline std::vector<float> host(cudaStream_t s) { return {}; }\n"
                   "void old(cudaStream_t s) { nothing(s); }\n"
                   "__device__ inline float times(float a, float b) { return a * b; }\n"},
        f'#include "tile.h"\n{kernel(a="times(A[i * n + p], 1) + 0 * SIDE")}', "f is correct"),
    "a line of a header that does not compile": (
        {"tile.h": "// two\n\n__device__ int f1() { return nothing; }\n"},
        f'\n#include "tile.h"\n{kernel(k="n + f1()")}', "not compile: line 2: tile.h, line 3: "),
    "what only the host has of a header": (
        {"util.c": "#error for another compiler\nTEST(A, B) { EXPECT(n); }\ninline int all() { "
                   "return COUNT; } int now() { timeval t; gettimeofday(&t, 0); return 0; }\n"
                   "float* make(int n) { float* a = malloc(n); return a; }\nint class = 3;\n"
                   "const int SIDE = 2 * HALF; void sum(File x) {}"},
        "#include <sys/time.h>\n#define HALF 4\nint COUNT = 8;\n#include \"util.c\"\n"
        + kernel(k="n + 0 * sizeof(SIDE)"), "f is correct"),
    "what only the host has": (
        {}, "#include <vector>\nusing namespace std;\nvector<int> A, B; void sum(vector<int> j) {}"
        "struct P { int i; } __attribute__((packed));\nstruct S { int i; void tell() "
        "{ cout << i; } }; __constant__ S SIDE{0};\n" + kernel(k="n + 0 * sizeof(SIDE)"),
        "f is correct"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "text", "wanted"), BESIDE.values(), ids=BESIDE)
def test_files_beside_count(
    files: Mapping[str, str], text: str, wanted: str, hand_in: Path
) -> None:
    for name, other in files.items():
        hand_in.with_name(name).write_text(other)
    test_the_verdicts_say(text, "", wanted, hand_in)


def test_a_launch_of_a_file_beside_is_no_strict_one_and_none_of_several(hand_in: Path) -> None:
    hand_in.write_text(kernel())
    hand_in.with_name("main.cpp").write_text(MAIN + "f<<<g, b>>>(0, 0, 0, n); }")
    (strict,) = pending(hand_in, {}, 1)
    assert strict.program.launch.program is None
    hand_in.with_name("second.cu").write_text(MAIN + "f<<<1, 1>>>(0, 0, 0, n); }")
    (undecided,) = pending(hand_in, {})
    assert undecided.program.launch.program is None


def test_a_type_is_the_macro_whose_condition_holds(hand_in: Path) -> None:
    hand_in.with_name("types.h").write_text(
        "#ifndef types_h\n#define types_h\n#ifndef DOUBLE\n#define real float\n#else\n"
        "#define real double\n#endif\n#endif\n"
    )
    text = kernel("const real* A, const real* B, real* C, int n")
    hand_in.write_text(f'#include "types.h"\n{text}')
    ((program,), _) = programs_in(hand_in, {})
    assert program.signature.operation.dtype == "float32"
    hand_in.write_text(
        f"#ifdef HALF\n#define real float\n#else\n#define real double\n#endif\n{text}"
    )
    ((program,), _) = programs_in(hand_in, {})
    assert program.signature.operation.dtype == "float64"


@pytest.mark.parametrize(
    ("body", "top", "block"),
    [
        ("int i = blockIdx.y * W + threadIdx.y, j = blockIdx.x * W + threadIdx.x; "
         "__shared__ float t[W][W - 1];", "#define W 16", (16, 16, 1)),
        ("int tx = threadIdx.x, ty = threadIdx.y; int i = blockIdx.y * 4 + ty, j = blockIdx.x * 8 "
         "+ tx;", "", (8, 4, 1)),
        ("for (int i = threadIdx.y; i < 64; i += 4) for (int j = threadIdx.x; j < 64; j += 32) ;",
         "", (32, 4, 1)),
        ("__shared__ float t[PER][W][W + 1]; int i = threadIdx.x + threadIdx.y;",
         "#define W 16\n#define PER 2", None),
        ("__shared__ float t[W][W + 1]; int i = blockIdx.x * W * PER + threadIdx.x + threadIdx.y;",
         "#define W 16\n#define PER 4", (16, 16, 1)),
        ("__shared__ float t[BM][BK]; int i = threadIdx.x / BLOCK_N * TM, j = BN * TN;",
         "#define BM 64\n#define BN 64\n#define BK 8\n#define TM 4\n#define TN 4\n"
         "#define BLOCK_N (BN / TN)", (256, 1, 1)),
        ("int i = blockIdx.y * 64 + threadIdx.y, j = blockIdx.x * 96 + threadIdx.x;", "",
         (16, 16, 1)),
        ("int i = blockIdx.x * 32 + threadIdx.x / 32, j = blockIdx.y * 32 + threadIdx.x % 32;", "",
         None),
        ("__shared__ float t[MY_BM * MY_BK]; int i = threadIdx.x % (MY_BN / MY_TN) * MY_TM;",
         "#define MY_BM 64\n#define MY_BN 64\n#define MY_BK 8\n#define MY_TM 8\n#define MY_TN 4\n"
         "#define OTHER_BM 32", (128, 1, 1)),
        ("__shared__ float t[BM][BK]; int i = threadIdx.y * TM + BN, j = threadIdx.x * TN;",
         "#define BM 64\n#define BN 32\n#define BK 8\n#define TM 8\n#define TN 2", (16, 8, 1)),
        ("__shared__ float part[64]; part[threadIdx.x] = 0;", "", (64, 1, 1)),
    ],
)  # fmt: skip
def test_a_block_is_guessed_from_what_the_kernel_does(
    body: str, top: str, block: tuple[int, int, int] | None
) -> None:
    source = Source(Path("f.cu"), f"{top}\n__global__ void f({SQUARE}) {{ {body} }}")
    launch = launch_of(source, source.kernel("f"), {})
    assert "block" in launch.guessed
    assert len(launch.possible) > 1 if block is None else launch.block == block


def test_a_ladder_without_a_launch_gets_the_arguments_that_fit_its_loads() -> None:
    source = Source(Path("f.cu"), LADDER)
    launch = launch_of(source, source.kernel("f"), {})
    assert launch.block == (256, 1, 1)
    assert launch.constants == {"BM": "128", "BN": "128", "BK": "8", "TM": "8", "TN": "8"}
    assert launch.guessed == {*launch.constants, "block"}


def test_a_slow_launch_is_not_endless(hand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "LAUNCH_SECONDS", 2.0)  # of which `hurried` leaves none
    hand_in.write_text(kernel())
    (verdict,) = judge_all(hand_in, {})
    assert verdict.status in ("correct", UNSURE)
    whole = "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {"
    text = re.sub(r"int i = .*\n.*return;", whole, kernel())
    hand_in.write_text(f"{text}}}\nvoid go(int n) {{ f<<<4000, 4>>>(0, 0, 0, n); }}")
    (verdict,) = judge_all(hand_in, {})
    assert {one.kind for one in verdict.mistakes} == {"race"}
