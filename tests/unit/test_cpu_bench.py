"""Measuring on the CPU: only right products are timed, and the time is the product's."""

import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from support import the_catalogue

from matmul_sweep.build.binaries import compile_into
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.experiment.measure import cpu_bench
from matmul_sweep.experiment.measure.bench import Case, Settings, Split, Wrong
from matmul_sweep.experiment.measure.cpu_bench import CpuBench
from matmul_sweep.experiment.measure.gpu_bench import host_copies_refusal
from matmul_sweep.experiment.measure.sampling import Rule
from matmul_sweep.experiment.measure.timing import host_ms
from matmul_sweep.experiment.verify.products import CpuProduct, cpu_product
from matmul_sweep.experiment.verify.verification import PANEL_ROWS
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import Shape

RULE = Rule(minimum=6, maximum=6, interval=0.5, seconds=1)
LOOP = the_catalogue().variant("cpu_loop")
ROWS = the_catalogue().variant("cpu_loop_rows")
BLAS = the_catalogue().variant("cpu_blas")
GRAM = [the_catalogue().variant(name) for name in ("gram_cpu_loop", "gram_cpu_blas")]
SHAPE = Gemm(9, 11, 13)


def bench(product: CpuProduct, memory_share: float = 0.8, variant: Variant = LOOP) -> CpuBench:
    warm = {"burst": 0.0, "sustained": 0.05}
    settings = Settings(1, ("hot",), RULE, 0, RULE, warm, 75, 60, 1.0, 2.0, memory_share, 1)
    return CpuBench(variant, product, settings, Split())


def case(shape: Shape, mode: str = "burst") -> Case:
    return Case(shape, "uniform", mode)


def right(shape: Shape, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    np.matmul(a, b, out=c)


def leaves_an_element_out(shape: Shape, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    c[:-1] = (a @ b)[:-1]
    c[-1, :-1] = (a @ b)[-1, :-1]


def loses_a_term(shape: Shape, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    np.matmul(a[:, :-1], b[:-1], out=c)


def test_a_right_product_is_timed() -> None:
    point = bench(right).measure(case(SHAPE))
    assert len(point.times["cpu_loop", "kernel", "hot"]) == 6
    assert len(point.times["cpu_loop", "first", "cold"]) == 1
    assert 0 <= point.rows[0]["error"] <= 1


def test_a_sustained_point_is_under_load_before_its_samples() -> None:
    launches = {}
    for mode in ("burst", "sustained"):
        launched = 0

        def product(*arguments: Any) -> None:
            nonlocal launched
            launched += 1
            right(*arguments)

        start = time.perf_counter()
        point = bench(product, variant=BLAS).measure(case(SHAPE, mode))
        assert len(point.times["cpu_blas", "kernel", "hot"]) == 6
        launches[mode] = launched
        assert time.perf_counter() - start >= (0.05 if mode == "sustained" else 0)
    assert launches["burst"] == 1 + 6  # the first, and the samples
    assert launches["sustained"] > 20


def test_a_product_that_takes_a_points_time_is_its_own_sample() -> None:
    launched = 0

    def slow(*arguments: Any) -> None:
        nonlocal launched
        launched += 1
        time.sleep(0.05)
        right(*arguments)

    short = Rule(minimum=6, maximum=6, interval=0.5, seconds=0.02)
    settings = replace(bench(slow, variant=BLAS).settings, rule=short)
    settings.warm_seconds["sustained"] = 0.2  # of load: the first product alone is too little
    for mode in ("burst", "sustained"):
        launched = 0
        point = CpuBench(BLAS, slow, settings, Split()).measure(case(SHAPE, mode))
        times = point.times["cpu_blas", "kernel", "hot"]
        assert point.rows[0]["stopped"] == "seconds"
        assert (times == point.times["cpu_blas", "first", "cold"]) == (mode == "burst")
        assert (launched == 1) == (mode == "burst")


@pytest.mark.parametrize("product", [leaves_an_element_out, loses_a_term])
def test_a_wrong_product_is_refused(product: CpuProduct) -> None:
    with pytest.raises(Wrong, match="wrong result"):
        bench(product).measure(case(SHAPE))


def test_matrices_over_the_memory_are_refused_with_the_numbers() -> None:
    large = Gemm(2**20, 2**20, 2**20)
    assert "GB" in (bench(right).refusal(large) or "")
    assert bench(right).refusal(SHAPE) is None
    assert bench(right, memory_share=1e-12).refusal(SHAPE)


@pytest.mark.parametrize(
    ("shape", "dtype", "needed"),
    [
        # The matrices; B in float64, in parts, and its magnitude; three panels of A and of C.
        (Gemm(2, 3, 5), "float32", 4 * (10 + 15 + 6) + 16 * 15 + 48 * PANEL_ROWS * (5 + 3)),
        (Gram(2, 3), "float64", 8 * (6 + 9) + 32 * 6 + 48 * PANEL_ROWS * (2 + 3)),
    ],
)
def test_the_memory_of_a_product_by_hand(
    monkeypatch: pytest.MonkeyPatch, shape: Shape, dtype: str, needed: int
) -> None:
    monkeypatch.setattr(cpu_bench, "beyond_host_memory", lambda *asked: f"{asked[0]} bytes")
    assert cpu_bench.host_memory_refusal(shape, dtype, 0.8) == f"{needed} bytes"


@pytest.mark.parametrize("variant", [LOOP, BLAS], ids=lambda v: v.name)
def test_a_cpu_variant_multiplies_rectangles(variant: Variant, tmp_path: Path) -> None:
    if variant.kernel.kind is Kind.C:
        assert compile_into(variant, "host", tmp_path)["status"] == "ok"
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((4, 5), np.float32)
    c = np.full((3, 5), np.nan, np.float32)
    cpu_product(variant, tmp_path, threads=1)(Gemm(3, 5, 4), a, b, c)
    assert (c == a @ b).all()


@pytest.mark.parametrize("variant", GRAM, ids=lambda v: v.name)
@pytest.mark.parametrize("shape", [Gram(1, 1), Gram(3, 5), Gram(5, 3), Gram(1, 4), Gram(4, 1)])
def test_a_cpu_variant_of_gram_is_measured_in_float64(
    variant: Variant, shape: Gram, tmp_path: Path
) -> None:
    if variant.kernel.kind is Kind.C:
        compile_into(variant, "host", tmp_path)
    product = cpu_product(variant, tmp_path, threads=1)
    a, c = np.arange(1.0, shape.m * shape.n + 1).reshape(shape.m, shape.n), np.empty(shape.output)
    product(shape, a, c)
    assert (c == a.T @ a).all()
    point = bench(product, variant=variant).measure(case(shape))
    assert 0 <= point.rows[0]["error"] <= 1


def test_float32_accuracy_is_wrong_in_float64() -> None:
    def narrow(shape: Gram, a: np.ndarray, c: np.ndarray) -> None:
        c[:] = a.T.astype(np.float32) @ a.astype(np.float32)

    with pytest.raises(Wrong, match="wrong result"):
        bench(narrow, variant=GRAM[1]).measure(case(Gram(9, 11)))


def test_a_small_blas_product_takes_its_own_time_and_not_the_set_ups(tmp_path: Path) -> None:
    """Changing the number of threads costs milliseconds; an 8×8 product takes microseconds."""
    product = cpu_product(BLAS, tmp_path, threads=1)
    a, c = np.ones((8, 8), np.float32), np.empty((8, 8), np.float32)
    assert median(host_ms(lambda: product(Gemm(8, 8, 8), a, a, c)) for _ in range(21)) < 0.5


def test_a_gpu_point_without_room_for_its_copies_on_the_host_is_refused_with_the_numbers() -> None:
    assert host_copies_refusal(3 * 4 * 64**2, 0.8) is None
    reason = host_copies_refusal(3 * 4 * 2**40, 0.8)
    assert reason is not None
    assert "26388.28 GB of host memory" in reason
