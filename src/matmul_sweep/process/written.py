"""Outputs of which a part is gone since they were written, as after a power cut or a full disk.

Snakemake asks only whether an output is there and how old it is.
"""

from collections.abc import Mapping
from pathlib import Path

Sizes = dict[str, int]  # of a file, or of each file in a folder, by its path from there
MARK = ".snakemake_timestamp"  # in a folder that is an output, by Snakemake


def sizes(output: Path) -> Sizes:
    files = output.rglob("*") if output.is_dir() else [output]
    found = (file for file in files if file.is_file() and file.name != MARK)
    return {str(file.relative_to(output)): file.stat().st_size for file in found}


def cut(written: Mapping[str, Sizes]) -> list[Path]:
    """The outputs that are there with less than was written."""
    found = []
    for output, before in written.items():
        now = sizes(Path(output))
        if Path(output).exists() and any(now.get(name, -1) < size for name, size in before.items()):
            found.append(Path(output))
    return found
