"""Command-line arguments that several steps share."""

import argparse
import logging
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

from matmul_sweep.process.errors import UserError
from matmul_sweep.process.project import DEFAULT_CATALOGUE


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description, and shows defaults."""


class Parser(argparse.ArgumentParser):
    """Reports a wrong command line like any other mistake of the user."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # -4x4x4 is a wrong shape, like -4; argparse would take it for options.
        self._negative_number_matcher = re.compile(r"-\d")

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help")


def parser(description: str | None) -> Parser:
    """A parser whose --help shows `description` (a script's docstring) and every default."""
    return Parser(description=description, formatter_class=HelpFormatter)


def add_catalogue(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument("--catalogue", type=Path, default=DEFAULT_CATALOGUE)


def add_experiment(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument(
        "--experiment", type=Path, required=True, help="what the workflow wrote of this run, JSON"
    )


def add_verifier(arguments: argparse.ArgumentParser) -> None:
    add_experiment(arguments)
    arguments.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    arguments.add_argument("--machine", default="", help="GPU and driver, as text")
    arguments.add_argument(
        "--records", type=Path, required=True, help="folder of finished verifications"
    )


def add_data_set(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument("--data", type=Path, required=True, help="folder of a data set")
    add_catalogue(arguments)
    arguments.add_argument(
        "--beside", type=Path, nargs="*", default=[], help="folders of data sets to compare with"
    )


def add_log(arguments: argparse.ArgumentParser) -> None:
    arguments.add_argument("--log", type=Path, default=None, help="write progress to this file")


def parsed(arguments: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of the command line, one of which is a log; it is started."""
    add_log(arguments)
    options = arguments.parse_args()
    start_log(options.log)
    return options


def start_log(log: Path | None) -> None:
    """Send progress to `log`, or without one to stderr."""
    logging.raiseExceptions = False  # a full disk is reported once, not at every line of the log
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
    target = {"filename": log, "filemode": "w"} if log else {"stream": sys.stderr}
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", **target
    )
