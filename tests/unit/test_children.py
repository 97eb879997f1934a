"""Work that goes on in another copy of the process after one is lost."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from matmul_sweep.process.children import until_done
from matmul_sweep.process.errors import UserError

TODO = ["one", "two", "three"]
Work = Callable[[Sequence[str]], None]


def done_by(folder: Path, after: Callable[[str], object]) -> dict[str, str]:
    """The process of each piece of work that is done; `after` runs at the end of each."""

    def pending() -> list[str]:
        return [name for name in TODO if not (folder / name).exists()]

    def work(names: Sequence[str]) -> None:
        for name in names:
            (folder / name).write_text(str(os.getpid()))
            after(name)

    until_done(pending, work)
    return {name: (folder / name).read_text() for name in TODO}


def test_one_process_does_all_that_goes_well(tmp_path: Path) -> None:
    [process] = set(done_by(tmp_path, lambda name: None).values())
    assert process != str(os.getpid())


def test_another_process_goes_on_after_one_that_died(tmp_path: Path) -> None:
    def die(name: str) -> None:
        if name == "two":
            os.kill(os.getpid(), signal.SIGKILL)

    done = done_by(tmp_path, die)
    assert done["one"] == done["two"] != done["three"]


def refuse(names: Sequence[str]) -> None:
    raise UserError("there is no room")


def break_down(names: Sequence[str]) -> None:
    raise ValueError("a bug")


@pytest.mark.parametrize(
    ("work", "said"),
    [(refuse, "error: there is no room\n"), (break_down, "ValueError: a bug\n")],
)
def test_a_process_that_gets_nothing_done_ends_the_work_and_has_said_why(
    capfd: pytest.CaptureFixture[str], work: Work, said: str
) -> None:
    with pytest.raises(SystemExit) as left:
        until_done(lambda: TODO, work)
    assert left.value.code == 1
    lines = capfd.readouterr().err
    assert lines.endswith(said)
    assert ("Traceback" in lines) == (work is break_down)


def test_a_process_that_dies_before_it_gets_anything_done_is_named() -> None:
    with pytest.raises(UserError, match="the work on one died of SIGKILL"):
        until_done(lambda: TODO, lambda names: os.kill(os.getpid(), signal.SIGKILL))
