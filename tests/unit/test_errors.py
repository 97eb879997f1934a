"""How a script ends: with one line and a code, and at once if a GPU still runs a launch."""

import subprocess
import sys
import time

import pytest
from support import ROOT

from matmul_sweep.process import errors
from matmul_sweep.process.errors import UserError, command_line

LEAVING = """
import sys, time
from types import SimpleNamespace

sys.path.insert(0, {scripts!r})
from matmul_sweep.process.errors import Unfinished, UserError, command_line
from matmul_sweep.experiment.verify.instruments import Instruments

class Memory:
    def __del__(self):  # the driver frees it when nothing runs any more, which here is never
        time.sleep(600)

def measure():
    c = Memory()
    tools = object.__new__(Instruments)
    tools.hang_seconds, tools.stream = 0.1, SimpleNamespace(is_done=lambda: False)
    tools.wait()

@command_line
def main():
    try:
        measure()
    except Unfinished as failure:
        print("failed:", failure)
    if {fails}:
        timer = Memory()
        raise UserError("mine is wrong")

main()
"""


@pytest.mark.parametrize("fails", [False, True])
def test_a_script_does_not_wait_for_a_launch_that_never_ends(fails):
    script = LEAVING.format(scripts=str(ROOT / "src"), fails=fails)
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert time.monotonic() - start < 60
    assert done.stdout == "failed: the launch did not finish within 0.1 s\n"
    assert done.stderr == ("error: mine is wrong\n" if fails else "")
    assert done.returncode == fails


def test_a_mistake_is_one_line_whatever_it_quotes():
    assert str(UserError("kernel 'a\nb\r\u2028c'\n is none")) == "kernel 'a b c' is none"


def test_a_bug_keeps_its_trace():
    @command_line
    def main() -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        main()
    assert not errors.left_running
