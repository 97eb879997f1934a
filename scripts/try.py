#!/usr/bin/env -S uv run --only-group classroom
"""A verdict on your kernel: is it correct, and if not, what is wrong, where, and at which smallest
shape?

    scripts/try.py my_kernel.cu
    scripts/try.py my_kernel.cu TILE_WIDTH=16 block=16x16
    scripts/try.py hand-ins block=16x16 --json

uv installs what it needs: nvcc and NumPy, without PyCUDA and cuBLAS.

The kernel computes C = A·B and takes (A, B, C, n) or (A, B, C, m, n, k), or C = AᵀA and takes
(A, C, m, n), in any order and under any names that say what they are. Settings behind the file's
name, or in a comment `// try: key=value ...` in it, say what the source does not: block=16x16,
tile=32x32 (rows and columns of C per block), blocks=8 (of the grid, whatever C is),
grid=n/16,m/16 (its extents by m, n and k), shared=2048 (bytes of dynamic shared memory),
multiple=16 (of which every dimension is one), most_rows=4 and most_columns=4 (of a C that it
takes), kernel=name, m=rows n=columns k=inner (the names of the dimensions), order=columns,
a=transposed, b=transposed or c=transposed (how matrices are stored), and constants of the source or
further numbers of the kernel, such as TILE_WIDTH=16.

A folder is graded strictly, with all .cu files, notebooks and Python programs with kernels below
it: settings in a hand-in do not count, some shapes are secret, and a hand-in is refused that could
hide something. --seed repeats such a verdict.

It runs on the CPU, thread by thread, with every access watched. Where there is a GPU, and `uv sync`
has run, a correct kernel is also timed there beside the kernels of the ladder and cuBLAS. Exit code
0 only if every file is correct. docs/teaching.md says what is and is not contained while it runs.
"""

import environment  # noqa: F401

import argparse
import json
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matmul_sweep.classroom import words
from matmul_sweep.classroom.cuda_on_cpu.contained import can_contain
from matmul_sweep.classroom.notebooks import hand_ins_of
from matmul_sweep.classroom.picture import as_png
from matmul_sweep.classroom.source import settings_of
from matmul_sweep.classroom.strict import new_seed
from matmul_sweep.classroom.verdict import CORRECT, NOT_RUN, WRONG, Verdict, pending, verdict_on
from matmul_sweep.experiment.measure import card
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.process.errors import UserError, command_line, leave, printable
from matmul_sweep.process.files import write_bytes, write_text
from matmul_sweep.process.isolation import Crashed, result_of

SEED = "MATMUL_SWEEP_SEED"  # where a grader may keep it
MOST_HAND_INS = 1000  # of a folder
JUDGE_SECONDS = 400.0  # for one of them, an endless kernel on a GPU included
ALONE = multiprocessing.get_context("fork").Lock()  # which who times on a GPU has
UNCONTAINED = (
    "note: this is no x86-64 Linux with Landlock of version 3, so nothing keeps a kernel on the "
    "CPU from reading and writing files; try only what you trust, or use a container"
)


@dataclass(frozen=True)
class Told:
    """A verdict as it is printed. page: of HTML; png: of the wrong elements, if that is asked."""

    right: bool
    entry: Mapping[str, Any]
    text: str
    page: str = ""
    png: bytes = b""


def parse() -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    told = "files, folders of them, and settings"
    parser.add_argument("words", nargs="+", metavar="FILE|FOLDER|KEY=VALUE", help=told)
    parser.add_argument("--json", action="store_true", help="print JSON, for graders")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page to hand in")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the wrong elements of C")
    parser.add_argument("--no-gpu", action="store_true", help="leave the GPU alone")
    strict = "grade, as folders are by themselves: trust nothing that a hand-in says of itself"
    parser.add_argument("--strict", action=argparse.BooleanOptionalAction, help=strict)
    seed = f"of the secret shapes and inputs of strict grading; else ${SEED}, else a random one"
    parser.add_argument("--seed", type=int, default=os.environ.get(SEED), metavar="N", help=seed)
    return parser.parse_intermixed_args()


def is_setting(word: str) -> bool:
    """Whether a word of the command line is no path: a path may have = in it, and a grid /."""
    return word.startswith("grid=") or (
        "=" in word and "/" not in word and not Path(word).exists() and ".cu" not in word
    )


def hand_ins_below(folder: Path) -> list[Path]:
    """The hand-ins in a folder and in those below it, in order. Raises UserError for a folder
    without any, or with too many."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        files = (Path(place, name) for name in sorted(names) if not name.startswith("."))
        found += [file for file in files if has_kernel(file)]
        if len(found) > MOST_HAND_INS:
            raise UserError(f"{folder}: more than {MOST_HAND_INS} hand-ins; give its parts")
    if not found:
        raise UserError(f"{folder}: no .cu file, notebook or Python program with a kernel below it")
    return found


def has_kernel(file: Path) -> bool:
    """Whether a file of a folder is a hand-in: a link could be to the teacher's own."""
    if file.suffix not in (".cu", ".ipynb", ".py") or file.is_symlink() or not file.is_file():
        return False
    return file.suffix == ".cu" or b"__global__" in file.read_bytes()


def judged(
    file: Path, settings: Mapping[str, str], options: argparse.Namespace
) -> list[Told | UserError]:
    """The verdict on each of a file's kernels, or what prevents it; from a process of its own, so
    that whatever becomes of it costs no other."""
    try:
        return result_of(partial(told_all, file, settings, options), JUDGE_SECONDS)
    except UserError as error:
        return [error]
    except Crashed as error:
        return [UserError(f"{file}: not judged: {error}")]


def told_all(
    file: Path, settings: Mapping[str, str], options: argparse.Namespace
) -> list[Told | UserError]:
    """The same for each kernel, side by side on the cores."""

    def told_of(verdict: Verdict) -> Told | UserError:
        try:
            return result_of(lambda: told(verdict_on(verdict), options), JUDGE_SECONDS)
        except (UserError, Crashed) as error:
            return UserError(str(error))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = pending(file, settings, options.seed if options.strict else None)
        return [*pool.map(told_of, waiting)]


def told(verdict: Verdict, options: argparse.Namespace) -> Told:
    entry = verdict.as_json()
    standing = timed(verdict, not options.no_gpu)
    lines = [*words.lines_of(verdict)]
    if verdict.status == CORRECT:
        lines.append(f"  On the GPU: {standing}")
    if isinstance(standing, str) and standing.startswith(card.WRONG_THERE):
        entry |= {"verdict": WRONG, "message": standing}
    page = words.page_of(verdict) if options.html else ""
    png = as_png(verdict.picture) if options.png and verdict.picture else b""
    launch = "\n".join(words.launch_of(verdict)) if verdict.bench else None
    entry |= {"launch": launch, "gpu": standing if isinstance(standing, str) else asdict(standing)}
    return Told(entry["verdict"] == CORRECT, entry, "\n".join(lines), page, png)


def timed(verdict: Verdict, wanted: bool) -> card.Standing | str:
    """How a correct kernel does on the GPU, or why nothing was timed."""
    if verdict.status != CORRECT or not wanted:
        return "not timed"
    try:
        with ALONE:
            return card.standing(verdict)
    except NoDevice as missing:
        return f"not timed: {missing}"


def listed(options: argparse.Namespace) -> list[Path]:
    """The hand-ins that are named. Completes what the options leave open. Raises UserError."""
    named = [Path(word) for word in options.words if not is_setting(word)]
    folders = [path for path in named if path.is_dir()]
    files = (hand_ins_below(path) if path in folders else [path] for path in named)
    found = [one for some in files for file in some for one in hand_ins_of(file)]
    if not found:
        raise UserError("no file; give one, such as my_kernel.cu")
    if len(found) > 1 and (options.html or options.png):
        raise UserError("--html and --png take one file; --json is for several")
    options.several = found != named or len(found) > 1
    if options.strict is None:
        options.strict = bool(folders)
    if options.seed is None:
        options.seed = new_seed()
    return found


def tell(found: Told, options: argparse.Namespace) -> None:
    """Print a verdict in words, and write what was asked for."""
    if not options.json:
        print(printable(found.text), flush=True)
    if found.page:
        write_text(found.page, options.html)
    if found.png:
        write_bytes(found.png, options.png)


def entry_of(error: UserError, what: str) -> dict[str, Any]:
    """What prevents a verdict, for graders."""
    return {"file": what, "verdict": NOT_RUN, "message": str(error), "line": None, "mistakes": []}


def print_json(entries: Sequence[Mapping[str, Any]], several: bool) -> None:
    print(printable(json.dumps(entries if several else entries[0], indent=1, ensure_ascii=False)))


def grade(options: argparse.Namespace) -> bool:
    """Tell the verdicts; whether every one is that the kernel is correct. Raises UserError."""
    settings = settings_of([*filter(is_setting, options.words)], "command line")
    right, entries = True, list[Mapping[str, Any]]()
    for file in listed(options):
        found = judged(file, settings, options)
        for one in found:
            if isinstance(one, UserError):
                right = False
                if not (options.json or options.several or len(found) > 1):
                    raise one
                entries.append(entry_of(one, str(file)))
                if not options.json:
                    print(printable(f"error: {one}"), flush=True)
            else:
                right &= one.right
                entries.append(one.entry)
                tell(one, options)
    if options.json:
        print_json(entries, options.several or len(entries) > 1)
    return right


@command_line
def main() -> None:
    options = parse()
    if not can_contain():
        print(UNCONTAINED, file=sys.stderr)
    # nvcc believes in a folder that is not there, and takes one with a blank for two.
    place = tempfile.gettempdir()
    tempfile.tempdir = place if re.fullmatch(r"[\w./+@-]+", place) else "/tmp"
    os.environ["TMPDIR"] = tempfile.tempdir
    try:
        right = grade(options)
    except UserError as error:
        if not options.json:
            raise
        print_json([entry_of(error, " ".join(options.words))], several=False)
        right = False
    leave(0 if right else 1)


if __name__ == "__main__":
    main()
