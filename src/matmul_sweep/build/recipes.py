"""How a binary is made: all that its compiler is told, so that compiling needs no catalogue."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from matmul_sweep.build import toolchain
from matmul_sweep.catalogue.architectures import has_instructions, target
from matmul_sweep.process.files import whole_file, write_json

HOST = "host"  # the architecture of gcc's binaries


@dataclass(frozen=True)
class Recipe:
    """The source of a kernel, its functions in the order of their launches, that which multiplies,
    and the flags of one of its variants, for an architecture (sm_90), or HOST for C.

    sha256: of flags and sources (binaries.digest). since: the compute capability that it needs.
    """

    kernel: str
    variant: str
    slug: str
    sha256: str
    source: str
    functions: Sequence[str]
    function: str
    flags: Sequence[str]
    architecture: str
    since: str


def binary_place(binaries: Path, kernel: str, slug: str, host: bool) -> Path:
    """The place of a binary in the folder of an architecture (host: of gcc's); its record lies
    beside it, with the suffix .json."""
    return binaries / kernel / f"{slug}.{'so' if host else 'cubin'}"


def compiled(recipe: Recipe, binary: Path) -> dict[str, Any]:
    """Build `binary`, a cubin or a shared object; it is empty if the source does not compile.

    Returns the record: kernel, variant, sha256, compiler, flags, status, reason and, for CUDA, the
    registers and shared_bytes of the function that multiplies, and the spill_bytes of all.
    """
    arch = recipe.architecture
    compiler = (toolchain.gcc(),) if arch == HOST else toolchain.cuda()
    record: dict[str, Any] = {
        "kernel": recipe.kernel,
        "variant": recipe.variant,
        "sha256": recipe.sha256,
        "compiler": toolchain.version(*compiler),
        "compiler_path": compiler[-1],
        "flags": " ".join(recipe.flags),
        "architecture": arch,
        "status": "ok",
        "reason": "",
    }
    try:
        if arch != HOST and not has_instructions(arch, recipe.since):
            raise toolchain.CompileError(f"it needs compute capability {recipe.since}, not {arch}")
        with whole_file(binary) as temporary:
            record |= resources(recipe, temporary)
    except toolchain.CompileError as error:
        binary.write_bytes(b"")
        record |= {"status": "failed", "reason": f"does not compile: {error}"}
    return record


def resources(recipe: Recipe, binary: Path) -> dict[str, Any]:
    """Compile, and return what the kernel takes; nothing for C. Raises CompileError."""
    source, flags, arch = Path(recipe.source), [*recipe.flags], recipe.architecture
    if arch == HOST:
        toolchain.build_shared_object(source, flags, binary)
        return {}
    found = toolchain.build_cubin(
        source, recipe.functions, flags, target(arch, recipe.since), binary
    )
    spilled = sum(each.spill_bytes for each in found.values())
    return asdict(replace(found[recipe.function], spill_bytes=spilled))


def compile_into(recipe: Recipe, build: Path) -> dict[str, Any]:
    """Compile into the folder of all binaries, where jobs look; returns the record."""
    arch = recipe.architecture
    binary = binary_place(build / arch, recipe.kernel, recipe.slug, arch == HOST)
    binary.parent.mkdir(parents=True, exist_ok=True)
    record = compiled(recipe, binary)
    write_json(record, binary.with_suffix(".json"))
    return record
