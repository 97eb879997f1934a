"""The checks of the timing, on stubs for PyTorch, Triton and a GPU, and their place in a report."""

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
from support import ROOT, Command

import cross_check
import timer_check
from matmul_sweep.build import binaries
from matmul_sweep.experiment.dataset.tables import read_table
from matmul_sweep.experiment.measure import cublas, instruments, sampling, state, timing
from matmul_sweep.launch import device, products
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.programs import imported_files

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

    def __sub__(self, offset: float) -> "Matrix":
        return self


class Torch(ModuleType):
    """PyTorch on a card; each product takes n microseconds, in the second round twice as long, in
    the third ten times."""

    __version__ = "2.9.1"
    float32, float64 = "float32", "float64"

    def __init__(self) -> None:
        super().__init__("torch")
        self.products: list[tuple[Matrix, Matrix, Matrix]] = []
        self.precision = "unknown"
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            get_device_name=lambda index: DEVICE["gpu"],
            get_device_properties=lambda index: SimpleNamespace(uuid="of-this-card"),
        )

    def set_float32_matmul_precision(self, precision: str) -> None:
        self.precision = precision

    def rand(self, rows: int, columns: int, dtype: str, device: str) -> Matrix:
        assert (rows, device) == (columns, "cuda")
        return Matrix(rows, dtype)

    def empty_like(self, other: Matrix) -> Matrix:
        return Matrix(other.n, other.dtype)

    def mm(self, left: Matrix, right: Matrix, out: Matrix) -> None:
        self.products.append((left, right, out))

    def do_bench(
        self, launch: Callable[[], None], warmup: int, rep: int, return_mode: str
    ) -> float:
        assert return_mode == "median"
        launch()
        n, dtype = self.products[-1][2].n, self.products[-1][2].dtype
        before = sum((c.n, c.dtype) == (n, dtype) for _, _, c in self.products[:-1])
        return n * 1e-3 * (1, 2, 10)[before]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    """PyTorch and Triton that were never installed."""
    torch, triton, testing = Torch(), ModuleType("triton"), ModuleType("triton.testing")
    triton.__version__, triton.testing, testing.do_bench = "3.5.1", testing, torch.do_bench
    for module in (torch, triton, testing):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return torch


def crossed(folder: Path) -> Any:
    return read_table("cross_check.csv", folder / "cross_check.csv")


def test_the_medians_of_rounds_stand_beside_cold_times(
    command: Command, torch: Torch, tmp_path: Path
) -> None:
    results = made_up(tmp_path, kernels=FEW)
    told = command("cross_check", "--data", tmp_path)
    assert told.code == 0, told.err
    table = crossed(tmp_path)
    assert list(zip(table.variant, table.n, strict=True)) == [
        ("cublas_sgemm", 320), ("cublas_sgemm", 640), ("cublas_sgemm", 1024),
        ("cublas_dgemm", 500), ("cublas_dgemm", 2500), ("cublas_dgemm", 4500),
    ]  # fmt: skip
    assert set(table.cache) == {"cold"} and set(table["rounds"]) == {3}
    assert table.do_bench_ms.tolist() == pytest.approx(table.n * 2e-3)
    assert table.do_bench_low_ms.tolist() == pytest.approx(table.n * 1e-3)
    assert table.do_bench_high_ms.tolist() == pytest.approx(table.n * 1e-2)
    assert set(table.torch + table.triton + table.uuid) == {"2.9.13.5.1GPU-of-this-card"}
    ours = results.timed(cache="cold").query("variant == 'cublas_sgemm' and n == 640").time_ms
    line = next(line for line in told.out.splitlines() if " 640 " in line)
    assert float(line.split()[-1]) == pytest.approx(ours.item() / 1.28 - 1, rel=1e-3)


def test_the_products_are_those_of_the_data_set_in_full_arithmetic(
    command: Command, torch: Torch, tmp_path: Path
) -> None:
    made_up(tmp_path, kernels=FEW)
    command("cross_check", "--data", tmp_path, "--sizes", 640, 2500)
    (a, b, c), (transposed, again, gram) = torch.products[:2]  # the first round's
    assert a is not b and (a.of, b.of) == (None, None) and c.dtype == "float32"
    assert transposed.of is again and gram.dtype == "float64"
    assert torch.precision == "highest"


def test_hot_times_are_taken_where_there_are_no_cold_ones(
    command: Command, torch: Torch, tmp_path: Path
) -> None:
    def half_cold(summary: Any) -> Any:
        return summary[~((summary.cache == "cold") & (summary.n == 640))].reset_index(drop=True)

    made_up(tmp_path, kernels=FEW, change=half_cold)
    command("cross_check", "--data", tmp_path, "--sizes", 320, 640)
    assert crossed(tmp_path).cache.tolist() == ["cold", "hot"]


def test_only_bursts_on_uniform_inputs_of_the_routines_own_sweep_are_compared(
    tmp_path: Path,
) -> None:
    summary = made_up(tmp_path, kernels=FEW).summary
    others = [summary.assign(**{name: "other"}) for name in ("sweep", "fill", "mode")]
    for other in others:
        with pytest.raises(UserError, match="no times of cublas_sgemm or cublas_dgemm"):
            cross_check.points_of(other, cross_check.SIZES)


@pytest.mark.parametrize("missing", ["torch", "triton.testing"])
def test_without_pytorch_or_triton_it_is_one_line(
    command: Command, torch: Torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    made_up(tmp_path, kernels=FEW)
    monkeypatch.setitem(sys.modules, missing, None)
    error = command("cross_check", "--data", tmp_path).error()
    assert "PyTorch and Triton must be installed" in error and missing in error


@pytest.mark.parametrize(
    ("spoil", "arguments", "said"),
    [
        (lambda cuda: setattr(cuda, "is_available", lambda: False), [], "no GPU on this machine"),
        (lambda cuda: setattr(cuda, "get_device_name", lambda index: "B1"), [], "here is B1"),
        (lambda cuda: None, ["--sizes", 641], "the data set has them at 32, 320, 500, 640"),
        (lambda cuda: None, ["--data", "absent"], "absent/device.json"),
    ],
    ids=["no GPU", "another card", "no such size", "no data set"],
)
def test_what_cannot_be_compared_is_one_line(
    command: Command, torch: Torch, tmp_path: Path, spoil: Callable[[Any], None],
    arguments: Sequence[object], said: str,
) -> None:  # fmt: skip
    made_up(tmp_path, kernels=FEW)
    spoil(torch.cuda)
    assert said in command("cross_check", "--data", tmp_path, *arguments).error()
    assert not (tmp_path / "cross_check.csv").exists()


def test_a_data_set_without_the_library_is_one_line(
    command: Command, torch: Torch, tmp_path: Path
) -> None:
    made_up(tmp_path, kernels=["naive"])
    assert "has them at no size" in command("cross_check", "--data", tmp_path).error()


def test_the_other_program_s_timing_shares_no_code_with_ours() -> None:
    own = {file.stem for file in imported_files(ROOT / "scripts" / "cross_check.py")}
    assert own.isdisjoint({"timing", "gpu_bench", "instruments", "cublas", "products"})
    with_it = {file.stem for file in imported_files(ROOT / "scripts" / "timer_check.py")}
    assert {"timing", "instruments"} < with_it


def test_the_version_of_the_loaded_cublas() -> None:
    try:
        wheel = version("nvidia-cublas")
    except PackageNotFoundError:
        pytest.skip("cuBLAS is no wheel here")
    ctypes.CDLL(cublas.library()[1])
    found = cross_check.cublas_version()
    assert found.count(".") == 2 and wheel.startswith(found)


def test_a_cublas_that_is_not_found_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = [SimpleNamespace(path="/lib/libcublasLt.so.13"), SimpleNamespace(path="[heap]")]
    monkeypatch.setattr(psutil.Process, "memory_maps", lambda process: maps)
    assert cross_check.cublas_version() == "unknown"


class Clock:
    """A stream on which launches take 1 ms, 2% longer while a recorder runs, and a drifting clock
    adds 1% from block to block."""

    def __init__(self) -> None:
        self.recording: list[bool] = []

    def times(self, launches: Sequence[Callable[[], None]]) -> list[float]:
        for launch in launches:
            launch()
        running = any(isinstance(thread, Reader) for thread in threading.enumerate())
        self.recording.append(running)
        return [(1.02 if running else 1.0) * 1.01 ** len(self.recording)] * len(launches)


class Reader(state.Recorder):
    """A recorder whose first reading is there before it counts as started."""

    def start(self) -> None:
        super().start()
        if self.handle:
            self.readings.append(None)

    def run(self) -> None:
        if self.handle:
            self.finished.wait()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Blocks of one batch on that stream, and that recorder."""
    for module in (timer_check, state):
        monkeypatch.setattr(module, "Recorder", Reader)
    for module in (timer_check, sampling):
        monkeypatch.setattr(module, "run_for", lambda seconds, action: action())
    return Clock()


def test_a_recorder_that_disturbs_is_seen_whatever_the_clock_does(clock: Clock) -> None:
    off, on = timer_check.recorder_rows(clock, lambda: None, object(), 320)
    assert (off["recorder"], on["recorder"]) == ("off", "on")
    assert (off["readings"], on["readings"]) == (0, timer_check.PAIRS)
    assert off["samples"] == on["samples"] == timer_check.PAIRS
    assert "ratio" not in off
    assert on["ratio_low"] <= on["ratio"] <= on["ratio_high"]
    assert on["ratio"] == pytest.approx(1.02, rel=1e-3)


def test_blocks_take_turns_and_each_kind_comes_first_as_often(clock: Clock) -> None:
    timer_check.recorder_rows(clock, lambda: None, object(), 320)
    warmed, *blocks = clock.recording
    pairs = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert not warmed
    assert pairs.count((True, False)) == pairs.count((False, True)) == timer_check.PAIRS / 2


def test_the_recorder_s_thread_ends_with_its_block(clock: Clock) -> None:
    with pytest.raises(ZeroDivisionError), timer_check.recording(object()) as recorder:
        assert recorder.is_alive()
        _ = 1 / 0
    assert not recorder.is_alive()


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
        empty=lambda: gpu.launched.append("empty"),
        filled=lambda fill, seed, which, count, dtype: (fill, which, count, dtype),
        poisoned=lambda count, dtype: ("C", count, dtype),
    )
    monkeypatch.setattr(device, "opened", opened)
    monkeypatch.setattr(binaries, "compile_instruments", lambda arch, binary: None)
    monkeypatch.setattr(instruments, "Instruments", lambda gpu, build: tools)
    monkeypatch.setattr(timing, "HeldStream", lambda tools: clock)
    monkeypatch.setattr(
        products, "library_product",
        lambda variant, tools: lambda *arguments: gpu.launched.append((variant.name, *arguments)),
    )  # fmt: skip
    return gpu


def test_the_timer_is_checked_at_each_size_beside_the_data_set(
    command: Command, card: SimpleNamespace, tmp_path: Path
) -> None:
    made_up(tmp_path, kernels=["naive"])
    told = command("timer_check", "--data", tmp_path)
    assert told.code == 0, told.err
    table = read_table("timer_check.csv", tmp_path / "timer_check.csv")
    assert table.variant.tolist() == ["empty kernel"] + ["cublas_sgemm"] * 6
    assert table.n.dropna().tolist() == [320, 320, 1024, 1024, 4096, 4096]
    assert table["samples"].tolist() == [200] + [timer_check.PAIRS] * 6
    assert table.recorder.tolist() == ["off", *["off", "on"] * 3]
    assert set(table.uuid) == {DEVICE["uuid"]}
    variant, shape, a, b, c = card.launched[-1]
    assert (variant, str(shape)) == ("cublas_sgemm", "4096x4096x4096")
    assert (a, b) == tuple(("uniform", which, 4096**2, "float32") for which in (0, 1))
    assert c == ("C", 4096**2, "float32")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": SimpleNamespace(name=lambda: "B1")}, "was measured on Imaginary GPU"),
        ({"nvml": None, "nvml_reason": "unavailable: no library"}, "unavailable: no library"),
    ],
    ids=["another card", "no NVML"],
)
def test_what_the_timer_check_needs_is_one_line(
    command: Command, card: SimpleNamespace, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    made_up(tmp_path, kernels=["naive"])
    vars(card).update(changes)
    assert said in command("timer_check", "--data", tmp_path).error()
    assert not (tmp_path / "timer_check.csv").exists()
