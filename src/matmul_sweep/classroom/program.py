"""The programs that a hand-in becomes: one for the CUDA compiler's opinion, one for the CPU, one
for the GPU."""

import json
import math
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, product
from pathlib import Path

from tree_sitter import Node

from matmul_sweep.build import toolchain
from matmul_sweep.classroom import syntax
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.classroom.file_launch import FileLaunch, file_launch
from matmul_sweep.classroom.launching import Launch, question_of_guess
from matmul_sweep.classroom.signature import ADDEND, BATCH, LEADING, UNUSED, Parameter, Signature
from matmul_sweep.classroom.source import OF_CUDA, Include, Source, without
from matmul_sweep.classroom.syntax import Kernel, text_of
from matmul_sweep.process.errors import UserError, one_line
from matmul_sweep.process.limits import run_limited

FUNCTION = "cuda_trial"  # has the signature of its operation and calls the hand-in's kernel
ERROR = re.compile(
    r"^(.+?)[(:](\d+)\)?(?::\d+)?: (?:fatal )?error(?: #\d+\S*)?: (.*)$", re.MULTILINE
)
UNDECLARED = re.compile(r'identifier "(\w+)" is undefined')
# What CUDA has no more since sm_70, with what such a function takes behind the mask.
GONE = re.compile(r"__(?:shfl(?:_(?:up|down|xor))?|ballot|any|all)")
TAKES = {"__shfl": "value, lane", "__shfl_xor": "value, mask of lanes"}
# Types of CUDA's headers.
IN_HEADERS = {"cuda_fp16.h": re.compile("(?:__)?half2?"),
              "cuda_bf16.h": re.compile("__nv_bfloat162?")}  # fmt: skip
NO_NUMBER = re.compile("IDX|DIM_?[XYZ]$")  # in the name of what may be an index of CUDA's
# Gives a member of a struct its value, even if it is constant.
SETTER = """template <class trial_place, class trial_value>
__device__ inline void trial_set(const trial_place& place, trial_value value)
{ const_cast<trial_place&>(place) = (trial_place)value; }
"""
OPTIONS = ("--expt-relaxed-constexpr", "--extended-lambda")  # that nvcc itself proposes
OTHERWISE = re.compile("|".join(("not open (?:source|include) file", ": No such file", *OPTIONS)))
# An error that follows from the value of a template's argument.
OF_VALUE = re.compile(
    r"division by zero|zero-sized|static.?assert|shared data|negative|too large"
    r"|fragment|no instance of|must be a class"
)
OWN_WARP = r"\b(?:(?:static|const|constexpr|unsigned|int)\s+)+warpSize\s*=\s*32\s*;"  # as CUDA's
COMPILE_SECONDS = 60.0


@dataclass(frozen=True)
class CompileMistake(Exception):
    """A source that does not compile: the compiler's first error and its line in the file."""

    line: int
    message: str


@dataclass(frozen=True)
class Program:
    """A hand-in that is ready to be compiled. macros: with which the CPU reads it."""

    source: Source
    kernel: Kernel
    signature: Signature
    launch: Launch
    macros: Mapping[str, int] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The file and the kernel, as questions begin."""
        return f"{self.source.path}: {self.kernel.name}"

    @cached_property
    def in_file(self) -> FileLaunch | None:
        """The kernel's launch in its file, which settings may replace."""
        return self.launch.program or file_launch(self.source, self.kernel, self.signature)

    @cached_property
    def needed(self) -> Mapping[Source, str]:
        """What the kernel uses of each header beside it, then the file's own."""
        arguments = (self.launch.constants[one.name] for one in self.kernel.template)
        return self.source.needed_by(self.kernel, " ".join(arguments))

    @property
    def code(self) -> str:
        """All that the kernel uses, to search in."""
        return "".join(self.needed.values())

    @property
    def text(self) -> str:
        """The kernel and what it uses, at its own lines; headers beside it are included whole."""
        return at_its_lines(self.source, self.needed[self.source])

    def flat(self, drops: Callable[[Include], object]) -> str:
        """The same with what it uses of each header beside it in the place of its first include,
        and without some others."""
        headers = {one.path.resolve(): one for one in self.needed if one is not self.source}

        def inlined(source: Source) -> str:
            gone = [one.node for one in source.includes if one.beside or drops(one)]
            text = without(self.needed[source], gone)
            parts, start, row = list[str](), 0, 0
            for one in source.includes:
                if header := headers.pop(one.beside.resolve(), None) if one.beside else None:
                    before = at_its_lines(source, text[start : one.node.start_byte], row)
                    parts += [before, inlined(header)]
                    start, row = one.node.end_byte, one.node.end_point.row
            return "".join(parts) + at_its_lines(source, text[start:], row)

        return inlined(self.source)

    @property
    def defines(self) -> str:
        """The constants that settings give, and the source does not, as macros; and what headers of
        the program around the kernel bring along."""
        own = {one.name for one in self.kernel.template}
        own |= {one.name for one in self.signature.parameters if one.position >= 0}
        wanted = re.search(r"\b(?:__)?half2?\b|bfloat16", self.code)
        halves = self.source.may_bring_halves and wanted
        brought = "cstdint", *("cuda_fp16.h", "cuda_bf16.h")[: 2 * bool(halves)]
        return "".join(f"#include <{one}>\n" for one in brought) + "".join(
            f"#define {name} {value}\n" for name, value in self.launch.constants.items()
            if not self.source.fixes(name) and name not in own
        )  # fmt: skip

    @property
    def wrapper(self) -> str:
        """A kernel of the operation's own signature that calls the hand-in's."""
        operation = self.signature.operation
        types = [dtype.cpp for dtype in operation.dtypes]
        names = [f"trial_{name}" for name in operation.matrices]
        inputs = [f"const {kind}* {name}" for kind, name in zip(types, names, strict=True)][:-1]
        numbers = [f"int trial_{name}" for name in operation.shape.__match_args__]
        parameters = ", ".join([*inputs, f"{types[-1]}* {names[-1]}", *numbers])
        structs, arguments = self.passed
        call = f"{self.instance}({', '.join(arguments)});"
        setter = SETTER if structs else ""
        head = f'{setter}extern "C" KERNEL_ATTRIBUTE void {FUNCTION}({parameters})'
        return f'#line 1 "wrapper"\n{head}\n{{ {self.inside} {" ".join(structs)} {call} }}\n'

    @property
    def inside(self) -> str:
        """What makes the names of the kernel's namespaces known."""
        names = self.kernel.scope.split("::")[:-1]
        scopes = ("::".join(names[: i + 1]) for i in range(len(names)))
        return " ".join(f"using namespace {scope};" for scope in scopes)

    @property
    def passed(self) -> tuple[list[str], list[str]]:
        """The statements that make the structs which the kernel takes, and its arguments."""
        structs, arguments = [], []
        passed = (p for p in self.signature.parameters if p.position >= 0)
        for position, parts in groupby(passed, key=lambda p: p.position):
            members = [*parts]
            if members[0].member:
                name, kind = f"trial_{position}", self.type_of(position)
                structs.append(f"alignas({kind}) char bytes_{position}[sizeof({kind})] = {{}};")
                structs.append(f"auto& {name} = reinterpret_cast<{kind}&>(bytes_{position});")
                structs += [f"trial_set({name}.{p.member}, {self.argument(p)});" for p in members]
                name = f"&{name}" if self.kernel.parameters[position].pointers else name
            else:
                name = self.argument(members[0])
            arguments.append(name)
        return structs, arguments

    def type_of(self, position: int) -> str:
        """The type of a parameter, without the names of the kernel's template."""
        kind = self.kernel.parameters[position].type
        for one in self.kernel.template:
            kind = re.sub(rf"\b{one.name}\b", self.launch.constants[one.name], kind)
        return kind

    @property
    def use(self) -> str:
        """A use of the kernel: compilers look into a template only where it is used. Other
        functions may have its name."""
        texts = [re.sub(rf"\b{one.name}\b(?!\s*\()" * bool(one.name), "", one.text.split("=")[0])
                 for one in self.kernel.parameters]  # fmt: skip
        own = "" if self.kernel.template else f"(void (*)({', '.join(texts)}))"
        return f"void* trial_use() {{ {self.inside} return (void*){own}{self.instance}; }}\n"

    @property
    def instance(self) -> str:
        """The kernel's name with the arguments of its template."""
        own = [self.launch.constants[one.name] for one in self.kernel.template]
        return f"{self.kernel.path}<{', '.join(own)}>" if own else self.kernel.path

    def argument(self, parameter: Parameter) -> str:
        """What a parameter of the kernel gets."""
        role, operation = parameter.role, self.signature.operation
        if parameter.text:
            return parameter.text
        if role in operation.matrices or role == ADDEND:
            role = "C" if role == ADDEND else role
            index = operation.matrices.index(role)
            pointer = f"const_cast<{operation.dtypes[index].cpp}*>(trial_{role})"
            known = self.launch.constants
            rows = "".join(f"[{known.get(extent, extent)}]" for extent in parameter.extents)
            own = f"{parameter.type} (*){rows}" if rows else f"{parameter.type}*"
            other = rows or parameter.type != operation.dtypes[index].cpp
            return f"reinterpret_cast<{own}>({pointer})" if other else pointer
        if role.startswith(LEADING):
            matrix = role.removeprefix(LEADING)
            length = f"trial_{self.signature.row_length(matrix)}"
            in_bytes = rf"\b{parameter.name}\s*/\s*sizeof|\bchar\s*\*\s*\)[^;]*\b{parameter.name}\b"
            bytes_of = f" * (int)sizeof(*trial_{matrix})"
            return length + bytes_of * bool(re.search(in_bytes, self.kernel.body))
        if role.startswith(UNUSED):
            return f"({self.type_of(parameter.position)}*)TRIAL_ANY" if parameter.pointer else "0"
        given = {"alpha": "TRIAL_ALPHA", "beta": "TRIAL_BETA", BATCH: "1"}
        return given.get(role, f"trial_{role}")

    @cached_property
    def overlapping(self) -> list[tuple[str, str, str, Node]]:
        """Those of the kernel's `extern __shared__` arrays behind the first, as dynamic_arrays has
        them: all begin at one address."""
        return syntax.dynamic_arrays(self.kernel, self.source.text)[1:]

    @property
    def for_cpu(self) -> str:
        """Its `extern __shared__` arrays are one, outside of the kernel's namespaces."""
        text = self.flat(lambda header: emulation.lacks(header.name))
        text = re.sub(OWN_WARP, lambda found: syntax.blank(found[0]), text)
        text = re.sub(r"(__shared__\s+)alignas\b", r"\1__align__", text)  # g++ has its own order
        for name, kind, rows, node in syntax.dynamic_arrays(self.kernel, self.source.text):
            written = text_of(node, self.source.text)
            pointer = (
                f"{kind} (*{name}){rows} = reinterpret_cast<{kind} (*){rows}>(::trial_shared);"
            )
            text = text.replace(written, pointer + "\n" * written.count("\n"))
        factors = "namespace cuda_on_cpu { extern double alpha, beta; }\n"
        factors += "#define TRIAL_ALPHA cuda_on_cpu::alpha\n#define TRIAL_BETA cuda_on_cpu::beta\n"
        factors += "alignas(16) static char TRIAL_ANY[1 << 20];\n"
        shared = "extern __shared__ char trial_shared[];\n" if "::trial_shared" in text else ""
        head = f"#define KERNEL_ATTRIBUTE __global__\n{factors}{shared}"
        return f"{head}{self.defines}{text}{self.wrapper}"

    @property
    def for_gpu(self) -> str:
        """The hand-in's kernel becomes a device function, which the compiler puts in line."""
        return (
            "#undef __global__\n#define __global__ __device__ __forceinline__\n"
            "#undef __launch_bounds__\n#define __launch_bounds__(...)\n"
            f"#define KERNEL_ATTRIBUTE __attribute__((global)) "
            f"__attribute__((launch_bounds({math.prod(self.launch.block)})))\n"
            "#define TRIAL_ALPHA 1\n#define TRIAL_BETA 0\n#define TRIAL_ANY 0\n"
            f"{self.defines}{self.flat(lambda _: False)}{self.wrapper}"
        )


def beside(program: Program, folder: Path) -> list[Path]:
    """Links in `folder` to where the hand-in and its headers lie, or to all there but copies of
    CUDA's own headers. nvcc hands the names of folders to a shell, which would run what is in one.
    """
    links = []
    for i, place in enumerate(program.source.header_folders):
        links.append(folder / f"beside-{i}")
        stray = {one for one in place.glob("cuda*.h") if OF_CUDA.match(one.name)}
        for one in {*place.iterdir()} - stray if stray else ():
            links[-1].mkdir(exist_ok=True)
            with suppress(FileExistsError):
                (links[-1] / one.name).symlink_to(one)
        with suppress(FileExistsError):
            links[-1].symlink_to(place)
    return links


def headers_of(compiler: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """The options by which a compiler of CUDA finds headers in quotes in folders, and, if it is
    nvcc, no others: one called stdio.h is not the system's."""
    if len(compiler) > 1:  # NVRTC
        return [f"-I{folder}" for folder in folders]
    return [word for folder in folders for word in ("-Xcompiler", f"-iquote,{folder}")]


def at_its_lines(source: Source, text: str, row: int = 0) -> str:
    """A text that compilers take for a source's from a row on, line by line."""
    place = json.dumps(str(source.place), ensure_ascii=False)  # as a string of C
    return f"#line {row + 1} {place}\n{text}\n"


def check_with_cuda(program: Program, folder: Path, arch: str) -> str:
    """The option that the CUDA compiler needs for the kernel, or nothing. Raises CompileMistake if
    it refuses the kernel; without a compiler it does not."""
    try:
        compiler = toolchain.cuda()
    except UserError:
        return ""
    include = headers_of(compiler, beside(program, folder))
    target = ["-cubin", f"-arch={arch}", "-o", str(folder / "checked.cubin"), *include]
    command = [*compiler, *target, *toolchain.FLAGS["cuda"]]
    report, source = "", folder / "checked.cu"
    # A header beside the file may have for the host what needs another one, or is no C++; then what
    # the kernel uses of it has to do.
    for text, option in product((program.text, program.flat(lambda _: False)), ("", *OPTIONS)):
        if option in report:
            source.write_text(program.defines + text + program.use)
            done = checked([*command, *option.split(), str(source)], program)
            report = done.stdout + done.stderr
            if not done.returncode:
                return option
            first = ERROR.search(report)
            of_file = first and Path(first[1]).resolve() == program.source.place
            if of_file and not OTHERWISE.search(report):
                break
    toolchain.check_machine(compiler[-1], done)
    raise compile_mistake(report, program)


def checked(command: Sequence[str], program: Program) -> subprocess.CompletedProcess[str]:
    """What a compiler comes to. Raises CompileMistake if it takes too long."""
    try:
        return run_limited(command, COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        late = "the compiler takes longer than a minute"
        raise CompileMistake(program.kernel.line, late) from None


def compile_mistake(report: str, program: Program) -> CompileMistake:
    """A compiler's first error, with what probably caused it."""
    errors = [*ERROR.finditer(report)]  # that of an unknown type is the second one
    found = next((one for one in errors if "incomplete type" not in one[3]), ERROR.search(report))
    if without_body := re.search(r"Unresolved extern function '_Z(\d+)(\w+)'", report):
        name = without_body[2][: int(without_body[1])]
        return CompileMistake(0, f"it calls {name}, which has no body in it: paste that in")
    if not found:
        lines = report.strip().splitlines() or ["no message"]
        worst = [line for line in lines if re.search(r"\b(?:error|fatal)\b", line)]
        return CompileMistake(0, one_line([*worst, *lines][0]))
    line, message, source = int(found[2]), one_line(found[3]), program.source
    undeclared = UNDECLARED.search(message)
    if re.search(r"\b(?:requires|concept|consteval)\b", source.line(line)):
        message += "; it needs nvcc -std=c++20, and a trial compiles C++17"
    if undeclared and (gone := GONE.fullmatch(undeclared[1])):
        takes = TAKES.get(gone[0], "value, delta" if "shfl" in gone[0] else "condition")
        message = f"{gone[0]} is gone since sm_70: write {gone[0]}_sync(0xffffffff, {takes})"
    elif undeclared or "namespace name" in message:
        message += "".join(f"; write #include <{header}>" for header, types in IN_HEADERS.items()
                           if undeclared and types.fullmatch(undeclared[1]))  # fmt: skip
        message += source.perhaps_left_out
    condition = next(syntax.around(program.kernel.node, "preproc_if", "preproc_ifdef"), None)
    if condition and undeclared and undeclared[1] == program.kernel.name:
        line, message = syntax.line_of(condition), f"it leaves {program.kernel.name} out"
    tested = source.line(line) if source.line(line).startswith("#if") else ""
    unknown = [*UNDECLARED.findall(report), *re.findall(r"\b[A-Za-z_]\w+", tested[3:])]
    called = re.findall(r"(\w+)\s*\(", source.bare)  # no number will do
    given = (*program.launch.constants, *called, *(one.name for one in program.kernel.parameters))
    given += ("FIXME", "TODO")  # which nobody gives
    unknown = [one for one in unknown if one.isupper() and not NO_NUMBER.search(one)
               and not (one in given or source.fixes(one))]  # fmt: skip
    if names := dict.fromkeys(unknown):
        usual = 1 if "def" in tested else 16  # of a switch, as in `#ifdef GPU`
        said = " ".join(f"{name}={32 if 'WARP' in name else usual}" for name in names)
        message += f"; if another file or the program's build has it, say for instance {said}"
    said = f"line {line} does not compile: {message}"
    if OF_VALUE.search(message):
        if asked := question_of_guess(source, program.launch, said):
            raise asked
        own = ((one.name, program.launch.constants[one.name]) for one in program.kernel.template)
        if numbers := " ".join(map("=".join, own)):
            message += f"; its program has {numbers}: say others after the file's name"
    for include in source.includes:
        if include.beside and Path(found[1]).resolve() == include.beside.resolve():
            return CompileMistake(include.line, f"{include.name}, line {line}: {message}")
    return CompileMistake(line, message)


def executable_in(folder: Path, watch: bool = True) -> Path:
    return folder / ("watched" if watch else "plain")


def build_for_cpu(program: Program, folder: Path, watch: bool = True) -> str:
    """Make executable_in(folder), which runs the kernel on the CPU; returns and raises as
    emulation.build does."""
    source = folder / "trial.cu"
    source.write_text(program.for_cpu)
    return emulation.build(
        source, [FUNCTION], program.signature.operation, {"__CUDACC__": 1, **program.macros},
        executable_in(folder, watch), watch, beside(program, folder), seconds=COMPILE_SECONDS,
    )  # fmt: skip
