"""Files written whole, read up to a limit, and the naming of broken ones."""

import contextlib
import gzip
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matmul_sweep.process.errors import UserError, said
from matmul_sweep.process.project import PUBLISHED

MOST_BYTES = 16 << 20  # of a text that is read as a whole; a catalogue of 10,000 kernels has 5 MB


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that replaces it only after the block succeeds.

    Raises UserError if the file cannot be written, for example because the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)  # with the permissions of any new file of this user
        yield temporary
        flush(temporary)
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write {path}: {reason}; fix that and run again") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until the bytes of a file are on the disk: a file that is renamed earlier may be empty
    after a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(data: bytes, path: Path) -> None:
    """Write a file whole."""
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


def write_text(text: str, path: Path) -> None:
    """Write text whole, gzipped if the name says so. The same text gives the same bytes.

    A carriage return becomes a space, because Python's csv does not quote it and readers end a row
    there.
    """
    data = text.replace("\r", " ").encode()
    write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data, path)


def write_json(content: Any, path: Path) -> None:
    """Write JSON, readable and whole. Raises ValueError for a number that is not finite, which JSON
    cannot express."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes((text + "\n").encode(), path)


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file, unpacked if the name says that it is gzipped.

    Raises UserError if it is none, or longer than `most`; OSError, EOFError and zlib's error.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: a folder, a pipe or a device, where a file is wanted")
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UserError(f"{path}: larger than {most >> 20} MiB, too large to read")
    return data


def read_json(path: Path) -> Any:
    """Read JSON. Raises UserError for a missing, cut or foreign file."""
    try:
        return json.loads(read_bytes(path))
    except OSError as error:
        raise UserError(said(error)) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: cut short or damaged ({error}); {remedy(path)}") from None


def read_record(path: Path, identity: str) -> dict[str, Any] | None:
    """What finished work of this identity wrote down. None if there is nothing, or no longer all of
    it; then the work is to be done again."""
    try:
        record = read_json(path)
    except UserError:
        return None
    return record if isinstance(record, dict) and record.get("identity") == identity else None


def remedy(path: Path) -> str:
    """What to do about a damaged file in a data set."""
    if Path(os.path.realpath(path)).is_relative_to(PUBLISHED):  # a link may lead back to itself
        return f"restore it with git checkout {path}"
    # Snakemake makes a folder anew as a whole; it marks those that are outputs.
    whole = (folder for folder in path.parents if (folder / ".snakemake_timestamp").exists())
    return f"delete {next(whole, 'it')} and run again"
