"""Measuring on the CPU: only right products are timed, and the time is the product's."""

import time
from statistics import median
from typing import Any

import numpy as np
import pytest
from support import the_catalogue

from matmul_sweep.build.binaries import compile_into
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.experiment.measure.bench import Split, Wrong, beyond
from matmul_sweep.experiment.measure.cpu_bench import CpuBench
from matmul_sweep.experiment.measure.timing import host_ms
from matmul_sweep.experiment.plan.settings import Case, Limits, Sampling, Settings
from matmul_sweep.experiment.verify.products import CpuProduct, cpu_product
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import Shape

LOOP = the_catalogue().variant("cpu_loop")
BLAS = the_catalogue().variant("cpu_blas")
GRAM = [the_catalogue().variant(name) for name in ("gram_cpu_loop", "gram_cpu_blas")]
SHAPE = Gemm(9, 11, 13)
SPANS = ("kernel", "hot"), ("first", "cold")


def bench(product: CpuProduct, variant: Variant = LOOP, seconds: float = 1) -> CpuBench:
    sampling = Sampling(6, 6, 0.5, seconds, load_seconds=0.2)
    settings = Settings(1, ("hot",), sampling, Limits(1, 2, 0.8, 75, 60))
    return CpuBench(variant, product, settings, Split())


def case(shape: Shape, mode: str = "burst") -> Case:
    return Case(shape, "uniform", mode)


def right(shape: Shape, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    np.matmul(a, b, out=c)


def leaves_an_element_out(shape: Shape, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    c[:-1] = (a @ b)[:-1]
    c[-1, :-1] = (a @ b)[-1, :-1]


@pytest.mark.parametrize("sleep", [0.0, 0.05])
def test_a_point_is_under_load_first_if_sustained_and_a_slow_products_first_time_counts(sleep):
    launched = 0

    def product(*arguments: Any) -> None:
        nonlocal launched
        launched += 1
        time.sleep(sleep)
        right(*arguments)

    for mode in ("burst", "sustained"):
        launched, start = 0, time.perf_counter()
        point = bench(product, BLAS, seconds=0.02 if sleep else 1).measure(case(SHAPE, mode))
        times, first = (point.times["cpu_blas", *span] for span in SPANS)
        alone = bool(sleep) and mode == "burst"
        assert (times == first) == (launched == 1) == alone and len(first) == 1
        if mode == "sustained":
            assert time.perf_counter() - start >= 0.2
            assert launched > 20 or sleep
        elif not sleep:
            assert launched == 1 + len(times) == 7
        if sleep:
            assert point.rows[1]["stopped"] == "seconds"


def test_a_wrong_product_is_refused():
    with pytest.raises(Wrong, match="wrong result"):
        bench(leaves_an_element_out).measure(case(SHAPE))


def test_matrices_over_the_memory_are_refused_with_the_numbers():
    assert "GB" in (bench(right).refusal(Gemm(2**20, 2**20, 2**20)) or "")
    assert bench(right).refusal(SHAPE) is None
    assert beyond(80, 100, "x", 0.8) is None
    said = "needs 2.00 GB of memory; 80% of the 1.00 GB free is 0.80 GB"
    assert beyond(2 * 10**9, 10**9, "memory", 0.8) == said


@pytest.mark.parametrize("variant", [LOOP, BLAS, *GRAM], ids=lambda v: v.name)
def test_a_cpu_variant_is_right_and_measured(variant, tmp_path):
    if variant.kernel.kind is Kind.C:
        assert compile_into(variant, "host", tmp_path)["status"] == "ok"
    product, dtype = cpu_product(variant, tmp_path, threads=1), variant.kernel.dtype
    gemms, grams = [Gemm(3, 5, 4)], [Gram(1, 1), Gram(3, 5), Gram(5, 3), Gram(1, 4), Gram(4, 1)]
    for shape in grams if variant in GRAM else gemms:
        inputs = [np.arange(1.0, 1 + r * c, dtype=dtype).reshape(r, c) for r, c in shape.inputs]
        left, right = variant.kernel.product.factors(*inputs)
        c = np.full(shape.output, np.nan, dtype)
        product(shape, *inputs, c)
        assert (c == left @ right).all()
        assert 0 <= bench(product, variant).measure(case(shape)).rows[1]["error"] <= 1


def test_a_small_blas_product_takes_its_own_time_and_not_the_set_ups(tmp_path):
    """Changing the number of threads costs milliseconds; an 8×8 product takes microseconds."""
    product = cpu_product(BLAS, tmp_path, threads=1)
    a, c = np.ones((8, 8), np.float32), np.empty((8, 8), np.float32)
    assert median(host_ms(lambda: product(Gemm(8, 8, 8), a, a, c)) for _ in range(21)) < 0.5
