"""Work that goes on in another copy of the process after one is lost."""

from unittest.mock import Mock

import pytest

from matmul_sweep.process.children import until_done
from matmul_sweep.process.errors import UserError


@pytest.mark.parametrize(
    ("error", "said"),
    [(UserError("no room"), "error: no room\n"), (ValueError("a bug"), "\nValueError: a bug\n")],
)
def test_a_process_that_gets_nothing_done_ends_the_work_and_has_said_why(capfd, error, said):
    with pytest.raises(SystemExit, match=r"^1$"):
        until_done(lambda: ["one"], Mock(side_effect=error))
    told = capfd.readouterr().err
    assert told.endswith(said)
    assert ("Traceback" in told) == isinstance(error, ValueError)
