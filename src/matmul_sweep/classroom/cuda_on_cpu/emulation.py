"""CUDA kernels on the CPU: compile an unchanged .cu file with g++ and run it on NumPy arrays.

The top of cuda_on_cpu/cuda_on_cpu.h says which mistakes in a kernel this finds and which it cannot.
"""

import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from matmul_sweep.build import cache
from matmul_sweep.build.toolchain import check_machine, no_kernel, version
from matmul_sweep.catalogue.architectures import STATIC_SHARED
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.plans import Plan
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.operations.dtypes import Dtype
from matmul_sweep.operations.operation import Operation
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import HANG_SECONDS, Unfinished
from matmul_sweep.process.limits import run_limited

WATCH = "watch"
RUNTIME = Path(__file__).parent / "include"
# Flags of the compiler and of the linker.
SANITIZERS: dict[str | None, tuple[list[str], list[str]]] = {
    None: ([], []),
    "address": (["-fsanitize=address,undefined"], ["-fsanitize=address,undefined"]),
    "thread": (["-fsanitize=thread"], ["-fsanitize=thread"]),
    # gcc's instrumentation, linked with the runtime of watch.h instead of the sanitizers'.
    WATCH: (
        [
            "-fsanitize=thread,bounds,alignment,signed-integer-overflow",
            "--param=tsan-instrument-func-entry-exit=0",
            *("-U__SANITIZE_THREAD__", "-DWATCH"),
            "-ftrivial-auto-var-init=pattern",  # a sum without a value begins with -1.7e38
            *("-O1", "-no-pie", "-fno-pie"),  # so that every access keeps its line
        ],
        ["-no-pie"],
    ),
}
FLAGS = [
    "-O1",
    "-g1",  # lines, and no more
    "-std=c++17",
    "-fno-strict-aliasing",  # kernels read floats through pointers to float4
    "-fno-extern-tls-init",  # `extern __shared__` arrays have no constructor to call
    "-fno-sanitize-recover=all",
    *("-ffunction-sections", "-fdata-sections"),
]
# The shared memory of other kernels in the source does not count.
LINK_FLAGS = ["-Wl,--gc-sections"]
# CUDA's headers, and how g++ misses those without a counterpart here.
HEADER = r"(?:mma|cuda_\w+|(?:cub|cuda|thrust|nv|cutlass|cute|cooperative_groups)/\S+?)(?:\.\w+)?"
FOREIGN_HEADER = re.compile(rf"fatal error: ({HEADER}): No such file")
# Functions of CUDA without one.
FOREIGN_NAME = re.compile(r"error: [‘'](__\w+|clock64|clock)[’'] was not declared")


class EmulationError(Exception):
    """A kernel that does not compile or makes a mistake; the message is one line."""


class NotRunnable(EmulationError):
    """A kernel that is right for nvcc perhaps, but uses what the CPU has no counterpart of."""

    def __init__(self, what: str) -> None:
        super().__init__(f"not runnable on the CPU: {what}")


def lacks(header: str) -> bool:
    """Whether a header is one of CUDA's that has no counterpart here."""
    return bool(re.fullmatch(HEADER, header)) and not (RUNTIME / header).is_file()


def build_variant(variant: Variant, executable: Path, sanitizer: str | None = None) -> None:
    """What `build` does, of a variant of the catalogue."""
    kernel = variant.kernel
    build(
        kernel.code, kernel.functions, kernel.product, variant.constants(None), executable,
        sanitizer, workspace=[*kernel.workspace], tensor_maps=[*kernel.tensor_maps],
    )  # fmt: skip


def build(
    source: Path,
    functions: Sequence[str],
    operation: Operation,
    defines: Mapping[str, int | str],
    executable: Path,
    sanitizer: str | None = None,
    include: Sequence[Path] = (),
    workspace: Sequence[str] = (),
    tensor_maps: Sequence[str] = (),
    seconds: float | None = None,
) -> None:
    """Compile the kernels `functions` of `source`, in the order of their launches, into
    `executable`, for `launch`.

    operation: what they compute. It gives their parameters: pointers to the inputs and to C, of the
    operation's dtypes, then the dimensions; behind these come the workspace's parts and the tensor
    maps of these names. defines: the kernels' compile-time parameters.
    sanitizer: None, "address" (with the undefined-behaviour sanitizer), "thread" or WATCH, for
    watched.launch.
    include: folders of headers. seconds: after which a compiler is given up; None: never.
    Raises EmulationError with the compiler's first error or without g++, NotRunnable, and UserError
    if the machine failed.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        raise EmulationError("no g++: install a C++ compiler (Debian: apt install g++)")
    text = source.read_text(encoding="utf-8")
    if 'extern "C"' not in text:  # g++ would not miss it, because the driver declares the kernel so
        raise EmulationError(no_kernel(functions[-1]))
    parameters = _parameters(operation, workspace, tensor_maps)
    macros = {
        **defines,
        **_macros(operation, len(workspace), len(tensor_maps)),
        "FUNCTIONS": ",".join(functions),
        "PARAMETERS": ",".join(parameters),
    }
    if name := _dynamic_shared(text):
        macros["DYNAMIC_SHARED"] = _quoted(name)
    compile_flags, link_flags = SANITIZERS[sanitizer]
    half = "float16" in (operation.dtype, operation.output)
    headers = ["cuda_on_cpu.h", *(["cuda_fp16.h"] if half else [])]
    settings = [*FLAGS, *compile_flags, *(f"-D{name}={value}" for name, value in macros.items())]
    # Findings of the sanitizers name files, so those builds are of a source in its place.
    own = [*settings, *link_flags, *headers, str(source.resolve()) if sanitizer else ""]
    key = cache.key_of([version(compiler), *own], [*source_files(source, include), *runtime()])
    if cache.fetch(key, executable) is not None:
        executable.chmod(0o755)
        return
    compiled = executable.with_suffix(".o")
    settings += [f"-DKERNEL_SOURCE={_quoted(source.resolve())}"]
    for command in (
        [compiler, *settings, *_read_first(headers, include), "-o", str(compiled)],
        [compiler, *LINK_FLAGS, *link_flags, str(compiled), "-o", str(executable)],
    ):
        if report := _refused(command, seconds):
            if what := _foreign(report, text):
                raise NotRunnable(what)
            raise EmulationError(_explained(report, functions, operation, parameters))
    compiled.unlink()
    cache.keep(key, executable, "")


def _read_first(headers: Sequence[str], include: Sequence[Path]) -> list[str]:
    """The arguments that compile the driver behind these headers of the runtime."""
    folders = [f"-I{folder}" for folder in (RUNTIME, *include)]
    read = [word for header in headers for word in ("-include", str(RUNTIME / header))]
    return [*folders, *read, "-c", str(RUNTIME / "driver.cpp")]


def compiler_version() -> str:
    """The version of g++; empty without one."""
    compiler = shutil.which("g++")
    return version(compiler) if compiler else ""


def runtime() -> list[Path]:
    """The sources of the runtime that kernels are compiled with."""
    return sorted(file for file in RUNTIME.rglob("*") if file.is_file())


def launch(
    executable: Path,
    plan: Plan,
    shape: Shape,
    inputs: Sequence[np.ndarray],
    output: np.ndarray,
    timeout: float = HANG_SECONDS,
) -> np.ndarray:
    """Run the launches of a plan and return C, an array like `output`, which does not change.

    inputs and output have the extents of `shape`, and the dtypes that the executable was built for.
    `output` is C before the launch: fill it with NaN to see which elements the kernel does not
    write. Raises EmulationError for an access outside an array, a barrier that not all threads of a
    block reach, more static shared memory than a block has, a sanitizer's finding, or arrays that
    do not fit the shape; Unfinished after `timeout` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="cuda-on-cpu-") as folder:
        paths = [Path(folder, f"{index}.bin") for index in range(len(inputs) + 1)]
        for path, array in zip(paths, (*inputs, output), strict=True):
            path.write_bytes(array.tobytes())
        numbers = (*numbers_of(plan), *shape.elements, *shape.dimensions)
        _run([str(executable), *map(str, numbers), *map(str, paths)], timeout)
        return np.fromfile(paths[-1], output.dtype).reshape(output.shape)


def numbers_of(plan: Plan) -> list[int]:
    """A plan as the driver reads it."""
    found: list[int] = []
    for each in plan.launches:
        found += [*each.grid, *each.block, each.shared_bytes, each.cluster]
    found += plan.workspace
    for seen in plan.maps:
        found += [seen.pointer, seen.element_bytes, seen.swizzle, len(seen.extents)]
        found += [*seen.extents, *seen.strides, *seen.box]
    return found


def _run(command: list[str], timeout: float) -> None:
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Unfinished(timeout) from None
    if completed.returncode == 0:
        return
    # If Linux spreads addresses over more bits than an older ThreadSanitizer knows, the sanitizer
    # says so and gives up; setarch -R starts it without that randomization.
    needs_fixed_addresses = "unexpected memory mapping" in completed.stderr
    if needs_fixed_addresses and command[0] != "setarch" and shutil.which("setarch"):
        return _run(["setarch", "-R", *command], timeout)
    if completed.stderr.strip():
        raise EmulationError(_line_with(("runtime error:", "SUMMARY:"), completed.stderr))
    raise EmulationError(f"the kernel died of {signal.Signals(-completed.returncode).name}")


def _dynamic_shared(text: str) -> str | None:
    """The name of the source's `extern __shared__` array, which the driver must define."""
    declaration = re.compile(r"extern\s+__shared__\s[^;]*?(\w+)\s*\[\s*\]\s*;")
    found = declaration.search(text)
    return found[1] if found else None


def _parameters(
    operation: Operation, workspace: Sequence[str], tensor_maps: Sequence[str]
) -> list[str]:
    """The parameters of a kernel in C++."""
    return [
        *(f"const {dtype.cpp}* {name}" for name, dtype in _matrices(operation)[:-1]),
        *(f"{dtype.cpp}* {name}" for name, dtype in _matrices(operation)[-1:]),
        *(f"int {name}" for name in operation.shape.__match_args__),
        *(f"void* {name}" for name in workspace),
        *(f"const CUtensorMap {name}" for name in tensor_maps),
    ]


def _matrices(operation: Operation) -> list[tuple[str, Dtype]]:
    """The names of the matrices and the types of their elements, C's last."""
    return list(zip(operation.matrices, operation.dtypes, strict=True))


def _refused(command: Sequence[str], seconds: float | None) -> str:
    """What a compiler says if it fails, else nothing. Raises NotRunnable and UserError as build
    does."""
    try:
        completed = run_limited(command, seconds)
    except subprocess.TimeoutExpired:
        raise NotRunnable(f"g++ needs more than {seconds:g} s") from None
    if completed.returncode == 0:
        return ""
    check_machine(command[0], completed.stderr)
    return completed.stderr or f"g++ ends with {completed.returncode}"


def _foreign(report: str, text: str) -> str | None:
    """What of CUDA the compiler did not know, if that is why it failed."""
    if found := FOREIGN_HEADER.search(report) or FOREIGN_NAME.search(report):
        return found[1]
    assembler = re.search(
        r"Assembler messages|in ‘asm’|‘asm’ operand|(?:in|out)put constraint|in asm", report
    )
    return "inline PTX" if assembler and re.search(r"\basm\b", text) else None


def _macros(operation: Operation, parts: int, maps: int) -> dict[str, int | str]:
    """What the driver has to know of the arrays: the operation's, so many parts of a workspace,
    and so many tensor maps."""
    arrays, dimensions = operation.signature
    arguments = [
        *(f"arrays[{i}]" for i in range(arrays)),
        *(f"dimensions[{i}]" for i in range(dimensions)),
        *(f"parts[{i}]" for i in range(parts)),
        *(f"maps[{i}]" for i in range(maps)),
    ]
    return {
        "MATRICES": ",".join(f'{{"{name}",{dtype.bytes}}}' for name, dtype in _matrices(operation)),
        "DIMENSIONS": dimensions,
        "PARTS": parts,
        "MAPS": maps,
        "ARGUMENTS": ",".join(arguments),
        "MOST_STATIC_SHARED": STATIC_SHARED,
    }


def _explained(
    report: str, functions: Sequence[str], operation: Operation, parameters: Sequence[str]
) -> str:
    """A compiler's first error, in terms of the catalogue if its entry is the cause."""
    line = _line_with(("error:", "undefined reference", "cannot find"), report)
    for function in functions:
        if f"undefined reference to `{function}'" in line:
            return no_kernel(function)
    if "conflicting declaration" in line:
        return f"{line}; this kernel of {operation.name} takes ({', '.join(parameters)})"
    return line


def _line_with(marks: Sequence[str], report: str) -> str:
    """The first line of a report that contains one of the marks, or else the last line."""
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    return next((line for line in lines if any(mark in line for mark in marks)), lines[-1])


def _quoted(text: object) -> str:
    return f'"{text}"'
