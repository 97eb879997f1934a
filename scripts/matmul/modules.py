"""Which files of this package a script imports, so that the workflow can declare them."""

import ast
import hashlib
from functools import cache
from pathlib import Path


def imported_files(script: Path) -> list[Path]:
    """The package's modules that `script` imports, directly or through one another, sorted."""
    folder = script.parent
    found: set[Path] = set()
    waiting = [script]
    while waiting:
        for name in imported_names(waiting.pop()):
            file = folder / Path(*name.split(".")).with_suffix(".py")
            if file.is_file() and file not in found:
                found.add(file)
                waiting.append(file)
    return sorted(found)


def program_files(script: Path) -> list[Path]:
    """A script and the modules that it imports."""
    return [script, *imported_files(script)]


def program_digest(script: Path) -> str:
    """SHA-256 of the bytes of a script and of the modules that it imports."""
    return hashlib.sha256(b"".join(f.read_bytes() for f in program_files(script))).hexdigest()


@cache  # the scripts share their modules, and to parse one takes 10 ms
def imported_names(file: Path) -> list[str]:
    """Dotted names that a file's import statements may mean as modules."""
    names = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names
