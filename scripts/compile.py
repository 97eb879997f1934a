"""Compile one variant, the instruments or the ceilings, and record what the compiler reports.

A source that does not compile is a result too: its status is failed with the compiler's first
error, and its binary is empty, so the other kernels continue.
"""

import logging
from pathlib import Path

from matmul.build.binaries import TOOLS, compile_instruments, compile_variant
from matmul.catalogue.entries import load_catalogue
from matmul.dataset.tables import write_json
from matmul.process.errors import command_line
from matmul.settings import arguments


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_variant(parser)
    parser.add_argument("--arch", required=True, help="such as sm_90, or host for C")
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--record", type=Path, help="JSON (for a variant only)")
    options = arguments.parsed(parser)

    if options.variant in TOOLS:
        compile_instruments(options.arch, options.binary, options.variant)
        return
    variant = load_catalogue(options.catalogue).variant(options.variant)
    record = compile_variant(variant, options.arch, options.binary)
    logging.info("%s: %s %s", variant.name, record["status"], record["reason"])
    write_json(record, options.record)


if __name__ == "__main__":
    main()
