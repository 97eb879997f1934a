"""Build the binary of a variant, and record what the compiler reports."""

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from matmul.build import toolchain
from matmul.catalogue.architectures import has_instructions, target
from matmul.catalogue.entries import Kind, Variant, source_files
from matmul.dataset.tables import whole_file, write_json
from matmul.process.errors import UserError

INSTRUMENT_FLAGS = ["-O3", "-std=c++17"]
HOST = "host"  # the architecture of gcc's binaries
# A string or character of C, in a group, or a comment.
TEXT_OR_COMMENT = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|//[^\n]*|/\*.*?\*/""", re.DOTALL
)
MEANINGLESS_SPACE = re.compile(r" (?!\w)|(?<!\w) ")  # all white space except between two words
# GPU sources that are not kernels of the catalogue, each with one of its functions.
TOOLS = {"instruments": "hold", "ceilings": "copy"}


def flags(variant: Variant, arch: str) -> list[str]:
    """The compiler flags for a variant on an architecture, without the architecture's own."""
    return [*common_flags(variant), *defines(variant.constants(arch))]


def common_flags(variant: Variant) -> list[str]:
    """The flags that are not compile-time constants."""
    own = toolchain.FLAGS[variant.kernel.kind.value]
    level = variant.optimization
    return [*own, *([] if level is None else ["-Xptxas", f"-O{level}"])]


def defines(constants: Mapping[str, int]) -> list[str]:
    return [f"-D{key}={value}" for key, value in constants.items()]


@functools.cache
def essence(source: str) -> str:
    """A C or CUDA source without comments and meaningless white space, so that a comment can be
    improved without invalidating measurements.

    The end of a preprocessor line counts; other ends of lines are white space.
    """
    code = TEXT_OR_COMMENT.sub(lambda found: found[1] or " ", source)
    parts = re.split(r"(?m)^[ \t]*(#.*(?:\\\n.*)*)$", code)
    folded = (MEANINGLESS_SPACE.sub("", " ".join(part.split())) for part in parts)
    return "\n".join(part for part in folded if part)


def digest(variant: Variant) -> str:
    """SHA-256 of a variant's flags and the essence of its sources and headers, the same on every
    architecture; empty for a library routine."""
    kernel = variant.kernel
    if kernel.kind is Kind.LIBRARY:
        return ""
    if kernel.kind is Kind.DISPATCH:
        rows = [(*row.identity, digest(row.variant)) for row in kernel.costs]
        return hashlib.sha256(repr(rows).encode()).hexdigest()
    settings = [*common_flags(variant), *defines(variant.parameters)]
    found = hashlib.sha256(" ".join(settings).encode())
    for file in source_files(kernel.code):
        found.update(essence(file.read_text()).encode())
    return found.hexdigest()


def compile_variant(variant: Variant, arch: str, binary: Path) -> dict[str, object]:
    """Build `binary` (a cubin for `arch`, or a shared object where arch is host).

    Returns the record: kernel, variant, sha256, compiler, flags, status, reason and, for CUDA, the
    registers and shared_bytes of the function that multiplies, and the spill_bytes of all.
    """
    kernel = variant.kernel
    settings = flags(variant, arch)
    compiler = (toolchain.gcc(),) if arch == HOST else toolchain.cuda()
    record: dict[str, object] = {
        "kernel": kernel.name,
        "variant": variant.name,
        "sha256": digest(variant),
        "compiler": toolchain.version(*compiler),
        "compiler_path": compiler[-1],
        "flags": " ".join(settings),
        "architecture": arch,
        "status": "ok",
        "reason": "",
    }
    try:
        if arch != HOST and not has_instructions(arch, kernel.since):
            raise toolchain.CompileError(f"it needs compute capability {kernel.since}, not {arch}")
        with whole_file(binary) as temporary:
            if arch == HOST:
                toolchain.build_shared_object(kernel.code, settings, temporary)
            else:
                resources = toolchain.build_cubin(
                    kernel.code, kernel.functions, settings, target(arch, kernel.since), temporary
                )
                spilled = sum(each.spill_bytes for each in resources.values())
                record |= asdict(replace(resources[kernel.function], spill_bytes=spilled))
    except toolchain.CompileError as error:
        binary.write_bytes(b"")
        record |= {"status": "failed", "reason": f"does not compile: {error}"}
    return record


def compile_into(variant: Variant, arch: str, build: Path) -> dict[str, object]:
    """Compile a variant with a source into <build>/<arch>/<kernel>, where jobs look for it.

    Returns the record, which lies beside the binary.
    """
    binary = binary_of(variant, build / arch)
    binary.parent.mkdir(parents=True, exist_ok=True)
    record = compile_variant(variant, arch, binary)
    write_json(record, binary.with_suffix(".json"))
    return record


def binary_of(variant: Variant, binaries: Path) -> Path:
    """The place of a variant's binary in the folder of an architecture; its record lies beside it,
    with the suffix .json."""
    suffix = "so" if variant.kernel.kind is Kind.C else "cubin"
    return binaries / variant.kernel.name / f"{variant.slug}.{suffix}"


def tool_source(tool: str) -> Path:
    """The source of one of TOOLS."""
    return Path(__file__).parents[1] / "gpu" / f"{tool}.cu"


def compile_instruments(arch: str, binary: Path, tool: str = "instruments") -> None:
    """Build the instruments, or another of TOOLS, for `arch`.

    Raises UserError with the compiler's first error.
    """
    source = tool_source(tool)
    with whole_file(binary) as temporary:
        try:
            toolchain.build_cubin(source, [TOOLS[tool]], INSTRUMENT_FLAGS, arch, temporary)
        except toolchain.CompileError as error:
            raise UserError(f"{source}: {error}") from None
