"""Work that goes on in another copy of the process after one is lost."""

from collections.abc import Sequence
from typing import NoReturn

import pytest

from matmul_sweep.process.children import until_done
from matmul_sweep.process.errors import UserError


@pytest.mark.parametrize(
    ("error", "said"),
    [(UserError("no room"), "error: no room\n"), (ValueError("a bug"), "\nValueError: a bug\n")],
)
def test_a_process_that_gets_nothing_done_ends_the_work_and_has_said_why(capfd, error, said):
    def work(_: Sequence[str]) -> NoReturn:
        raise error

    with pytest.raises(SystemExit, match=r"^1$"):
        until_done(lambda: ["one"], work)
    told = capfd.readouterr().err
    assert told.endswith(said)
    assert ("Traceback" in told) == isinstance(error, ValueError)
