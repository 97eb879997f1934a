"""Build the binary of a variant, and record what the compiler reports."""

import functools
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matmul_sweep.build import recipes, toolchain
from matmul_sweep.build.recipes import Recipe
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import whole_file
from matmul_sweep.process.project import PACKAGE

INSTRUMENT_FLAGS = ["-O3", "-std=c++17"]
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
        rows = [(*identity, digest(part)) for identity, part in variant.choices]
        return hashlib.sha256(repr(rows).encode()).hexdigest()
    settings = [*common_flags(variant), *defines(variant.parameters)]
    found = hashlib.sha256(" ".join(settings).encode())
    for file in source_files(kernel.code):
        found.update(essence(file.read_text()).encode())
    return found.hexdigest()


def recipe(variant: Variant, arch: str) -> Recipe:
    """How the binary of a CUDA or C variant is made for an architecture, or HOST."""
    kernel = variant.kernel
    return Recipe(
        kernel=kernel.name,
        variant=variant.name,
        slug=variant.slug,
        sha256=digest(variant),
        source=str(kernel.code),
        functions=kernel.functions,
        function=kernel.function,
        flags=flags(variant, arch),
        architecture=arch,
        since=kernel.since,
    )


def compile_into(variant: Variant, arch: str, build: Path) -> dict[str, Any]:
    """Compile a variant into <build>/<arch>/<kernel>, where jobs look for it; returns the record,
    which lies beside the binary."""
    return recipes.compile_into(recipe(variant, arch), build)


def binary_of(variant: Variant, binaries: Path) -> Path:
    """The place of a variant's binary in the folder of an architecture."""
    kernel = variant.kernel
    return recipes.binary_place(binaries, kernel.name, variant.slug, kernel.kind is Kind.C)


def tool_source(tool: str) -> Path:
    """The source of one of TOOLS."""
    return PACKAGE / "experiment" / "measure" / f"{tool}.cu"


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
