"""Work that is done in copies of this process, one after another."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from matmul_sweep.process.errors import UserError, tell
from matmul_sweep.process.lifetime import die_with_parent

T = TypeVar("T")


def until_done(pending: Callable[[], Sequence[T]], work: Callable[[Sequence[T]], None]) -> None:
    """Have a copy of this process work on all that is pending; if it leaves something, because it
    lost its GPU, another copy takes that.

    Raises UserError if a copy gets nothing done; what it says itself it has said.
    """
    while todo := pending():
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os._exit(run_in_child(work, todo))
        _, status = os.waitpid(child, 0)
        if len(pending()) < len(todo):
            continue
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            raise UserError(f"the work on {todo[0]} died of {signal.Signals(-code).name}")
        sys.exit(code or 1)


def run_in_child(work: Callable[[Sequence[T]], None], todo: Sequence[T]) -> int:
    """Do the work; the exit code, after a line that says what went wrong."""
    die_with_parent()
    try:
        work(todo)
        return 0
    except (UserError, OSError) as error:
        tell(error)
        return 1
    except KeyboardInterrupt:
        return 130
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        logging.shutdown()
        sys.stderr.flush()
