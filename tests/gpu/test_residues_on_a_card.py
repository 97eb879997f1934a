"""AᵀA by residues on the device: no less exact than cublasDsyrk, or native, and as fast as it
should be."""

from typing import Any

import numpy as np
import pytest
from kinds import BOUND, COLUMNS, EASY, HARD, errors, fooling

import matmul_sweep
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.measure.timing import product_ms
from matmul_sweep.operations.gram import Gram

pytestmark = pytest.mark.gpu

KERNELS = load_catalogue()
COMPONENTWISE, NORMWISE = KERNELS["residues"].variants
LIBRARY = KERNELS.variant("cublas_dsyrk")
NATIVE = KERNELS.variant("gram_tensor_streamed/128-patch8")
TILES_OF_128 = KERNELS["residues"].tiled("128", {**COMPONENTWISE.parameters, "SIDE": 128})
DRAWN, SIDE = 64, 1024  # columns of A that are drawn, and all: they repeat


@pytest.mark.parametrize("kind", EASY)
@pytest.mark.parametrize("m", [130, 600, 2048, 8192])
def test_it_errs_no_more_than_dsyrk(products, kind, m):
    a = EASY[kind](np.random.default_rng(1), m, DRAWN)
    which = np.arange(DRAWN) * (SIDE // DRAWN - 1)  # all over C, of each column one
    found = products([COMPONENTWISE, LIBRARY], np.tile(a, SIDE // DRAWN))
    own, other = (errors(c[np.ix_(which, which)], a[:, which % DRAWN]) for c in found)
    assert own.max() <= 1.01 * other.max()
    assert own.mean() <= 1.01 * other.mean()


@pytest.mark.parametrize("kind", HARD)
def test_it_is_native_where_norms_do_not_do(products, kind):
    a = HARD[kind](np.random.default_rng(1), 4096, 300)
    np.testing.assert_array_equal(*products([COMPONENTWISE, NATIVE], a))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0, 1e-200, 1e200])
@pytest.mark.parametrize("variant", [COMPONENTWISE, NORMWISE], ids=lambda v: v.name)
def test_columns_beyond_the_scales_are_native(products, variant, bad):
    a = EASY["normal"](np.random.default_rng(1), 1000, 301)
    a[:, 200] *= bad
    np.testing.assert_array_equal(*products([variant, NATIVE], a))


def test_no_drawn_columns_fool_the_guard(products):
    taken = 0
    for seed in range(100):
        a = fooling(seed, 1000, 96)
        own, native = products([COMPONENTWISE, NATIVE], a)
        if not np.array_equal(own, native):
            taken += 1
            assert errors(own, a).max() <= BOUND, seed
    assert 20 < taken < 80


@pytest.mark.parametrize(
    ("m", "n"), [(129, 1), (131, 257), (1001, 515), (5000, 2049), (131072 + 300, 70)]
)
def test_edges_tiles_and_portions_are_right(products, m, n):
    """With the same bits for each tile, symmetric, in each of several runs, and whatever the order
    of the rows of A: so no race, and no rounding before the end."""
    rng = np.random.default_rng(2)
    a = EASY["normal"](rng, m, n)
    same = [COMPONENTWISE, COMPONENTWISE, NORMWISE, TILES_OF_128]
    c, *others = products(same, a)
    others += [c.T, *products([COMPONENTWISE], rng.permutation(a))]
    for other in others:
        np.testing.assert_array_equal(c, other)
    some = rng.integers(0, n, 20)
    assert errors(c[np.ix_(some, some)], a[:, some]).max() <= BOUND


def test_the_library_takes_what_is_promised():
    torch: Any = pytest.importorskip("torch")
    a = torch.randn(2048, 1500, dtype=torch.float64, device="cuda")
    before = torch.randn(1500, 1500, dtype=torch.float64, device="cuda")
    exact = matmul_sweep.gram(a, accuracy="native")
    for accuracy in ("componentwise", "normwise"):
        for own in (a, a.T.contiguous().T, a.new_zeros(2048, 1504)[:, :1500].copy_(a)):
            torch.testing.assert_close(matmul_sweep.gram(own, accuracy=accuracy), exact)
        added = matmul_sweep.gram(a, before.clone(), alpha=2, beta=-1, accuracy=accuracy)
        torch.testing.assert_close(added, 2 * exact - before)
    torch.testing.assert_close(matmul_sweep.gram(a, kernel="residues"), exact)


@pytest.mark.parametrize(
    ("kind", "variant", "rival", "most"),
    [
        ("normal", NORMWISE, LIBRARY, 1 / 1.6),
        ("normal", COMPONENTWISE, LIBRARY, 1 / 1.5),  # waits that run out would cost as much again
        ("Cauchy", COMPONENTWISE, NATIVE, 1.2),  # what the guard costs where it says native
    ],
)
def test_it_takes_no_longer_than_it_should(runner, compiled, kind, variant, rival, most):
    """Launches one behind the other; config/residues.yaml times it as a program gets it."""
    shape, a = Gram(8192, 8192), COLUMNS[kind](np.random.default_rng(1), 8192, 8192)
    times: list[float] = []
    for each in (variant, rival):
        compiled(each)
        found = product_ms(runner, each, shape, a)
        assert found
        times.append(found)
    assert times[0] <= most * times[1]
