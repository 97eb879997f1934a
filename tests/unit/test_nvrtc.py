"""NVRTC in nvcc's place, and what is said of packages that are missing, damaged or one too many."""

import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from matmul_sweep.build import nvrtc, packages, toolchain
from matmul_sweep.build.machine_code import disassembled
from matmul_sweep.process.errors import UserError

needs_nvrtc = pytest.mark.skipif(
    packages.installed() != "cuda12", reason="the packages of CUDA 12 are not installed"
)
FILES = Path(__file__).parent / "nvrtc"


def groups(monkeypatch: pytest.MonkeyPatch, *wheels: str) -> None:
    """Have these wheels and no others, each with one file."""
    found = {wheel: [f"{wheel}/file"] for wheel in wheels}
    monkeypatch.setattr(packages, "files_of", lambda wheel: found.get(wheel, []))


@pytest.mark.parametrize("group", packages.COMPILERS)
def test_the_group_is_known_by_its_compilers_wheel(monkeypatch, group):
    groups(monkeypatch, packages.COMPILERS[group])
    assert packages.installed() == group
    compiler = toolchain.cuda.__wrapped__
    monkeypatch.setattr(toolchain, "nvcc", lambda: "nvcc")
    assert (compiler() == ("nvcc",)) == (group == "cuda13")


def test_without_nvcc_the_nvrtc_beside_pytorch_compiles(monkeypatch):
    monkeypatch.setattr(toolchain, "nvcc", Mock(side_effect=UserError("no nvcc")))
    wheels = {packages.BESIDE_PYTORCH: ["file"]}
    monkeypatch.setattr(toolchain, "files_of", lambda wheel: wheels.get(wheel, []))
    compiler = toolchain.cuda.__wrapped__
    groups(monkeypatch)
    assert compiler()[1] == str(toolchain.NVRTC)
    wheels.clear()
    with pytest.raises(UserError, match="no nvcc"):
        compiler()


def test_both_groups_are_refused_with_the_commands_that_leave_one(monkeypatch):
    groups(monkeypatch, *packages.COMPILERS.values())
    with pytest.raises(UserError, match="`uv sync`, or `uv sync --no-group cuda13 --group cuda12`"):
        packages.installed()


@pytest.mark.parametrize("arch", ["sm_61", "sm_70"])
def test_a_card_that_cuda_13_has_dropped_is_told_of_cuda_12(monkeypatch, arch):
    compiler = ("printf", "release 13.0\\nsm_75\\nsm_90\\n%.0s")
    monkeypatch.setattr(toolchain, "cuda", lambda: compiler)
    with pytest.raises(UserError, match=rf"'{arch}' .*uv sync --no-group cuda13 --group cuda12"):
        toolchain.check_architectures(["sm_90", arch])


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_60", "sm_75", "sm_90a"])
def test_it_knows_what_kernels_take_from_headers(tmp_path, arch):
    flags, cubin = [*toolchain.FLAGS["cuda"], "-Xptxas", "-O3"], tmp_path / "mine.cubin"
    found = toolchain.build_cubin(FILES / "headers.cu", ["mine"], flags, arch, cubin)["mine"]
    assert found.shared_bytes == 128
    assert 4 <= found.registers <= 40


@needs_nvrtc
@pytest.mark.skipif(not toolchain.nvdisasm(), reason="there is no nvdisasm")
def test_an_operand_of_wgmma_is_computed_in_32_bits_as_by_nvcc(tmp_path):
    source, cubin = FILES / "operand.cu", tmp_path / "mine.cubin"
    toolchain.run(toolchain.cubin_command(source, toolchain.FLAGS["cuda"], "sm_90", cubin))
    shifts = {
        function: {code.opcode for code in disassembled(cubin, function) if "SHF" in code.opcode}
        for function in ("mine", "without_the_macro")
    }
    assert shifts["mine"].isdisjoint({"SHF.R.U64", "USHF.R.U64"})
    assert shifts["without_the_macro"] & {"SHF.R.U64", "USHF.R.U64"}


@needs_nvrtc
def test_the_headers_that_hand_ins_may_name_are_there(tmp_path):
    names = ("mma.h", "cuda_fp16.h", "cuda_bf16.h", "cooperative_groups.h", "assert.h", "float.h",
             "math.h", "limits", "cfloat", "cstdint", "utility", "cuda_pipeline.h")  # fmt: skip
    source = tmp_path / "mine.cu"
    source.write_text("".join(f"#include <{name}>\n" for name in names))
    toolchain.run(toolchain.cubin_command(source, ["-std=c++17"], "sm_80", tmp_path / "cubin"))


class Damaged:
    """NVRTC that lacks its builtins, or says that it lacks a header."""

    def __init__(self, status: int, said: str) -> None:
        self.status, self.said = status, said.encode()

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.status * (name == "nvrtcCompileProgram")

    def nvrtcGetProgramLogSize(self, program: object, size: Any) -> None:
        size._obj.value = len(self.said)

    def nvrtcGetProgramLog(self, program: object, text: Any) -> None:
        text.raw = self.said


@pytest.mark.parametrize(
    ("status", "said", "file", "wheel"),
    [
        (nvrtc.NO_BUILTINS, "nvrtc: error: failed to open {}", "libnvrtc-builtins", "nvrtc-cu12"),
        (6, 'catastrophic error: cannot open source file "{}"', "cuda_fp16.h", "runtime-cu12"),
        (6, 'catastrophic error: cannot open source file "{}"', "crt/mma.h", "crt"),
    ],
)
def test_a_file_that_a_wheel_lacks_is_told_with_the_command(monkeypatch, status, said, file, wheel):
    brought = {
        name: [f"{folder}/{file}"] for name, folder in nvrtc.HEADERS.items() if wheel in name
    }
    monkeypatch.setattr(nvrtc, "files_of", lambda name: brought.get(name, []))
    with pytest.raises(UserError) as caught:
        nvrtc.compiled(Damaged(status, said.format(file)), "", "mine.cu", [])
    line = str(caught.value)
    assert file in line
    assert line.endswith(f"{packages.SYNC['cuda12']} --reinstall-package nvidia-cuda-{wheel}`")
    done = subprocess.CompletedProcess(["nvrtc.py"], 1, "", f"error: {line}")
    with pytest.raises(UserError, match="--reinstall-package"):
        toolchain.check_machine("nvrtc.py", done)
