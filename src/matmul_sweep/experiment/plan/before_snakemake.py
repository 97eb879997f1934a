"""Mistakes that Snakemake would report without file, line or cause, before it reads the Snakefile.
The profiles call it: nothing else of this project runs as early.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from matmul_sweep.process.errors import UserError, check_encoding
from matmul_sweep.process.yaml_files import read_yaml

# Folders that are written in: the variable that names one, and where it lies otherwise.
FOLDERS = {"TMPDIR": "/tmp", "XDG_CACHE_HOME": "~/.cache"}


def check(words: Sequence[str]) -> None:
    """End the process with one line if the encoding or a folder cannot be used, or if what the
    words of a command line name with --configfile and --config cannot be a configuration."""
    try:
        check_encoding()
        for name, otherwise in FOLDERS.items():
            check_folder(name, Path(os.environ.get(name) or otherwise))
        for file in following(words, "--configfile", "--configfiles"):
            if not isinstance(read_yaml(Path(file)), dict):
                raise UserError(f"{file}: no keys with values, as config/config.yaml has them")
        for word in following(words, "--config", "-C"):
            if "=" not in word:
                raise UserError(f"--config {word}: write KEY=VALUE, and targets after --")
    except UserError as error:
        sys.exit(f"error: {error}")


def check_folder(name: str, folder: Path) -> None:
    """Raise UserError unless the folder that the variable `name` names is there, or can be made in
    the home, and can be written in."""
    try:
        folder = folder.expanduser()
        if name != "TMPDIR":
            folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home
        raise UserError(f"{error}: set {name} to a folder that you may write in") from None
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise UserError(f"{name} is '{folder}', no folder that you may write in: name another one")


def following(words: Sequence[str], *options: str) -> Iterator[str]:
    """What follows one of these options, up to the next option."""
    taken = False
    for word in words:
        option, _, value = word.partition("=")
        if word.startswith("-"):
            taken = option in options
            word = value
        if taken and word:
            yield word
