"""The card's state: readings become one state, and a hot card is recognised."""

import math
import time
from types import SimpleNamespace
from unittest.mock import Mock

import pynvml
import pytest

from matmul_sweep.experiment.measure.state import (
    PERIOD_S,
    Reading,
    Recorder,
    State,
    average_power_w,
    cool,
    power_w,
    recording,
    state_of,
)

POWER_CAP = pynvml.nvmlClocksThrottleReasonSwPowerCap
THERMAL = pynvml.nvmlClocksThrottleReasonSwThermalSlowdown
IDLE = pynvml.nvmlClocksThrottleReasonGpuIdle


def reading(celsius: float = 40, clock: float = 1980, watts: float = 500, why: int = 0) -> Reading:
    return Reading(0.0, clock, 2619, watts, celsius, 1980, why)


def test_readings_become_medians_the_highest_temperature_and_the_reasons():
    capped, slow = reading(44, 1500, 700.06, POWER_CAP), reading(42, 1400, 100, POWER_CAP)
    found = state_of([reading(40, 1980, 690.04, IDLE), capped, slow])
    assert found == State(1500, 2619, 690.0, 44, "power_cap")
    assert state_of([capped, reading(why=THERMAL)]).throttled == "power_cap+sw_thermal"


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([reading(clock=1965, why=POWER_CAP), reading()], "power_cap"),
        ([reading(clock=1965, why=POWER_CAP), reading(), reading()], ""),
        ([reading(watts=850, why=POWER_CAP)], ""),
        ([reading(clock=1410)], ""),
        ([reading(why=THERMAL), *[reading()] * 9], "sw_thermal"),
    ],
    ids=["in half", "in the library's launches", "at full clock", "no reason", "heat, once"],
)
def test_the_power_limit_is_named_where_it_held_the_clock_down_half_of_the_time(readings, expected):
    assert state_of(readings).throttled == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (reading(75), True),
        (reading(76), False),
        (reading(40, why=THERMAL), False),
        (reading(40, why=POWER_CAP | IDLE), True),
    ],
    ids=["as hot as may be", "hotter", "slowing down for heat", "at its power cap"],
)
def test_a_card_is_cool_below_its_limit_and_when_heat_does_not_slow_it(now, expected):
    assert cool(now, 75) is expected


def test_without_nvml_nothing_is_read_or_known_and_nothing_fails():
    with recording(None) as recorder:
        recorder.join(1)
        assert not recorder.is_alive()
    assert recorder.now() == recorder.span(0, time.perf_counter()) == []
    assert state_of([]) == State(None, None, None, None, None)


def test_a_card_that_is_gone_is_not_read_and_its_recorder_ends_with_its_block(monkeypatch):
    read = Mock(side_effect=pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST))
    monkeypatch.setattr(Recorder, "read", read)
    with pytest.raises(ZeroDivisionError), recording("a handle") as recorder:
        recorder.join(5 * PERIOD_S)
        assert recorder.is_alive()
        _ = 1 / 0
    assert not recorder.is_alive()
    assert recorder.now() == recorder.readings == []
    assert read.call_count > 1


def test_a_span_has_the_readings_within_it():
    recorder = Recorder(None)
    recorder.readings = [reading()._replace(time=float(t)) for t in range(10)]
    assert [r.time for r in recorder.span(2.5, 5)] == [3, 4, 5]


@pytest.mark.parametrize(
    ("joules", "expected"),
    [
        ([0, 0, 60, 60, 120, 120, 130], 600),  # moved at 0.2, 0.4 and 0.6 s
        ([5] * 7, None),
        ([5, 5, 9, 9, 9, 9, 9], None),
        ([math.nan] * 7, None),
        ([], None),
    ],
    ids=["it moves", "it stands still", "it moves once", "no counter", "no reading"],
)
def test_the_average_power_is_from_the_first_to_the_last_move_of_the_counter(joules, expected):
    readings = [reading()._replace(time=t / 10, energy_j=j) for t, j in enumerate(joules)]
    assert average_power_w(readings[:6]) == (None if expected is None else pytest.approx(60 / 0.2))


@pytest.mark.parametrize(
    ("status", "expected"), [(pynvml.NVML_SUCCESS, 123.0), (pynvml.NVML_ERROR_NOT_SUPPORTED, 77.0)]
)
def test_power_is_the_moments_where_the_driver_has_it(monkeypatch, status, expected):
    field = SimpleNamespace(nvmlReturn=status, value=SimpleNamespace(uiVal=123_000))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", lambda *_: [field])
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", lambda _: 77_000)
    assert power_w(object()) == expected
