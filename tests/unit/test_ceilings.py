"""The ceilings of a card: rates computed by hand, and a row with a reason for what it lacks."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from matmul_sweep.build.binaries import INSTRUMENT_FLAGS, TOOLS, tool_source
from matmul_sweep.build.toolchain import cubin_command, read_ptxas, run
from matmul_sweep.experiment.dataset.intervals import SMALLEST
from matmul_sweep.experiment.measure import ceilings

LAUNCH_MS = 4.0
FIRST_MS = 0.5


class Refused(Exception):
    """In the place of the driver's errors."""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One whose launches take LAUNCH_MS, and whose threads count no multiply-add; the steps of each
    launch."""
    times = [[FIRST_MS] * ceilings.BATCH, [LAUNCH_MS]]

    def take(launches: Sequence[Callable[[], None]]) -> list[float]:
        for launch in launches:
            launch()
        return times.pop(0) if times else [LAUNCH_MS] * len(launches)

    made: Any = object.__new__(ceilings.Ceilings)
    made.counted, made.steps = 0, []
    made.gpu = SimpleNamespace(
        attribute=lambda name: 2, architecture="sm_75", nvml=None,
        errors=(Refused,), drv=SimpleNamespace(memcpy_dtoh=lambda to, _: to.fill(made.counted)),
    )  # fmt: skip
    made.launched = lambda *arguments: made.steps.append(arguments[4])
    function = SimpleNamespace(prepared_async_call=lambda *arguments: made.launched(*arguments))
    made.module = SimpleNamespace(
        get_function=lambda name: SimpleNamespace(prepare=lambda kinds: function)
    )
    made.tools = SimpleNamespace(poisoned=lambda count, dtype: None, stream=None)
    made.stream = SimpleNamespace(times=take)
    recorder = SimpleNamespace(span=lambda start, end: [], now=lambda: [])
    monkeypatch.setattr(ceilings, "recording", lambda handle: nullcontext(recorder))
    monkeypatch.setattr(ceilings, "run_for", lambda seconds, action: None)
    return made


def test_a_rate_is_two_operations_for_each_multiply_add_that_was_counted(bench: Any) -> None:
    bench.counted = 1000
    row = bench.row("multiply_add_float32")
    threads = 2 * ceilings.RESIDENT * ceilings.THREADS
    assert row["status"] == "ok"
    assert row["value"] == pytest.approx(2 * 1000 * threads / (LAUNCH_MS / 1e3) / 1e12)
    assert row["value_low"] == row["value"] == row["value_high"]
    assert SMALLEST <= row["samples"] <= ceilings.RULE.maximum
    # A short launch shows how many steps make one as long as wanted.
    assert set(bench.steps[: ceilings.BATCH]) == {ceilings.FIRST_STEPS}
    wanted = ceilings.FIRST_STEPS * ceilings.LAUNCH_MS / FIRST_MS
    assert set(bench.steps[ceilings.BATCH :]) == {wanted}


def test_what_a_card_lacks_or_refuses_is_a_row_that_says_so(bench: Any) -> None:
    def refuse(*arguments: object) -> None:
        raise Refused("no such instruction")

    lacking = bench.row("tensor_float64")
    bench.launched = refuse
    refused = bench.row("tensor_float64")
    assert [(row["status"], row["reason"], row["samples"]) for row in (lacking, refused)] == [
        ("skipped", "the tensor cores of sm_75 do not multiply in float64", 0),
        ("failed", "the launch failed: no such instruction", 0),
    ]


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
def test_every_ceiling_compiles_without_spills(architecture: str, tmp_path: Path) -> None:
    cubin = tmp_path / "ceilings.cubin"
    report = run(cubin_command(tool_source("ceilings"), INSTRUMENT_FLAGS, architecture, cubin))
    assert TOOLS["ceilings"] in ceilings.UNITS
    for name in ceilings.UNITS:
        assert read_ptxas(report, name).spill_bytes == 0
