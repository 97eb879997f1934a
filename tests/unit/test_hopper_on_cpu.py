"""Hopper's instructions on the CPU: right kernels pass, and each planted bug is found."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from emulated import product_on_cpu
from support import ROOT, the_catalogue

from matmul_sweep.build.binaries import flags
from matmul_sweep.build.packages import installed
from matmul_sweep.build.toolchain import cubin_command, read_ptxas, run
from matmul_sweep.catalogue.architectures import target
from matmul_sweep.catalogue.entries import Catalogue, Variant
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.operations import parse_shape
from matmul_sweep.process.yaml_files import read_yaml

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parent / "hopper"
OWN = load_catalogue(FOLDER / "catalogue.yaml")
BUGS = read_yaml(FOLDER / "bugs.yaml")
KERNELS = Catalogue(the_catalogue() | OWN)
SHAPES = {
    "exchange": ["64x64x64", "64x128x64", "1x8x8", "130x200x264", "70x72x520", "130x200x1544"],
    "split": ["64x64x64", "1x3x20", "37x41x70", "70x129x200"],
    "bulk": ["128x128x64", "1x1x1", "37x41x70", "128x256x200"],
    "tiled_bf16": ["128x128x64", "1x1x1", "37x41x70", "136x264x200"],
    "wgmma_bf16": ["128x128x64", "1x1x1", "37x41x70", "136x264x520"],
    "tma_bf16": ["128x128x64", "1x8x8", "37x48x72", "136x264x520"],
    "roles_bf16": ["128x256x64", "1x8x8", "37x48x72", "136x264x520"],
    "persistent_bf16": ["128x256x64", "1x8x8", "37x48x72", "136x264x520"],
    "persistent_f16": ["128x256x64", "1x8x8", "37x48x72", "136x264x520"],
    "three_products": ["128x128x64", "1x1x1", "37x41x70", "300x137x265", "300x137x200"],
    "split_bf16": ["128x128x256", "1x8x8", "37x48x72", "136x264x520"],
    "padded_bf16": ["128x256x64", "1x1x1", "37x41x70", "136x263x521", "70x66x67"],
    "brief_bf16": ["64x64x64", "1x8x8", "37x48x72", "136x72x520"],
    "padded_split_bf16": ["64x64x64", "1x1x1", "37x41x70", "136x71x521"],
    "streamed_bf16": ["128x256x64", "1x8x8", "37x48x72", "136x264x520"],
}


def spoilt(variant: Variant, right: str, wrong: str, folder: Path) -> Path:
    """The kernel's source with a bug in it, or in the first of its headers that has `right`."""
    own = variant.kernel.code.resolve()
    files = [file.resolve() for file in source_files(own)]
    root = Path(os.path.commonpath(files))
    spoilt_file = next(file for file in files if right in file.read_text())
    assert spoilt_file.read_text().count(right) == 1, right
    for file in files:
        text = file.read_text()
        copy = folder / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text.replace(right, wrong) if file == spoilt_file else text)
    return folder / own.relative_to(root)


def shares(
    variant: Variant, shapes: Sequence[str], folder: Path, source: Path | None = None,
    sanitizer: str | None = None,
) -> Iterator[float]:  # fmt: skip
    """The largest error of each product as a share of its bound."""
    executable = folder / f"{variant.slug}-{sanitizer}"
    emulation.build_variant(variant, executable, sanitizer, source)
    for text in shapes:
        shape = parse_shape(text, variant.kernel.operation)
        yield product_on_cpu(variant, executable, shape)[1].share


# The others of the catalogue are held under the build for verdicts, which finds more than these
# (test_kernels_of_the_catalogue_pass).
BY_SANITIZERS = [name for name in SHAPES if name not in OWN and KERNELS[name].tensor_maps]


@pytest.mark.parametrize(
    ("name", "sanitizer"),
    [*((name, None) for name in OWN),  # the workflow verifies those of the catalogue
     *((name, sanitizer) for name in BY_SANITIZERS for sanitizer in ("address", "thread"))],
)  # fmt: skip
def test_a_kernel_is_right(
    name: str, sanitizer: str | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """It keeps within its arrays, and has no race, where a sanitizer looks."""
    if sanitizer == "address":  # which finds references to nothing in what is optimised
        request.getfixturevalue("unoptimised")
    shapes = SHAPES[name][2:3] if sanitizer else SHAPES[name]
    assert max(shares(KERNELS.variant(name), shapes, tmp_path, sanitizer=sanitizer)) <= 1


def check_for_card(
    source: Path, functions: Sequence[str], settings: Sequence[str], folder: Path
) -> None:
    """Check what ptxas says of a source for the card: no spill and no loss. It tells of a loss
    where it ignores setmaxnreg, or lets wgmma run one by one. NVRTC spills a few bytes of
    streamed_bf16 outside its loop (kernels/WORKLOG.md, Two compilers)."""
    arch = target("sm_90", "9.0a")
    report = run(cubin_command(source, settings, arch, folder / "cubin"))
    most = 16 if installed() == "cuda12" else 0
    assert all(read_ptxas(report, each).spill_bytes <= most for each in functions)
    assert "Loss" not in report


def test_a_product_may_have_another_width(tmp_path: Path) -> None:
    kernel = KERNELS["wgmma_bf16"]
    variant = kernel.tiled("wide", {"TILE_M": 64, "TILE_N": 192, "STAGES": 2})
    assert max(shares(variant, ["70x264x130"], tmp_path)) <= 1
    check_for_card(kernel.code, kernel.functions, flags(variant, "sm_90"), tmp_path)


FROM_REGISTERS = """
extern "C" __global__ void {name}(const unsigned* A, float* C)
{{
    __shared__ __align__(1024) {number} b[{columns} / 64][16][64];
    float sums[{columns} / 2];
    unsigned a[4];
    for (int i = 0; i < 4; i++) a[i] = A[4 * threadIdx.x + i];
    fence_products();
    multiply_registers<{number}, true>(sums, a, operand(b, 1024, sizeof b[0]), false);
    commit_products();
    wait_for_products<0>();
    for (int i = 0; i < {columns} / 2; i++) C[threadIdx.x + 128 * i] = sums[i];
}}
"""


def test_a_factor_may_come_from_registers(tmp_path: Path) -> None:
    kernels = {
        f"f{columns}{number}": FROM_REGISTERS.format(
            name=f"f{columns}{number}", number=number, columns=columns
        )
        for number in ("__half", "__nv_bfloat16")
        for columns in (64, 128, 192, 256)
    }
    source = tmp_path / "registers.cu"
    source.write_text(f'#include "{ROOT}/kernels/instructions.cuh"\n' + "".join(kernels.values()))
    check_for_card(source, [*kernels], ["-O3", "-std=c++17"], tmp_path)


def test_a_copy_past_the_end_of_shared_memory_is_found(tmp_path: Path) -> None:
    """Where the block asked for less than it uses."""
    kernel = replace(OWN["exchange"], dynamic_shared_bytes=39 << 10)
    with pytest.raises(EmulationError, match="past the end of a shared array"):
        list(shares(kernel.variants[0], SHAPES["exchange"], tmp_path, sanitizer="address"))


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in OWN])
def test_it_compiles_for_the_card_without_spills_or_losses(name: str, tmp_path: Path) -> None:
    variant = KERNELS.variant(name)
    kernel = variant.kernel
    check_for_card(kernel.code, kernel.functions, flags(variant, "sm_90"), tmp_path)


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.usefixtures("unoptimised")
def test_a_planted_bug_is_found(bug: str, tmp_path: Path) -> None:
    entry = BUGS[bug]
    said, variant = entry.get("said"), KERNELS.variant(entry["kernel"])
    source = spoilt(variant, entry["right"], entry["wrong"], tmp_path)
    try:
        found = shares(variant, SHAPES[variant.kernel.name][3:], tmp_path, source)
        wrong = any(share > 1 for share in found)  # of the shapes that follow nothing is asked
    except EmulationError as error:
        assert "\n" not in str(error)
        assert said is None or re.search(said, str(error)), error
    else:
        assert said is None and wrong
