"""The checks of the timing, without PyTorch, Triton or a GPU."""

import ctypes
import itertools
import sys
from collections.abc import Callable
from types import SimpleNamespace
from unittest.mock import MagicMock

import psutil
import pytest
from made_up_data import DEVICE, made_up, where

import matmul_sweep
from matmul_sweep.experiment.dataset.tables import read_table
from matmul_sweep.experiment.measure import check_timer
from matmul_sweep.experiment.verify import cublas

FEW = ["naive", "cublas_sgemm", "cublas_dgemm", "cublas_dsyrk"]
SIZES = [320, 640, 1024, 500, 2500, 4500]  # of the made-up set: three of gemm, three of gram


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """PyTorch and Triton that were never installed. Each product takes n microseconds, in the
    second round twice as long, in the third ten times."""
    torch, triton = MagicMock(__version__="2.9.1"), MagicMock(__version__="3.5.1")
    torch.cuda.get_device_name.return_value = DEVICE["gpu"]
    torch.cuda.get_device_properties.return_value.uuid = "of-this-card"
    taken = itertools.cycle([n * round * 1e-3 for round in (1, 2, 10) for n in SIZES])

    def do_bench(launch: Callable[[], None], return_mode: str, **budget: int) -> float:
        assert (return_mode, budget) == ("median", check_timer.BUDGET_MS)
        launch()
        return next(taken)

    triton.testing.do_bench = do_bench
    for name, module in (("torch", torch), ("triton", triton), ("triton.testing", triton.testing)):
        monkeypatch.setitem(sys.modules, name, module)
    return torch


def test_the_medians_of_rounds_stand_beside_cold_times_or_else_hot_ones(command, torch, tmp_path):
    """Of the same products, in full arithmetic."""

    none = where("cache == 'cold' and n == 640", status="skipped")
    results = made_up(tmp_path, kernels=FEW, change=none)
    told = command("check_timer", "do_bench", "--data", tmp_path)
    assert told.code == 0, told.err
    table = read_table("cross_check.csv", tmp_path / "cross_check.csv")
    assert table.variant.tolist() == ["cublas_sgemm"] * 3 + ["cublas_dgemm"] * 3
    assert table.n.tolist() == SIZES
    assert table.cache.tolist() == ["cold", "hot", *["cold"] * 4]
    for column, factor in (("", 2e-3), ("_low", 1e-3), ("_high", 1e-2)):
        assert table[f"do_bench{column}_ms"].tolist() == pytest.approx(table.n * factor)
    assert set(table.torch + table.triton + table.uuid) == {"2.9.13.5.1GPU-of-this-card"}
    ours = results.timed(cache="hot").query("variant == 'cublas_sgemm' and n == 640").time_ms
    line = next(line for line in told.out.splitlines() if " 640 " in line)
    assert float(line.split()[-1]) == pytest.approx(ours.item() / 1.28 - 1, rel=1e-3)
    (a, b), (transposed, c) = (torch.mm.call_args_list[i].args for i in (0, 3))
    assert a is b and transposed is c.T  # all random matrices are one here
    wanted = [(320, torch.float32)] * 2 + [(640, torch.float32)] * 2
    assert [(call.args[0], call.kwargs["dtype"]) for call in torch.rand.mock_calls
            if len(call.args) == 2][:4] == wanted  # fmt: skip
    torch.set_float32_matmul_precision.assert_called_once_with("highest")


def test_the_projects_kernels_are_called_as_by_a_program(monkeypatch, torch, tmp_path):
    monkeypatch.setattr(matmul_sweep, "gemm", product := MagicMock(), raising=False)
    normal = where("kernel == 'bgemm'", fill="normal")
    made_up(tmp_path, kernels=["naive", "sgemm", "cublas_sgemm", "bgemm"], change=normal)
    table = check_timer.against_do_bench(tmp_path)
    assert [*table.variant] == ["cublas_sgemm"] * 3 + ["sgemm"] * 3 + ["bgemm"] * 2
    calls = [call.kwargs["kernel"] for call in product.call_args_list]
    assert calls == (["sgemm"] * 3 + ["bgemm"] * 2) * 3
    assert torch.randn.call_count == 12  # both inputs, 2 sizes, 3 rounds


@pytest.mark.parametrize("column", ["sweep", "fill", "mode"])
def test_only_bursts_on_uniform_inputs_of_the_routines_own_sweep_count(command, tmp_path, column):
    made_up(tmp_path, kernels=FEW, change=lambda summary: summary.assign(**{column: "other"}))
    error = command("check_timer", "do_bench", "--data", tmp_path).error()
    assert "no times of cublas_sgemm or cublas_dgemm" in error


def test_the_version_of_the_loaded_cublas(monkeypatch):
    ctypes.CDLL(cublas.library()[1])
    assert check_timer.loaded_cublas() == cublas.version()
    maps = [SimpleNamespace(path="/lib/libcublasLt.so.13"), SimpleNamespace(path="[heap]")]
    monkeypatch.setattr(psutil.Process, "memory_maps", lambda process: maps)
    assert check_timer.loaded_cublas() == "unknown"


@pytest.mark.parametrize(
    ("words", "spoil", "said"),
    [
        ("do_bench", lambda torch: setattr(torch.cuda.is_available, "return_value", False),
         "no GPU on this machine"),
        ("do_bench", lambda torch: setattr(torch.cuda.get_device_name, "return_value", "B1"),
         "was measured on Imaginary GPU, but here is B1"),
        ("do_bench", lambda torch: sys.modules.update({"triton.testing": None}),
         "PyTorch and Triton must be installed"),
        ("itself", lambda torch: None, "there is no NVIDIA driver on this machine"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("no_gpu")
def test_what_cannot_be_checked_is_one_line(command, torch, tmp_path, words, spoil, said):
    made_up(tmp_path, kernels=FEW)
    spoil(torch)
    assert said in command("check_timer", "--data", tmp_path, *words.split()).error()
    assert not list(tmp_path.glob("*_check.csv"))
