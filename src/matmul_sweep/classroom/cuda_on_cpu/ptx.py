"""Inline assembler in a CUDA source, for the CPU: each `asm` statement becomes a call of the
interpreter in include/ptx.h, at its own lines."""

import re
from collections.abc import Sequence
from pathlib import Path

LITERAL = r'"(?:\\.|[^"\\\n])*"'
SPACE = r"(?:\s|\\\n)*"
STATEMENT = re.compile(
    rf"\b(?:asm|__asm__|__asm)\b(?:{SPACE}\b(?:volatile|__volatile__|inline)\b)*{SPACE}\("
)
# Brackets and separators; what comes first may have them without meaning any.
MARK = re.compile(
    rf"""R"(?P<bound>\w*)\(.*?\)(?P=bound)"|{LITERAL}|'(?:\\.|[^'\\\n])+'|//[^\n]*|/\*.*?\*/"""
    r"|[(){}\[\],:]",
    re.DOTALL,
)
# A constraint and a value; nvcc knows no names of operands.
NO_COMMA = re.compile(rf'\)(?={SPACE}")')  # between operands, as nvcc lets pass
OPERAND = re.compile(rf"({SPACE}){LITERAL}({SPACE}\(.*\){SPACE})", re.DOTALL)
# How g++ names an instruction that the interpreter does not know.
REFUSED = re.compile(r"Refused<((?:'.', )+)")


def is_in(file: Path) -> bool:
    return bool(STATEMENT.search(file.read_text(errors="replace")))


def place_in(copies: Path, path: Path) -> Path:
    """Where the copy of a file or folder is, below a folder that has each under its whole path."""
    return copies / path.resolve().relative_to("/")


def copies(files: Sequence[Path], include: Sequence[Path], folder: Path) -> Path:
    """The folder, with translated copies of the files, whose lines are those of the files; and with
    folders of headers, through which the path of a file in another one may lead."""
    for each in include:
        place_in(folder, each).mkdir(parents=True, exist_ok=True)
    for file in files:
        place = place_in(folder, file)
        place.parent.mkdir(parents=True, exist_ok=True)
        text = translated(file.read_text(errors="replace"))
        place.write_text(f'#line 1 "{file.resolve()}"\n{text}')
    return folder


def translated(text: str) -> str:
    """The text with calls in place of the statements whose operands are written out."""
    done, at = [], 0
    for statement in STATEMENT.finditer(text):
        sections = split(text, statement.end(), ":")
        end = statement.end() + sum(len(section) + 1 for section in sections)
        if statement.start() >= at and (call := call_of(sections)):
            done += [text[at : statement.start()], call]
            at = end
    return "".join(done) + text[at:]


def split(text: str, start: int, separator: str) -> list[str]:
    """The parts of what a bracket encloses, from `start` to its end; none if it has no end."""
    depth, at, parts = 0, start, []
    for mark in MARK.finditer(text, start):
        if depth == 0 and mark[0] in (separator, ")"):
            parts.append(text[at : mark.start()])
            at = mark.end()
            if mark[0] == ")":
                return parts
        depth += (mark[0] in ("(", "[", "{")) - (mark[0] in (")", "]", "}"))
    return []


def call_of(sections: list[str]) -> str:
    """The call that a statement's template, outputs, inputs and clobbers make."""
    words = [sections[0]] if sections else []
    for i, section in enumerate(sections[1:]):
        direction, commas = ("output", "input")[i > 0], NO_COMMA.sub("),", section)
        operands = split(f"{commas})", 0, ",") if i < 2 and section.strip(" \\\n\t") else ()
        if not operands:
            words[-1] += "".join(re.findall(r"\\?\n", section))  # so that lines stay
        for operand in operands:
            found = OPERAND.fullmatch(operand)
            if found is None:
                return ""
            words.append(f"{found[1]}::cuda_on_cpu::ptx::{direction}{found[2]}")
    return f"CUDA_ON_CPU_PTX({','.join(words)})" if words else ""


def unknown_instruction(report: str) -> str | None:
    """The instruction for which g++ refuses a translated source."""
    found = REFUSED.search(report)
    return "".join(re.findall(r"'(.)'", found[1])) if found else None
