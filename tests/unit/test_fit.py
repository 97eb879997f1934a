"""The fit: costs from times, limits from errors, and the few variants that a dispatch needs."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple
from typing import Any

import numpy as np
import pytest
from support import Entry, WriteCatalogue, work_of

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.sharing import shares_of
from matmul_sweep.dispatch import fit
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.dispatch.cost import TERMS, Cost, energy
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.random_shapes import random_shapes

ARCH, MULTIPROCESSORS = "sm_90", 132
LIBRARY = 20.0
SHAPES = [str(s) for s in random_shapes(Gemm, 60, 1, Gemm(64, 64, 64), Gemm(4000, 4000, 4000))]
LARGE = ["4096x4096x4096", "5000x3000x4000", "700x9000x8000", "9000x9000x600", "2100x2100x9000"]
BLOCKS = [f"{number}_slabs" for number in ("first", "second", "third", "further")]

Costs = Mapping[str, Mapping[str, float]]  # by variant and term
Times = Mapping[tuple[str, str], float]  # by variant and shape
Rows = list[dict[str, Any]]


@pytest.fixture
def variants(entry: Entry, write_catalogue: WriteCatalogue) -> list[Variant]:
    """Kernels of one tiling each: `grid` has a block for each tile, `fixed` shares out the work."""
    sized = {"tile": [32, 32], "threads": [16, 16], "layout": {"slab": 8, "thread": [2, 2]}}
    fixed = entry(**sized, blocks="2 * MULTIPROCESSORS", least=4)
    entries = dict.fromkeys(("grid", "other", "third"), entry(**sized)) | {"fixed": fixed}
    return [k.variants[0] for k in load_catalogue(write_catalogue(entries)).values()]


def times_of(variants: list[Variant], planted: Costs, shapes: Iterable[str] = SHAPES) -> dict:
    """Microseconds by the model, of costs that the test plants."""
    times, known = {}, {variant.name: variant for variant in variants}
    for shape, (name, costs) in itertools.product(shapes, planted.items()):
        own = asdict(work_of(known[name], parse_shape(shape, "gemm"), MULTIPROCESSORS))
        own["slabs"] = sum(own[block] for block in BLOCKS)
        times[name, shape] = sum(cost * own[term] for term, cost in costs.items())
    return times


def found(
    times: Times, kind: str = "fitted", library: float = LIBRARY, errors: Times | None = None
) -> Rows:
    """Rows of a search: of a variant at a shape."""
    return [
        {"set": kind, "shape": shape, "variant": name, "microseconds": time, "library": library,
         "error": (errors or {}).get((name, shape), 1.0), "largest_error": 1.0}
        for (name, shape), time in times.items()
    ]  # fmt: skip


def table(variants: list[Variant], rows: Rows, everywhere: str | None = "fixed") -> dict[str, Cost]:
    """The fitted rows by the names of their variants."""
    return {cost.variant.name: cost for cost in fit.fitted(rows, variants, ARCH, everywhere)}


def test_costs_are_recovered_from_the_times_that_they_make(variants):
    planted = {
        "grid": {"launch": 6, "first_slabs": 0.1, "slabs": 0.05, "tiles": 0.6,
                 "ragged_slabs": 0.02, "edge_slabs": 0.01},
        "fixed": {"launch": 7, "slabs": 0.08, "waits": 2, "sums": 0.3, "far_megabytes": 0.4},
    }  # fmt: skip
    times = times_of(variants, planted)
    few = {("other", shape): 1e6 for shape in SHAPES[: fit.SMALLEST - 1]}
    enough = {("third", shape): 1e6 for shape in SHAPES[: fit.SMALLEST]}
    own = fit.Measured(found(times | few | enough), variants, ARCH)
    assert list(own.competes) == [True, False, True, True]
    for i, name in ((0, "grid"), (3, "fixed")):
        assert min(own.costs(i)) >= 0
        again = own.work[:, i] @ own.costs(i)
        assert again == pytest.approx([times[name, shape] for shape in SHAPES], rel=0.01)
    fixed = dict(zip(TERMS, own.costs(3), strict=True))
    assert fixed["waits"] == pytest.approx(2, abs=0.3)
    assert fixed["sums"] == pytest.approx(0.3, rel=0.1)
    assert fixed["far_megabytes"] == pytest.approx(0.4, rel=0.1)


ALL = range(100, 20100, 100)
LATE = ALL[99:]


@pytest.mark.parametrize(
    ("erring", "slow", "most"),
    [
        # From 10000 on it errs: of the shapes up to 10200 these are 3 of 102, and up to 10100 2 of
        # 101. The last slab of 10100 terms, of eight each, is not full.
        (LATE, [], 10104),
        ([500, 9000], [], 0),  # two of 200: as seldom as it may
        (ALL, [], fit.FEW_ADDITIONS),
        (LATE, LATE, 0),  # errors do not count where it is slow
    ],
)
def test_sums_are_limited_to_those_that_err_hardly_more(variants, erring, slow, most):
    times = {(name, f"64x64x{terms}"): 10.0 for terms in ALL for name in ("grid", "other")}
    times |= {("grid", f"64x64x{terms}"): 20.0 for terms in slow}
    rows = found(times, errors={("grid", f"64x64x{terms}"): 1.6 for terms in erring})
    assert fit.Measured(rows, variants, ARCH).most_additions(0) == most


# `grid` is for little work, `other` for much; `third` is between them, and never the fastest.
SPECIALISTS = {
    "grid": {"launch": 2, "slabs": 0.05},
    "other": {"launch": 20, "slabs": 0.02},
    "third": {"launch": 25, "slabs": 0.04},
    "fixed": {"launch": 30, "slabs": 0.06},
}


def test_the_few_are_those_that_complete_one_another(variants):
    rows = found(times_of(variants, SPECIALISTS))
    own = table(variants, rows)
    assert next(iter(own)) == "fixed"  # runs on every card, though it is never the fastest
    assert own.keys() == {"fixed", "grid", "other"}
    assert all(len(cost.coefficients) == len(TERMS) for cost in own.values())
    assert {(cost.most_additions, cost.shapes) for cost in own.values()} == {(0, ())}
    assert table(variants, rows, None).keys() == {"grid", "other"}
    # Times at judged shapes do not count.
    judged = times_of(variants, SPECIALISTS, ["99", "98"])
    nonsense = found({key: 1 / value for key, value in judged.items()}, "judged")
    assert own == table(variants, rows + nonsense)


def test_a_known_shape_is_remembered_where_the_choice_loses_or_errs(variants):
    odd, kept, erring, hopeless, spoilt = "640", "100", "1024", "99", "88"
    known = times_of(variants, SPECIALISTS, [odd, kept, erring, hopeless, spoilt])
    for shape, share in {odd: 0.9, kept: 1 - fit.SLACK / 2, erring: 0.9}.items():
        known["third", shape] = share * min(known[name, shape] for name in SPECIALISTS)
    errors = {("third", erring): 1.6} | {(name, hopeless): 1.6 for name in SPECIALISTS}
    chosen, second, *_ = sorted(SPECIALISTS, key=lambda name: known[name, spoilt])
    rows = found(known, "known", errors=errors | {(chosen, spoilt): 1.6})
    own = table(variants, found(times_of(variants, SPECIALISTS)) + rows)
    remembered = {name: cost.shapes for name, cost in own.items() if cost.shapes}
    assert remembered == {"third": (Gemm(640, 640, 640),), second: (Gemm(88, 88, 88),)}
    assert own["third"].coefficients == ()  # it runs there only


def test_a_search_at_another_clock_joins_by_the_librarys_time(variants):
    """The second search met a clock at which everything takes 1.4 times as long. Rows of variants
    that are no candidates any more are left out."""
    times = times_of(variants, SPECIALISTS)
    first = found({key: time for key, time in times.items() if key[0] in ("grid", "fixed")})
    slower = {key: 1.4 * time for key, time in times.items() if key[0] in ("other", "third")}
    gone = [row | {"variant": "grid/gone", "microseconds": 0.001} for row in first]
    own = fit.Measured(first + found(slower, library=1.4 * LIBRARY) + gone, variants, ARCH)
    assert own.library[0] == pytest.approx((2 + 1.4) / 3 * LIBRARY)
    for i, variant in enumerate(variants):
        expected = [own.library[0] / LIBRARY * times[variant.name, shape] for shape in SHAPES]
        assert own.times[:, i] == pytest.approx(expected)
    assert own.fastest.min() > 1


def alone_by(variants: list[Variant], limits: Mapping[str, tuple[float, ...]]) -> Rows:
    """Rows that were timed alone, by energies that the test plants; `grid` draws all of the power,
    others half of it."""
    rows = []
    for variant, text in itertools.product(variants, LARGE):
        if variant.name in limits:
            shape, share = parse_shape(text, "gemm"), 1.0 if variant.name == "grid" else 0.5
            shares = shares_of(variant, shape, MULTIPROCESSORS)
            drawn = astuple(energy(variant, shape, shares, MULTIPROCESSORS))
            time = np.dot(limits[variant.name], drawn) / share
            rows += [row | {"share": share} for row in found({(variant.name, text): time}, "alone")]
    return rows


def test_alone_the_power_bounds_a_time_and_the_choice(variants):
    """`grid` is the fastest side by side; alone it draws all the power and takes twice as long."""
    planted = {"grid": {"slabs": 0.05}, "other": {"slabs": 0.06}, "fixed": {"slabs": 0.09}}
    rows, common = found(times_of(variants, planted)), (9.0, 0.7)  # of what waits, and is stored
    energies = {"grid": (60.0, *common), "other": (20.0, *common), "fixed": (40.0, *common)}
    alone = alone_by(variants, energies)
    limits = fit.limits_of(alone, variants, ARCH)
    for name, own in energies.items():
        assert limits[name] == pytest.approx(own, rel=1e-3)
    assert limits["third"] == pytest.approx((40.0, *common), rel=1e-3)  # all are of one tile
    shape = parse_shape(LARGE[0], "gemm")

    def fastest(own: dict[str, Cost]) -> str:
        return min(own, key=lambda name: own[name].microseconds(shape, MULTIPROCESSORS))

    assert fastest(table(variants, rows)) == "grid"
    assert fastest(table(variants, rows + alone)) == "other"
    unread = [row | {"share": 0.0} for row in alone]
    assert set(fit.limits_of(unread, variants, ARCH).values()) == {(0.0, 0.0, 0.0)}
    remembered = table(variants, rows + unread)["other"].shapes
    assert shape in remembered  # no model says so, but a program got it


def test_a_large_shape_is_remembered_only_where_its_variant_is_the_fastest_alone(variants):
    small, large = Gemm(640, 640, 640), Gemm(4096, 4096, 4096)
    coefficients = tuple(1.0 * (term == "launch") for term in TERMS)
    known = Cost(ARCH, variants[0], coefficients, shapes=(small, large), limits=(9.0, 0, 0))
    other = Cost(ARCH, variants[1], tuple(2 * own for own in coefficients))
    forgotten = Cost(ARCH, variants[2], (), shapes=(large,))
    alone = [row | {"share": 0.99} for row in found({("other", str(large)): 1e4}, "alone")]
    alone += [row | {"share": 1.0} for row in found({("grid", str(large)): 2e4}, "alone")]
    first, second = fit.limited([known, other, forgotten], alone, ARCH)
    assert (first.variant, first.shapes) == (variants[0], (small,))
    assert (second.variant, second.shapes) == (variants[1], ())
    assert first.coefficients == coefficients
    ratio = first.microseconds(large, MULTIPROCESSORS) / second.microseconds(large, MULTIPROCESSORS)
    assert ratio == pytest.approx(2 / 0.99)


def test_the_judgement_says_what_the_choice_loses(variants):
    shapes = [str(s) for s in random_shapes(Gemm, 20, 2, Gemm(64, 64, 64), Gemm(999, 999, 999))]
    judged = times_of(variants, SPECIALISTS, shapes)
    own = found(judged, "judged")
    costs = fit.fitted(found(times_of(variants, SPECIALISTS)) + own, variants, ARCH, "fixed")
    said = fit.judgement(own, costs, variants, ARCH)
    assert said.startswith("20 judged shapes, 3 variants: the choice loses 0.0% in the mean")
    assert "it errs over 1.5 times the library at 0.0%" in said
    ratio = LIBRARY / np.array([min(judged[name, s] for name in SPECIALISTS) for s in shapes])
    assert said.endswith(
        f"worst {ratio.min():.3f}, 5% {np.quantile(ratio, 0.05):.3f}, "
        f"median {np.median(ratio):.3f}, geometric mean {np.prod(ratio) ** (1 / 20):.3f}"
    )


def test_a_tiling_that_was_not_timed_alone_has_the_energy_of_its_tile(entry, write_catalogue):
    tiles = {16: {"TILE": 16}, 32: {"TILE": 32}, 64: {"TILE": 64}, 128: {"TILE": 128}}
    mine = entry(tile=["TILE", "TILE"], threads=[16, 16], tilings=tiles)
    variants = load_catalogue(write_catalogue({"mine": mine}))["mine"].variants
    energies = {"mine/32": (30.0, 3.0, 1.0), "mine/128": (10.0, 3.0, 1.0)}
    limits = fit.limits_of(alone_by(variants, energies), variants, ARCH)
    assert limits["mine/64"] == pytest.approx(
        (50 / 3, 3, 1), rel=1e-3
    )  # 1/64 is between 1/128 and 1/32
    assert limits["mine/16"] == pytest.approx((30, 3, 1), rel=1e-3)
