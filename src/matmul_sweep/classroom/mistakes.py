"""The mistakes of a launch: their kind, their line, and what happened, in words."""

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.classroom.cuda_on_cpu.contained import MOST_BYTES
from matmul_sweep.classroom.experiments import Run
from matmul_sweep.classroom.explanation import Explanation
from matmul_sweep.classroom.file_launch import GRID_FIRST
from matmul_sweep.classroom.launching import CROSSED
from matmul_sweep.classroom.program import Program
from matmul_sweep.classroom.syntax import line_of, loops_around, text_of

# The cure of each kind of mistake, if it is the same for all, in the order in which they are told:
# what breaks the launch, then what makes C wrong.
OF_LAUNCH = {  # or what another launch mends
    "comma for dim3": "",
    "grid and block exchanged": GRID_FIRST,
    "too many threads": "",
    "no threads": "",
    "no blocks": "",
    "matrix of the host": "",
    "too many blocks": "",
    "too much shared memory": "",
    "grid too small": "round up: (n + T - 1) / T blocks for n elements, T of them in a block",
    "grid exchanged": "the kernel takes its rows of C from y of the grid, and columns from x, or "
    "the other way round: give the grid in this order",
    "sizes exchanged": "pass them in the order of the kernel's parameters",
    "too little shared memory": "ask for all that the kernel uses",
}
CURES = OF_LAUNCH | {
    "divergent barrier": "every thread of a block has to reach the same barrier: move it out of "
    "the `if`, and let no thread return or leave the loop before it",
    "overlapping arrays": "declare one `extern __shared__` array, and take the others as pointers "
    "into it: float* second = first + elements",
    "wrong index": "",
    "lost terms": "",
    "uninitialised variable": "give it a value, such as 0 for a sum",
    "out of shared memory": "an array of N elements has the indices 0 to N - 1",
    "out of bounds": "check the index and the guard: each dimension of its matrix needs a bound",
    "misaligned access": "",
    "misused instruction": "",
    "integer overflow": "compute the index in size_t",
    "write to an input": "write to C only",
    "endless loop": "check what makes the loop end",
    "endless output": "print from one thread, and only while you look for a mistake",
    "crash": "",
    "missing wait": "",
    "missing barrier": "",
    "race": "let one thread write each element",
    "uninitialised shared memory": "let a thread beyond the edge of its matrix store 0",
    "uninitialised C": "sum in a variable that begins at 0 and store it at the end",
    "right only once": "set what it keeps to its first value before each launch, or at the end of "
    "the kernel",
    "elements not written": "check how a thread finds its row and column, and what keeps it from "
    "its store",
    "wrong result": "",
    "wrong result stored": "look at what leads to this value",  # no more is known than where
}
PATTERN = 1e37  # bytes of 0xFE are -1.7e38 as a float, and -5e303 as a double
WHOLE_PATTERN = -0x01010102  # the same as an int
# The kind of a finding that says all by its own fields, and what its thread does.
SAYS = {
    "misuse": ("misused instruction", "has {words}"),
    "overflow": ("integer overflow", "computes beyond an int"),
    "input": ("write to an input", "writes to {name}"),
    "division": ("crash", "divides by zero"),
    "endless": ("endless loop", "has not ended after some seconds"),
    "crash": ("crash", "accesses memory far outside every array, or its stack overflows"),
}
BARRIER = (
    r"__sync(?:threads|warp)|\bsync\s*\(|\barrive_and_wait\s*\(|\bbar(?:rier)?\.(?:cta\.)?sync"
)
LOOP = r"\b(?:for|while)\s*\("
SHORT_LOOP = rf"{LOOP}[^;]*(?:=\s*[1-9]\d*\s*;|;[^;]*-\s*\d)"  # begins late or ends early
BESIDE = r"(?:[^;\[\]]|\[[^\]]*\])*"  # of an expression, with whole subscripts
REMAINDER = rf"\+={BESIDE}\*{BESIDE}\)\s*%"  # of a term
STORED_TURNED = r"\[[\w.]*x\]\s*\[[\w.]*y\]\s*=[^=]"  # x of a tile where others have y
# The lines of a kernel that an explanation is about.
PATTERNS = {
    # Adds up products, moves no pointer, and is no head of a loop.
    "tile": r"^(?!.*\b(?:{A}|{B}|{C})\s*\+=|\s*for\b[^)]*\)\s*\{{?$).*\+=.*\*|=\s*\w*fma\w*\s*\(",
    # Puts a product in the place of a sum.
    "sum": r"(?:^|\))\s*\w[\w\[\]]*\s*=(?:[^=;]*(?:\]\s*\*|\*\s*\w+\s*\[)|\s*\w+\s*\*\s*\w+;)",
    "sign": r"-=|\b(\w[\w\[\]]*)\s*=\s*\1\s*-|=\s*-|\(\s*-",
    "added": r"\+=[^;]*\]\s*\+[^;]*\]",
    "alpha": r"\b{alpha}\b",
    "beta": r"\b{beta}\b",
}


@dataclass(frozen=True)
class Mistake:
    """kind: one of CURES. line: in the file, 0 if unknown."""

    kind: str
    line: int
    what: str
    cure: str
    run: Run

    @property
    def rank(self) -> tuple[int, int]:
        return [*CURES].index(self.kind), self.run.shape.operations


def mistakes_of(run: Run, program: Program, explanation: Explanation | None) -> list[Mistake]:
    """The mistakes of a launch. explanation: of its wrong C."""
    teller = Teller(run, program)
    found = [teller.told(finding) for finding in run.mistaken]
    if found or run.wrong.any():
        found += teller.overlapping()
    if run.wrong.any():
        if explanation:
            found.append(teller.explained(explanation))
        found.append(teller.wrong())
    if run.only_once:
        found.append(teller.only_once())
    return sorted(found, key=lambda one: one.rank)


class Teller:
    """Turns what happened in a launch into mistakes."""

    def __init__(self, run: Run, program: Program) -> None:
        self.run, self.program, self.source = run, program, program.source
        self.name_of = program.signature.name_of

    def line(self, *places: int) -> int:
        """The line of the first of these places in the code that lies in the hand-in, or 0."""
        known = (self.run.result.lines.get(place, ("", 0)) for place in places)
        return next((line for file, line in known if Path(file) == self.source.place), 0)

    def place_in_header(self, *places: int) -> str:
        """The first of these places that lies in a header beside the hand-in, in words."""
        headers = {one.place: one.path.name for one in self.source.headers_beside}
        known = (self.run.result.lines.get(place, ("", 0)) for place in places)
        found = ((headers[Path(f)], line) for f, line in known if Path(f) in headers)
        return next((f" (line {line} of {name})" for name, line in found), "")

    def made(self, kind: str, line: int, what: str, cure: str | None = None) -> Mistake:
        """A mistake; without `cure` with that of its kind."""
        return Mistake(kind, line, what, CURES[kind] if cure is None else cure, self.run)

    def told(self, finding: Mapping[str, Any]) -> Mistake:
        line, kind = self.line(*finding.get("places", ())), finding["kind"]
        if tell := getattr(self, f"tell_{kind}", None):
            found: Mistake = tell(finding, line)
            return self.with_headers(found, finding)
        kind, does = SAYS.get(kind, ("crash", f"dies: {kind}"))
        fields = {"name": self.name_of(finding.get("array", "")), **finding}
        return self.made(kind, line, f"{thread_of(finding)} {does.format(**fields)}")

    def with_headers(self, found: Mistake, finding: Mapping[str, Any]) -> Mistake:
        """A mistake with the lines of headers, where that of the hand-in is 0."""
        where = self.place_in_header(*finding.get("places", ()))
        other = self.place_in_header(finding.get("other", -1))
        told = [one.strip(" ()") for one in (where, other) if one]
        if not str(finding.get("what", "write")).startswith("write"):
            told.reverse()
        if not told:
            return found

        def named(text: str) -> str:
            places = iter(told)
            return re.sub(r"\bline 0\b", lambda _: next(places, told[0]), text)

        end = "" if found.line or "line 0" in found.what else where
        return replace(found, what=named(found.what) + end, cure=named(found.cure))

    def tell_refused(self, finding: Mapping[str, Any], _: int) -> Mistake:
        return self.made(finding["mistake"], finding["line"], finding["what"], finding["cure"])

    def tell_divergent(self, finding: Mapping[str, Any], _: int) -> Mistake:
        line = re.search(r"at line (\d+)", finding["text"])
        text = re.sub(r"\((\d+,\d+),0\)", r"(\1)", finding["text"])
        text = text.replace("divergent __syncthreads in ", "in ")
        place, cure = int(line[1]) if line else 0, None
        for loop in loops_around(self.program.kernel.node, place):
            begins = "threadIdx" in text_of(loop, self.source.bare).partition(";")[0]
            if begins and not re.search(r"\breturn\b", self.program.kernel.body):
                cure = f"let all threads of a block go through the loop of line {line_of(loop)}, "
                cure += "and guard what each loads and stores"
        return self.made("divergent barrier", place, text, cure)

    def tell_index(self, finding: Mapping[str, Any], line: int) -> Mistake:
        before = self.source.bare.splitlines()[line - 1][: finding["column"]] if line else ""
        named = re.search(r"(\w+)\s*(?:\[(?:[^][]|\[[^][]*\])*\]\s*)+$", before)
        array = named[1] if named else ""
        shared = re.search(rf"\b__shared__\b[^;]*\b{array}\b", self.source.bare)
        of_rows = array in {one.name for one in self.program.signature.parameters if one.extents}
        kind, whose = "out of bounds", "row of" if of_rows else "thread's own array"
        if shared:
            kind, whose = "out of shared memory", "shared array"
        what = f"uses index {finding['index']} of {array}{', ' * bool(array)}a {whose}"
        said = f"{thread_of(finding)} {what} {unquoted(finding['type'])}"
        return self.made(kind, line, said, CURES["out of shared memory"])

    def tell_misaligned(self, finding: Mapping[str, Any], line: int) -> Mistake:
        type_, size = unquoted(finding["type"]), finding["bytes"]
        an = "an" if re.match("[aeio]", type_) else "a"  # but a uint4
        what = f"{thread_of(finding)} accesses {an} '{type_}' at an address that is not aligned"
        cure = f"an address of {an} {type_} is a multiple of {size} bytes"
        cure += ": every row has to begin at one"
        return self.made("misaligned access", line, what, cure)

    def tell_unwaited(self, finding: Mapping[str, Any], line: int) -> Mistake:
        copy, does = self.line(finding["other"]), finding["what"].split()[0] + "s"
        if finding["landed"] and self.barrier_between(copy, line):
            return self.missing_barrier(finding, line, copy)
        what = (
            f"{thread_of(finding)} {does} shared memory which the asynchronous copy of line {copy} "
            f"fills, by thread {indices(finding['other_thread'], self.run.launch.block)}"
        )
        if finding["landed"]:
            cure = "put a barrier, such as __syncthreads(), between the wait and the "
            cure += f"{does[:-1]}: a thread waits for its own copies only"
            what += ", with a wait but no barrier between them"
        else:
            cure = (
                f"wait for the copy before the barrier that precedes line {line}, such as by "
                "__pipeline_wait_prior, cp.async.wait_group or consumer_wait, with a smaller "
                "number if there is one"
            )
            what += ", and which nobody has waited for"
        return self.made("missing wait", line, what, cure)

    def tell_outside(self, finding: Mapping[str, Any], line: int) -> Mistake:
        does = "writes" if finding["writes"] else "reads"
        element, array = finding["element"], finding["array"]
        if array == "shared":
            has = f"of dynamic shared memory, which has {self.run.launched.shared_bytes}"
            what = f"{thread_of(finding)} {does} byte {element} {has}"
            return self.made("out of shared memory", line, what)
        shape, name = self.run.shape, self.name_of(array)
        rows, columns = dict(zip("AB", shape.inputs, strict=False)).get(array, shape.output)
        place = f"{name}[{element}]"
        if element >= 0:
            row, column = self.run.cell(array, element)
            place += f", row {row}, column {column}"
        what = f"{thread_of(finding)} {does} {place}; {name} has {rows}×{columns} elements"
        return self.made("out of bounds", line, what)

    def tell_killed(self, finding: Mapping[str, Any], _: int) -> Mistake:
        died = signal.Signals(finding["signal"])
        if died == signal.SIGXFSZ:
            what = f"the kernel prints more than {MOST_BYTES >> 20} MB"
            return self.made("endless output", self.body_line(r"\bprintf\s*\("), what)
        if died == signal.SIGABRT:
            what, line = "an assert fails, or it calls __trap", r"\b(?:assert|__trap)\s*\("
            return self.made("crash", self.body_line(line), what)
        return self.made("crash", 0, f"the kernel dies of {died.name}")

    def tell_race(self, finding: Mapping[str, Any], line: int) -> Mistake:
        other = self.line(finding["other"])
        second, _, first = finding["what"].partition(" after ")
        if finding["array"] == "shared" and {first, second} == {"read", "write"}:
            return self.missing_barrier(finding, line, other)
        if finding["array"] == "shared":
            where = f"byte {finding['element']} of shared memory"
        else:
            row, column = self.run.cell("C", finding["element"])
            where = f"{self.name_of('C')}[{row}][{column}]"
        thread = indices(finding["other_thread"], self.run.launched.block)
        did = "wrote" if first == "write" else "read"
        of = "another block" if finding["blocks_ago"] else "the same block"
        what = f"{thread_of(finding)} {second}s {where}, which thread {thread} of {of} {did}"
        what += f" (line {other})" if other else ""
        run, cure = self.run, self.cure_of_race(finding)
        if first == second and line == other and run.result.ended and not run.wrong.any():
            what += "; C is right, as both seem to write the same: harmless, but work done twice"
        return self.made("race", line, what, cure)

    def cure_of_race(self, finding: Mapping[str, Any]) -> str:
        """Who should write an element, by what its writers have in common."""
        cure, code = CURES["race"], self.program.code
        if finding["blocks_ago"] and not re.search(r"blockIdx|this_grid|group_index|ctaid", code):
            return (
                "the kernel never reads blockIdx, so that every block computes the same "
                "elements: let a thread's row and column begin at its block's"
            )
        terms = re.escape(self.program.signature.terms_name)
        shared_out = rf"{LOOP}[^)]*(?:blockIdx|threadIdx)[^;]*;[^;]*\b{terms}\b"
        grid, block = self.run.launched.grid, self.run.launched.block
        if grid[2] > 1 or block[2] > 1 or re.search(shared_out, self.program.kernel.body):
            cure += ", or add with atomicAdd, because several share the terms of a sum"
        return cure

    def missing_barrier(self, finding: Mapping[str, Any], line: int, other: int) -> Mistake:
        writes, reads = (line, other) if finding["what"].startswith("write") else (other, line)
        what = (
            f"a thread writes shared memory in line {writes} while another one reads the same "
            f"element in line {reads}: nothing makes them wait for each other"
        )
        cure = f"put __syncthreads() between lines {writes} and {reads}"
        # With a barrier on the way from the write to the read, the way back lacks one.
        if writes < reads and self.barrier_between(writes, reads):
            cure = (
                f"put __syncthreads() behind line {reads}, before the next round writes line "
                f"{writes}"
            )
        if writes == reads:
            cure = (
                f"put __syncthreads() behind line {reads}, before any thread runs it again; if "
                "threads meet within one round, put one between the read and the write too"
            )
        return self.made("missing barrier", reads, what, cure)

    def overlapping(self) -> Iterator[Mistake]:
        """The `extern __shared__` arrays behind the first, none of which has memory of its own."""
        for name, *_, node in self.program.overlapping:
            what = f"{name} begins at the address of every other `extern __shared__` array"
            yield self.made("overlapping arrays", line_of(node), what)

    def by_text(self) -> Iterator[Mistake]:
        """What makes C wrong by the kernel's text alone, whatever else does."""
        if line := self.body_line(REMAINDER):
            what = "each term is a remainder, which is no product"
            yield self.made("wrong result", line, what, "take % out")
        a, b = map(self.name_of, "AB")
        either = f"{re.escape(a)}|{re.escape(b)}"
        taken = rf"\b(\w+)\s*(?:\[[^;=]*\])?\s*\+?=(?!=)[^;={{}}]*\b(?:{either})\s*\["
        floats = not self.program.signature.operation.dtype.startswith("int")
        for name in dict.fromkeys(re.findall(taken, self.program.kernel.body) if floats else ()):
            if line := self.body_line(rf"\bint\s+(?:[^;(){{]*,\s*)?{name}\s*[\[=;,]"):
                what = f"{name} is of int, which cuts what it takes from {a} or {b}"
                yield self.made("wrong result", line, what, "declare it as float")

    def barrier_between(self, one: int, other: int) -> bool:
        """Whether a barrier stands between two lines."""
        bare, text = self.source.bare.splitlines(), self.source.text.splitlines()
        between = range(min(one, other), max(one, other) - 1)
        return any(re.search(BARRIER, text[i] if "asm" in bare[i] else bare[i]) for i in between)

    def explained(self, explanation: Explanation) -> Mistake:
        about = explanation.about
        if explanation.key.startswith("every second") and (line := self.body_line("shfl")):
            pass  # lanes' sums are lost
        elif about == "k":  # the first loop whose head names the number of terms, or the first
            own = re.escape(self.program.signature.terms_name)
            line = self.body_line(rf"{LOOP}.*\b{own}\b") or self.body_line(LOOP)
        elif about == "round":  # the loop around the sum
            before = self.pattern_line("tile")
            line = self.body_line(SHORT_LOOP, last=True, before=before)
            line = line or self.body_line(LOOP, last=True, before=before)
        elif about.endswith("tile"):
            fragment = self.body_line(rf"matrix_{about[0]}\b.*\b(?:row|col)_major")
            line = fragment or self.body_line(STORED_TURNED) or self.pattern_line("tile")
        elif lanes := re.fullmatch("([xyzw]) for ([xyzw])", about):
            line = self.body_line(rf"\.{lanes[1]}\b.*\.{lanes[2]}\b") or self.store_line()
        elif about == "type":
            narrow = r"int|short|long|char|unsigned|\w*half|\w*bfloat16"
            narrow += "|float" * (self.run.result.c.dtype == np.float64)
            anew = self.pattern_line("sum") if not self.pattern_line("tile") else 0
            line = self.sum_line(narrow) or anew or self.store_line()
        elif about in PATTERNS:
            line = self.pattern_line(about) or self.store_line()
        elif about.endswith((" offset", " step")):
            role, _, place = about.partition(" ")
            name = re.escape(self.name_of(role))
            moved = rf"\b{name}\s*\+?=[^=]|[&*]\s*{name}\b"
            line = self.body_line(moved, last=place == "step")
            stays = place == "step" and line < self.body_line(LOOP)
            if not line or stays:
                line = self.access_line(role)
        else:  # the last line that takes A has it where B should stand
            line = self.access_line(about.removesuffix(" again"), last=about == "A again")
        return self.made(explanation.kind, line, f"{explanation.key}; {self.example()}", "")

    def wrong(self) -> Mistake:
        """What is wrong with C, where no other finding says why."""
        run, c = self.run, self.name_of("C")
        missing, written = run.wrong & run.unwritten, run.wrong & ~run.unwritten
        values = run.result.c[written].astype(np.float64)
        # Whole numbers have no NaN to tell it by.
        nan = np.isnan(values).any() or run.result.c.dtype.kind == "i"
        unset = {
            one["array"]: self.line(*one["places"])
            for one in run.result.findings
            if one["kind"] == "unwritten"
        }
        added = re.search("atomicAdd|shfl", self.program.kernel.body)  # several of them are -inf
        begun = (np.isfinite(values) | bool(added)) & (np.abs(values) > PATTERN)
        if run.result.c.dtype.kind == "i":
            begun = values - run.expected[written] == WHOLE_PATTERN
        if values.size and begun.all():
            what = f"a sum begins with whatever lay in its register; {self.example()}"
            filled = re.findall(r"\b(?:fill|load)_\w+\s*\(\s*(\w+)", self.program.kernel.body)
            fragment = rf"\baccumulator\b(?!.*>\s*(?:{'|'.join(['-', *filled])})\b)"
            line = self.sum_line(r"\w+") or self.body_line(fragment)
            return self.made("uninitialised variable", line, what)
        if nan and "C" in unset:
            what = f"{c} is read before it is written; {self.example()}"
            return self.made("uninitialised C", unset["C"], what)
        if nan and "shared" in unset:
            what = f"a thread reads shared memory that no thread has written; {self.example()}"
            return self.made("uninitialised shared memory", unset["shared"], what)
        if missing.any():
            which = described(missing).replace("all elements", "any element")
            what = f"no thread writes {which} of {c}"
            if self.program.signature.operation.symmetric and is_triangle(missing):
                cure = "store the mirror image of each element too"
                return self.made("elements not written", self.store_line(), what, cure)
            line = self.body_line(CROSSED) or self.guard_line()
            cure = CURES["elements not written"]
            if own := self.program.launch.program:
                line_of_grid = f"line {own.own.lines[1]}{own.of}"
                cure += f"; and whether the grid, which is that of {line_of_grid}, covers C"
            return self.made("elements not written", line, what, cure)
        what = f"{described(run.wrong)} wrong; {self.example()}"
        return self.made("wrong result stored", self.store_line(), what)

    def only_once(self) -> Mistake:
        """A kernel whose second launch on the same matrices is wrong."""
        variable = r"__device__\s[^;({]*?\b(\w+)\s*(?:\[[^;{]*)?(?:=[^;]*)?;"
        kept = re.findall(variable, self.source.bare)
        line = self.body_line("|".join(rf"\b{name}\b" for name in kept)) if kept else 0
        what = "the first launch is right, and a second one on the same matrices is not"
        if line:
            what += ": it finds what the first one left in a variable of the device"
        return self.made("right only once", line or self.store_line(), what)

    def example(self) -> str:
        """The first wrong element: who computed it, what it is and what it should be."""
        run = self.run
        row, column = run.first_wrong
        writer, element = run.result.writers[row, column], f"{self.name_of('C')}[{row}][{column}]"
        if writer["thread"] < 0:
            return f"{element} is written by no thread"
        thread = indices(int(writer["thread"]), run.launched.block)
        block = indices(int(writer["block"]), run.launched.grid)
        return (
            f"{element}, by thread {thread} of block {block}, is "
            f"{run.result.c[row, column]:.6g}; it should be {float(run.expected[row, column]):.6g}"
        )

    def store_line(self) -> int:
        """The line that wrote the first wrong element, or any element."""
        writers = self.run.result.writers
        places = (writers["place"][self.run.first_wrong], *np.unique(writers["place"]))
        return self.line(*map(int, places)) or self.access_line("C")

    def guard_line(self) -> int:
        """The `if` around the store, or before it one that returns; else the store."""
        store, open_blocks = self.store_line(), 0
        lines = self.source.bare.splitlines()
        for line in range(store, self.program.kernel.line, -1):
            text = lines[line - 1]
            open_blocks += text.count("}") - text.count("{")
            around = open_blocks < 0 or line >= store - 1
            if re.search(r"\bif\s*\(", text) and (around or "return" in text):
                return line
            open_blocks = max(open_blocks, 0)
        return store or self.program.kernel.line

    def sum_line(self, types: str) -> int:
        """The line that declares the variable to which products are added, with such a type."""
        line = self.pattern_line("tile")
        added = r"(\w+)\s*(?:\[[^=]*\]\s*|\.\w\s*)?(?:\+=|=\s*\w*fma)"
        name = re.search(added, self.source.line(line))
        return self.body_line(rf"\b(?:{types})\s[^;=(]*\b{name[1]}\b", before=line) if name else 0

    def access_line(self, role: str, last: bool = False) -> int:
        """The first line of the kernel that has an element of this matrix, or the last one; of one
        that is taken as a pointer, the line that has its name. A part of it may have another."""
        name = re.escape(self.name_of(role))
        part = re.search(rf"\*\s*(?:\w+\s+)*(\w+)\s*=\s*&?{name}\b", self.program.kernel.body)
        name = rf"\b{part[1] if part else name}\b"
        return self.body_line(rf"{name}\s*\[", last) or self.body_line(name, last)

    @classmethod
    def line_of(cls, program: Program, pattern: str) -> int:
        """The first line of a kernel with a pattern, or 0."""
        return cls(None, program).body_line(pattern)  # type: ignore[arg-type]

    def pattern_line(self, about: str) -> int:
        names = {role: re.escape(self.name_of(role)) for role in ("A", "B", "C", "alpha", "beta")}
        return self.body_line(PATTERNS[about].format(**names))

    def body_line(self, pattern: str, last: bool = False, before: int = 0) -> int:
        """The first or last line of the kernel with a pattern, up to the line `before`; or 0."""
        node = self.program.kernel.node
        brace, end = (node.child_by_field_name("body") or node).start_point.row, node.end_point.row
        first = min(brace + 1, end)  # the line of the brace may have the parameters too
        body = self.source.bare.splitlines()[first : before or end + 1]
        found = [first + i for i, text in enumerate(body, 1) if re.search(pattern, text)]
        return found[-1 if last else 0] if found else 0


def unquoted(type_: str) -> str:
    """A type as gcc names it, without what is no part of its name here."""
    return re.sub(r"'|\b(?:const|volatile|struct) ", "", type_)


def thread_of(finding: Mapping[str, Any]) -> str:
    if "thread" not in finding:
        return "the kernel"
    return f"thread {shown(finding['thread'])} of block {shown(finding['block'])}"


def shown(index: Sequence[int]) -> str:
    """(x,y), or (x,y,z) if z matters."""
    return f"({','.join(str(i) for i in (index if index[2] else index[:2]))})"


def indices(linear: int, extents: Sequence[int]) -> str:
    """A linear index as (x,y)."""
    x, rest = linear % extents[0], linear // extents[0]
    return shown((x, rest % extents[1], rest // extents[1]))


def is_triangle(mask: np.ndarray) -> bool:
    """Whether a mask has all that lies on one side of the diagonal, and no more."""
    below = np.tril(np.ones(mask.shape, bool), -1)
    return mask.shape[0] == mask.shape[1] and any(
        np.array_equal(mask, side) for side in (below, below.T)
    )


def described(mask: np.ndarray) -> str:
    """Which elements a mask has, in words."""
    count = f"{mask.sum()} of {mask.size} elements"
    if mask.all():
        return "all elements" if mask.size > 1 else "the only element"
    if is_triangle(mask):
        return f"{count}, those {'below' if mask[-1, 0] else 'above'} the diagonal,"
    full_rows, full_columns = (np.asarray(mask.all(axis=axis)) for axis in (1, 0))
    if np.array_equal(mask, full_rows[:, None] | full_columns):
        parts = [*span("row", full_rows), *span("column", full_columns)]
        if parts:
            return f"{count}, those of {' and '.join(parts)},"
    return count


def span(word: str, mask: np.ndarray) -> Iterator[str]:
    """`rows 3 to 5` for a mask that is one stretch."""
    which = np.nonzero(mask)[0]
    if len(which) and which[-1] - which[0] + 1 == len(which):
        yield f"{word} {which[0]}" if len(which) == 1 else f"{word}s {which[0]} to {which[-1]}"
