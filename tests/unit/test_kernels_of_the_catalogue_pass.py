"""No false alarm: every kernel of the catalogue whose grid follows its tiles gets the verdict
correct, as a hand-in with what its entry says as settings. Those for compute capability 9.0a take
more than matrices and dimensions, and compile for no other."""

import math

import pytest

from matmul.catalogue.entries import Kernel, Kind, load_catalogue
from matmul.trial.verdict import CORRECT, judge

KERNELS = [
    kernel
    for kernel in load_catalogue().values()
    if kernel.kind is Kind.CUDA and not kernel.blocks and kernel.since != "9.0a"
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_of_the_catalogue_is_correct(kernel: Kernel) -> None:
    variant = min(kernel.variants, key=lambda one: math.prod(one.block))
    settings = {name: str(value) for name, value in variant.constants(None).items()}
    settings |= {
        "kernel": kernel.function,
        "block": "x".join(map(str, variant.block[:2])),
        "tile": "x".join(map(str, variant.tile)),
        "shared": str(variant.dynamic_shared_bytes),
    }
    verdict = judge(kernel.code, settings)
    assert verdict.status == CORRECT, verdict.message or verdict.mistakes[0].what
