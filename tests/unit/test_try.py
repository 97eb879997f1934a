"""scripts/try.py: what it says of hand-ins, what it prints, and what a hand-in cannot do. What it
refuses is in test_one_line.py."""

import argparse
import json
import os
import re
import runpy
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support import ROOT, Command

from matmul_sweep.classroom.signature import signature_of
from matmul_sweep.classroom.source import Source, settings_of
from matmul_sweep.classroom.verdict import judge
from matmul_sweep.classroom.words import lines_of

NAIVE = Path(__file__).parent / "trial" / "naive.cu"
X, Y = (f"blockIdx.{x} * blockDim.{x} + threadIdx.{x}" for x in "xy")
GUARD = "if (row >= n || col >= n) return;"
LOOP = "float s = 0; for (int p = 0; p < n; p++) s += A[row * n + p] * B[p * n + col];"
STORE = "C[row * n + col] = s;"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]


def kernel(body: str, launch: str = "", numbers: str = "int n", top: str = "") -> str:
    """The kernel begins in the line behind `top`; its body in that behind."""
    main = f"int main() {{ f<<<{launch}>>>(0, 0, 0, 1); }}\n" if launch else ""
    parameters = f"const float* A, const float* B, float* C, {numbers}"
    return f"{top}\n__global__ void f({parameters}) {{\n{body}\n}}\n{main}"


BODY = f"int row = {Y}, col = {X};\n{GUARD}\n{LOOP}\n{STORE}"
RIGHT = kernel(BODY)


def edited(right: str, wrong: str, top: str = "", text: str = RIGHT) -> str:
    """A right kernel, with something in the place of a part of it."""
    assert right in text
    return top + text.replace(right, wrong)


def more(code: str, top: str = "") -> str:
    """A right kernel with more behind its guard, in line 4."""
    return edited(GUARD, f"{GUARD} {code}", top)


GROUPS = "#include <cooperative_groups.h>"
NUMBERED = "\n".join(f"{i} {line}" for i, line in enumerate(RIGHT.splitlines(), 1))
OTHER_STRIDE = kernel(
    BODY.replace("row >= n", "row >= m").replace("col >= n", "col >= k").replace("p * n", "p * k"),
    numbers="int m, int n, int k",
)
OTHER_ORDER = edited("C[row * n", "C[row * k", text=OTHER_STRIDE)
TREE = kernel(
    "__shared__ float part[64]; int x = threadIdx.x, row = blockIdx.y, col = blockIdx.x;\n"
    "float s = 0; for (int p = x; p < n; p += 64) s += A[row * n + p] * B[p * n + col];\n"
    "part[x] = s; __syncthreads(); for (int by = 32; by > 0; by /= 2)\n"
    "if (x < by) part[x] += part[x + by];\n"
    "if (x == 0) C[row * n + col] = part[0];"
)
# A tile that is written under a condition.
WRITTEN = kernel(
    f"int row = {Y}, col = {X};\n"
    "__shared__ float t[16][16]; int x = threadIdx.x, y = threadIdx.y; float s = 0;\n"
    "for (int q = 0; q < n; q += 16) {\n"
    "if (row < n && q + x < n) t[y][x] = A[row * n + q + x]; __syncthreads();\n"
    "for (int p = 0; p < 16; p++) s += t[y][p] * (q + p < n && col < n ? B[(q + p) * n + col]"
    f" : 0);\n__syncthreads(); }}\nif (row < n && col < n) {STORE}"
)
COUNT = f"int i = {X}"
TAKE_I = f"{{ int row = i / n, col = i % n; {LOOP} C[i] = s; }}"
CORRECT = "f is correct"

# A text, settings, and what the verdict says.
VERDICTS = {
    "guard of rows": (edited(" || col >= n", ""), "",
        "is not correct except where n is a multiple of 16: out of bounds, line 5, at 1x1x1"
        "(?s:.*)in line 5, at 1x1x1; no smaller"
        r"(?s:.*)thread \(1,0\) of block \(0,0\) reads B\[1\].*\n +Cure: .* of its matrix needs"),
    "few columns": (more("if (col > 15) return;"), "",
        r"elements not written, line 4(?s:.*)C at 17x17x17 .*\n\n(    ·{16}\?\n){16}"),
    "print": (more('if (row + col == 0) printf("n is %d\\n", n);'), "", "It printed:\n +n is 1\n"),
    "no semicolon": (edited("] = s;", "] = s"), "", 'does not compile: line [67]: expected a ";"'),
    "no such name": (more("undefined(n);"), "", 'line 4: .*"undefined" is undefined\n +4 | if '),
    "no header": (more("n = SIDE;", '#include "tile.h"'), "",
                  'line 4: .*perhaps "tile.h" of line 1 has it'),
    "wgmma": (more('asm volatile("wgmma.fence.sync.aligned;" ::: "memory");'), "",
              "not runnable on the CPU: PTX instruction wgmma.fence.sync.aligned$"),
    "float in PTX": (more('asm("add.f32 %0, %0, %0;" : "+f"(C[0]));'), "", "race, line 4"),
    "grid": (more("cooperative_groups::this_grid().sync();", GROUPS), "", "this_grid. is not"),
    "pasted": (f"```\n{NUMBERED}\n```\n", "", CORRECT),
    "a block of a variable": (kernel(BODY, "n / 64, WIDTH"), "", "Blocks of 16×16 threads"),
    "a tile's edge": (WRITTEN, "", "uninitialised shared(?s:.*)let a thread beyond the edge"),
    "a part of a tile": (edited("row < n && q + x < n", "x > 0", text=WRITTEN), "multiple=16",
                         "uninitialised shared(?s:.*)let the threads of a block write every ele"),
    "one line": (TREE, "block=64 tile=1x1",
                 r"missing barrier, line 6(?s:.*)put __syncthreads\(\) behind line 6"),
    "endless output": (more('for (;;) printf("again and again\\n");'), "",
                       "endless output, line 4"),
    "few rows": (edited(f"row = {Y}", "row = 0", text=OTHER_ORDER),
                 "block=32 tile=1x32 most_rows=1 n=k k=n", CORRECT),
    "a line of threads": (kernel(f"{COUNT}; if (i < n * n) {TAKE_I}", "1, 96"), "", CORRECT),
    "counts by a step": (kernel(
        f"int step = (int)gridDim.x * blockDim.x; for ({COUNT}; i < n * n; i += step) {TAKE_I}",
        "32, 256"), "", CORRECT),
    "bfloat16": (edited(
        "A[row * n + p] * B[p * n + col]", "float(A[row * n + p]) * float(B[p * n + col])",
        "#include <cuda_bf16.h>").replace("float*", "__nv_bfloat16*"), "", CORRECT),
}  # fmt: skip
SHORT = (
    "pasted", "one line", "no header", "no semicolon", "no such name",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "settings", "wanted"),
    [
        pytest.param(*row, id=name, marks=() if name in SHORT else pytest.mark.long)
        for name, row in VERDICTS.items()
    ],
)
def test_the_verdict_says(text: str, settings: str, wanted: str, hand_in: Path) -> None:
    hand_in.write_text(text)
    told = "\n".join(lines_of(judge(hand_in, settings_of(settings.split(), ""))))
    assert re.search(wanted, told, re.MULTILINE), told


@pytest.mark.parametrize(
    ("parameters", "roles"),
    [
        ("float *P, float *M, float *N, int width", "gemm C A B m"),
        ("int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C",
         "gemm m n k alpha A B beta C"),
        ("float *a, float *b, float *c, int k, int m, int n", "gemm A B C k m n"),
        ("float *C, float *A, float *B, int hA, int wA, int wB", "gemm C A B m k n"),
        ("float *A, float *B, float *C, int numARows, int numAColumns, int numBRows,"
         " int numBColumns", "gemm A B C m k k n"),
        ("float *M, float *N, float *P, int commonDim, int rowsM, int colsN", "gemm A B C k m n"),
        ("double *A, double *C, int rows, int cols", "gram A C m n"),
        ("float A[], float B[], float C[], size_t N", "gemm A B C m"),
        ("const __nv_bfloat16* B, const __nv_bfloat16* A, __nv_bfloat16* C, int n",
         "gemm_bf16 B A C m"),
        ("float* x, float* y, float* z, int p, int q, int said", "gemm A B C k n m"),
        ("float* A, float* B, float* C, int CnCol, int CnRow, int N", "gemm A B C n m k"),
        ("float* A, float* B, float* C, int N_PAD, int M_DIM, int SIZE_K", "gemm A B C n m k"),
        ("float* A, float* B, float* C, int Aw, int Bw, int Cw", "gemm A B C k n n"),
    ],
)  # fmt: skip
def test_names_say_what_parameters_are(parameters: str, roles: str) -> None:
    """Or settings, where names do not."""
    settings = {"m": "said", "n": "q", "k": "p"} if "said" in parameters else {}
    source = Source(Path("f.cu"), f"__global__ void f({parameters}) {{}}")
    signature = signature_of(source, source.kernel("f"), settings, {}, {})
    assert " ".join([signature.operation.name, *(p.role for p in signature.parameters)]) == roles


def test_a_correct_kernel_exits_with_0(command: Command, no_gpu: None) -> None:
    found = command("try", NAIVE)
    assert (found.code, found.err) == (0, "")
    assert "multiply is correct" in found.out and "not timed: there is no NVIDIA" in found.out


def test_a_wrong_one_exits_with_1_and_leaves_a_page_and_a_picture(
    command: Command, hand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_in.write_text(more("if (col > 15) return;  // \033[2J"))
    monkeypatch.chdir(hand_in.parent)  # lines are known of a path as it is typed, too
    found = command("try", hand_in.name, "--html", "page.html", "--png", "wrong.png")
    assert found.code == 1 and "error" not in found.err
    assert re.search(r"elements not written in line 4.*\n +4 \| if", found.out)
    assert "?[2J" in found.out and "\033" not in found.out
    assert Path("wrong.png").read_bytes().startswith(b"\x89PNG")
    text = Path("page.html").read_text()
    assert "those of column 16" in text and "<dt>thread</dt>" in text
    assert "data:image/png;base64" in text and "blockIdx" in text
    assert "http" not in text  # one file, without a network


def test_graders_get_json_of_a_folder(command: Command, hand_in: Path, no_gpu: None) -> None:
    hand_in.write_text("int main() {}")
    alone = command("try", hand_in.parent, "--json")
    assert [one["verdict"] for one in json.loads(alone.out)] == ["not run"]  # a list of one
    hand_in.with_name("naive.cu").write_text(NAIVE.read_text())
    found = command("try", hand_in.parent, "--json")
    assert found.code == 1 and "error" not in found.err
    none, right = json.loads(found.out)
    assert none["verdict"] == "not run" and "no kernel" in none["message"]
    assert right["verdict"] == "correct" and right["shapes"]["1x1x1"] is True
    assert none["line"] is right["line"] is None


def test_json_is_json_of_what_is_not_judged_too(command: Command, hand_in: Path) -> None:
    hand_in.write_text(RIGHT.replace("int n", "int n, char x"))
    for named in (hand_in, hand_in.parent / "absent.cu", hand_in.parent / "none"):
        found = command("try", named, "--json")
        entry = json.loads(found.out)
        assert found.code == 1 and entry["verdict"] == "not run"
        assert entry["file"] == str(named) and entry["message"]


@pytest.mark.long
def test_a_folder_has_the_hand_ins_below_it_but_no_links(
    tmp_path: Path, command: Command, no_gpu: None
) -> None:
    names = ["O'Neil_1_file_", "x `touch here` $HOME=2", 'one "quoted"']
    for name in names:
        (tmp_path / "all" / name).mkdir(parents=True)
        (tmp_path / "all" / name / "my=own.cu").write_text(NAIVE.read_text())
    (tmp_path / "all" / ".hidden.cu").write_text(RIGHT)
    (tmp_path / "right.cu").write_text(RIGHT)
    (tmp_path / "all" / "link.cu").symlink_to(tmp_path / "right.cu")
    found = json.loads(command("try", tmp_path / "all", "--json", "--seed", "3").out)
    assert [Path(one["file"]).parent.name for one in found] == sorted(names)
    assert {one["verdict"] for one in found} == {"correct"}
    assert {one["seed"] for one in found} == {3}


@pytest.mark.long
def test_kernels_in_notebooks_and_strings_are_judged_at_their_own_lines(
    tmp_path: Path, command: Command, no_gpu: None
) -> None:
    wrong = more("if (n > 1) return;")
    program = f'import pycuda\nm = SourceModule("""{wrong}""")\n'
    cells = ["# no __global__ code", f"%%writefile f.cu\n{wrong}", f"!pip list\n{program}"]
    listed = [{"cell_type": kind, "source": cell.splitlines(keepends=True)}
              for kind, cell in zip(["markdown", "code", "code"], cells, strict=True)]  # fmt: skip
    (tmp_path / "lab.ipynb").write_text(json.dumps({"cells": listed}))
    (tmp_path / "prog.py").write_text(program)
    (tmp_path / "other.py").write_text("print()")
    found = json.loads(command("try", tmp_path, "--json", "--no-strict").out)
    names = [str(Path(one["file"]).relative_to(tmp_path)) for one in found]
    assert names == ["lab.ipynb/cell 2", "lab.ipynb/cell 3", "prog.py"]
    assert [one["mistakes"][0]["line"] for one in found] == [5, 6, 5]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "not judged: it died of SIGKILL"),
        (lambda: os.strerror(None), "not judged: it died of an error"),  # type: ignore[arg-type]
        (lambda: os.stat("/proc/none"), "/proc/none: No such file"),
    ],
)
def test_what_fails_costs_one_hand_in_only(
    fault: Callable[[], object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = runpy.run_path(str(ROOT / "scripts/try.py"))["judged"]
    monkeypatch.setitem(judged.__globals__, "told_all", lambda *_: fault())
    assert said in str(judged(NAIVE, {}, argparse.Namespace()))
