"""Where the multiply-adds of a loop find their operands: in which bank of the register file, or
still held from the instruction before."""

import re
from collections.abc import Iterator, Sequence

BANKS = 2  # since Volta: a register's number decides (kernels/WORKLOG.md, A model of the file)
MULTIPLY = re.compile(r"[FD]FMA R\d+,(.*)")
OPERAND = re.compile(r"R(\d+)(\.reuse)?")


def banks(instructions: Sequence[str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The multiply-adds among instructions that follow each other, each with its operands: the
    register, and `even` or `odd` for its bank, or `held` if the instruction before kept it."""
    kept: set[tuple[int, str]] = set()
    for text in instructions:
        match = MULTIPLY.match(text)
        if not match:
            kept = set()
            continue
        found = OPERAND.findall(match[1])
        operands = [
            (f"R{number}", "held" if (place, number) in kept else ("even", "odd")[int(number) % BANKS])
            for place, (number, _) in enumerate(found)
        ]
        kept = {(place, number) for place, (number, reuse) in enumerate(found) if reuse}
        yield text, operands
