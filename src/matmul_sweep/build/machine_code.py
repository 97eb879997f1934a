"""The machine code of a kernel: its instructions, its hot loop, and what that loop is made of."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matmul_sweep.build import toolchain
from matmul_sweep.process.errors import UserError, one_line

INSTRUCTION_BYTES = 16  # since compute capability 7.0
EXCERPT = 12  # instructions that a report shows
MULTIPLIES = ("ffma", "dfma", "tensor")
# The kinds of instructions, by what an opcode begins with, in this order.
# A kind of loads is three, by their width in bits.
KINDS = {
    "ffma": r"FFMA",
    "dfma": r"DFMA",
    "tensor": r"\w*MMA\b",  # HFMA2.MMA, which makes constants, does not begin so
    "copies": r"LDGSTS|UTMA|UBLK",
    "global_loads": r"LDG?\b",
    "shared_loads": r"LDSM?\b",
    "stores": r"STG?\b|STSM?\b|RED|ATOM",
    "local": r"LDL|STL",
    "barriers": r"BAR|SYNCS|DEPBAR|LDGDEPBAR|ARRIVES|WARPSYNC|WARPGROUP|FENCE|MEMBAR|UCGABAR|ELECT",
    "integer": r"U?(?!IMAD\.MOV|I2)(I|LEA|LOP|PLOP|SH[FLR]|VI|SGXT|BMSK|FLO|POPC)",
}
WIDTHS = (32, 64, 128)
LOADS = ("global_loads", "shared_loads")
REST = "rest"
NEVER = "@!PT"  # the predicate of instructions that only keep a distance


@dataclass(frozen=True)
class Instruction:
    """One instruction of a function: its place in bytes, and its words."""

    place: int
    opcode: str
    operands: str = ""
    predicate: str = ""

    @property
    def target(self) -> int | None:
        """The place that a branch goes to, None for other instructions."""
        found = re.search(r"0x([0-9a-f]+)$", self.operands)
        return int(found[1], 16) if found and self.opcode.startswith("BRA") else None

    @property
    def ends(self) -> bool:
        """Whether the next instruction in memory never runs after it."""
        always = not self.predicate and "," not in self.operands  # BRA UR4,0x10 is a condition
        return always and self.opcode.split(".")[0] in ("BRA", "EXIT", "RET")

    @property
    def kind(self) -> str:
        """One of `kinds()`."""
        if self.predicate == NEVER:
            return REST
        found = next((kind for kind, text in KINDS.items() if re.match(text, self.opcode)), REST)
        return f"{found}_{self.width}" if found in LOADS else found

    @property
    def width(self) -> int:
        """Bits that each thread loads; 32 also for fewer. The suffix is the width, or for matrices
        their number."""
        found = re.search(r"\.(128|64|[24])\b", self.opcode)
        return {"128": 128, "4": 128, "64": 64, "2": 64}[found[1]] if found else 32

    def __str__(self) -> str:
        return " ".join(filter(None, (self.predicate, self.opcode, self.operands)))


def kinds() -> list[str]:
    """The kinds of instructions, each of which an instruction is exactly one of."""
    names = [[f"{kind}_{w}" for w in WIDTHS] if kind in LOADS else [kind] for kind in KINDS]
    return [*(name for own in names for name in own), REST]


def disassembled(cubin: Path, function: str) -> list[Instruction]:
    """The instructions of a function of a cubin, by nvdisasm.

    Raises UserError where there is no nvdisasm, or where it fails; MachineFailed.
    """
    program = toolchain.nvdisasm()
    if program is None:
        raise UserError("there is no nvdisasm: run through `uv run`, or load a CUDA toolkit")
    done = subprocess.run([program, "-json", cubin], capture_output=True, text=True)
    if done.returncode:
        toolchain.check_machine("nvdisasm", done)
        raise UserError(f"nvdisasm: {one_line(done.stderr or done.stdout)}")
    return parsed(json.loads(done.stdout), function)


def parsed(text: Any, function: str) -> list[Instruction]:
    """The instructions of a function in nvdisasm's JSON. Raises UserError if it is not there."""
    _, functions = text
    for found in functions:
        if found["function-name"] == function:
            words = found["sass-instructions"]
            return [
                Instruction(
                    INSTRUCTION_BYTES * i, word["opcode"], word.get("operands", ""),
                    word.get("predicate", ""),
                )
                for i, word in enumerate(words)
            ]  # fmt: skip
    raise UserError(f"the binary has no function {function}")


def hot_loop(code: Sequence[Instruction]) -> Sequence[Instruction]:
    """The loop that multiplies most. Of loops in one another that multiply, it is an innermost one;
    where tensor cores multiply, it is theirs, since one of their instructions multiplies a tile.
    Empty if no loop multiplies."""
    found = [loop for loop in loops(code) if multiplies(loop)]
    places = [{instruction.place for instruction in loop} for loop in found]
    innermost = [
        loop
        for loop, own in zip(found, places, strict=True)
        if not any(other < own for other in places)
    ]
    return max(innermost, key=lambda loop: (mix(loop)["tensor"] > 0, multiplies(loop)), default=[])


def loops(code: Sequence[Instruction]) -> Iterator[Sequence[Instruction]]:
    """The natural loops (Aho, Lam, Sethi and Ullman, Compilers, 9.6): what leads to a backward
    branch without passing its target, where every way to the branch passes it. A branch back from a
    piece of code that the compiler has put behind the rest is thus no loop."""
    before = predecessors(code)
    for i, instruction in enumerate(code):
        if instruction.target is None or instruction.target > instruction.place:
            continue
        head = instruction.target // INSTRUCTION_BYTES
        body, left = {head, i}, [i] * (i != head)
        while left:
            new = before[left.pop()] - body
            body |= new
            left += new
        if head == 0 or 0 not in body:
            yield [code[at] for at in sorted(body)]


def predecessors(code: Sequence[Instruction]) -> list[set[int]]:
    """The instructions after which each may run."""
    before: list[set[int]] = [set() for _ in code]
    for i, instruction in enumerate(code):
        if instruction.target is not None:
            before[instruction.target // INSTRUCTION_BYTES].add(i)
        if not instruction.ends and i + 1 < len(code):
            before[i + 1].add(i)
    return before


def multiplies(code: Sequence[Instruction]) -> int:
    """How many of these instructions multiply what the kernel is about."""
    return sum(instruction.kind in MULTIPLIES for instruction in code)


def mix(code: Sequence[Instruction]) -> dict[str, int]:
    """How many instructions there are of each kind."""
    counted = Counter(instruction.kind for instruction in code)
    return {kind: counted[kind] for kind in kinds()}


def excerpt(loop: Sequence[Instruction]) -> list[str]:
    """Successive instructions that show most of a loop: of the most kinds, with the most
    multiplications, and the first such ones."""
    windows = [loop[i : i + EXCERPT] for i in range(max(1, len(loop) - EXCERPT + 1))]
    best = max(windows, key=lambda window: (len({i.kind for i in window}), multiplies(window)))
    return [str(instruction) for instruction in best]
