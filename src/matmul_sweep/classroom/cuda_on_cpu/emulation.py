"""CUDA kernels on the CPU: compile an unchanged .cu file with g++ and run it on NumPy arrays.

The top of cuda_on_cpu/cuda_on_cpu.h says which mistakes in a kernel this finds and which it cannot.
"""

import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from matmul_sweep.build import cache
from matmul_sweep.build.toolchain import check_machine, no_kernel, version
from matmul_sweep.catalogue.architectures import STATIC_SHARED
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.plans import Plan
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.classroom.cuda_on_cpu import ptx
from matmul_sweep.operations.operation import Operation
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import HANG_SECONDS, Unfinished, UserError
from matmul_sweep.process.limits import run_limited

RUNTIME = Path(__file__).parent / "include"
DRIVER = str(RUNTIME / "driver.cpp")
# What WATCH adds to the compiler's flags: gcc's instrumentation, for the runtime of watch.h. And to
# the linker's.
WATCH_FLAGS = [
    "-fsanitize=thread,bounds,alignment,signed-integer-overflow",
    "--param=tsan-instrument-func-entry-exit=0",
    *("-U__SANITIZE_THREAD__", "-DWATCH"),
    "-ftrivial-auto-var-init=pattern",  # a sum without a value begins with -1.7e38
    *("-O1", "-no-pie", "-fno-pie"),  # so that every access keeps its line
]
WATCHER_FLAGS = ["-DWATCHER", "-O2", "-fno-sanitize=all"]  # of the object that watches
WATCH_LINK_FLAGS = ["-no-pie"]
FLAGS = [
    "-O1",
    *("-g1", "-gdwarf-4"),  # lines, and no more; 5 loses the file that #line names at the top
    "-std=c++17",
    "-fno-access-control",  # members of a kernel's own structs are given from outside
    "-fno-strict-aliasing",  # kernels read floats through pointers to float4
    "-fno-extern-tls-init",  # `extern __shared__` arrays have no constructor to call
    "-fno-sanitize-recover=all",
    *("-ffunction-sections", "-fdata-sections"),
]
# The shared memory of other kernels in the source does not count.
LINK_FLAGS = ["-Wl,--gc-sections"]
# Of a watched kernel, calls of the C library that gcc does not instrument.
REDIRECTED = [
    f"--redefine-sym={name}=watched_{name}" for name in ("memcpy", "memmove", "memset")
]  # fmt: skip
# CUDA's headers, and how g++ misses those without a counterpart here.
HEADER = r"(?:mma|cuda_\w+|(?:cub|cuda|thrust|nv|cutlass|cute|cooperative_groups)/\S+?)(?:\.\w+)?"
FOREIGN_HEADER = re.compile(rf"fatal error: ({HEADER}): No such file")
# Functions of CUDA without one.
FOREIGN_NAME = re.compile(r"error: [‘'](__\w+|clock64|clock)[’'] was not declared")
ASSEMBLER = re.compile(r"Assembler messages|in ‘asm’|‘asm’ operand|(?:in|out)put constraint|in asm")
# The source's `extern __shared__` array, which the driver must define.
DYNAMIC_SHARED = re.compile(r"extern\s+__shared__\s[^;]*?(\w+)\s*\[\s*\]\s*;")


@dataclass(frozen=True)
class Epilogue:
    """What a kernel with an epilogue adds: C = alpha·product + beta·D."""

    alpha: float
    beta: float
    addend: np.ndarray  # D, of C's extents and type


class Extents(NamedTuple):
    """What a launch gets of a shape: the elements of each matrix, and the dimensions."""

    elements: tuple[int, ...]
    dimensions: tuple[int, ...]


class EmulationError(Exception):
    """A kernel that does not compile or makes a mistake; the message is one line."""


class NotRunnable(EmulationError):
    """A kernel that is right for nvcc perhaps, but uses what the CPU has no counterpart of."""

    def __init__(self, what: str) -> None:
        super().__init__(f"not runnable on the CPU: {what}")


def lacks(header: str) -> bool:
    """Whether a header is one of CUDA's that has no counterpart here."""
    return bool(re.fullmatch(HEADER, header)) and not (RUNTIME / header).is_file()


def build(
    source: Path,
    functions: Sequence[str],
    operation: Operation,
    defines: Mapping[str, int | str],
    executable: Path,
    watch: bool = False,
    include: Sequence[Path] = (),
    workspace: Sequence[str] = (),
    tensor_maps: Sequence[str] = (),
    seconds: float | None = None,
    epilogue: bool = False,
) -> str:
    """Compile the kernels `functions` of `source`, in the order of their launches, into
    `executable`, for `launch`.

    operation: what they compute. It gives their parameters: pointers to the inputs and to C, of the
    operation's dtypes, then the dimensions; behind these come alpha, beta and D with an `epilogue`,
    the workspace's parts and the tensor maps of these names. defines: the kernels' compile-time
    parameters. watch: for watched.launch, which sees every access. include: folders of headers in
    quotes. seconds: after which a compiler is given up; None: never.
    Returns for `watch` what `objdump -tr` says of the source's own object: its symbols, and what it
    refers to.
    Raises EmulationError with the compiler's first error, NotRunnable, and UserError without g++,
    or if the machine failed.
    """
    text = source.read_text(encoding="utf-8")
    if 'extern "C"' not in text:  # g++ would not miss it, because the driver declares the kernel so
        raise EmulationError(no_kernel(functions[-1]))
    macros = _macros(functions, operation, workspace, tensor_maps, epilogue)
    if dynamic := DYNAMIC_SHARED.search(text):
        macros["DYNAMIC_SHARED"] = f'"{dynamic[1]}"'
    files = source_files(source, include)
    has_ptx = any(map(ptx.is_in, files))
    common = kernel_flags(operation, defines, watch, has_ptx)
    driver = [*common, *(f"-D{name}={value}" for name, value in macros.items())]
    driver += WATCHER_FLAGS if watch else []
    # The places of findings name files, so such a build is of a source in its place.
    place = str(source.resolve()) if watch else ""
    key = cache.key_of([version(compiler()), *driver, place], [*files, *runtime()])
    if (symbols := cache.fetch(key, executable)) is not None:
        executable.chmod(0o755)
        return symbols
    driver += [DRIVER]
    with tempfile.TemporaryDirectory(prefix="cuda-on-cpu-") as name:
        copies = ptx.copies(files, include, Path(name)) if has_ptx else Path("/")
        kernel, folders = ptx.place_in(copies, source), list[str]()
        for folder in include:
            folders += ["-iquote", str(ptx.place_in(copies, folder))]
        units = [[*driver, f'-DKERNEL_SOURCE="{kernel}"', *folders]]
        if watch:  # so that the kernel knows no name of what watches it
            units = [driver, [*common, *folders, "-x", "c++", str(kernel)]]
        try:
            symbols = _compile(units, executable, watch, seconds)
        except EmulationError as error:
            if what := _foreign(str(error), has_ptx):
                raise NotRunnable(what) from None
            explained = _explained(str(error), functions, operation, macros["PARAMETERS"])
            raise EmulationError(explained) from None
    cache.keep(key, executable, symbols)
    return symbols


def _compile(
    units: Sequence[Sequence[str]], executable: Path, watch: bool, seconds: float | None
) -> str:
    """Compile and link the units; what build returns. Raises EmulationError with all that a
    compiler says."""
    objects = [executable.with_suffix(f".{i}.o") for i in range(len(units))]
    with ThreadPoolExecutor() as pool:
        reports = [*pool.map(partial(_compile_unit, seconds=seconds), units, objects)]
    symbols = ""
    if watch and not any(reports):
        kernel = str(objects[-1])
        subprocess.run(["objcopy", *REDIRECTED, kernel], check=True)
        dump = ["objdump", "-tr", kernel]
        symbols = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    if not any(reports):
        link_flags = [*LINK_FLAGS, *(WATCH_LINK_FLAGS if watch else [])]
        link = [compiler(), *link_flags, *map(str, objects), "-o", str(executable)]
        reports = [_refused(link, seconds)]
    if report := next(filter(None, reports), ""):
        raise EmulationError(report)
    for made in objects:
        made.unlink()
    return symbols


def _compile_unit(unit: Sequence[str], made: Path, seconds: float | None) -> str:
    """Make the object of a unit, and return what the compiler says if it fails. That of what
    watches is the same for kernels of a signature, and comes from the cache."""
    command = [compiler(), *unit, "-c", "-o", str(made)]
    if unit[-1] != DRIVER:
        return _refused(command, seconds)
    key = cache.key_of([version(compiler()), *unit], runtime())
    if cache.fetch(key, made) is not None:
        return ""
    report = _refused(command, seconds)
    if not report:
        cache.keep(key, made, "")
    return report


def kernel_flags(
    operation: Operation, defines: Mapping[str, int | str], watch: bool, has_ptx: bool
) -> list[str]:
    """The compiler's flags for a kernel, or for the driver."""
    half = "float16" in (operation.dtype, operation.output)
    headers = ["cuda_on_cpu.h", *(["cuda_fp16.h"] * half), *(["ptx.h"] * has_ptx)]
    included = [word for header in headers for word in ("-include", str(RUNTIME / header))]
    macros = [f"-D{name}={value}" for name, value in defines.items()]
    return [*FLAGS, *(WATCH_FLAGS if watch else []), *macros, f"-I{RUNTIME}", *included]


def build_variant(
    variant: Variant, executable: Path, watch: bool = False, source: Path | None = None
) -> None:
    """Compile a kernel of a catalogue, or a source in its place, with the parameters of a variant;
    raises as build does."""
    kernel = variant.kernel
    build(
        source or kernel.code, kernel.functions, kernel.product, variant.constants(None),
        executable, watch, [kernel.code.parent.resolve()], [*kernel.workspace],
        [*kernel.tensor_maps], epilogue=kernel.epilogue,
    )  # fmt: skip


def compiler() -> str:
    """Path of g++. Raises UserError if there is none."""
    path = shutil.which("g++")
    if path is None:
        raise UserError("no g++: install a C++ compiler (Debian: apt install g++)")
    return path


def compiler_version() -> str:
    """The version of g++; empty without one."""
    try:
        return version(compiler())
    except UserError:
        return ""


def runtime() -> list[Path]:
    """The sources of the runtime that kernels are compiled with, and of their translation."""
    return [*sorted(file for file in RUNTIME.rglob("*") if file.is_file()), Path(ptx.__file__)]


def launch(
    executable: Path,
    plan: Plan,
    shape: Shape,
    inputs: Sequence[np.ndarray],
    output: np.ndarray,
    timeout: float = HANG_SECONDS,
    epilogue: Epilogue | None = None,
) -> np.ndarray:
    """Run the launches of a plan and return C, an array like `output`, which does not change.

    inputs and output have the extents of `shape`, and the dtypes that the executable was built for.
    `output` is C before the launch: fill it with NaN to see which elements the kernel does not
    write. epilogue: without one a kernel that has an epilogue stores the product alone.
    Raises EmulationError for an access outside an array, a barrier that not all threads of a
    block reach, more static shared memory than a block has, or arrays that do not fit the shape;
    Unfinished after `timeout` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="cuda-on-cpu-") as folder:
        command = command_of(executable, plan, shape, (*inputs, output), Path(folder))
        result = command[-1]
        if epilogue:
            addend = Path(folder) / "addend.bin"
            addend.write_bytes(epilogue.addend.tobytes())
            command += [str(epilogue.alpha), str(epilogue.beta), str(addend)]
        _run(command, timeout)
        return np.fromfile(result, output.dtype).reshape(output.shape)


def command_of(
    executable: Path, plan: Plan, shape: Shape | Extents, arrays: Sequence[np.ndarray], folder: Path
) -> list[str]:
    """The command that runs an executable on arrays, which it finds in files of the folder; the
    last is C's, and C is there afterwards."""
    numbers: list[int] = []
    for each in plan.launches:
        numbers += [*each.grid, *each.block, each.shared_bytes, each.cluster]
    numbers += plan.workspace
    for seen in plan.maps:
        numbers += [seen.pointer, seen.element_bytes, seen.swizzle, len(seen.extents)]
        numbers += [*seen.extents, *seen.strides, *seen.box]
    numbers += [*shape.elements, *shape.dimensions]
    paths = [folder / f"{index}.bin" for index in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        path.write_bytes(array.tobytes())
    return [str(word) for word in (executable, *numbers, *paths)]


def _run(command: list[str], timeout: float) -> None:
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Unfinished(timeout) from None
    if completed.returncode == 0:
        return
    if completed.stderr.strip():
        raise EmulationError(completed.stderr.splitlines()[-1].strip())
    raise EmulationError(f"the kernel died of {signal.Signals(-completed.returncode).name}")


def _refused(command: Sequence[str], seconds: float | None) -> str:
    """What a compiler says if it fails, else nothing. Raises NotRunnable and UserError as build
    does."""
    try:
        completed = run_limited(command, seconds)
    except subprocess.TimeoutExpired:
        raise NotRunnable(f"g++ needs more than {seconds:g} s") from None
    if completed.returncode == 0:
        return ""
    check_machine(command[0], completed)
    return completed.stderr or f"g++ ends with {completed.returncode}"


def _foreign(report: str, has_ptx: bool) -> str | None:
    """What of CUDA the compiler did not know, if that is why it failed."""
    if instruction := ptx.unknown_instruction(report):
        return f"PTX instruction {instruction}"
    if found := FOREIGN_HEADER.search(report) or FOREIGN_NAME.search(report):
        return found[1]
    return "inline PTX" if has_ptx and ASSEMBLER.search(report) else None


def _macros(
    functions: Sequence[str],
    operation: Operation,
    workspace: Sequence[str],
    tensor_maps: Sequence[str],
    epilogue: bool,
) -> dict[str, int | str]:
    """What the driver has to know of the kernels and their arrays."""
    matrices = list(zip(operation.matrices, operation.dtypes, strict=True))
    dimensions = operation.shape.__match_args__
    parameters = [
        *(f"{'' if name == 'C' else 'const '}{dtype.cpp}* {name}" for name, dtype in matrices),
        *(f"int {name}" for name in dimensions),
        *(["float alpha", "float beta", f"const {matrices[-1][1].cpp}* D"] if epilogue else []),
        *(f"void* {name}" for name in workspace),
        *(f"const CUtensorMap {name}" for name in tensor_maps),
    ]
    known = {"arrays": matrices, "dimensions": dimensions, "parts": workspace, "maps": tensor_maps}
    arguments = {of: [f"{of}[{i}]" for i in range(len(known[of]))] for of in known}
    arguments["dimensions"] += ["alpha", "beta", "D"] if epilogue else []
    return {
        "FUNCTIONS": ",".join(functions),
        "PARAMETERS": ", ".join(parameters),
        "ARGUMENTS": ",".join(name for of in arguments.values() for name in of),
        "MATRICES": ",".join(f'{{"{name}",{dtype.bytes}}}' for name, dtype in matrices),
        "DIMENSIONS": len(dimensions),
        "PARTS": len(workspace),
        "MAPS": len(tensor_maps),
        "MOST_STATIC_SHARED": STATIC_SHARED,
    }


def _explained(
    report: str, functions: Sequence[str], operation: Operation, parameters: int | str
) -> str:
    """A compiler's first error, in terms of the catalogue if its entry is the cause."""
    line = _line_with(("error:", "unimplemented:", "undefined reference", "cannot find"), report)
    for function in functions:
        if f"undefined reference to `{function}'" in line:
            return no_kernel(function)
    if "conflicting declaration" in line:
        return f"{line}; this kernel of {operation.name} takes ({parameters})"
    return line


def _line_with(marks: Sequence[str], report: str) -> str:
    """The first line of a report that contains one of the marks, or else the last line."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    return next((line for line in lines if any(mark in line for mark in marks)), lines[-1])
