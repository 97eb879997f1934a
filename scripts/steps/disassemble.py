"""What the machine code of the steps of the ladders is made of: the hot loop of each, and the
instructions in it.

The hot loop is the innermost one that multiplies most. A variant without one, or that did not
compile, has a row that says why; so has every variant where there is no nvdisasm. No GPU is needed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matmul_sweep.build.binaries import binary_of
from matmul_sweep.build.machine_code import INSTRUCTION_BYTES, disassembled, excerpt, hot_loop, mix
from matmul_sweep.build.toolchain import MachineFailed
from matmul_sweep.experiment.dataset.tables import write_rows
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.plan.experiment import read_experiment
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import read_json
from matmul_sweep.process.workers import workers

COPIED = ("kernel", "variant", "architecture", "sha256", "status", "reason")


def row_of(record: Mapping[str, Any], cubin: Path, function: str) -> dict[str, Any]:
    """The row of instructions.csv for a binary, by its record and its function that multiplies.
    Raises MachineFailed."""
    row = {key: record[key] for key in COPIED}
    if row["status"] == "ok":
        row |= {key: record[key] for key in ("registers", "spill_bytes")}
        try:
            row |= measured(cubin, function)
        except MachineFailed:
            raise
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
    arguments.add_experiment(parser)
    parser.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--output", type=Path, required=True, help="instructions.csv")
    parser.add_argument(
        "--processes", type=int, default=1, help="number of processes that read binaries"
    )
    options = arguments.parsed(parser)

    variants = read_experiment(options.experiment).taken_apart
    cubins = [binary_of(variant, options.build / arch) for arch, variant in variants]
    records = [read_json(cubin.with_suffix(".json")) for cubin in cubins]
    functions = [variant.kernel.function for _, variant in variants]
    with workers(options.processes) as processes:
        rows = [*processes.map(row_of, records, cubins, functions)]
    write_rows(rows, "instructions.csv", options.output)


if __name__ == "__main__":
    main()
