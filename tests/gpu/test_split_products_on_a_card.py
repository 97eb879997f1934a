"""Float32 products by halves on the device: as right as cublasSgemm, for every kind of factors."""

import numpy as np
import pytest
from kinds import FACTORS, factors, hard_kinds, not_finite

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.verify.verification import accuracy

pytestmark = pytest.mark.gpu

KERNELS = load_catalogue()
VARIANTS = KERNELS["three_products"].every_variant
# Others do the same arithmetic in other tiles.
BY_MOVE = {v.parameters["MOVE"]: v for v in reversed(VARIANTS)}.values()
LIBRARY = KERNELS.variant("cublas_sgemm")
MARGIN = 1.02  # of a mean: both round once where one term is all there is, but not alike
SIDE = 2048  # of a C large enough that the library shares out no sum
DRAWN = 64  # of its rows and columns, which repeat
LOOKED_AT = np.arange(DRAWN) * (SIDE // DRAWN - 1)  # rows and columns all over C, of each kind one
SMALL = [(250, 260, 1), (250, 260, 33), (250, 260, 1000), (50, 60, 100_000)]


@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("k", [128, 512, 1000, 4096, 100_000])
def test_it_errs_no_more_than_sgemm(products, kind, k):
    a, b = factors(kind, DRAWN, DRAWN, k)
    times = SIDE // DRAWN
    variants = [LIBRARY, *(v for v in BY_MOVE if v.fewest_terms <= k)]
    results = products(variants, np.tile(a, (times, 1)), np.tile(b, times))
    which, square = LOOKED_AT % DRAWN, np.ix_(LOOKED_AT, LOOKED_AT)
    library, *own = [accuracy(LIBRARY.kernel, c[square], a[which], b[:, which]) for c in results]
    for errors in own:
        assert errors.mean <= MARGIN * library.mean
        assert errors.largest <= library.largest


@pytest.mark.parametrize("kind", [*FACTORS, *hard_kinds(10, 10, 10)])
def test_small_products_are_right_also_where_halves_are_not(products, kind):
    hard = hard_kinds(150, 301, 200)
    for pair in [hard[kind]] if kind in hard else [factors(kind, *shape) for shape in SMALL]:
        for c in products(VARIANTS, *pair):
            assert accuracy(LIBRARY.kernel, c, *pair).share <= 1, (*c.shape, len(pair[1]))


def test_infinities_and_nan_are_those_of_sgemm(products):
    library, *results = products([LIBRARY, *VARIANTS], *not_finite(150, 301, 200))
    infinite = np.isinf(library)
    assert infinite.any()
    for own in results:
        np.testing.assert_array_equal(np.isnan(own), np.isnan(library))
        np.testing.assert_array_equal(own[infinite], library[infinite])
        assert np.isfinite(own[~infinite & ~np.isnan(library)]).all()


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_products_are_reproducible(products, variant):
    """No race: the same factors give the same bits, also where elements are in doubt."""
    shape = 700, 900, 1100
    for pair in (factors("normal", *shape), hard_kinds(*shape)["one masked"]):
        first, *others = products([variant] * 6, *pair)
        for other in others:
            np.testing.assert_array_equal(first, other)
