"""Which files of this package a script imports, so that the workflow can declare them."""

import hashlib
import re
from functools import cache
from pathlib import Path

from matmul_sweep.process.project import SOURCES

# `from package import a, (b, c)` and `import a, b` at the start of a line.
IMPORT = re.compile(
    r"^[ \t]*(?:from[ ]+([\w.]+)[ ]+import[ ]+(\([^)]*\)|[^\n#]+)|import[ ]+([^\n#]+))",
    re.MULTILINE,
)


def imported_files(script: Path, folder: Path = SOURCES) -> list[Path]:
    """The modules in `folder` that `script` imports, directly or indirectly, sorted."""
    found: set[Path] = set()
    waiting = [script]
    while waiting:
        new = imported_directly(waiting.pop(), folder) - found
        found |= new
        waiting += new
    return sorted(found)


@cache  # the scripts share their modules
def imported_directly(file: Path, folder: Path) -> frozenset[Path]:
    """The modules in `folder` that a file imports directly, and their packages."""
    modules = [folder / Path(*name.split(".")) for name in imported_names(file)]
    rooms = {room for m in modules for room in m.parents if folder in room.parents}
    files = {m.with_suffix(".py") for m in modules} | {room / "__init__.py" for room in rooms}
    return frozenset(file for file in files if file.is_file())


def program_files(script: Path) -> list[Path]:
    """A script and the modules that it imports."""
    return [script, *imported_files(script)]


def program_digest(script: Path, *sources: Path) -> str:
    """SHA-256 of the bytes of a script, of the modules that it imports, and of other sources."""
    files = [*program_files(script), *sources]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def imported_names(file: Path) -> list[str]:
    """Dotted names in a file's import statements that may be modules.

    It uses a pattern, because parsing thirty modules would take each job a fifth of a second.
    """
    names = []
    for package, imported, modules in IMPORT.findall(file.read_text()):
        inside = [name.split()[0] for name in imported.strip("()").split(",") if name.strip()]
        names += [package, *(f"{package}.{name}" for name in inside)] if package else []
        names += [name.split()[0] for name in modules.split(",") if name.strip()]
    return names
