"""The compilers: ptxas's report, the message of a failure, and a missing compiler."""

from unittest.mock import Mock

import pytest
from cuda.pathfinder import DynamicLibNotFoundError

from matmul_sweep.build import toolchain
from matmul_sweep.build.toolchain import CompileError, MachineFailed, Resources, read_ptxas
from matmul_sweep.experiment.verify import cublas
from matmul_sweep.process.errors import UserError

# As nvcc 13.0 prints it for a file of two kernels, the first with -maxrregcount=32.
REPORT = """
ptxas info    : Overriding maximum register limit 256 for 'heavy' with  32 of maxrregcount option
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'heavy' for 'sm_90'
ptxas info    : Function properties for heavy
    272 bytes stack frame, 508 bytes spill stores, 520 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 272 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 59.989 ms
ptxas info    : Compiling entry function 'heavy_too' for 'sm_90'
ptxas info    : Function properties for heavy_too
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 400 bytes cmem[0]
ptxas info    : Compile time = 1.646 ms
"""


@pytest.mark.parametrize(
    ("function", "expected"),
    [("heavy", Resources(32, 1024, 1028)), ("heavy_too", Resources(10, 0, 0))],
)
def test_a_report_is_read_for_its_own_kernel(function, expected):
    assert read_ptxas(REPORT, function) == expected


@pytest.mark.parametrize("function", ["heav", "_Z5heavyPf", ""])
def test_a_kernel_that_is_not_in_the_report_is_named(function):
    with pytest.raises(CompileError, match=f'called {function} .*extern "C"'):
        read_ptxas(REPORT, function)


@pytest.mark.parametrize("signal", [9, 15])
def test_a_compiler_that_was_killed_says_nothing_about_its_source(signal):
    """As where memory is short; as a record it would stay."""
    with pytest.raises(MachineFailed, match="sh: it was killed; run the same command again"):
        toolchain.run(["sh", "-c", f"kill -{signal} $$"])


def test_gccs_message_is_kept(tmp_path):
    source = tmp_path / "loop.c"
    source.write_text("void loop(void) { missing; }\n")
    with pytest.raises(CompileError, match=r"loop\.c:1:\d+: error: .*missing"):
        toolchain.build_shared_object(source, [], tmp_path / "loop.so")


@pytest.mark.parametrize(("compiler", "remedy"), [("nvcc", "uv sync"), ("gcc", "apt install")])
def test_a_missing_compiler_is_named_with_the_remedy(monkeypatch, tmp_path, compiler, remedy):
    monkeypatch.setattr(toolchain, "find_nvidia_binary_utility", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    uncached = getattr(toolchain, compiler).__wrapped__
    with pytest.raises(UserError, match=f"no {compiler}: .*{remedy}"):
        uncached()


@pytest.mark.parametrize("set_before", [{}, {"CUDA_PATH": "/opt/cuda"}], ids=str)
def test_a_toolkit_that_only_path_names_is_that_of_its_nvcc(monkeypatch, tmp_path, set_before):
    """For what else is looked up in it; variables that are there stand."""
    compiler = tmp_path / "bin" / "nvcc"
    compiler.parent.mkdir()
    compiler.touch(0o755)
    path = {"PATH": str(compiler.parent)}
    own = path | set_before
    monkeypatch.setattr(toolchain.os, "environ", own)
    monkeypatch.setattr(toolchain, "find_nvidia_binary_utility", lambda name: None)
    assert toolchain.nvcc.__wrapped__() == str(compiler)
    assert own == path | (set_before or {"CUDA_HOME": str(tmp_path)})


def test_no_cublas_is_one_line_with_the_remedy(monkeypatch):
    missing = Mock(side_effect=DynamicLibNotFoundError("no cublas"))
    monkeypatch.setattr(cublas, "load_nvidia_dynamic_lib", missing)
    with pytest.raises(UserError, match=r"no cuBLAS: .*uv run.*CUDA_HOME"):
        cublas.library.__wrapped__()
