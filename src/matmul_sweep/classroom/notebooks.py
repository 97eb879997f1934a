"""Kernels that are not in a file of their own: in cells of a Jupyter notebook, such as `%%cu`, and
in strings of a Python program, such as PyCUDA's `SourceModule("...")`.

A cell is known as `lab.ipynb/cell 3`, by its number among all cells. Lines are those of the cell or
of the program.
"""

import ast
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from matmul_sweep.process.errors import UserError

CELL = re.compile(r"cell (\d+)")
MAGIC = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)


def file_of(path: Path) -> Path:
    """The file in which the text of a hand-in lies."""
    return path.parent if CELL.fullmatch(path.name) and path.parent.suffix == ".ipynb" else path


def hand_ins_of(path: Path) -> list[Path]:
    """The cells of a notebook that have a kernel, or the file itself."""
    if path.suffix != ".ipynb" or not path.is_file():
        return [path]
    with suppress(UserError):
        cells = enumerate(cells_of(path, path.read_text(encoding="utf-8", errors="replace")), 1)
        return [path / f"cell {i}" for i, text in cells if "__global__" in text] or [path]
    return [path]


def kernels_in(path: Path, text: str) -> str:
    """The CUDA C++ in the text of file_of(path), at its own lines. Raises UserError."""
    if path.suffix == ".py":
        return "\n".join(strings_of(text, str(path)))
    file = file_of(path)
    if file.suffix != ".ipynb":
        return text
    cells = dict(enumerate(cells_of(file, text), 1))
    if path == file:
        raise UserError(f"{path}: no cell of it has a kernel, which begins with __global__")
    number = int(path.name.removeprefix("cell "))
    if number not in cells:
        raise UserError(f"{path}: the notebook has {len(cells)} cells")
    with suppress(UserError):  # unless it is of CUDA C++ itself
        return "\n".join(strings_of(MAGIC.sub("", cells[number]), str(path))) or cells[number]
    return cells[number]


def cells_of(path: Path, text: str) -> Iterator[str]:
    """The texts of a notebook's cells. Raises UserError."""
    try:
        sources = [(one["cell_type"], "".join(one["source"])) for one in json.loads(text)["cells"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{path}: no Jupyter notebook of version 4; save it again") from None
    yield from (source if kind == "code" else "" for kind, source in sources)


def strings_of(text: str, where: str) -> list[str]:
    """The lines of a Python program with nothing but its strings that have a kernel. Raises
    UserError."""
    try:
        nodes = ast.walk(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{where}: no Python: {error}") from None
    lines: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Constant) and "__global__" in str(node.value):
            lines += [""] * (node.lineno - 1 - len(lines))
            lines += str(node.value).splitlines()
    return lines
