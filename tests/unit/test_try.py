"""scripts/try.py: what it prints, what it refuses in one line, and what a hand-in cannot do."""

import json
import os
import runpy
from pathlib import Path

import pytest
from support import ROOT, Command

from matmul_sweep.classroom.launching import launched_block
from matmul_sweep.classroom.signature import signature_of
from matmul_sweep.classroom.source import Kernel, read, settings_of
from matmul_sweep.classroom.verdict import CORRECT, NOT_COMPILED, NOT_RUN, WRONG, judge
from matmul_sweep.process.contained import can_contain, run_contained
from matmul_sweep.process.errors import UserError

HAND_INS = Path(__file__).parent / "trial"
FLOATS = "const float* A, const float* B, float* C"
LOOP = "float s = 0; for (int p = 0; p < n; p++) s += A[row * n + p] * B[p * n + col];"
INDEX = (
    "int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;"
)
RIGHT = (
    f"__global__ void f({FLOATS}, int n)\n{{\n{INDEX}\nif (row >= n || col >= n) return;\n{LOOP}\n"
)
RIGHT += "C[row * n + col] = s;\n}\n"

long = pytest.mark.long  # like another case
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]


@pytest.fixture
def hand_in(tmp_path: Path) -> Path:
    return tmp_path / "hand_in.cu"


# ---- What it prints --------------------------------------------------------------------------


def test_a_correct_kernel_exits_with_0(command: Command, no_gpu: None) -> None:
    found = command("try", HAND_INS / "naive.cu")
    assert found.code == 0 and "error" not in found.err
    assert "multiply is correct" in found.out and "not timed: there is no NVIDIA" in found.out


def test_a_wrong_kernel_exits_with_1_and_says_what_where_and_how_small(
    command: Command, hand_in: Path
) -> None:
    hand_in.write_text(RIGHT.replace("row >= n || col >= n", "row >= n"))
    found = command("try", hand_in)
    assert found.code == 1 and "error" not in found.err
    assert "f is not correct: out of bounds, line 5, at 1x1x1" in found.out
    assert "thread (1,0) of block (0,0) reads B[1]" in found.out and "Cure: " in found.out


def test_the_picture_shows_which_elements_are_wrong(command: Command, hand_in: Path) -> None:
    hand_in.write_text(RIGHT.replace("row >= n ||", "row >= n - 1 ||"))
    found = command("try", hand_in, "--png", hand_in.with_suffix(".png"))
    rows = [line.strip() for line in found.out.splitlines() if set(line.strip()) <= set("·x?")]
    *above, last = [row for row in rows if row]
    assert set("".join(above)) == {"·"} and set(last) == {"?"}
    assert hand_in.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_what_a_kernel_prints_is_shown(command: Command, hand_in: Path, no_gpu: None) -> None:
    said = RIGHT.replace("if (row", 'if (row + col == 0) printf("n is %d\\n", n);\nif (row')
    hand_in.write_text("#include <cstdio>\n" + said)
    assert "It printed:\n    n is 1\n" in command("try", hand_in).out


def test_a_page_to_hand_in_has_the_words_the_picture_and_the_source(
    command: Command, hand_in: Path
) -> None:
    hand_in.write_text(RIGHT.replace("n + p]", "n + p] * 2"))
    page = hand_in.with_suffix(".html")
    command("try", hand_in, "--html", page)
    text = page.read_text()
    assert "every sum is counted 2 times" in text
    assert "data:image/png;base64" in text and "blockIdx" in text
    assert "http" not in text  # one file, without a network


def test_graders_get_json_of_many_files(command: Command, hand_in: Path, no_gpu: None) -> None:
    hand_in.write_text("int main() {}")
    found = command("try", HAND_INS / "naive.cu", hand_in, "--json")
    assert found.code == 1 and "error" not in found.err
    grades = json.loads(found.out)
    assert [one["verdict"] for one in grades] == ["correct", "not run"]
    assert [one["line"] for one in grades] == [None, None]
    assert grades[0]["shapes"]["1x1x1"] is True and "no kernel" in grades[1]["message"]


def test_a_folder_stands_for_its_sources(command: Command, hand_in: Path, no_gpu: None) -> None:
    assert "no .cu file" in command("try", hand_in.parent).error()
    hand_in.write_text(RIGHT)
    only, *others = json.loads(command("try", hand_in.parent, "--json").out)  # a list of one
    assert only["verdict"] == "correct" and not others


def test_an_error_of_the_system_costs_one_hand_in_only(
    hand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlucky(file: Path, settings: dict[str, str]) -> str:
        if file == hand_in:
            raise OSError(14, "Bad address", "g++")
        return "judged"

    program = runpy.run_path(str(ROOT / "scripts/try.py"))["verdicts"]
    monkeypatch.setitem(program.__globals__, "judge", unlucky)
    (_, first), (_, second) = program([hand_in, HAND_INS / "naive.cu"], {})
    assert isinstance(first, UserError) and "g++: Bad address" in str(first)
    assert second == "judged"


def test_lines_are_known_of_a_path_as_it_is_typed(
    hand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in.write_text(RIGHT.replace("if (row >= n || col >= n) return;", ""))
    monkeypatch.chdir(hand_in.parent)
    assert judge(Path(hand_in.name), {}).mistakes[0].line == 5


# ---- What it does not run ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (RIGHT.replace("] = s;", "] = s"), 6, 'expected a ";"'),
        (RIGHT.replace("return;", "return; undefined(n);"), 4, '"undefined" is undefined'),
        (RIGHT.replace("return;", 'return; system("ls");'), 4, '"system"'),
        ('#include "tile.h"\n' + RIGHT.replace("return;", "return; SIDE;"), 5,
         'perhaps "tile.h" of line 1 has it'),
    ],
)  # fmt: skip
def test_what_does_not_compile_is_told_in_the_lines_of_the_file(
    text: str, line: int, words: str, hand_in: Path
) -> None:
    hand_in.write_text(text)
    verdict = judge(hand_in, {})
    assert verdict.status == NOT_COMPILED and words in verdict.message
    assert abs(verdict.line - line) <= 1  # a missing `;` is seen at the next line


COOPERATIVE = "#include <cooperative_groups.h>\n" + RIGHT
FRAGMENT = "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c;"
WGMMA = 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("#include <mma.h>\n" + RIGHT.replace("return;", f"return; {FRAGMENT}"), "mma.h"),
        (RIGHT.replace("return;", f"return; {WGMMA}"), "inline PTX"),
        (RIGHT.replace("return;", 'return; asm("add.f32 %0, %0, %0;" : "+f"(C[0]));'),
         "inline PTX"),
        (COOPERATIVE.replace("return;", "return; cooperative_groups::this_grid().sync();"),
         "this_grid"),
        (COOPERATIVE.replace("return;", "return; cooperative_groups::this_cluster().sync();"),
         "this_cluster"),
    ],
    ids=["fragment", "wgmma", "float in PTX", "grid", "cluster"],
)  # fmt: skip
def test_what_the_cpu_lacks_is_no_mistake(text: str, lacking: str, hand_in: Path) -> None:
    hand_in.write_text(text)
    verdict = judge(hand_in, {})
    assert (verdict.status, verdict.message) == (NOT_RUN, f"not runnable on the CPU: {lacking}")


# ---- What it reads -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "roles"),
    [
        ("float *A, float *B, float *C, int n", "A B C m"),
        ("float *P, float *M, float *N, int width", "C A B m"),
        ("int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C",
         "m n k alpha A B beta C"),
        ("float *a, float *b, float *c, int k, int m, int n", "A B C k m n"),
        ("float *C, float *A, float *B, int hA, int wA, int wB", "C A B m k n"),
        ("float *A, float *B, float *C, int numARows, int numAColumns, int numBRows,"
         " int numBColumns", "A B C m k k n"),
        ("float *M, float *N, float *P, int commonDim, int rowsM, int colsN", "A B C k m n"),
        ("const double *A, double *C, int m, int n", "A C m n"),
        ("double *A, double *C, int rows, int cols", "A C m n"),
        ("float A[], float B[], float C[], size_t N", "A B C m"),
        ("const float* B, const float* A, float* C, int n", "B A C m"),
    ],
)  # fmt: skip
def test_names_say_what_parameters_are(parameters: str, roles: str) -> None:
    signature = signature_of(Kernel("f", "", parameters, 1, ""), {}, "f.cu")
    assert " ".join(p.role for p in signature.parameters) == roles


def test_settings_say_it_where_names_do_not() -> None:
    kernel = Kernel("f", "", "float* x, float* y, float* z, int p, int q, int r", 1, "")
    with pytest.raises(UserError, match="which is which"):
        signature_of(kernel, {}, "f.cu")
    roles = signature_of(kernel, settings_of(["m=r", "n=q", "k=p"], ""), "f.cu")
    assert [p.role for p in roles.parameters] == ["A", "B", "C", "k", "n", "m"]


def test_a_kernel_with_a_grid_of_its_own_is_correct_with_it(hand_in: Path) -> None:
    hand_in.write_text(
        f"__global__ void f({FLOATS}, int n)\n{{\n"
        "for (int row = blockIdx.x; row < n; row += 3)\n"
        "for (int col = threadIdx.x; col < n; col += blockDim.x) {\n"
        f"{LOOP}\nC[row * n + col] = s;\n}}\n}}\n"
    )
    assert judge(hand_in, {"block": "32", "blocks": "3"}).status == CORRECT
    assert judge(hand_in, {"block": "32", "blocks": "2"}).mistakes[0].kind == "elements not written"


@long
def test_a_kernel_for_few_rows_is_correct_with_them(hand_in: Path) -> None:
    flat = f"__global__ void f({FLOATS}, int m, int n, int k)\n{{\n"
    flat += "int col = blockIdx.x * blockDim.x + threadIdx.x; if (col >= n) return;\n"
    flat += "float s = 0; for (int p = 0; p < k; p++) s += A[p] * B[p * n + col];\nC[col] = s;\n}\n"
    hand_in.write_text(flat)
    settings = {"block": "32", "tile": "1x32"}
    assert judge(hand_in, settings | {"most_rows": "1"}).status == CORRECT
    assert judge(hand_in, settings).status == WRONG


def test_a_setting_goes_before_a_macro_that_asks_for_one(hand_in: Path) -> None:
    hand_in.write_text("#ifndef SIDE\n#define SIDE 16\n#endif\n" + RIGHT)
    assert judge(hand_in, {"SIDE": "8"}).program.defines == "#define SIDE 8\n"


def test_what_pasting_breaks_is_mended_at_its_line(hand_in: Path) -> None:
    numbered = "\n".join(f"{i} {line}" for i, line in enumerate(RIGHT.splitlines(), 1))
    hand_in.write_text(f"```\n{numbered}\n```\n")
    assert judge(hand_in, {}).status == CORRECT
    hand_in.write_text(RIGHT.replace("return;", "return;// beyond the\nlast row or column"))
    assert read(hand_in).line(5) == "// last row or column"


LAUNCHES = {
    "a line of threads": (
        "int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / n, col = i % n;"
        " if (i >= n * n) return;", "C[i] = s;", "96"),
    "a row for each thread": (
        "int row = blockIdx.x * blockDim.x + threadIdx.x; if (row >= n) return;"
        " for (int col = 0; col < n; col++) {", "C[row * n + col] = s; }", "64"),
    "rows along x": (
        "int row = blockIdx.x * blockDim.x + threadIdx.x,"
        " col = blockIdx.y * blockDim.y + threadIdx.y; if (row >= n || col >= n) return;",
        "C[row * n + col] = s;", "dim3(8, 4)"),
    "a stride of the grid": (
        "for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < n;"
        " row += gridDim.y * blockDim.y)"
        " for (int col = blockIdx.x * blockDim.x + threadIdx.x; col < n;"
        " col += gridDim.x * blockDim.x) {", "C[row * n + col] = s; }", "dim3(16, 8)"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("main", "block"),
    [
        ("f<<<1, dim3(8, 4)>>>(0, 0, 0, 1);", (8, 4)),
        ("dim3 grid(2), block(2 * SIDE, 8); f<<<grid, block>>>(0, 0, 0, 1);", (32, 8)),
        ("f<<<n / 64, 64, 0>>>(0, 0, 0, 1);", (64,)),
        ("f<<<n / 64, width>>>(0, 0, 0, 1);", None),
        ("", None),
    ],
)
def test_the_block_is_that_of_the_launch(
    main: str, block: tuple[int, ...] | None, hand_in: Path
) -> None:
    hand_in.write_text(f"{RIGHT}int main() {{ {main} }}\n")
    source = read(hand_in)
    assert launched_block(source, source.kernel(None), {"SIDE": 16}) == block


IN_A_LINE = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
TAKE_I = f"int row = i / n, col = i % n; {LOOP} C[i] = s;"


@long
@pytest.mark.parametrize(
    ("body", "main"),
    [
        (f"{IN_A_LINE} for (; i < n * n; i += blockDim.x * gridDim.x) {{ {TAKE_I} }}", ""),
        (f"{IN_A_LINE} int step = (int)blockDim.x * gridDim.x; "
         f"for (; i < n * n; i += step) {{ {TAKE_I} }}", "f<<<32, 256>>>(0, 0, 0, 1);"),
    ],
)  # fmt: skip
def test_a_kernel_that_counts_by_x_alone_gets_no_threads_that_repeat_its_work(
    body: str, main: str, hand_in: Path
) -> None:
    hand_in.write_text(
        f"__global__ void f({FLOATS}, int n) {{ {body} }}\nint main() {{ {main} }}\n"
    )
    verdict = judge(hand_in, {})
    assert verdict.status == CORRECT, verdict.mistakes and verdict.mistakes[0].what


def test_threads_that_go_on_by_too_much_are_seen(hand_in: Path) -> None:
    loop = f"for (; i < n * n; i += 2 * blockDim.x * gridDim.x) {{ {TAKE_I} }}"
    hand_in.write_text(f"__global__ void f({FLOATS}, int n) {{ {IN_A_LINE} {loop} }}\n")
    assert judge(hand_in, {}).mistakes[0].kind == "elements not written"


@long
def test_dimensions_that_are_named_in_another_order_are_told(hand_in: Path) -> None:
    """Much classroom code has A of m×n and B of n×k."""
    text = RIGHT.replace("int n)", "int m, int n, int k)").replace("row >= n", "row >= m")
    other = text.replace("col >= n", "col >= k").replace("p * n", "p * k")
    hand_in.write_text(other.replace("C[row * n", "C[row * k"))
    verdict = judge(hand_in, {})
    assert verdict.status == WRONG and verdict.rule.endswith("say n=k k=n")
    assert judge(hand_in, {"n": "k", "k": "n"}).status == CORRECT
    hand_in.write_text(other)  # with a wrong stride by either order
    assert judge(hand_in, {}).rule == ""


def test_a_small_type_is_told(hand_in: Path) -> None:
    small = RIGHT.replace("A[row * n + p] *", "__half2float(__float2half(A[row * n + p])) *")
    hand_in.write_text("#include <cuda_fp16.h>\n" + small)
    worst = judge(hand_in, {}).mistakes[0]
    assert worst.kind == "wrong result" and worst.what.startswith("C is nearly right")


def test_lines_that_are_one_have_no_place_between_them(hand_in: Path) -> None:
    tree = "for (int by = 32; by > 0; by /= 2)\nif (x < by) part[x] += part[x + by];\n"
    begin = "__shared__ float part[64]; int x = threadIdx.x, row = blockIdx.y, col = blockIdx.x;"
    terms = "float s = 0; for (int p = x; p < n; p += 64) s += A[row * n + p] * B[p * n + col];"
    store = "if (x == 0) C[row * n + col] = part[0];"
    hand_in.write_text(
        f"// try: block=64 tile=1x1\n__global__ void f({FLOATS}, int n) {{\n"
        f"{begin}\n{terms} part[x] = s; __syncthreads();\n{tree}{store}\n}}\n"
    )
    worst = judge(hand_in, {}).mistakes[0]
    assert (worst.kind, worst.line) == ("missing barrier", 6)
    assert worst.cure.startswith("put __syncthreads() behind line 6")


@pytest.mark.parametrize(
    "name",
    ["a row for each thread", "a stride of the grid",
     *(pytest.param(name, marks=long) for name in ("a line of threads", "rows along x"))],
)  # fmt: skip
def test_the_grid_is_found_by_what_blocks_write(name: str, hand_in: Path) -> None:
    begin, end, block = LAUNCHES[name]
    text = f"__global__ void f({FLOATS}, int n)\n{{ {begin} {LOOP} {end} }}\n"
    hand_in.write_text(text + f"int main() {{ f<<<1, {block}>>>(0, 0, 0, 1); }}\n")
    verdict = judge(hand_in, {})
    assert verdict.status == CORRECT, verdict.mistakes and verdict.mistakes[0].what


@pytest.mark.parametrize(
    ("template", "launch"),
    [
        ("template <class T, int SIDE = 8>", ""),
        ("template <int SIDE, typename T>", "f<8, double><<<1, dim3(8, 8)>>>(0, 0, 0, 1);"),
    ],
)
def test_a_template_has_its_arguments_from_its_launch_or_their_defaults(
    template: str, launch: str, hand_in: Path
) -> None:
    text = RIGHT.replace("float*", "T*").replace("float s", "T s")
    hand_in.write_text(f"{template} {text}int main() {{ {launch} }}")
    verdict = judge(hand_in, {})
    assert verdict.status == CORRECT, verdict.message
    wanted = "float64" if "double" in launch else "float32"
    assert verdict.program.signature.operation.dtype == wanted


@pytest.mark.parametrize(
    "kind", ["__half", *(pytest.param(kind, marks=long) for kind in ("int", "__nv_bfloat16"))]
)
def test_matrices_of_other_types(kind: str, hand_in: Path) -> None:
    header = {"__half": "#include <cuda_fp16.h>\n", "__nv_bfloat16": "#include <cuda_bf16.h>\n"}
    text = RIGHT.replace("float*", f"{kind}*")
    if kind == "int":
        text = text.replace("float s", "int s")
    else:
        text = text.replace("A[row * n + p] * B[p * n + col]",
                            "float(A[row * n + p]) * float(B[p * n + col])")  # fmt: skip
    hand_in.write_text(header.get(kind, "") + text)
    verdict = judge(hand_in, {})
    assert verdict.status == CORRECT
    named = {"__nv_bfloat16": "gemm_bf16"}.get(kind, "gemm")  # whose ladder it is held against
    assert verdict.program.signature.operation.name == named
    if kind == "__half":
        hand_in.write_text(header[kind] + text.replace("p = 0", "p = 1"))
        assert judge(hand_in, {}).mistakes[0].kind == "lost terms"


# ---- What a hand-in cannot do -------------------------------------------------------------------


def test_endless_output_ends(hand_in: Path) -> None:
    text = RIGHT.replace("return;", 'return; for (;;) printf("again and again\\n");')
    hand_in.write_text("#include <cstdio>\n" + text)
    [mistake, *_] = judge(hand_in, {}).mistakes
    assert (mistake.kind, mistake.line) == ("endless output", 5)


# nvcc compiles what __CUDA_ARCH__ selects, and lets no kernel call the C library; the CPU's build
# has the other part.
ESCAPE = """#ifndef __CUDA_ARCH__
extern "C" int open(const char*, int, ...);
extern "C" int fork();
extern "C" unsigned sleep(unsigned);
#endif
""" + RIGHT.replace(
    "return;",
    "return;\n#ifndef __CUDA_ARCH__\n"
    'if (open("{folder}/escaped", 0102, 0600) < 0 && fork() < 0) return;\n#endif\n',
)


needs_landlock = pytest.mark.skipif(
    not can_contain(), reason="this Linux has no Landlock of version 3 (Linux 6.2)"
)


@needs_landlock
def test_a_hand_in_writes_nothing_outside_and_starts_no_process(hand_in: Path) -> None:
    hand_in.write_text(ESCAPE.replace("{folder}", str(hand_in.parent)))
    verdict = judge(hand_in, {})
    # The kernel returns without a result if it could do neither.
    assert verdict.status == WRONG and verdict.mistakes[0].kind == "elements not written"
    assert [file.name for file in hand_in.parent.iterdir()] == [hand_in.name]


@needs_landlock
def test_a_contained_program_writes_to_its_own_folder_only(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    script = f"echo 1 > {own}/a; echo 2 > {other}/b; rm {other}/kept; echo done"
    (other / "kept").touch()
    ended = run_contained(["sh", "-c", script], own, 20, {"PATH": os.environ["PATH"]})
    assert (own / "a").read_text() == "1\n" and ended.out == "done\n"
    assert [file.name for file in other.iterdir()] == ["kept"]
    assert "Permission denied" in ended.err
