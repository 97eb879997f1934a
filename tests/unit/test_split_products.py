"""Float32 products by halves: on the CPU, and their rounding as the tensor cores do it."""

from pathlib import Path

import numpy as np
import pytest
from kinds import KINDS, factors, hard_kinds, in_order, not_finite
from support import the_catalogue

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.experiment.verify.verification import accuracy
from matmul_sweep.operations.gemm import Gemm

pytestmark = pytest.mark.slow

KERNEL = the_catalogue()["three_products"]
SHAPE = (40, 70, 130)


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("split") / "split"
    emulation.build_variant(KERNEL.variants[0], path)
    return path


def multiply(executable: Path, variant: Variant, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    shape = Gemm(len(a), b.shape[1], len(b))
    c = np.full(shape.output, np.nan, np.float32)
    return emulation.launch(executable, variant.plan(shape), shape, (a, b), c, 60)


@pytest.mark.parametrize("kind", KINDS)
def test_it_errs_no_more_than_sgemm(executable: Path, kind: str) -> None:
    a, b = factors(kind, *SHAPE)
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


@pytest.mark.usefixtures("unoptimised")
def test_a_tiling_whose_sums_move_later_is_right(tmp_path: Path) -> None:
    [variant] = (v for v in KERNEL.every_variant if v.tiling == "128x64-move2")
    emulation.build_variant(variant, tmp_path / "split")
    for m, n, k in ((1, 1, 1), (37, 41, 70), (130, 137, 330)):
        a, b = factors("normal", m, n, k)
        c = multiply(tmp_path / "split", variant, a, b)
        assert accuracy(KERNEL, c, a, b).share <= 1


def cut(x: np.ndarray, unit: np.ndarray) -> np.ndarray:
    return np.trunc(x / unit) * unit


def add_cut(sums: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """sums + a·b for 16 steps of k as Hopper's tensor cores have it: each term is cut off 25 bits
    below the largest one's leading bit, and the sum to the 24 bits of a float."""
    terms = np.concatenate([sums[:, None], np.einsum("ik,kj->ikj", a, b)], axis=1)
    largest = np.maximum(np.abs(terms).max(axis=1), 1e-300)
    total = cut(terms, 2.0 ** (np.floor(np.log2(largest)) - 25)[:, None]).sum(axis=1)
    size = np.maximum(np.abs(total), 1e-300)
    return cut(total, 2.0 ** (np.floor(np.log2(size)) - 23))


def by_tensor_cores(a: np.ndarray, b: np.ndarray, steps: int) -> np.ndarray:
    """A·B by three products of halves, with sums that move every so many steps."""
    exponents = [14 - np.floor(np.log2(np.abs(x).max(axis, keepdims=True)))
                 for axis, x in ((1, a), (0, b))]  # fmt: skip
    highs, lows = [], []
    for x, exponent in zip((a, b), exponents, strict=True):
        scaled = x * 2.0**exponent
        highs.append(scaled.astype(np.float16).astype(np.float64))
        lows.append(((scaled - highs[-1]) * 4096).astype(np.float16).astype(np.float64))
    total = low = np.zeros((len(a), b.shape[1]))
    for first in range(0, len(b), steps):
        high = np.zeros_like(total)
        for k in (slice(step, step + 16) for step in range(first, first + steps, 16)):
            high = add_cut(high, highs[0][:, k], highs[1][k])
            low = add_cut(low, highs[0][:, k], lows[1][k])
            low = add_cut(low, lows[0][:, k], highs[1][k])
        total = (total + high).astype(np.float32).astype(np.float64)
    return ((total + low / 4096) * 2.0 ** -sum(exponents)).astype(np.float32)


@pytest.mark.parametrize("k", [None, 1000])
@pytest.mark.parametrize("tiling", ["128x128", "128x128-move2"])
@pytest.mark.parametrize(
    "kind", ["normal", "uniform [0, 1]", "uniform [-1, 1]", "normal·exp(3·normal)", "Hilbert"]
)
def test_sums_that_are_cut_off_err_less_than_rounded_ones(
    kind: str, tiling: str, k: int | None
) -> None:
    """What halves and tensor cores lose, by a model of the card, from the fewest terms on."""
    [variant] = (v for v in KERNEL.every_variant if v.tiling == tiling)
    a, b = factors(kind, 24, 24, k or variant.fewest_terms)
    own = accuracy(KERNEL, by_tensor_cores(a, b, 32 * variant.parameters["MOVE"]), a, b)
    other = accuracy(KERNEL, in_order(a, b), a, b)
    assert own.mean < other.mean
    assert own.largest < other.largest
