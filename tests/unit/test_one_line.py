"""What a user types or writes wrongly is refused in one line that says what, with exit code 1."""

import os
import shutil
from pathlib import Path

import pytest
import yaml
from made_up_data import DEVICE, made_up, publishable
from support import CUDA_ENTRY, RIGHT_KERNEL, Command

from matmul_sweep.classroom import verdict

FLOATS = "const float* A, const float* B, float* C"
KERNEL = f"__global__ void f({FLOATS}, int n)\n{{\nC[0] = A[0] * B[0] * n;\n}}\n"

# A command line, and a part of the line.
TYPED = [
    ("multiply nave 64", "'nave'"),
    ("multiply naive_rect -4x4x4", "'-4x4x4': write a whole number, or MxNxK"),
    ("multiply naive 3x4x5", "square"),
    ("multiply cublas_sgemm 64", "GPU"),
    ("multiply naive 64 --catalogue absent.yaml", "absent.yaml"),
    ("multiply cpu_blas 2147483647", "memory"),
    ("multiply shared", "shape"),
    ("multiply naive_rect 3200x2400x1600", "minutes"),
    ("multiply naive_rect 1300", "sizes up to about 1259 run on the CPU"),
    ("verify gemm --experiment absent.json --build . --records . --output v --log log",
     "absent.json"),
    ("ceilings --build . --output ceilings.csv --log log", "error: there is no NVIDIA driver"),
    ("mistakes --output . --gallery none.yaml", "none.yaml"),
    ("try absent.cu", "there is no such file"),
    ("try .", "no .cu file"),
    ("try x.cu y.cu --png x.png", "--html and --png take one file"),
    ("compare a b --tolerance nan", "--tolerance nan"),
    ("compare a b --what both", "both"),
    ("compare a a/../a", "given as both A and B"),
    ("compare empty b", "empty: neither a data set nor"),
    ("compare a shared", "no common point"),
    ("compare a slow", "slow/summary.csv, line 2"),
    ("compare a odd", "odd/device.json: date: '20261125': input should be a valid string"),
    ("compare a card --what times", "Another GPU"),
    ("pages --output site --published a b", "a and b: two sets of one device; remove one"),
    ("pages --output site --published", "there is no data set: name one with --data"),
    ("check_set old", "version 1.0.0 measured it, and this is"),
    ("compare a cpu", "cpu: has no kernel ratios of Imaginary CPU"),
]  # fmt: skip
# A kernel's text, settings, and a part of what try.py says of them.
TRIED = [
    ("int main() { return 0; }", "", "no kernel in it"),
    (f"__global__ void f({FLOATS}, int n)\n", "", "no whole kernel"),
    (KERNEL.replace("int n", "int n, float3 x"), "", "'float3 x' is of no type that a trial"),
    (KERNEL.replace("float* B", "double* B"), "", "matrices of double and float"),
    ("__global__ void f(float* A) {}", "", "product of two matrices: f has 1 pointers"),
    (KERNEL.replace("{\n", "{ __shared__ float t[8], u[9]; t[threadIdx.x] = 0;\n", 1), "",
     "which block does f take"),
    ("// try: block=tall\n" + KERNEL, "", "write whole numbers"),
    ("// try: block\n" + KERNEL, "", "is no setting"),
    ("#define SIDE 16\n" + KERNEL, "--strict SIDE=8", "has `#define SIDE 16`, which --strict"),
    (KERNEL, "block=64x64", "4096 threads; a block has 1 to 1024"),
    (KERNEL, "m=rows", "has no parameter rows"),
    (KERNEL, "kernel=g", "kernel=g: it has f"),
    (KERNEL, "multiple=0", "multiple"),
    (KERNEL, "blocks=few", "blocks"),
    ("\0\1\2", "", "not a text"),
    ("namespace a {" * 1200 + KERNEL + "}" * 1200, "", "nested too deeply"),
]  # fmt: skip
# What stands in a kernel, what stands in its place, and the line.
SPOILT = [
    ("float sum = 0.0f;", "float sum = 1e-1f;", "Wrong: in row "),
    ("C[(size_t)row", "if (col < n - 1) C[(size_t)row", "Wrong: 17 of 306 elements not written or"),
    ("if (row >= m || col >= n) return;", "", "past the end of"),
    ("sum;", "som;", "mine.cu:9:"),
    ("p < k", "p < k - 1", "Result is Wrong"),
]  # fmt: skip


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data sets: two of a card, and of another card, another kernel, and no card."""
    folder = tmp_path_factory.mktemp("sets")
    for name in ("a", "b"):
        made_up(folder / name, kernels=["naive", "cublas_sgemm"])
    made_up(folder / "card", kernels=["naive"], device=DEVICE | {"gpu": "Another GPU"})
    made_up(folder / "slow", kernels=["naive"], change=lambda rows: rows.assign(time_ms=-1.0))
    made_up(folder / "odd", kernels=["naive"], device=DEVICE | {"date": 20261125})
    publishable(folder / "old", {"device": [{"version": "1.0.0"}]})
    made_up(folder / "shared", kernels=["shared"])
    made_up(folder / "cpu", kernels=["naive"], gpu=False)
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def refused(
    command: Command, no_gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder in which a command is typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("line", "said"), TYPED)
def test_a_command_line(command, refused, sets, line, said):
    for name in {*line.split()} & {file.name for file in sets.iterdir()}:
        shutil.copytree(sets / name, refused / name)
    assert said in command(*line.split()).error()


@pytest.mark.parametrize(("text", "settings", "said"), TRIED, ids=[said for *_, said in TRIED])
def test_a_hand_in(command, refused, text, settings, said):
    (refused / "mine.cu").write_text(text)
    assert said in command("try", "mine.cu", *settings.split()).error()


@pytest.mark.parametrize(("right", "wrong", "said"), SPOILT)
def test_a_kernel(command, refused, right, wrong, said):
    (refused / "mine.cu").write_text(RIGHT_KERNEL.replace(right, wrong))
    (refused / "mine.yaml").write_text(yaml.safe_dump({"mine": CUDA_ENTRY}))
    line = command("multiply", "mine", "17x18x19", "--catalogue", refused / "mine.yaml").error()
    assert "mine" in line and said in line


def test_a_file_that_takes_long_to_read(command, refused, monkeypatch):
    monkeypatch.setattr(verdict, "READ_SECONDS", 0.1)
    (refused / "mine.cu").write_text("(a<" * 200000)
    assert "reading it takes more than" in command("try", "mine.cu").error()


def test_a_file_of_a_gigabyte(command, refused):
    (refused / "mine.cu").touch()
    os.truncate(refused / "mine.cu", 1 << 30)
    assert "1,073,741,824 bytes; a source has at most" in command("try", "mine.cu").error()
