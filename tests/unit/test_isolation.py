"""A call in its own process that ends badly."""

import os
import signal
import time

import pytest

from matmul_sweep.process.errors import Unfinished
from matmul_sweep.process.isolation import Crashed, result_of


@pytest.mark.parametrize(
    ("action", "seconds", "said"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), 30, r"it died of SIGKILL$"),
        (lambda: 1 / 0, 30, r"it died of an error \(exit code 1\)"),
        (lambda: time.sleep(60), 0.2, r"did not finish within 0\.2 s"),
    ],
)
def test_how_a_call_ended_badly_is_said(action, seconds, said, capfd):
    begun = time.monotonic()
    with pytest.raises((Crashed, Unfinished), match=said):
        result_of(action, seconds)
    assert ("ZeroDivisionError" in capfd.readouterr().err) == ("error" in said)
    assert time.monotonic() - begun < 10
