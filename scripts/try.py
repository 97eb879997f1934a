#!/usr/bin/env -S uv run --only-group classroom
"""A verdict on your kernel: is it correct, and if not, what is wrong, where, and at which smallest
shape?

    scripts/try.py my_kernel.cu
    scripts/try.py my_kernel.cu TILE_WIDTH=16 block=16x16
    scripts/try.py hand-ins --json

uv installs what it needs: nvcc and NumPy, without PyCUDA and cuBLAS.

The kernel computes C = A·B and takes (A, B, C, n) or (A, B, C, m, n, k), or C = AᵀA and takes
(A, C, m, n), in any order and under any names that say what they are. Settings behind the file's
name, or in a comment `// try: key=value ...` in it, say what the source does not: block=16x16,
tile=32x32 (rows and columns of C per block), blocks=8 (of the grid, whatever C is), shared=2048
(bytes of dynamic shared memory), multiple=16 (of which every dimension is one), most_rows=4 and
most_columns=4 (of a C that it takes), kernel=name, m=rows n=columns k=inner (the names of the
dimensions), order=columns, a=transposed or b=transposed (how matrices are stored), and constants of
the source, such as TILE_WIDTH=16.

It runs on the CPU, thread by thread, with every access watched. Where there is a GPU, and `uv sync`
has run, a correct kernel is also timed there beside the kernels of the ladder and cuBLAS. Exit code
0 only if every file is correct. docs/teaching.md says what is and is not contained while it runs.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matmul_sweep.classroom import words
from matmul_sweep.classroom.picture import as_png
from matmul_sweep.classroom.source import settings_of
from matmul_sweep.classroom.verdict import CORRECT, NOT_RUN, Verdict, judge
from matmul_sweep.experiment.measure import card
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.process.contained import can_contain
from matmul_sweep.process.errors import UserError, command_line, leave, said

UNCONTAINED = (
    "note: this Linux has no Landlock of version 3, so nothing keeps a kernel on the CPU from "
    "writing files; try only what you trust, or use a container"
)


def parse() -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    told = "files, folders of them, and settings"
    parser.add_argument("words", nargs="+", metavar="FILE|FOLDER|KEY=VALUE", help=told)
    parser.add_argument("--json", action="store_true", help="print JSON, for graders")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page to hand in")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the wrong elements of C")
    parser.add_argument("--no-gpu", action="store_true", help="leave the GPU alone")
    return parser.parse_args()


def files_of(path: Path) -> list[Path]:
    """The file, or the CUDA sources in a folder. Raises UserError for a folder without any."""
    if not path.is_dir():
        return [path]
    if found := sorted(path.glob("*.cu")):
        return found
    raise UserError(f"{path}: no .cu file in this folder")


def verdicts(
    files: list[Path], settings: Mapping[str, str]
) -> Iterator[tuple[Path, Verdict | UserError]]:
    """The verdict on each file; of one among several, what prevents it."""
    for file in files:
        try:
            yield file, judge(file, settings)
        except (UserError, OSError) as error:
            if len(files) == 1:
                raise
            yield file, error if isinstance(error, UserError) else UserError(said(error))


def timed(verdict: Verdict, wanted: bool) -> card.Standing | str:
    """How a correct kernel does on the GPU, or why nothing was timed."""
    if verdict.status != CORRECT or not wanted:
        return "not timed"
    try:
        return card.standing(verdict)
    except NoDevice as missing:
        return f"not timed: {missing}"


def as_json(found: Verdict | UserError, file: Path, options: argparse.Namespace) -> dict[str, Any]:
    if isinstance(found, UserError):
        unknown: dict[str, Any] = {"line": None, "mistakes": []}
        return {"file": str(file), "verdict": NOT_RUN, "message": str(found)} | unknown
    standing = timed(found, not options.no_gpu)
    gpu = standing if isinstance(standing, str) else asdict(standing)
    return found.as_json() | {"gpu": gpu}


def tell(found: Verdict | UserError, options: argparse.Namespace) -> None:
    """Print a verdict, and write what was asked for."""
    if isinstance(found, UserError):
        print(f"error: {found}")
        return
    print("\n".join(words.lines_of(found)))
    standing = timed(found, not options.no_gpu)
    if found.status == CORRECT:
        print(f"  On the GPU: {standing}")
    if options.html:
        options.html.write_text(words.page_of(found))
    if options.png and found.picture:
        options.png.write_bytes(as_png(found.picture))


@command_line
def main() -> None:
    options = parse()
    settings = settings_of([word for word in options.words if "=" in word], "command line")
    named = [Path(word) for word in options.words if "=" not in word]
    files = [file for path in named for file in files_of(path)]
    if not files:
        raise UserError("no file; give one, such as my_kernel.cu")
    if len(files) > 1 and (options.html or options.png):
        raise UserError("--html and --png take one file; --json is for several")
    if not can_contain():
        print(UNCONTAINED, file=sys.stderr)
    told, right = [], True
    for file, found in verdicts(files, settings):
        right &= isinstance(found, Verdict) and found.status == CORRECT
        if options.json:
            told.append(as_json(found, file, options))
        else:
            tell(found, options)
    if options.json:
        alone = len(named) == 1 and not named[0].is_dir()
        print(json.dumps(told[0] if alone else told, indent=1, ensure_ascii=False))
    leave(0 if right else 1)


if __name__ == "__main__":
    main()
