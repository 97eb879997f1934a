"""What a hand-in may not do while it is graded: look different to another compiler, hide from what
watches it, reach for more than a kernel has.

docs/teaching.md says which ways to a wrong "correct" remain.
"""

import ctypes
import os
import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

from matmul_sweep.build import toolchain
from matmul_sweep.classroom import notebooks
from matmul_sweep.classroom.cuda_on_cpu import emulation, ptx
from matmul_sweep.classroom.program import COMPILE_SECONDS, FUNCTION, Program, beside, headers_of
from matmul_sweep.classroom.source import Source, word_set
from matmul_sweep.process.limits import run_limited

UNLIKE = "do not read the same text here"
USUAL = ["sm_75", "sm_90a"]  # whose text of a hand-in is looked at; all, if it asks for its own
# Linemarkers of a preprocessor: line, file, and 3 among the flags of a system's header.
MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)$')
# What may mean another thing each time that a file is read, or takes a line from its file.
SHIFTY = re.compile(
    r"^[ \t]*(?:#|%:)[ \t]*(?:line\b|\d|include_next|embed|include\b(?![ \t]*[<\"]|[ \t]*$))|%:"
    r"|\b__(?:COUNTER|INCLUDE_LEVEL|TIME|DATE|TIMESTAMP|BASE_FILE)__|\b__has_\w+",
    re.MULTILINE,
)
RAW_STRING = re.compile(r'\b(?:u8|[uUL])?R"')
ATTRIBUTE = re.compile(r"__attribute(?:__)?\s*\(\((.*?)\)\)(?!\))|\[\[(.*?)\]\]", re.DOTALL)
IN_BRACKETS = re.compile(r"\((?:[^()]|\([^()]*\))*\)")
HARMLESS = word_set(
    "used unused maybe_unused noinline always_inline aligned packed const pure noreturn nodiscard "
    "fallthrough deprecated likely unlikely nothrow cold hot may_alias"
)
PRAGMA = re.compile(
    r"#[ \t]*pragma[ \t]+(?!unroll|nounroll|once|nv_|GCC[ \t]+(?:unroll|ivdep|diagnostic)"
    r"|(?:mark|(?:end)?region|warning|comment|_\w+)\b)[^\n]*"  # of editors, of another compiler
)
CUDA_MACROS = word_set(
    "__CUDACC__ __NVCC__ __CUDACC_RTC__ __CUDA_ARCH__ __CUDA_ARCH_LIST__ __CUDACC_VER_MAJOR__ "
    "__CUDACC_VER_MINOR__ __CUDACC_VER_BUILD__ __CUDA_ARCH_FEAT_SM90_ALL"
)
ASSEMBLER = re.compile(r"\b(?:__asm__|__asm|asm)\b")
# Words of gcc, and of what watches, that no kernel needs.
FOREIGN = re.compile(
    r"\b(?:__declspec|cuda_on_cpu"
    r"|__(?:tsan|ubsan|asan|start|stop|libc|sync|atomic)_\w*"
    r"|__builtin_(?!inf|nan|huge_val|expect\b|assume\b|offsetof\b|unreachable\b|fabs|trap\b)\w+)"
)
# What a kernel may refer to, beside libm and its own text: CUDA's functions, and what gcc itself
# puts into code.
REACHABLE = re.compile(
    r"watched_\w+|__(?:tsan|ubsan_handle)_\w+|_Z\w*11cuda_on_cpu\w*|printf|puts|putchar|malloc|free"
    r"|(?:copysign|frexp|ldexp|modf|scalbn|finite|isinf|isnan|signbit)[fl]?"
    r"|__[a-z]+(?:[bhsdtxq][ifc]){1,2}\d?"  # libgcc's, such as __popcountdi2
    r"|_Zn[aw]m|_Zd[al]Pvm?|_ZTV\w+|__cxa_(?:guard_\w+|pure_virtual|throw_bad_array_new_length)"
    r"|abort|__assert_fail|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__tls_get_addr|\..*"
)
SECTION = re.compile(r"RELOCATION RECORDS FOR \[(.*)\]:")
SYMBOL = re.compile(r"[0-9a-f]{16} (.{7}) (\S+)\t[0-9a-f]+ (?:\.hidden )?(\S+)")
AROUND_MAIN = re.compile(r"\.(?:(?:pre)?init|fini)_array|\.[cd]tors")
RELOCATION = re.compile(r"[0-9a-f]{16} R_X86_64_\w+ +(\S+?)(?:[-+]0x[0-9a-f]+)?")


@dataclass(frozen=True)
class Refused(Exception):
    """A hand-in that is not graded. line: in its file, or 0. harmful: whether no honest kernel is
    so, and it is not judged at all."""

    line: int
    message: str
    harmful: bool = False


@dataclass(frozen=True)
class Line:
    """A line of a hand-in, or of a header beside it, as a preprocessor leaves it."""

    file: str
    number: int
    text: str


def check_text(program: Program, folder: Path) -> None:
    """Raise Refused for a hand-in whose text differs between compilers or architectures, or has
    words that hide something. `folder` is for what compilers read."""
    text, near = folder / "graded.cu", beside(program, folder)
    text.write_text(program.defines + program.text)
    check_steady(program, program.source)
    seen = preprocessed(text, as_cpu(program, near, "-fdirectives-only"))
    headers = headers_in(program, seen)
    for header in headers:
        check_steady(program, header)
    # Of headers beside it only that counts which the kernel uses.
    flat = program.defines + program.flat(lambda header: emulation.lacks(header.name))
    used, translated = text.with_name("used.cu"), text.with_name("translated.cu")
    used.write_text(flat)
    translated.write_text(ptx.translated(flat))
    check_words(program, preprocessed(used, as_cpu(program, near)))
    for line in preprocessed(translated, as_cpu(program, near)):
        if found := ASSEMBLER.search(line.text):
            refuse(program, line, f"`{found[0]}` is not of a device's instruction here")
    asks = any("__CUDA_ARCH" in source.text for source in [program.source, *headers])
    arches = architectures() if asks else USUAL
    with ThreadPoolExecutor() as pool:
        others = pool.map(lambda arch: preprocessed(text, as_cuda(near, arch)), arches)
    places = (str(program.source.place), f"{folder}/beside", *(str(one.place) for one in headers))
    for arch, lines in zip(arches, others, strict=True):
        check_alike(program, seen, [one for one in lines if one.file.startswith(places)], arch)
    for line in seen:
        if known := compiler_macros() & {*re.findall(r"\w+", line.text)}:
            refuse(program, line, f"{min(known)} is of a compiler: a kernel has to do without it")


def headers_in(program: Program, seen: Sequence[Line]) -> list[Source]:
    """The headers beside a hand-in that it includes. Raises Refused for one that lies elsewhere."""
    known = {str(one.place): one for one in program.source.headers_beside}
    own = notebooks.file_of(program.source.path).resolve().parent
    found = []
    for name in {line.file for line in seen} - {str(program.source.place)}:
        header = known.get(name) or Source(Path(name), Path(name).read_text(errors="replace"))
        if own not in header.path.resolve().parents:
            where = os.path.relpath(header.path.resolve(), own)
            raise Refused(0, f"it includes {where}, which does not lie beside it")
        found.append(header)
    return found


def refuse(program: Program, line: Line, message: str, harmful: bool = False) -> None:
    """Raise Refused, for a line of the hand-in or of a header."""
    if line.file == str(program.source.place):
        raise Refused(line.number, message, harmful)
    raise Refused(0, f"{Path(line.file).name}, line {line.number}: {message}", harmful)


def check_steady(program: Program, source: Source) -> None:
    """Raise Refused if a file could be another one the next time that it is read."""
    text = re.sub(r"(?:[^\n]*\\[ \t]*\n)+[^\n]*", joined, source.text)
    if found := SHIFTY.search(Source(source.path, text).bare) or RAW_STRING.search(text):
        line = Line(str(source.place), text.count("\n", 0, found.start()) + 1, "")
        refuse(program, line, f"`{found[0].strip()}` has no place in a hand-in")


def joined(found: re.Match[str]) -> str:
    """Lines that backslashes continue as one, followed by as many empty ones."""
    line, splices = re.subn(r"\\[ \t]*\n", "", found[0])
    return line + "\n" * splices


def as_cpu(program: Program, near: Sequence[Path], *options: str) -> list[str]:
    """The command by which g++ says what it reads for the CPU."""
    flags = emulation.kernel_flags(program.signature.operation, {"__CUDACC__": 1}, True, True)
    quoted = [word for folder in near for word in ("-iquote", str(folder))]
    return [emulation.compiler(), *flags, "-x", "c++", *quoted, "-E", *options]


def as_cuda(near: Sequence[Path], arch: str) -> list[str]:
    """The same for the CUDA compiler and an architecture. Of NVRTC, which does not say it, g++ with
    its macros tells instead."""
    compiler = toolchain.cuda()
    if len(compiler) == 1:
        told = [f"-arch={arch}", "-Xcompiler", "-fdirectives-only", "-E"]
        return [*compiler, *toolchain.FLAGS["cuda"], *told, *headers_of(compiler, near)]
    number = re.sub(r"\D", "", arch) + "0"
    macros = [f"-D__CUDA_ARCH__={number}", "-D__CUDACC__", "-D__CUDACC_RTC__", "-D__NVCC__"]
    own = [f"-I{emulation.RUNTIME}", "-std=c++17", "-x", "c++", "-fdirectives-only"]
    return [emulation.compiler(), *macros, *own, "-E", *headers_of(compiler, near)]


@once
def architectures() -> list[str]:
    """Those that the CUDA compiler compiles for."""
    command = [*toolchain.cuda(), "--list-gpu-code"]
    return subprocess.run(command, capture_output=True, text=True).stdout.split()


def preprocessed(text: Path, command: Sequence[str]) -> list[Line]:
    """The lines of a text that are of no header of the system, without empty ones."""
    done = run_limited([*command, str(text)], COMPILE_SECONDS)
    lines, file, number, system = [], "", 0, False
    for one in done.stdout.splitlines():
        if marker := MARKER.match(one):
            number, file = int(marker[1]), marker[2]
            system = "3" in marker[3] or file.startswith(("<", str(emulation.RUNTIME), str(text)))
            continue
        if not system and one.strip():
            lines.append(Line(file, number, " ".join(one.split())))
        number += 1
    return lines


def check_alike(program: Program, seen: list[Line], other: list[Line], arch: str) -> None:
    """Raise Refused for the first line that only one of two compilers reads."""
    if seen == other:
        return
    differ = (i for i, pair in enumerate(zip(seen, other, strict=False)) if pair[0] != pair[1])
    first = next(differ, min(len(seen), len(other)))
    rest = [lines[first] for lines in (seen, other) if first < len(lines)]
    alone = [line for line in rest if (line in seen) != (line in other)]
    line = min(alone or rest, key=lambda one: one.number)
    refuse(program, line, f"g++ and the CUDA compiler for {arch} {UNLIKE}")


@once
def compiler_macros() -> frozenset[str]:
    """What compilers define before a text, and what says which one it is."""
    command = [emulation.compiler(), *emulation.FLAGS, *emulation.WATCH_FLAGS]
    told = run_limited([*command, "-dM", "-E", "-x", "c++", "/dev/null"], COMPILE_SECONDS).stdout
    return CUDA_MACROS | {*re.findall(r"#define (\w+)", told)} - {"__cplusplus"}


def check_words(program: Program, lines: list[Line]) -> None:
    """Raise Refused for a word that takes something from what is watched, however macros made
    it."""
    text = "\n".join(line.text for line in lines)

    def found() -> Iterator[tuple[re.Match[str], bool]]:
        for one in ATTRIBUTE.finditer(text):
            names = re.findall(r"\w+(?=\s*(?:,|$))", IN_BRACKETS.sub("", one[1] or one[2] or ""))
            if not {name.strip("_") for name in names} <= HARMLESS:
                yield one, True
        yield from ((one, True) for one in PRAGMA.finditer(text))
        yield from ((one, False) for one in FOREIGN.finditer(text))

    for word, harmful in found():
        line = lines[text.count("\n", 0, word.start())]
        refuse(program, line, f"`{' '.join(word[0].split())}` has no place in a kernel", harmful)


def check_symbols(program: Program, symbols: str) -> None:
    """Raise Refused for code that runs before main, refers to what no kernel can, or takes the
    place of a function of the C library. symbols: as emulation.build returns them."""
    libc = ctypes.CDLL(None)
    defined, section = set(emulation.DYNAMIC_SHARED.findall(program.for_cpu)), ""
    for line in symbols.splitlines():
        if found := SYMBOL.fullmatch(line):
            flags, where, name = found.groups()
            if where != "*UND*":
                defined.add(name)
            taken = not name.startswith("_Z") and name != FUNCTION and hasattr(libc, name)
            if where != "*UND*" and flags[0] in "gu " and (taken or re.match("_Z[nd][wal]", name)):
                raise Refused(0, f"it defines {name}, which the C library has", harmful=True)
        elif found := SECTION.fullmatch(line):
            section = found[1]
        elif found := RELOCATION.fullmatch(line):
            check_reference(found[1], section, defined)


def check_reference(name: str, section: str, defined: set[str]) -> None:
    """Raise Refused if a section of the object may not refer to this name."""
    if AROUND_MAIN.match(section) and name != ".text._sub_I_00099_0":  # that is gcc's own
        raise Refused(0, "it has code that runs before or behind the kernel", harmful=True)
    if "11cuda_on_cpu" in section or section.startswith((".debug", ".eh_frame")):
        return  # of the runtime's headers, or nothing that runs
    # What libm itself uses of libc is found in libm too.
    math = hasattr(ctypes.CDLL("libm.so.6"), name) and not hasattr(ctypes.CDLL("libc.so.6"), name)
    own = name in defined or re.sub(r"^_ZTW\d+", "", name) in defined  # or it wraps one's place
    if not (math or own or REACHABLE.fullmatch(name)):
        raise Refused(0, f"it refers to {name}, which no kernel can call", harmful=True)


def secret_shapes(seed: int, square: bool) -> list[tuple[int, int, int]]:
    """Shapes (m, n, k) that nobody knows who does not know the seed: small ones, and one that is
    long in each direction, or a larger square."""
    drawn = random.Random(seed)
    if square:
        return [(n, n, n) for n in (drawn.randint(1, 60), drawn.randint(100, 160))]
    small = [drawn.choices(range(1, 100), k=3) for _ in range(2)]
    long = [drawn.choices(range(1, 20), k=3) for _ in range(3)]
    for direction, one in enumerate(long):
        one[direction] = drawn.randint(130, 400)
    return [(m, n, k) for m, n, k in [*small, *long]]


def new_seed() -> int:
    return random.SystemRandom().randrange(10**9)
