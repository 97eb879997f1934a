"""What the machine code of each variant is made of: its hot loop, and the instructions in it.

The hot loop is the innermost one that multiplies most. A variant without one, or that did not
compile, has a row that says why; so has every variant where there is no nvdisasm. No GPU is needed.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matmul.build.binaries import HOST
from matmul.build.machine_code import INSTRUCTION_BYTES, disassembled, excerpt, hot_loop, mix
from matmul.catalogue.entries import load_catalogue
from matmul.dataset.tables import read_json, write_rows
from matmul.process.errors import UserError, command_line
from matmul.process.workers import workers
from matmul.settings import arguments

COPIED = ("kernel", "variant", "architecture", "sha256", "status", "reason")


def row_of(record: Mapping[str, Any], cubin: Path, function: str) -> dict[str, Any]:
    """The row of instructions.csv for a binary, by its record and its function that multiplies."""
    row = {key: record[key] for key in COPIED}
    if row["status"] == "ok":
        row |= {key: record[key] for key in ("registers", "spill_bytes")}
        try:
            row |= measured(cubin, function)
        except UserError as error:
            row |= {"status": "skipped", "reason": str(error)}
    return row


def measured(cubin: Path, function: str) -> dict[str, Any]:
    """What a function and its hot loop are made of. Raises UserError."""
    code = disassembled(cubin, function)
    found = {"code_bytes": INSTRUCTION_BYTES * len(code)}
    loop = hot_loop(code)
    if not loop:
        return found | {"status": "skipped", "reason": "no loop of it multiplies"}
    parts = {"loop_start": loop[0].place, "loop_instructions": len(loop)}
    return found | parts | mix(loop) | {"excerpt": "; ".join(excerpt(loop))}


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.fromfile_prefix_chars = "@"
    arguments.add_catalogue(parser)
    parser.add_argument(
        "--records", type=Path, nargs="*", default=[], help="compile.py's JSON, beside its binary"
    )
    parser.add_argument("--output", type=Path, required=True, help="instructions.csv")
    parser.add_argument(
        "--processes", type=int, default=1, help="number of processes that read binaries"
    )
    options = arguments.parsed(parser)

    catalogue = load_catalogue(options.catalogue)
    records = {file: read_json(file) for file in options.records}
    records = {file: own for file, own in records.items() if own["architecture"] != HOST}
    cubins = [file.with_suffix(".cubin") for file in records]
    functions = [catalogue[own["kernel"]].function for own in records.values()]
    with workers(options.processes) as processes:
        rows = [*processes.map(row_of, records.values(), cubins, functions)]
    for row in rows:
        logging.info("%s", row)
    write_rows(rows, "instructions.csv", options.output)


if __name__ == "__main__":
    main()
