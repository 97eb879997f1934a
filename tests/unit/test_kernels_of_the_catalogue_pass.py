"""No false alarm: every kernel of the catalogue that takes matrices and dimensions gets the verdict
correct, as a hand-in with what its entry says as settings. Any other is told in a line to take
more."""

import math

import pytest
from support import the_catalogue

from matmul_sweep.catalogue.entries import Kernel, Kind
from matmul_sweep.classroom.verdict import CORRECT, judge
from matmul_sweep.process.errors import UserError

pytestmark = pytest.mark.long

KERNELS = [kernel for kernel in the_catalogue().values() if kernel.kind is Kind.CUDA]
ONE_TYPE = [kernel for kernel in KERNELS if kernel.product.output == kernel.dtype]
ALONE = [kernel for kernel in ONE_TYPE if not (kernel.workspace or kernel.tensor_maps)]
NOT_ALONE = [kernel for kernel in KERNELS if kernel not in ALONE]


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


@pytest.mark.parametrize("kernel", ALONE, ids=lambda kernel: kernel.name)
def test_a_kernel_of_the_catalogue_is_correct(kernel: Kernel) -> None:
    verdict = judge(kernel.code, settings_of(kernel))
    assert verdict.status == CORRECT, verdict.message or verdict.mistakes[0].what


@pytest.mark.parametrize("kernel", NOT_ALONE, ids=lambda kernel: kernel.name)
def test_a_kernel_that_takes_more_is_said_to(kernel: Kernel) -> None:
    with pytest.raises(UserError, match="cannot be tried alone") as refusal:
        judge(kernel.code, settings_of(kernel))
    assert "\n" not in str(refusal.value)
