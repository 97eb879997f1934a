"""Hopper's instructions on the CPU: right kernels pass, and each planted bug is found."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from emulated import products, watched_product
from support import the_catalogue

from matmul_sweep.build.binaries import flags
from matmul_sweep.build.toolchain import cubin_command, read_ptxas, run
from matmul_sweep.catalogue.architectures import target
from matmul_sweep.catalogue.entries import Catalogue, Variant
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.process.yaml_files import read_yaml

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parent / "hopper"
OWN = load_catalogue(FOLDER / "catalogue.yaml")
BUGS = read_yaml(FOLDER / "bugs.yaml")
KERNELS = Catalogue(the_catalogue() | OWN)
SHAPES = {
    "residues": ["641x21"],  # more slabs than stages
    "exchange": ["64x64x64", "64x128x64", "1x8x8", "130x200x264", "70x72x520", "130x200x1544"],
    "split": ["64x64x64", "1x3x20", "37x41x70", "70x129x200"],
    "gram_halved_bf16": ["264x136"],
    "gram_mirrored_bf16": ["264x136"],
    "gram_streamed_bf16": ["264x136"],
    "gram_corners_bf16": ["648x72"],
    "gram_padded_bf16": ["263x70"],
    "gram_whole_bf16": ["264x136"],
    "gram_split_bf16": ["133x712", "9x64"],
}
FIRST = [kernel.variants[0] for kernel in KERNELS.values() if kernel.since == "9.0a"]
FOR_THE_CARD = [
    *dict.fromkeys([*FIRST, *(variant.adding for variant in FIRST)]),
    *map(KERNELS.variant, ("bulk", "tiled_bf16")),
    KERNELS["wgmma_bf16"].tiled("wide", {"TILE_M": 64, "TILE_N": 192, "STAGES": 2}),
]


def on_a_small_card(variant: Variant) -> Variant:
    """A grid of few blocks, which a processor runs sooner."""
    return variant.kernel.tiled("small", {**variant.parameters, "MULTIPROCESSORS": 12})


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


@pytest.mark.parametrize("name", OWN)
def test_a_kernel_is_right(name, tmp_path):
    """The workflow verifies those of the catalogue."""
    assert all(one.share <= 1 for one in products(KERNELS.variant(name), SHAPES[name], tmp_path))


# The others of the catalogue are held by test_kernels_of_the_catalogue_pass. Steps of a symmetric
# product that lack the epilogue share their code with those that have it.
@pytest.mark.parametrize(
    "kernel",
    [
        k
        for k in KERNELS.values()
        if k.tensor_maps and (k.epilogue or not k.product.symmetric or k.name == "residues")
    ],
    ids=lambda kernel: kernel.name,
)
def test_a_kernel_keeps_within_its_arrays_and_has_no_race(kernel, tmp_path):
    variant = on_a_small_card(kernel.variants[0])
    odd, even = ("130x21", "40x72") if kernel.product.symmetric else ("37x41x70", "37x48x72")
    shape = kernel.product.parse(odd)
    if variant.refusal(shape):
        shape = kernel.product.parse(even)
    done = watched_product(variant, tmp_path, shape)
    assert not done.findings
    assert (done.writers["thread"] >= 0).all()


def test_a_copy_past_the_end_of_shared_memory_is_found(tmp_path):
    """Where the block asked for less than it uses."""
    kernel = replace(OWN["exchange"], dynamic_shared_bytes=39 << 10)
    shape = kernel.product.parse(SHAPES["exchange"][0])
    found = watched_product(kernel.variants[0], tmp_path, shape).findings
    assert [(one["kind"], one["array"]) for one in found][-1:] == [("outside", "shared")]


@pytest.mark.parametrize("bug", [bug for bug, entry in BUGS.items() if "watched" in entry])
@pytest.mark.usefixtures("unoptimised")
def test_the_watcher_finds_a_planted_bug(bug, tmp_path):
    entry = BUGS[bug]
    variant = KERNELS.variant(entry["kernel"])
    source = spoilt(variant, entry["right"], entry["wrong"], tmp_path)
    shape = variant.kernel.product.parse(SHAPES.get(variant.kernel.name, ["136x264x520"])[-1])
    found = {one["kind"] for one in watched_product(variant, tmp_path, shape, source).findings}
    assert entry["watched"] in found


@pytest.mark.parametrize("variant", FOR_THE_CARD, ids=lambda variant: variant.name)
def test_it_compiles_for_the_card_without_spills_or_losses(variant, tmp_path):
    """As ptxas says, which tells of a loss where it ignores setmaxnreg, or lets wgmma run one by
    one. A few bytes are spilt outside of the loops: by nvcc of turned_bf16, where it adds D, and
    by NVRTC of streamed_bf16 (kernels/WORKLOG.md, Two compilers)."""
    kernel, arch = variant.kernel, target("sm_90", "9.0a")
    report = run(cubin_command(kernel.code, flags(variant, "sm_90"), arch, tmp_path / "cubin"))
    assert all(read_ptxas(report, each).spill_bytes <= 16 for each in kernel.functions)
    assert "Loss" not in report


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.usefixtures("unoptimised")
def test_a_planted_bug_is_found(bug, tmp_path):
    entry = BUGS[bug]
    variant = on_a_small_card(KERNELS.variant(entry["kernel"]))
    source = spoilt(variant, entry["right"], entry["wrong"], tmp_path)
    found = products(variant, SHAPES.get(variant.kernel.name, ["136x264x520"]), tmp_path, source)
    try:
        wrong = any(one.share > 1 for one in found)  # of the shapes that follow nothing is asked
    except EmulationError as error:
        assert "\n" not in str(error)
        assert re.search(entry.get("said", ""), str(error)), error
    else:
        assert wrong and "said" not in entry
