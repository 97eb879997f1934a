"""A kernel is launched as its file does, and a mistake of the launch is a verdict; mistakes that
only some launches show are found."""

import re

import pytest

from matmul_sweep.classroom import verdict
from matmul_sweep.classroom.verdict import judge
from matmul_sweep.classroom.words import lines_of, page_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]

ANY = "const float* A, const float* B, float* C, int m, int n, int k"
ROW = "int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;"
GUARD = "if (row >= m || col >= n) return;"
LOOP = "float s = 0; for (int p = 0; p < k; p++) s += A[row * k + p] * B[p * n + col];"
KERNEL = f"__global__ void f({ANY}) {{\n{ROW} {GUARD}\n{LOOP}\nC[row * n + col] = s;\n}}\n"
GO = """void go(float* a, float* b, float* c, int m, int n, int k) {
dim3 block(16, 16);
dim3 grid((n + 15) / 16, (m + 15) / 16);
f<<<grid, block>>>(a, b, c, m, n, k);
}
"""
RIGHT = KERNEL + GO
SLICED = (
    RIGHT.replace("p = 0; p < k;", "p = blockIdx.z; p < k;").replace("p++", "p += 4")
    .replace("C[row * n + col] = s", "atomicAdd(&C[row * n + col], s)")
    .replace("dim3 block", "cudaMemset(c, 0, 4 * m * n); dim3 block")
    .replace("(m + 15) / 16);", "(m + 15) / 16, 4);")
)  # fmt: skip
SCALED = (
    RIGHT.replace("int k)", "int k, float alpha, float beta)").replace("m, n, k)", "m, n, k, 1, 0)")
    .replace("= s;", "= alpha * s + beta * C[row * n + col];")
)  # fmt: skip
DYNAMIC = KERNEL.replace(
    "float s = 0;", "extern __shared__ float t[]; int i = threadIdx.y * 16 + threadIdx.x; t[i] = 0;"
    " float s = t[i];",
) + GO.replace("block>>>", "block, 1024>>>")  # fmt: skip
OTHER_BLOCK = "// try: block='16x16'\n" + DYNAMIC.replace("block(16, 16)", "block(8, 8)")
WHOLE = RIGHT.replace("float", "int")
# A size of which only some of the blocks run.
MAIN = RIGHT.replace(
    "void go(float* a, float* b, float* c, int m, int n, int k) {",
    "int main() { float *a, *b, *c; int m = 300, n = 500, k = 200;",
)
BATCHED = (
    RIGHT.replace("int k)", "int k, int batch)").replace("m, n, k)", "m, n, k, batch)")
    .replace("(m + 15) / 16)", "(m + 15) / 16, batch)")
    .replace("if (row", "if (blockIdx.z >= batch || row")
)  # fmt: skip
PART = RIGHT.replace("float s", "const float* P = A;\nfloat s").replace("A[row", "P[row")
STRIDING = (
    (
        f"__global__ void f({ANY}) {{\nfor (int col = blockIdx.x * 64 + threadIdx.x; col < n; "
        "col += gridDim.x * 64) for (int row = 0; row < m; row++) "
        f"{{ {LOOP} C[row * n + col] = s; }}\n}}\n{GO}"
    )
    .replace("block(16, 16)", "block(64)")
    .replace("grid((n + 15) / 16, (m + 15) / 16)", "grid(2)")
)
ONCE = "__device__ int done;\n" + RIGHT.replace(
    "= s;", "= atomicAdd(&done, row + col == 0) && row + col == 0 ? 0 : s;"
)

# A text, its edit, and what the verdict says.
VERDICTS = {
    "as the file does": (RIGHT, "", "",
        r"f is correct(?s:.*)Launch at 128x64x128: 4×8×1 blocks of 16×16×1 threads; as in line 9\."
        r"\n +128x64x128 is m = 128, n = 64, k = 128\."),
    "rounds down": (RIGHT, "(n + 15) / 16", "n / 16", "grid too small, line 8(?s:.*)round up"),
    "exchanged": (RIGHT, "(n + 15) / 16, (m + 15) / 16", "(m + 15) / 16, (n + 15) / 16",
                  "grid exchanged, line 8"),
    "exchanged in main": (MAIN, "(n + 15) / 16, (m + 15) / 16", "(m + 15) / 16, (n + 15) / 16",
                          "f is not correct(?s:.*)grid exchanged in line 8"),
    "of a batch": (BATCHED, "", "", r"f is correct(?s:.*); as in line 9\."),
    "comma of a batch": (BATCHED, "grid((", "grid = ((", "comma for dim3, line 8"),
    "comma": (RIGHT, "f<<<grid, block", "f<<<grid, (16, 16)", "comma for dim3, line 9(?s:.*)dim3"),
    "too many threads": (RIGHT, "block(16, 16)", "block(64, 32)", "too many threads, line 7"),
    "more than the bound": (RIGHT, "void f", "void __launch_bounds__(64) f",
                            "256 threads; __launch_bounds__ allows 64"),
    "too little shared": (DYNAMIC, "1024", "512", "too little shared memory, line 9"),
    "too much shared": (DYNAMIC, "1024", "65536", "too much shared memory, line 9"),
    "another block than the file's": (OTHER_BLOCK, "1024", "256",
                                      "f is correct(?s:.*)shared=49152"),
    "a first block that writes nothing": (RIGHT, "row >= m", "row < 16 || row >= m",
                                          "elements not written, line 2"),
    "a stride that is too long": (STRIDING, "gridDim.x * 64", "gridDim.x * 128",
                                  "elements not written, line 2"),
    "a sum that begins with nothing": (WHOLE, "s = 0", "s", "uninitialised variable, line 3"),
    "an int sum": (RIGHT, "float s", "int s", "wrong result, line 3(?s:.*)every sum is 0"),
    "a stride of a part": (PART, "P[row * k", "P[row * n", "wrong index, line 4"),
    "slices": (SLICED, "", "", "f is correct(?s:.*)4×8×4 blocks"),
    "no slices": (SLICED, "/ 16, 4)", "/ 16)", "grid too small, line 8"),
    "slices that take turns": (SLICED, "atomicAdd(&C[row * n + col], s)", "C[row * n + col] = s",
                               "race, line 4"),
    "C is not cleared": (SLICED, "cudaMemset(c", "cudaMemset(a",
                         "uninitialised C, line 4(?s:.*)cudaMemset"),
    "no alpha": (SCALED, "alpha * s", "s", r"wrong result, line 4(?s:.*)computes A·B \+ beta·C"),
    "alpha twice": (SCALED, "alpha * s", "alpha * alpha * s", "computes alpha²·A·B"),
    "once": (ONCE, "", "", "right only once, line 5"),
    "a counter of 8 bits": (RIGHT, "int p = 0", "unsigned char p = 0", "endless loop, line 3"),
    "a short index": (RIGHT, "C[row * n + col] =", "C[(unsigned short)(row * n + col)] =",
                      "elements not written|race"),
}  # fmt: skip
SHORT = ["rounds down"]
IN_16_BITS = "#include <cuda_fp16.h>\n" + KERNEL.replace("float", "half").replace(
    "half s = 0;", "half s = 0.0f;"
)
TILED = f"""#define T 16
__global__ void f({ANY}) {{
__shared__ float a[T][T], b[T][T]; int x = threadIdx.x, y = threadIdx.y;
int row = blockIdx.y * T + y, col = blockIdx.x * T + x; float s = 0;
for (int t = 0; t < (k + T - 1) / T; t++) {{
int left = t * T + x, below = t * T + y;
a[y][x] = row < m && left < k ? A[row * k + left] : 0;
b[y][x] = col < n && below < k ? B[below * n + col] : 0;
__syncthreads(); for (int p = 0; p < T; p++) s += a[y][p] * b[p][x]; __syncthreads(); }}
if (row < m && col < n) C[row * n + col] = s; }}
"""
ANYHOW = KERNEL.replace("* 16 ", "* blockDim.y ", 1).replace("* 16 ", "* blockDim.x ")
STORE_GUARDED = RIGHT.replace(GUARD, "").replace("C[row", "if (row < m && col < n) C[row")
NUMBERED = RIGHT.replace(
    ROW, "int b = blockIdx.y * gridDim.x + blockIdx.x, tiles = (n + 15) / 16;"
    " int row = b / tiles * 16 + threadIdx.y, col = b % tiles * 16 + threadIdx.x;",
)  # fmt: skip
# The same of what is told beside the kind: advice that fits the kernel, and none that does not.
VERDICTS |= {
    "an edge without a tile": (KERNEL, GUARD, "",
        r"out of bounds(?s:(?!.*(into a tile|multiple=)).*)beyond an edge of C write nothing"),
    "the last tile": (TILED, "(k + T - 1) / T", "k / T",
        r"lost terms(?s:.*)number of tiles of k up(?s:.*)0 into a tile(?s:.*)multiple=16"),
    "a tile's guard": (TILED, "below < k", "left < k",
                       r"out of bounds(?s:(?!.*number of tiles).*)0 into a tile(?s:.*)multiple=16"),
    "rounds down beside an unguarded read": (
        STORE_GUARDED, "(n + 15) / 16, (m + 15) / 16", "n / 16, m / 16",
        "grid too small, line 8(?s:.*)round up(?s:.*)Also: out of bounds in line 3"),
    "what an exchanged grid mends in part": (NUMBERED, "gridDim.x", "gridDim.y", "race, line 4"),
    "what no grid mends": (RIGHT, "col >= n", "col >= n - 1",
                           r"elements not written, line 2(?s:.*)Cure: .*grid, .* of line 8"),
    "no block's number": (KERNEL, ROW, "int row = threadIdx.y, col = threadIdx.x;",
        r"of another block wrote(?s:(?!.*atomicAdd).*)never reads blockIdx"),
    "a sum shared by blocks": (SLICED, "atomicAdd(&C[row * n + col], s)", "C[row * n + col] += s",
                               "race(?s:.*)or add with atomicAdd"),
    "one side for the other": (ANYHOW, "blockDim.y", "blockDim.x",
        "f is correct(?s:.*)not square it is wrong: elements not written"),
    "no launch": ("// try: block=16x16\n" + KERNEL + "void f() {}", "", "",
                  r"; no launch in the file\.\n"),
    "wrong everywhere": (KERNEL, "float s = 0", "float s = 1",
                         "In all: it is wrong at every shape that was tried"),
    "sums of halves": (IN_16_BITS, "", "", r"f is correct(?s:.*)remark: it computes in float16"),
    "sums of halves that lose a term": (IN_16_BITS, "p < k;", "p < k - (k > 40);",
                                        "f is not correct: (lost terms|wrong result)"),
    "sums of halves in a float": (IN_16_BITS, "half* C", "float* C",
                                  "wrong result(?s:(?!.*remark).*)rounded to a smaller type"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "right", "wrong", "wanted"),
    [
        pytest.param(*row, id=name, marks=() if name in SHORT else pytest.mark.long)
        for name, row in VERDICTS.items()
    ],
)
def test_the_verdict_says(text, right, wrong, wanted, hand_in):
    assert right in text
    hand_in.write_text(text.replace(right, wrong))
    told = "\n".join(lines_of(judge(hand_in, {})))
    assert re.search(wanted, told), told


@pytest.mark.long
def test_a_shape_of_which_some_blocks_ran_is_sampled(hand_in):
    """A large C does not show that only the first 8 of every 16 rows are written."""
    square = KERNEL.replace("int m, int n, int k", "int n").replace("< k", "< n")
    square = square.replace(GUARD, "if (row % 16 > 7 || row >= n || col >= n) return;")
    hand_in.write_text(square.replace("row * k", "row * n"))
    found = judge(hand_in, {})
    shapes = found.as_json()["shapes"]
    assert shapes["8x8x8"] is True and shapes["12x12x12"] is False
    assert shapes["128x128x128"] == verdict.SAMPLED
    assert "128x128x128 right in the blocks that were tried" in page_of(found)


def test_too_few_shapes_are_not_correct(hand_in, monkeypatch):
    monkeypatch.setattr(verdict, "RUN_SECONDS", 0.0)
    hand_in.write_text(RIGHT)
    found = judge(hand_in, {})
    assert found.status == verdict.UNSURE and not found.mistakes
    assert "not enough shapes tried: 1 launches of" in "\n".join(lines_of(found))


@pytest.mark.long
def test_the_second_block_of_a_wide_tile_is_tried(hand_in):
    """A thread of 32×32 computes 4×4 elements; all blocks take A from the first one's rows."""
    body = (
        "for (int i = threadIdx.y; i < 128; i += 32) for (int j = threadIdx.x; j < 128; j += 32) {"
        "int row = blockIdx.y * 128 + i, col = blockIdx.x * 128 + j; if (row >= m || col >= n) "
        f"continue;\n{LOOP.replace('A[row', 'A[i')}\nC[row * n + col] = s; }}"
    )
    hand_in.write_text(f"__global__ void f({ANY}) {{\n{body}\n}}\n{GO}".replace("16", "32"))
    found = judge(hand_in, {"block": "32x32"})
    assert found.mistakes[0].kind == "wrong index" and found.mistakes[0].line == 3
