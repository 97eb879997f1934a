"""Float32 products by halves: on the CPU, and their rounding as the tensor cores do it."""

from pathlib import Path

import numpy as np
import pytest
from kinds import hard_kinds, in_order, kinds, not_finite

from matmul.catalogue.entries import Variant, load_catalogue
from matmul.cpu import emulation
from matmul.measure.verification import accuracy
from matmul.operations.gemm import Gemm

KERNEL = load_catalogue()["sgemm_split"]
SHAPE = (70, 140, 200)


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("split") / "split"
    build(KERNEL.variants[0], path)
    return path


def build(variant: Variant, path: Path) -> None:
    emulation.build(
        KERNEL.code, KERNEL.functions, KERNEL.product, variant.constants(None), path,
        include=[KERNEL.code.parent], workspace=[*KERNEL.workspace],
        tensor_maps=[*KERNEL.tensor_maps],
    )  # fmt: skip


def multiply(executable: Path, variant: Variant, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    shape = Gemm(len(a), b.shape[1], len(b))
    c = np.full(shape.output, np.nan, np.float32)
    return emulation.launch(executable, variant.plan(shape), shape, (a, b), c, 60)


@pytest.mark.parametrize("kind", kinds(2, 2, 2))
def test_it_errs_no_more_than_sgemm(executable: Path, kind: str) -> None:
    a, b = kinds(*SHAPE)[kind]
    own = accuracy(KERNEL, multiply(executable, KERNEL.variants[0], a, b), a, b)
    other = accuracy(KERNEL, in_order(a, b), a, b)
    assert own.mean <= other.mean
    assert own.largest <= other.largest


@pytest.mark.parametrize("kind", hard_kinds(10, 10, 10))
def test_it_is_right_where_halves_are_not(executable: Path, kind: str) -> None:
    a, b = hard_kinds(*SHAPE)[kind]
    c = multiply(executable, KERNEL.variants[0], a, b)
    assert accuracy(KERNEL, c, a, b).share <= 1


def test_infinities_and_nan_are_those_of_sgemm(executable: Path) -> None:
    a, b = not_finite(*SHAPE)
    c, expected = multiply(executable, KERNEL.variants[0], a, b), in_order(a, b)
    np.testing.assert_allclose(c, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("variant", KERNEL.every_variant[1:], ids=lambda v: v.tiling)
def test_every_tiling_is_right(variant: Variant, tmp_path: Path) -> None:
    build(variant, tmp_path / "split")
    for m, n, k in ((1, 1, 1), (37, 41, 70), (300, 137, 330)):
        a, b = kinds(m, n, k)["normal"]
        c = multiply(tmp_path / "split", variant, a, b)
        assert accuracy(KERNEL, c, a, b).share <= 1
