"""Files written whole, and the naming of broken ones."""

import contextlib
import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matmul_sweep.process.errors import UserError
from matmul_sweep.process.project import PUBLISHED


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that replaces it only after the block succeeds.

    Raises UserError if the file cannot be written, for example because the disk is full.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix
        )
        os.close(handle)
        temporary = Path(name)
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write {path}: {reason}; fix that and run again") from None
    finally:
        if temporary:
            temporary.unlink(missing_ok=True)


def write_text(text: str, path: Path) -> None:
    """Write text whole, gzipped if the name says so. The same text gives the same bytes.

    A carriage return becomes a space, because Python's csv does not quote it and readers end a row
    there.
    """
    data = text.replace("\r", " ").encode()
    with whole_file(path) as temporary:
        temporary.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def write_json(content: Any, path: Path) -> None:
    """Write JSON, readable and whole. Raises ValueError for a number that is not finite, which JSON
    cannot express."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    with whole_file(path) as temporary:
        temporary.write_text(text + "\n")


def read_json(path: Path) -> Any:
    """Read JSON. Raises UserError for a missing or cut file."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{path}: cut short or damaged ({error}); {remedy(path)}") from None


def remedy(path: Path) -> str:
    """What to do about a damaged file in a data set."""
    if path.resolve().is_relative_to(PUBLISHED):
        return f"restore it with git checkout {path}"
    # Snakemake makes a folder anew as a whole; it marks those that are outputs.
    whole = (folder for folder in path.parents if (folder / ".snakemake_timestamp").exists())
    return f"delete {next(whole, 'it')} and run again"
