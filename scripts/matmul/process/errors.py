"""A user's mistake, or the machine's, is one clear line and exit code 1; anything else is a bug,
with its trace."""

import functools
import logging
import os
import sys
from collections.abc import Callable

from matmul.process.lifetime import die_with_snakemake

HANG_SECONDS = 120.0  # of a launch that counts as one that never ends, where no limit is given


class UserError(Exception):
    """A mistake that the user can mend: a line that names file, key or value, and the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class Unfinished(UserError):
    """A launch that did not end in its time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the launch did not finish within {seconds:g} s")


# Launches that a GPU still runs. By its traceback each keeps alive what its launch uses, because
# to free that would wait for the launch; for the same reason the process then ends at once.
left_running: list[Unfinished] = []


def one_line(text: str) -> str:
    """`text` with its white space folded, so that a tool's report fits the line that quotes it."""
    return " ".join(text.split())


def command_line(main: Callable[[], None]) -> Callable[[], None]:
    """Wrap a script's main: a UserError, or what the system refused, becomes `error: ...` on stderr
    and in the step's log, and exit code 1; an interrupt one line and 130, the shell's code."""

    @functools.wraps(main)
    def wrapped() -> None:
        die_with_snakemake()
        try:
            main()
            leave(0)
        except (UserError, OSError) as error:
            text = f"error: {said(error)}"
            print(text, file=sys.stderr)
            # Of a job on a cluster the log is all that a failed run shows.
            if any(isinstance(handler, logging.FileHandler) for handler in logging.root.handlers):
                logging.error(text)
            leave(1)
        except KeyboardInterrupt:
            print("interrupted; the same command goes on where this stopped", file=sys.stderr)
            leave(130)

    return wrapped


def leave(code: int) -> None:
    """End the process, unless all is well, where it ends by itself."""
    if left_running:
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    if code:
        sys.exit(code)


def said(error: UserError | OSError) -> str:
    """An error's one line, with the file that the system named."""
    if isinstance(error, OSError) and error.strerror:
        return one_line(": ".join(str(part) for part in (error.filename, error.strerror) if part))
    return one_line(str(error))
