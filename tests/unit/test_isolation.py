"""A call in its own process that ends badly."""

import os
import signal
import time

import pytest

from matmul_sweep.process.errors import Unfinished
from matmul_sweep.process.isolation import Crashed, run_isolated, shared_array


def test_what_a_call_wrote_comes_back() -> None:
    array = shared_array((2, 3), "float32")
    run_isolated(lambda: array.fill(7), 30)
    assert (array == 7).all()


def test_a_crash_names_the_signal() -> None:
    with pytest.raises(Crashed, match=r"it died of SIGKILL$"):
        run_isolated(lambda: os.kill(os.getpid(), signal.SIGKILL), 30)


def test_an_error_is_no_signal(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Crashed, match=r"it died of an error \(exit code 1\)"):
        run_isolated(lambda: 1 / 0, 30)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_call_without_an_end_is_stopped() -> None:
    begun = time.monotonic()
    with pytest.raises(Unfinished, match=r"did not finish within 0\.2 s"):
        run_isolated(lambda: time.sleep(60), 0.2)
    assert time.monotonic() - begun < 10
