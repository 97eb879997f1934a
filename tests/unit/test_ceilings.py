"""The ceilings of a card: rates computed by hand, and a row with a reason for what it lacks."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import MagicMock

import pytest

from matmul_sweep.build.binaries import INSTRUMENT_FLAGS, TOOLS, tool_source
from matmul_sweep.build.toolchain import cubin_command, read_ptxas, run
from matmul_sweep.experiment.dataset.intervals import SMALLEST
from matmul_sweep.experiment.dataset.words import CEILINGS
from matmul_sweep.experiment.measure import ceilings

FIRST_MS = 0.5  # of a launch of FIRST_STEPS


class Refused(Exception):
    """In the place of the driver's errors."""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One whose launches take time by their steps, and whose threads each count 1000
    multiply-adds."""
    made: Any = object.__new__(ceilings.Ceilings)
    made.gpu, made.tools, made.module, made.stream = (MagicMock() for _ in range(4))
    made.gpu.configure_mock(architecture="sm_75", nvml=None, errors=(Refused,))
    made.gpu.attribute.return_value = 2
    made.gpu.drv.memcpy_dtoh = lambda to, _: to.fill(made.counted)
    made.counted, made.steps = 1000, []

    def times(launches: Sequence[Callable[[], None]]) -> list[float]:
        for each in launches:
            each()
        return [FIRST_MS * steps / ceilings.FIRST_STEPS for steps in made.steps[-len(launches) :]]

    made.launch = made.module.get_function().prepare().prepared_async_call
    made.launch.side_effect = lambda *arguments: made.steps.append(arguments[4])
    made.stream.times = times
    monkeypatch.setattr(ceilings, "WARM_SECONDS", 0)
    return made


def test_a_rate_is_two_operations_for_each_multiply_add_that_was_counted(bench):
    """A short launch shows how many steps make one as long as wanted."""
    row = bench.row("multiply_add_float32")
    threads = 2 * ceilings.RESIDENT * ceilings.THREADS
    assert row["status"] == "ok"
    assert row["value"] == pytest.approx(2 * 1000 * threads / (ceilings.LAUNCH_MS / 1e3) / 1e12)
    assert row["value_low"] == row["value"] == row["value_high"]
    assert SMALLEST <= row["samples"] <= ceilings.RULE.maximum


def test_what_a_card_lacks_or_refuses_is_a_row_that_says_so(bench):
    bench.counted = 0
    lacking = bench.row("tensor_float64")
    bench.launch.side_effect = Refused("no such instruction")
    refused = bench.row("tensor_float64")
    assert [(row["status"], row["reason"], row["samples"]) for row in (lacking, refused)] == [
        ("skipped", "the tensor cores of sm_75 do not multiply in float64", 0),
        ("failed", "the launch failed: no such instruction", 0),
    ]


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
def test_every_ceiling_compiles_without_spills(architecture, tmp_path):
    cubin = tmp_path / "ceilings.cubin"
    report = run(cubin_command(tool_source("ceilings"), INSTRUMENT_FLAGS, architecture, cubin))
    assert TOOLS["ceilings"] in CEILINGS
    assert all(read_ptxas(report, name).spill_bytes == 0 for name in CEILINGS)
