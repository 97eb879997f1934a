"""What compilers made, kept by the digest of all that went into it, for other clones and for tests.

The folder is $MATMUL_SWEEP_CACHE, else matmul-sweep in $XDG_CACHE_HOME or ~/.cache; an empty
variable keeps nothing. If it exceeds MOST_BYTES, what was used least recently goes first. A cache
that cannot be read or written, or an entry that is cut or foreign, costs a line in the log.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from matmul_sweep.process.errors import UserError, said
from matmul_sweep.process.files import write_bytes

PLACE = "MATMUL_SWEEP_CACHE"
MOST_BYTES = 1 << 30
ENTRY = re.compile(r"\.?[0-9a-f]{64}.*")  # with a dot, one that is being written
KEPT = 0.75  # of MOST_BYTES after a removal, so that not every new entry causes one


def folder() -> Path | None:
    """Where entries lie; None if nothing is kept."""
    if PLACE in os.environ:
        return Path(os.environ[PLACE]) if os.environ[PLACE] else None
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "matmul-sweep"


def key_of(command: Iterable[str], sources: Iterable[Path]) -> str:
    """The name of an entry: SHA-256 of the words of a command and of the content of its sources."""
    parts = [*(word.encode() for word in command), *(file.read_bytes() for file in sources)]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()


def fetch(key: str, target: Path) -> str | None:
    """Copy the binary of an entry to `target`, and return what its compiler said; None if there is
    no whole entry."""
    place = folder()
    if place is None:
        return None
    try:
        data = (place / key).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        passed_by(said(error))
        return None
    digest, _, rest = data.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != digest:
        passed_by(f"{key} is cut short or foreign, and is made anew")
        return None
    report, _, binary = rest.partition(b"\n")
    target.write_bytes(binary)
    with contextlib.suppress(OSError):
        os.utime(place / key)  # used last
    return json.loads(report)


def keep(key: str, binary: Path, report: str) -> None:
    """Keep a binary and what its compiler said."""
    place = folder()
    if place is None:
        return
    rest = json.dumps(report).encode() + b"\n" + binary.read_bytes()
    try:
        write_bytes(hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest, place / key)
        shrink(place)
    except (UserError, OSError) as error:
        passed_by(said(error))


def shrink(place: Path) -> None:
    """Remove what was used least recently, if there is too much; others may do so meanwhile, and
    what is no entry may lie there too."""
    entries = []
    for entry in filter(lambda file: ENTRY.fullmatch(file.name), os.scandir(place)):
        with contextlib.suppress(FileNotFoundError):
            entries.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    size = sum(size for _, size, _ in entries)
    if size <= MOST_BYTES:
        return
    for _, own, path in sorted(entries):
        if size <= KEPT * MOST_BYTES:
            return
        Path(path).unlink(missing_ok=True)
        size -= own


@cache  # one line a process
def passed_by(reason: str) -> None:
    """Say that the cache does not help."""
    logging.warning("the cache of binaries, %s: %s", folder(), reason)
