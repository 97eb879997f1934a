"""The files that a kernel's source is made of."""

import re
from collections.abc import Sequence
from pathlib import Path


def source_files(source: Path, include: Sequence[Path] = ()) -> list[Path]:
    """`source` and the project headers that it includes, in the order of first mention; headers
    that are not beside the file that names them are looked for in the folders `include`."""
    found: list[Path] = []
    waiting = [source]
    while waiting:
        file = waiting.pop(0)
        if file not in found:
            found.append(file)
            text = file.read_text(errors="replace")
            for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.MULTILINE):
                places = (folder / name for folder in (file.parent, *include))
                # The compiler finds headers that are in none of them, such as CUDA's.
                waiting += [place for place in places if place.is_file()][:1]
    return found
