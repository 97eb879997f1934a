"""Float32 products by halves on the device: as right as cublasSgemm, for every kind of factors."""

from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pytest
from kinds import hard_kinds, kinds, not_finite

from matmul.catalogue.entries import Variant, load_catalogue
from matmul.gpu.device import Gpu
from matmul.measure.runner import GpuRunner
from matmul.measure.verification import Accuracy, accuracy
from matmul.operations.gemm import Gemm
from matmul.process.errors import HANG_SECONDS

pytestmark = pytest.mark.gpu

KERNELS = load_catalogue()
VARIANTS = KERNELS["sgemm_split"].variants
LIBRARY = KERNELS.variant("cublas_sgemm")
MARGIN = 1.02  # of a mean: both round once where one term is all there is, but not alike

drawn = lru_cache(1)(kinds)

Multiply = Callable[[Variant, np.ndarray, np.ndarray], np.ndarray]


@pytest.fixture
def multiply(gpu: Gpu, compiled: Callable[[Variant], Path]) -> Multiply:
    """A product by a variant; cuBLAS needs no binary of its own."""
    if not VARIANTS[0].runs_on(gpu.architecture):
        pytest.skip("it needs compute capability 9.0a")
    runner = cache(lambda variant: GpuRunner(compiled(variant), HANG_SECONDS, gpu))

    def run(variant: Variant, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return runner(variant).multiply(variant, Gemm(len(a), b.shape[1], len(b)), a, b)

    return run


def errors(multiply: Multiply, variant: Variant, a: np.ndarray, b: np.ndarray) -> Accuracy:
    return accuracy(variant.kernel, multiply(variant, a, b), a, b)


@pytest.mark.parametrize("kind", kinds(2, 2, 2))
@pytest.mark.parametrize("k", [128, 1000, 4096, 100_000])
def test_it_errs_no_more_than_sgemm(multiply: Multiply, kind: str, k: int) -> None:
    factors = drawn(*((250, 260) if k < 10_000 else (50, 60)), k)[kind]
    library = errors(multiply, LIBRARY, *factors)
    own = errors(multiply, VARIANTS[0], *factors)
    assert own.mean <= MARGIN * library.mean
    assert own.largest <= library.largest


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
@pytest.mark.parametrize("kind", hard_kinds(10, 10, 10))
def test_it_is_right_where_halves_are_not(multiply: Multiply, variant: Variant, kind: str) -> None:
    factors = hard_kinds(150, 301, 200)[kind]
    assert errors(multiply, variant, *factors).share <= 1


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_infinities_and_nan_are_those_of_sgemm(multiply: Multiply, variant: Variant) -> None:
    factors = not_finite(150, 301, 200)
    own, library = multiply(variant, *factors), multiply(LIBRARY, *factors)
    np.testing.assert_array_equal(np.isnan(own), np.isnan(library))
    infinite = np.isinf(library)
    assert infinite.any()
    np.testing.assert_array_equal(own[infinite], library[infinite])
    assert np.isfinite(own[~infinite & ~np.isnan(library)]).all()


def test_products_are_reproducible(multiply: Multiply) -> None:
    """No race: the same factors give the same bits, also where elements are in doubt."""
    for factors in (kinds(700, 900, 1100)["normal"], hard_kinds(700, 900, 1100)["one masked"]):
        first = multiply(VARIANTS[0], *factors)
        for _ in range(5):
            np.testing.assert_array_equal(first, multiply(VARIANTS[0], *factors))
