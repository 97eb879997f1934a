"""The checks of the timing, on stubs for PyTorch, Triton and a GPU."""

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest
from made_up_data import DEVICE, made_up
from support import Command

from matmul_sweep.experiment.dataset.tables import read_table
from matmul_sweep.experiment.measure import check_timer, state
from matmul_sweep.experiment.verify import cublas

FEW = ["naive", "cublas_sgemm", "cublas_dgemm", "cublas_dsyrk"]


class Matrix:
    """As much of a tensor as a product needs."""

    def __init__(self, n: int, dtype: str, of: "Matrix | None" = None) -> None:
        self.n, self.dtype, self.of = n, dtype, of

    @property
    def T(self) -> "Matrix":
        return Matrix(self.n, self.dtype, self)

    def __mul__(self, factor: float) -> "Matrix":
        return self

    __sub__ = __mul__


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """PyTorch and Triton that were never installed. Each product takes n microseconds, in the
    second round twice as long, in the third ten times."""
    torch, triton, testing = map(ModuleType, ("torch", "triton", "triton.testing"))
    products: list[tuple[Matrix, Matrix, Matrix]] = []

    def do_bench(launch: Callable[[], None], return_mode: str, **budget: int) -> float:
        assert return_mode == "median" and budget == check_timer.BUDGET_MS
        launch()
        n, dtype = products[-1][2].n, products[-1][2].dtype
        before = sum((c.n, c.dtype) == (n, dtype) for _, _, c in products[:-1])
        return n * 1e-3 * (1, 2, 10)[before]

    vars(torch).update(
        __version__="2.9.1", float32="float32", float64="float64", products=products,
        cuda=SimpleNamespace(
            is_available=lambda: True, get_device_name=lambda index: DEVICE["gpu"],
            get_device_properties=lambda index: SimpleNamespace(uuid="of-this-card"),
        ),
        set_float32_matmul_precision=lambda precision: setattr(torch, "precision", precision),
        rand=lambda rows, columns, dtype, device: Matrix(rows, dtype),
        empty_like=lambda other: Matrix(other.n, other.dtype),
        mm=lambda left, right, out: products.append((left, right, out)),
    )  # fmt: skip
    vars(triton).update(__version__="3.5.1", testing=testing)
    vars(testing).update(do_bench=do_bench)
    for module in (torch, triton, testing):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return torch


def test_the_medians_of_rounds_stand_beside_cold_times_or_else_hot_ones(
    command: Command, torch: Any, tmp_path: Path
) -> None:
    """Of the same products, in full arithmetic."""

    def half_cold(summary: Any) -> Any:
        return summary[~((summary.cache == "cold") & (summary.n == 640))].reset_index(drop=True)

    results = made_up(tmp_path, kernels=FEW, change=half_cold)
    told = command("check_timer", "do_bench", "--data", tmp_path)
    assert told.code == 0, told.err
    table = read_table("cross_check.csv", tmp_path / "cross_check.csv")
    assert list(zip(table.variant, table.n, table.cache, strict=True)) == [
        ("cublas_sgemm", 320, "cold"), ("cublas_sgemm", 640, "hot"),
        ("cublas_sgemm", 1024, "cold"), ("cublas_dgemm", 500, "cold"),
        ("cublas_dgemm", 2500, "cold"), ("cublas_dgemm", 4500, "cold"),
    ]  # fmt: skip
    for column, factor in (("", 2e-3), ("_low", 1e-3), ("_high", 1e-2)):
        assert table[f"do_bench{column}_ms"].tolist() == pytest.approx(table.n * factor)
    assert set(table.torch + table.triton + table.uuid) == {"2.9.13.5.1GPU-of-this-card"}
    ours = results.timed(cache="hot").query("variant == 'cublas_sgemm' and n == 640").time_ms
    line = next(line for line in told.out.splitlines() if " 640 " in line)
    assert float(line.split()[-1]) == pytest.approx(ours.item() / 1.28 - 1, rel=1e-3)
    (a, b, c), (transposed, again, gram) = torch.products[0], torch.products[3]
    assert a is not b and (a.of, b.of) == (None, None) and c.dtype == "float32"
    assert transposed.of is again and gram.dtype == "float64"
    assert torch.precision == "highest"


@pytest.mark.parametrize("column", ["sweep", "fill", "mode"])
def test_only_bursts_on_uniform_inputs_of_the_routines_own_sweep_are_compared(
    command: Command, torch: Any, tmp_path: Path, column: str
) -> None:
    made_up(tmp_path, kernels=FEW, change=lambda summary: summary.assign(**{column: "other"}))
    error = command("check_timer", "do_bench", "--data", tmp_path).error()
    assert "no times of cublas_sgemm or cublas_dgemm" in error


def test_the_version_of_the_loaded_cublas(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        wheel = version("nvidia-cublas")
    except PackageNotFoundError:
        pytest.skip("cuBLAS is no wheel here")
    ctypes.CDLL(cublas.library()[1])
    found = check_timer.loaded_cublas()
    assert found.count(".") == 2 and wheel.startswith(found) and found == cublas.version()
    maps = [SimpleNamespace(path="/lib/libcublasLt.so.13"), SimpleNamespace(path="[heap]")]
    monkeypatch.setattr(psutil.Process, "memory_maps", lambda process: maps)
    assert check_timer.loaded_cublas() == "unknown"


class Reader(state.Recorder):
    """A recorder whose first reading is there before it counts as started."""

    def start(self) -> None:
        super().start()
        if self.handle:
            self.readings.append(None)

    def run(self) -> None:
        if self.handle:
            self.finished.wait()


class Clock:
    """A stream on which launches take 1 ms, 2% longer while a recorder runs, and a drifting clock
    adds 1% from block to block."""

    def __init__(self, _: object = None) -> None:
        self.recording: list[bool] = []

    def times(self, launches: Sequence[Callable[[], None]]) -> list[float]:
        for launch in launches:
            launch()
        running = any(isinstance(thread, Reader) for thread in threading.enumerate())
        self.recording.append(running)
        return [(1.02 if running else 1.0) * 1.01 ** len(self.recording)] * len(launches)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Blocks of one batch on that stream, and that recorder."""
    monkeypatch.setattr(state, "Recorder", Reader)
    monkeypatch.setattr(check_timer, "run_for", lambda seconds, action: action())
    return Clock()


def test_a_recorder_that_disturbs_is_seen_whatever_the_clock_does(clock: Clock) -> None:
    off, on = check_timer.recorder_rows(clock, lambda: None, object(), 320)
    assert (off["recorder"], on["recorder"]) == ("off", "on")
    assert (off["readings"], on["readings"]) == (0, check_timer.PAIRS)
    assert off["samples"] == on["samples"] == check_timer.PAIRS
    assert "ratio" not in off
    assert on["ratio_low"] <= on["ratio"] <= on["ratio_high"]
    assert on["ratio"] == pytest.approx(1.02, rel=1e-3)
    warmed, *blocks = clock.recording
    pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert not warmed
    assert pairs.count((True, False)) == pairs.count((False, True)) == check_timer.PAIRS / 2


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> SimpleNamespace:
    """A GPU that multiplies nothing, and what runs on it."""
    gpu = SimpleNamespace(
        architecture="sm_90", device=SimpleNamespace(name=lambda: DEVICE["gpu"]), nvml=object(),
        nvml_reason="available", uuid=DEVICE["uuid"], launched=[],
    )  # fmt: skip

    @contextmanager
    def opened() -> Iterator[SimpleNamespace]:
        yield gpu

    tools = SimpleNamespace(
        empty=lambda: None, inputs=lambda *what: ["A", "B"], poisoned=lambda count, dtype: "C"
    )
    stubs = {
        "opened": opened, "compile_instruments": lambda arch, binary: None, "HeldStream": Clock,
        "Instruments": lambda gpu, build: tools,
        "gpu_product": lambda variant, tools: lambda *what: gpu.launched.append((variant, *what)),
    }  # fmt: skip
    for name, stub in stubs.items():
        monkeypatch.setattr(check_timer, name, stub)
    return gpu


def test_the_timer_is_checked_at_each_size_beside_the_data_set(
    command: Command, card: SimpleNamespace, tmp_path: Path
) -> None:
    made_up(tmp_path, kernels=["naive"])
    told = command("check_timer", "itself", "--data", tmp_path)
    assert told.code == 0, told.err
    table = read_table("timer_check.csv", tmp_path / "timer_check.csv")
    assert table.variant.tolist() == ["empty kernel"] + ["cublas_sgemm"] * 6
    assert table.n.dropna().tolist() == [320, 320, 1024, 1024, 4096, 4096]
    assert table["samples"].tolist() == [200] + [check_timer.PAIRS] * 6
    assert table.recorder.tolist() == ["off", *["off", "on"] * 3]
    assert table.ratio.notna().tolist() == [False, *[False, True] * 3]
    assert set(table.uuid) == {DEVICE["uuid"]}
    variant, shape, *arrays = card.launched[-1]
    assert (variant.name, str(shape), arrays) == ("cublas_sgemm", "4096x4096x4096", [*"ABC"])


@pytest.mark.parametrize(
    ("against", "spoil", "said"),
    [
        ("do_bench", lambda torch, card: setattr(torch.cuda, "is_available", lambda: False),
         "no GPU on this machine"),
        ("do_bench", lambda torch, card: setattr(torch.cuda, "get_device_name", lambda i: "B1"),
         "was measured on Imaginary GPU, but here is B1"),
        ("do_bench", lambda torch, card: sys.modules.update({"triton.testing": None}),
         "PyTorch and Triton must be installed"),
        ("itself", lambda torch, card: setattr(card.device, "name", lambda: "B1"),
         "was measured on Imaginary GPU, but here is B1"),
        ("itself", lambda torch, card: vars(card).update(nvml=None, nvml_reason="no library"),
         "no recorder to check: NVML is no library"),
        ("itself --data absent", lambda torch, card: None, "absent/device.json"),
        ("nothing", lambda torch, card: None, "invalid choice: 'nothing'"),
    ],
)  # fmt: skip
def test_what_cannot_be_checked_is_one_line(
    command: Command, torch: Any, card: SimpleNamespace, tmp_path: Path, against: str,
    spoil: Callable[[Any, Any], None], said: str,
) -> None:  # fmt: skip
    made_up(tmp_path, kernels=FEW)
    spoil(torch, card)
    assert said in command("check_timer", "--data", tmp_path, *against.split()).error()
    assert not list(tmp_path.glob("*_check.csv"))
