"""Building a variant's binary, and the record of what the compiler says of it."""

from dataclasses import asdict
from pathlib import Path

from matmul import instruments, toolchain
from matmul.catalogue import Variant
from matmul.dataset import whole_file, write_json
from matmul.errors import UserError

HOST = "host"  # the architecture of what gcc builds
# Sources of the GPU's that are no kernels, each with one of its functions.
TOOLS = {"instruments": "hold", "ceilings": "copy"}


def compile_variant(variant: Variant, arch: str, binary: Path) -> dict[str, object]:
    """Build `binary` (a cubin for `arch`, or a shared object where arch is host).

    Returns the record: kernel, variant, sha256, compiler, flags, status, reason and, for CUDA,
    registers, shared_bytes and spill_bytes.
    """
    kernel = variant.kernel
    compiler = toolchain.nvcc() if kernel.language == "cuda" else toolchain.gcc()
    record = {
        "kernel": kernel.name,
        "variant": variant.name,
        "sha256": variant.sha256,
        "compiler": toolchain.version(compiler),
        "compiler_path": compiler,
        "flags": " ".join(variant.flags),
        "architecture": arch,
        "status": "ok",
        "reason": "",
    }
    try:
        with whole_file(binary) as temporary:
            if kernel.language == "cuda":
                resources = toolchain.build_cubin(
                    kernel.source, kernel.function, variant.flags, arch, temporary
                )
                record |= asdict(resources)
            else:
                toolchain.build_shared_object(kernel.source, variant.flags, temporary)
    except toolchain.CompileError as error:
        binary.write_bytes(b"")
        record |= {"status": "failed", "reason": f"does not compile: {error}"}
    return record


def compile_into(variant: Variant, arch: str, build: Path) -> dict[str, object]:
    """Compile a variant that is no library's into <build>/<arch>, where jobs look for it.

    Returns the record, which lies beside the binary.
    """
    binary = build / arch / f"{variant.slug}.{'so' if arch == HOST else 'cubin'}"
    binary.parent.mkdir(parents=True, exist_ok=True)
    record = compile_variant(variant, arch, binary)
    write_json(record, binary.with_suffix(".json"))
    return record


def compile_parts(variant: Variant, arch: str, build: Path) -> list[dict[str, object]]:
    """Compile all that a variant runs on an architecture into <build>/<arch>; the records."""
    return [compile_into(part, arch, build) for part in variant.parts(arch)]


def tool_source(tool: str) -> Path:
    """The source of one of TOOLS."""
    return Path(__file__).with_name(f"{tool}.cu")


def compile_instruments(arch: str, binary: Path, tool: str = "instruments") -> None:
    """Build the instruments, or another of TOOLS, for `arch`.

    Raises UserError with nvcc's first error.
    """
    source = tool_source(tool)
    with whole_file(binary) as temporary:
        try:
            toolchain.build_cubin(source, TOOLS[tool], instruments.FLAGS, arch, temporary)
        except toolchain.CompileError as error:
            raise UserError(f"{source}: {error}") from None
