"""Which files of this package a script imports, so that the workflow can declare them."""

import hashlib
import re
from functools import cache
from pathlib import Path

# `from package import a, (b, c)` and `import a, b`, wherever a line begins so.
IMPORT = re.compile(
    r"^[ \t]*(?:from[ ]+([\w.]+)[ ]+import[ ]+(\([^)]*\)|[^\n#]+)|import[ ]+([^\n#]+))",
    re.MULTILINE,
)


def imported_files(script: Path) -> list[Path]:
    """The package's modules that `script` imports, directly or through one another, sorted."""
    folder = script.parent
    found: set[Path] = set()
    waiting = [script]
    while waiting:
        for name in imported_names(waiting.pop()):
            module = folder / Path(*name.split("."))
            for file in (module.with_suffix(".py"), module.parent / "__init__.py"):
                if file.is_file() and file not in found:
                    found.add(file)
                    waiting.append(file)
    return sorted(found)


def program_files(script: Path) -> list[Path]:
    """A script and the modules that it imports."""
    return [script, *imported_files(script)]


def program_digest(script: Path, *sources: Path) -> str:
    """SHA-256 of the bytes of a script, of the modules that it imports, and of other sources."""
    files = [*program_files(script), *sources]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@cache  # the scripts share their modules
def imported_names(file: Path) -> list[str]:
    """Dotted names that a file's import statements may mean as modules.

    By their form: parsing thirty modules takes a job a fifth of a second.
    """
    names = []
    for package, imported, modules in IMPORT.findall(file.read_text()):
        inside = [name.split()[0] for name in imported.strip("()").split(",") if name.strip()]
        names += [package, *(f"{package}.{name}" for name in inside)] if package else []
        names += [name.split()[0] for name in modules.split(",") if name.strip()]
    return names
