"""Where the multiply-adds of a loop find their operands: in which bank of the register file, or
still held from the instruction before."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

# Of a register by its number (kernels/WORKLOG.md, A model of the register file).
BANKS = ("even", "odd")
MULTIPLY = re.compile(r"[FD]FMA R\d+,(.*)")
OPERAND = re.compile(r"R(\d+)(\.reuse)?")


def banks(instructions: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The multiply-adds among instructions that follow each other: the `operands`, each with its
    bank, or `held` if the instruction before kept it; whether one is so `kept`, and whether two
    others `clash` in one bank."""
    before: set[tuple[int, str]] = set()
    for text in instructions:
        match = MULTIPLY.match(text)
        found = OPERAND.findall(match[1]) if match else []
        places = [
            "held" if (place, number) in before else BANKS[int(number) % len(BANKS)]
            for place, (number, _) in enumerate(found)
        ]
        before = {(place, number) for place, (number, reuse) in enumerate(found) if reuse}
        if found:
            read = [bank for bank in places if bank != "held"]
            yield {
                "text": text,
                "operands": [(f"R{n}", bank) for (n, _), bank in zip(found, places, strict=True)],
                "kept": "held" in places,
                "clash": len(read) > len(set(read)),
            }
