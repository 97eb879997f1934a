"""No false alarm: every kernel of the catalogue that takes matrices and dimensions gets the verdict
correct, as a hand-in with what its entry says as settings. Any other is told in a line to take
more."""

import math

import pytest
from support import the_catalogue

from matmul_sweep.catalogue.entries import Kernel, Kind
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.classroom.verdict import CORRECT, judge
from matmul_sweep.process.errors import UserError

pytestmark = pytest.mark.long

KERNELS = [
    kernel
    for kernel in the_catalogue().values()
    if kernel.kind is Kind.CUDA and not kernel.product.right_transposed  # of no classroom
]
TAKE_MORE = [kernel for kernel in KERNELS if kernel.workspace or kernel.tensor_maps]


def settings_of(kernel: Kernel) -> dict[str, str]:
    """What its entry says of the variant with the smallest block."""
    variant = min(kernel.variants, key=lambda one: math.prod(one.block))
    settings = {name: str(value) for name, value in variant.constants(None).items()}
    settings |= {
        "kernel": kernel.function,
        "block": "x".join(map(str, variant.block[:2])),
        "tile": "x".join(map(str, variant.tile)),
        "shared": str(variant.dynamic_shared_bytes),
    }
    if kernel.blocks:
        settings["blocks"] = str(math.prod(variant.grid(kernel.product.parse(1))))
    most = {"most_rows": variant.most_rows, "most_columns": variant.most_columns}
    return settings | {key: str(value) for key, value in most.items() if value}


def of_a_triangle(kernel: Kernel) -> bool:
    """Whether its grid is that of the tiles of a triangle, which no setting says."""
    variant = kernel.variants[0]
    rows, columns = (3 * side for side in variant.tile)
    of_tiles = kernel.product.symmetric and not kernel.blocks
    return of_tiles and variant.grid(kernel.product.shape(rows, columns))[:2] != (3, 3)


def of_hopper(kernel: Kernel) -> bool:
    """Whether its instructions are Hopper's, which the runtime knows by the project's headers only;
    test_hopper_on_cpu has those."""
    return any("<asynchronous.h>" in file.read_text() for file in source_files(kernel.code))


ALONE = [k for k in KERNELS if k not in TAKE_MORE and not (of_a_triangle(k) or of_hopper(k))]


@pytest.mark.parametrize("kernel", ALONE, ids=lambda kernel: kernel.name)
def test_a_kernel_of_the_catalogue_is_correct(kernel):
    verdict = judge(kernel.code, settings_of(kernel))
    assert verdict.status == CORRECT, verdict.message or verdict.mistakes[0].what


@pytest.mark.parametrize("kernel", TAKE_MORE, ids=lambda kernel: kernel.name)
def test_a_kernel_that_takes_more_is_said_to(kernel):
    with pytest.raises(UserError, match="cannot be tried alone"):
        judge(kernel.code, settings_of(kernel))
