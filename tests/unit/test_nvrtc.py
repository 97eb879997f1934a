"""NVRTC in nvcc's place, and what is said of packages that are missing, damaged or one too many."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from matmul_sweep.build import packages, toolchain
from matmul_sweep.build.machine_code import disassembled
from matmul_sweep.process.errors import UserError

needs_nvrtc = pytest.mark.skipif(
    packages.installed() != "cuda12", reason="the packages of CUDA 12 are not installed"
)
# What the kernels take from nvcc's and gcc's headers.
SOURCE = """
#include <cuda.h>
#include <stdint.h>
#include <type_traits>
constexpr int twice(int x) { return 2 * x; }
extern "C" __global__ void mine(CUtensorMap map, float* x)
{
    static_assert(std::is_same_v<uint32_t, unsigned> && sizeof(map) == 128);
    static_assert(alignof(CUtensorMap) == 128, "as for nvcc");
    __shared__ float s[twice(16)];
    static_assert(std::is_same_v<decltype(__cvta_generic_to_shared(s)), size_t>);
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[31 - threadIdx.x] < INFINITY ? 1 : 0;
}
"""
# As instructions.cuh makes an operand of wgmma. No macro begins without its parenthesis.
OPERAND = """
#define KERNEL(name, function) \\
    extern "C" __global__ void name(unsigned long long* operand, int i) \\
    { \\
        extern __shared__ char s[]; \\
        const unsigned address = (unsigned)function(s + 1024 * i); \\
        *operand = (address >> 4 & 0x3FFF) | 1ull << 62; \\
    }
KERNEL(mine, __cvta_generic_to_shared)
KERNEL(without_the_macro, (__cvta_generic_to_shared))
"""


def groups(monkeypatch: pytest.MonkeyPatch, *wheels: str) -> None:
    """Have these wheels and no others, each with one file."""
    found = {wheel: [f"{wheel}/file"] for wheel in wheels}
    monkeypatch.setattr(packages, "files_of", lambda wheel: found.get(wheel, []))


@pytest.mark.parametrize("group", packages.COMPILERS)
def test_the_group_is_known_by_its_compilers_wheel(
    monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    groups(monkeypatch, packages.COMPILERS[group])
    assert packages.installed() == group
    compiler = toolchain.cuda.__wrapped__
    monkeypatch.setattr(toolchain, "nvcc", lambda: "nvcc")
    assert (compiler() == ("nvcc",)) == (group == "cuda13")


def test_both_groups_are_refused_with_the_commands_that_leave_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups(monkeypatch, *packages.COMPILERS.values())
    with pytest.raises(UserError, match="`uv sync`, or `uv sync --no-group cuda13 --group cuda12`"):
        packages.installed()


@pytest.mark.parametrize("arch", ["sm_61", "sm_70"])
def test_a_card_that_cuda_13_has_dropped_is_told_of_cuda_12(
    monkeypatch: pytest.MonkeyPatch, arch: str
) -> None:
    compiler = ("printf", "release 13.0\\nsm_75\\nsm_90\\n%.0s")
    monkeypatch.setattr(toolchain, "cuda", lambda: compiler)
    with pytest.raises(UserError, match=rf"'{arch}' .*uv sync --no-group cuda13 --group cuda12"):
        toolchain.check_architectures(["sm_90", arch])


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_60", "sm_75", "sm_90a"])
def test_it_knows_what_kernels_take_from_headers(tmp_path: Path, arch: str) -> None:
    source = tmp_path / "mine.cu"
    source.write_text(SOURCE)
    flags = [*toolchain.FLAGS["cuda"], "-Xptxas", "-O3"]
    found = toolchain.build_cubin(source, ["mine"], flags, arch, tmp_path / "mine.cubin")["mine"]
    assert found.shared_bytes == 128
    assert 4 <= found.registers <= 40


@needs_nvrtc
@pytest.mark.skipif(not toolchain.nvdisasm(), reason="there is no nvdisasm")
def test_an_operand_of_wgmma_is_computed_in_32_bits_as_by_nvcc(tmp_path: Path) -> None:
    source, cubin = tmp_path / "mine.cu", tmp_path / "mine.cubin"
    source.write_text(OPERAND)
    toolchain.run(toolchain.cubin_command(source, toolchain.FLAGS["cuda"], "sm_90", cubin))
    shifts = {
        function: {code.opcode for code in disassembled(cubin, function) if "SHF" in code.opcode}
        for function in ("mine", "without_the_macro")
    }
    assert shifts["mine"].isdisjoint({"SHF.R.U64", "USHF.R.U64"})
    assert shifts["without_the_macro"] & {"SHF.R.U64", "USHF.R.U64"}


@needs_nvrtc
def test_the_headers_that_hand_ins_may_name_are_there(tmp_path: Path) -> None:
    names = ("mma.h", "cuda_fp16.h", "cuda_bf16.h", "cooperative_groups.h", "assert.h", "float.h",
             "math.h", "limits", "cfloat", "cstdint", "utility", "cuda_pipeline.h")  # fmt: skip
    source = tmp_path / "mine.cu"
    source.write_text("".join(f"#include <{name}>\n" for name in names))
    toolchain.run(toolchain.cubin_command(source, ["-std=c++17"], "sm_80", tmp_path / "cubin"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with this one's packages, of which NVRTC's may be damaged."""
    own = tmp_path_factory.mktemp("damaged") / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own.parents[1]], check=True)
    [folder] = own.parents[1].glob("lib/python*/site-packages")
    installed = Path(sysconfig.get_path("purelib"))
    for entry in installed.iterdir():
        if entry.name != "nvidia":
            (folder / entry.name).symlink_to(entry)
    for wheel in (packages.COMPILERS["cuda12"], *packages.HEADERS):
        for file in packages.files_of(wheel):
            if file.startswith("nvidia/") and "/bin/" not in file and ".alt." not in file:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(installed / file, folder / file)
    return own


def link_or_copy(file: Path, to: Path) -> None:
    """A link that its folder's name does not lead away from, as one of symbols does."""
    try:
        os.link(file, to)
    except OSError:
        shutil.copy(file, to)


@needs_nvrtc
@pytest.mark.parametrize(
    ("missing", "source", "said", "wheel"),
    [
        ("cuda_nvrtc/lib/libnvrtc-builtins.so.12.9", None, "libnvrtc-builtins", "nvrtc-cu12"),
        ("cuda_nvrtc/lib/libnvrtc.so.12", None, "libnvrtc", "nvrtc-cu12"),
        ("cuda_runtime/include/cuda_fp16.h", "<cuda_fp16.h>", "cuda_fp16.h", "runtime-cu12"),
        ("cu13/include/crt/mma.h", "<mma.h>", "crt/mma.h", "crt"),
        ("cuda_cccl/include/cuda/std/utility", "<utility>", "cuda/std/utility", "cccl-cu12"),
    ],
    ids=lambda value: Path(value).name if value else "",
)
def test_a_file_that_a_wheel_lacks_is_one_line_with_the_command_that_brings_it(
    python: Path, tmp_path: Path, missing: str, source: str | None, said: str, wheel: str
) -> None:
    [file] = python.parents[1].glob(f"lib/python*/site-packages/nvidia/{missing}")
    own = ["--version"]
    if source:
        (tmp_path / "mine.cu").write_text(f"#include {source}\n")
        own = ["-arch=sm_80", "-o", str(tmp_path / "cubin"), str(tmp_path / "mine.cu")]
    away = file.rename(tmp_path / "away")
    try:
        done = subprocess.run([python, toolchain.NVRTC, *own], capture_output=True, text=True)
    finally:
        away.rename(file)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ") and said in line
    assert line.endswith(f"{packages.SYNC['cuda12']} --reinstall-package nvidia-cuda-{wheel}`")
    with pytest.raises(UserError) as caught:
        toolchain.check_machine("nvrtc.py", done.stderr)
    assert line == f"error: {caught.value}"
