"""The files that a kernel's source is made of."""

import re
from collections.abc import Sequence
from pathlib import Path

VARIABLE = re.compile(r"^\s*(?:static\s+)?__device__\s[^()\n]*;", re.MULTILINE)


def has_variables(source: Path) -> bool:
    """Whether a kernel has variables in global memory, which two launches at once would share."""
    return any(VARIABLE.search(file.read_text()) for file in source_files(source))


def source_files(source: Path, include: Sequence[Path] = ()) -> list[Path]:
    """`source` and the project headers that it includes, in the order of first mention; headers
    that are not beside the file that names them are looked for in the folders `include`."""
    found = [source]
    for file in found:
        text = file.read_text(errors="replace")
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE):
            places = (folder / name for folder in (file.parent, *include))
            # The compiler finds headers that are in none of them, such as CUDA's.
            here = next(filter(Path.is_file, places), None)
            if here and here not in found:
                found.append(here)
    return found
