"""Work that goes on in another copy of the process after one is lost."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from matmul_sweep.process.children import until_done
from matmul_sweep.process.errors import UserError


def test_another_process_goes_on_after_one_that_died(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two", "three")]

    def work(pending: Sequence[Path]) -> None:
        for file in pending:
            file.write_text(str(os.getpid()))
            if file.name == "two":
                os.kill(os.getpid(), signal.SIGKILL)

    until_done(lambda: [file for file in files if not file.exists()], work)
    one, two, three = (file.read_text() for file in files)
    assert one == two != three != str(os.getpid()) != one


@pytest.mark.parametrize(
    ("error", "said"),
    [(UserError("no room"), "error: no room\n"), (ValueError("a bug"), "\nValueError: a bug\n")],
)
def test_a_process_that_gets_nothing_done_ends_the_work_and_has_said_why(
    capfd: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    def work(_: Sequence[str]) -> NoReturn:
        raise error

    with pytest.raises(SystemExit, match=r"^1$"):
        until_done(lambda: ["one"], work)
    told = capfd.readouterr().err
    assert told.endswith(said)
    assert ("Traceback" in told) == isinstance(error, ValueError)
