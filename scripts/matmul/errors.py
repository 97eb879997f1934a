"""A user's mistake is one clear line and exit code 1; anything else is a bug, with its trace."""

import functools
import logging
import sys
from collections.abc import Callable


class UserError(Exception):
    """A mistake that the user can mend: the message names the file, key or value and the remedy."""


def one_line(text: str) -> str:
    """`text` with its white space folded, so that a tool's report fits the line that quotes it."""
    return " ".join(text.split())


def command_line(main: Callable[[], None]) -> Callable[[], None]:
    """Wrap a script's main: a UserError becomes `error: ...` on stderr, and in the step's log, and
    exit code 1, an interrupt one line and 130, the shell's code for it."""

    @functools.wraps(main)
    def wrapped() -> None:
        try:
            main()
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            # Of a job on a cluster the log is all that a failed run shows.
            if any(isinstance(handler, logging.FileHandler) for handler in logging.root.handlers):
                logging.error("error: %s", error)
            sys.exit(1)
        except KeyboardInterrupt:
            print("interrupted; the same command goes on where this stopped", file=sys.stderr)
            sys.exit(130)

    return wrapped
