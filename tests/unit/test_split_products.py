"""Float32 products by halves on the CPU; tests/gpu holds how tensor cores round them."""

from pathlib import Path

import numpy as np
import pytest
from emulated import product_on_cpu
from kinds import FACTORS, factors, hard_kinds, in_order, not_finite
from support import the_catalogue

from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.experiment.verify.verification import Accuracy, accuracy
from matmul_sweep.operations.gemm import Gemm

pytestmark = pytest.mark.slow

KERNEL = the_catalogue()["three_products"]
SHAPE = (40, 70, 130)


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("split") / "split"
    emulation.build_variant(KERNEL.variants[0], path)
    return path


def multiply(executable: Path, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, Accuracy]:
    return product_on_cpu(KERNEL.variants[0], executable, Gemm(*SHAPE), a, b)


@pytest.mark.parametrize("kind", FACTORS)
def test_it_errs_no_more_than_sgemm(executable, kind):
    a, b = factors(kind, *SHAPE)
    own, other = multiply(executable, a, b)[1], accuracy(KERNEL, in_order(a, b), a, b)
    assert own.mean <= other.mean
    assert own.largest <= other.largest


@pytest.mark.parametrize("kind", hard_kinds(10, 10, 10))
def test_it_is_right_where_halves_are_not(executable, kind):
    assert multiply(executable, *hard_kinds(*SHAPE)[kind])[1].share <= 1


def test_infinities_and_nan_are_those_of_sgemm(executable):
    a, b = not_finite(*SHAPE)
    c, expected = multiply(executable, a, b)[0], in_order(a, b)
    np.testing.assert_allclose(c, expected, rtol=1e-3, atol=1e-4)
