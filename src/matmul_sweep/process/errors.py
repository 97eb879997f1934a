"""An error of the user or the machine is one clear line and exit code 1. Anything else is a bug and
shows its traceback."""

import codecs
import contextlib
import functools
import locale
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from matmul_sweep.process.lifetime import die_with_snakemake

HANG_SECONDS = 120.0  # after which a launch counts as endless, if no limit is given


class UserError(RuntimeError):
    """An error that the user can fix: one line that names file, key or value, and the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class Unfinished(UserError):
    """A launch that did not end in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the launch did not finish within {seconds:g} s")


# Launches that a GPU still runs. The traceback of each keeps the memory of its launch alive,
# because freeing it would wait for the launch. For the same reason the process then ends at once.
left_running: list[Unfinished] = []


def one_line(text: str) -> str:
    """`text` with its white space folded, so that a tool's report fits in one line."""
    return " ".join(text.split())


def printable(text: str) -> str:
    """Lines of text without commands to a terminal."""
    return "".join(one if one.isprintable() or one in "\n\t" else "?" for one in text)


def shown(value: object, most: int = 60) -> str:
    """A value as text in a message: of a long one the beginning, and no commands to a terminal."""
    text = "".join(letter if letter.isprintable() else "?" for letter in str(value)[: most + 1])
    return text if len(text) <= most else f"{text[: most - 3]}..."


@contextlib.contextmanager
def naming(*where: Path | str) -> Iterator[None]:
    """Names the file, the entry or the key in a mistake."""
    try:
        yield
    except UserError as error:
        raise UserError(": ".join([*map(str, where), str(error)])) from None


def command_line(main: Callable[[], None]) -> Callable[[], None]:
    """Wrap a script's main. A UserError or an error of the system becomes `error: ...` on stderr
    and in the log of the step, and exit code 1. An interrupt becomes one line and the shell's code
    130.
    """

    @functools.wraps(main)
    def wrapped() -> None:
        die_with_snakemake()
        try:
            check_encoding()
            main()
            leave(0)
        except (UserError, OSError) as error:
            tell(error)
            leave(1)
        except KeyboardInterrupt:
            print("interrupted; the same command continues where this one stopped", file=sys.stderr)
            leave(130)

    return wrapped


def check_encoding() -> None:
    """Raise UserError unless Python takes files and what it prints for UTF-8."""
    encoding = locale.getpreferredencoding(False)
    if codecs.lookup(encoding).name != "utf-8":
        raise UserError(f"all texts are UTF-8, and Python reads {encoding} here: set PYTHONUTF8=1")


def tell(error: UserError | OSError) -> None:
    """Say it on stderr and in the log of the step: of a job on a cluster, a failed run shows only
    that."""
    text = f"error: {said(error)}"
    print(text, file=sys.stderr)
    if any(isinstance(handler, logging.FileHandler) for handler in logging.root.handlers):
        logging.error(text)


def leave(code: int) -> None:
    """End the process with this code; with code 0 and no launch left it ends by itself."""
    if left_running:
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    if code:
        sys.exit(code)


def said(error: UserError | OSError) -> str:
    """The one line of an error, with the file that the system named."""
    if isinstance(error, OSError) and error.strerror:
        return one_line(": ".join(str(part) for part in (error.filename, error.strerror) if part))
    return one_line(str(error))
