"""The fit: costs from times, limits from errors, and the few variants that a dispatch needs."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, replace
from typing import Any

import numpy as np
import pytest
from support import Entry, WriteCatalogue, work_of

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.dispatch import fit
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.dispatch.cost import TERMS, Cost
from matmul_sweep.operations import OPERATIONS, parse_shape
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.random_shapes import random_shapes

GEMM = OPERATIONS["gemm"]
ARCH, MULTIPROCESSORS = "sm_90", 132
LIBRARY = 20.0
SHAPES = [str(s) for s in random_shapes(Gemm, 60, 1, Gemm(64, 64, 64), Gemm(4000, 4000, 4000))]
LOW, TALL = Gemm(64, 64, 64), Gemm(2048, 2048, 2048)  # little work, and much

Planted = Mapping[str, Mapping[str, float]]
Times = Callable[[str, str], float]
Table = dict[str, Cost]


@pytest.fixture
def variants(entry: Entry, write_catalogue: WriteCatalogue) -> list[Variant]:
    """Kernels of one tiling each: `grid` has a block for each tile, `fixed` shares out the work."""
    sized = {"tile": [32, 32], "threads": [16, 16], "layout": {"slab": 8, "thread": [2, 2]}}
    fixed = {"blocks": "2 * MULTIPROCESSORS", "least": 4}
    one = entry(**sized)
    entries = {"grid": one, "other": one, "third": one, "fixed": entry(**sized, **fixed)}
    return [k.variants[0] for k in load_catalogue(write_catalogue(entries)).values()]


def microseconds(variants: list[Variant], planted: Planted) -> Times:
    """Times by the model, of costs that the test plants."""
    known = {variant.name: variant for variant in variants}

    def time(name: str, shape: str) -> float:
        own = asdict(work_of(known[name], parse_shape(shape, "gemm"), MULTIPROCESSORS))
        own["slabs"] = sum(
            own[f"{block}_slabs"] for block in ("first", "second", "third", "further")
        )
        return sum(cost * own[term] for term, cost in planted[name].items())

    return time


Rows = list[dict[str, Any]]


def found(
    times: Mapping[tuple[str, str], float], kind: str = "fitted", library: float = LIBRARY,
    errors: Mapping[tuple[str, str], float] | None = None,
) -> Rows:  # fmt: skip
    """Rows of a search: of a variant at a shape."""
    return [
        {"set": kind, "shape": shape, "variant": name, "microseconds": time, "library": library,
         "error": (errors or {}).get((name, shape), 1.0), "largest_error": 1.0}
        for (name, shape), time in times.items()
    ]  # fmt: skip


def at_all(time: Times, names: list[str], shapes: list[str] = SHAPES) -> dict:
    return {(name, shape): time(name, shape) for shape in shapes for name in names}


def by_name(variants: list[Variant], rows: Rows, everywhere: str | None = "fixed") -> Table:
    """The rows of a table by the names of their variants."""
    costs = fit.fitted(rows, variants, GEMM, ARCH, everywhere)
    return {cost.variant.name: cost for cost in costs}


def costs_of(variants: list[Variant], time: Times, rows: Rows) -> dict[str, dict[str, float]]:
    """The fitted coefficients by variant and term."""
    own = fit.Measured(rows, variants, GEMM, ARCH)
    return {
        v.name: dict(zip(TERMS, own.costs(i), strict=True))
        for i, v in enumerate(variants) if own.competes[i]
    }  # fmt: skip


def test_costs_are_recovered_from_the_times_that_they_make(variants: list[Variant]) -> None:
    planted = {
        "grid": {"launch": 6, "first_slabs": 0.1, "slabs": 0.05, "tiles": 0.6,
                 "ragged_slabs": 0.02, "edge_slabs": 0.01},
        "fixed": {"launch": 7, "slabs": 0.08, "waits": 2, "sums": 0.3, "far_megabytes": 0.4},
    }  # fmt: skip
    time = microseconds(variants, planted)
    costs = costs_of(variants, time, found(at_all(time, ["grid", "fixed"])))
    assert costs.keys() == planted.keys()
    known = {variant.name: variant for variant in variants}
    for name, own in costs.items():
        assert min(own.values()) >= 0
        row = Cost(ARCH, known[name], tuple(own.values()))
        again = [row.microseconds(parse_shape(s, "gemm"), MULTIPROCESSORS) for s in SHAPES]
        assert again == pytest.approx([time(name, shape) for shape in SHAPES], rel=0.01)
    fixed = costs["fixed"]
    assert fixed["waits"] == pytest.approx(2, abs=0.3)
    assert fixed["sums"] == pytest.approx(0.3, rel=0.1)
    assert fixed["far_megabytes"] == pytest.approx(0.4, rel=0.1)


def test_costs_do_not_follow_single_times_and_a_launch_costs_its_share(
    variants: list[Variant],
) -> None:
    time = microseconds(variants, {"grid": {"launch": 2, "slabs": 0.05, "tiles": 0.6}})
    times = at_all(time, ["grid"])
    times["grid", SHAPES[7]] *= 3  # the only time there, so also the fastest
    own = fit.Measured(found(times), variants, GEMM, ARCH)
    again = own.work[:, 0] @ own.costs(0)
    right = [shape for shape in SHAPES if shape != SHAPES[7]]
    expected = [time("grid", shape) for shape in right]
    assert np.delete(again, 7) == pytest.approx(expected, rel=0.05)
    # Also where the times alone would not say so.
    time = microseconds(variants, {"grid": {"slabs": 0.5}})
    launch = costs_of(variants, time, found(at_all(time, ["grid"])))["grid"]["launch"]
    assert launch >= fit.LEAST_LAUNCH * min(time("grid", shape) for shape in SHAPES)


def test_too_few_shapes_give_no_costs(variants: list[Variant]) -> None:
    time = microseconds(variants, {name: {"launch": 2} for name in ("grid", "other")})
    times = at_all(time, ["grid"]) | at_all(time, ["other"], SHAPES[: fit.SMALLEST - 1])
    assert list(costs_of(variants, time, found(times))) == ["grid"]


def deep(terms: int) -> str:
    return f"64x64x{terms}"


LATE = range(10000, 20100, 100)


@pytest.mark.parametrize(
    ("erring", "slow", "most"),
    [
        ([], [], 0),
        # From 10000 on it errs: of the shapes up to 10200 these are 3 of 102, and up to 10100 2 of
        # 101. The last slab of 10100 terms, of eight each, is not full.
        (LATE, [], 10104),
        ([500, 9000], [], 0),  # two of 200: as seldom as it may
        (range(100, 20100, 100), [], fit.FEW_ADDITIONS),
        (LATE, LATE, 0),  # errors do not count where it is slow
    ],
)
def test_sums_are_limited_to_those_that_err_hardly_more(
    variants: list[Variant], erring: list[int], slow: list[int], most: int
) -> None:
    shapes = [deep(terms) for terms in range(100, 20100, 100)]
    times = {(name, shape): 10.0 for shape in shapes for name in ("grid", "other")}
    times |= {("grid", deep(terms)): 20.0 for terms in slow}
    rows = found(times, errors={("grid", deep(terms)): 1.6 for terms in erring})
    assert fit.Measured(rows, variants, GEMM, ARCH).most_additions(0) == most


def test_an_error_counts_in_the_mean_and_at_most(variants: list[Variant]) -> None:
    rows = found({("grid", shape): 10.0 for shape in SHAPES[:4]})
    for row, mean, largest in zip(rows, (1.51, 1, 1.49, 1), (1, 1.51, 1.49, 1), strict=True):
        row |= {"error": mean, "largest_error": largest}
    own = fit.Measured(rows, variants, GEMM, ARCH)
    assert list(own.errs[:, 0]) == [True, True, False, False]


# `grid` is for little work, `other` for much; `third` is between them, and never the fastest.
SPECIALISTS = {
    "grid": {"launch": 2, "slabs": 0.05},
    "other": {"launch": 20, "slabs": 0.02},
    "third": {"launch": 25, "slabs": 0.04},
    "fixed": {"launch": 30, "slabs": 0.06},
}
NAMES = list(SPECIALISTS)


def test_the_few_are_those_that_complete_one_another(variants: list[Variant]) -> None:
    time = microseconds(variants, SPECIALISTS)
    own = by_name(variants, found(at_all(time, NAMES)))
    assert next(iter(own)) == "fixed"  # runs on every card, though it is never the fastest
    assert own.keys() == {"fixed", "grid", "other"}
    assert all(len(cost.coefficients) == len(TERMS) for cost in own.values())
    assert {(cost.most_additions, cost.shapes) for cost in own.values()} == {(0, ())}
    assert by_name(variants, found(at_all(time, NAMES)), None).keys() == {"grid", "other"}
    # Times at judged shapes do not count.
    nonsense = {key: 1 / value for key, value in at_all(time, NAMES, ["99", "98"]).items()}
    assert own == by_name(variants, found(at_all(time, NAMES)) + found(nonsense, "judged"))


def test_a_known_shape_is_remembered_where_the_choice_loses(variants: list[Variant]) -> None:
    time = microseconds(variants, SPECIALISTS)
    odd, kept, erring, hopeless = "640", "100", "1024", "99"
    special = at_all(time, NAMES, [odd, kept, erring, hopeless])
    share = {odd: 0.9, kept: 1 - fit.SLACK / 2, erring: 0.9}
    for shape, less in share.items():
        special["third", shape] = less * min(special[name, shape] for name in NAMES)
    errors = {("third", erring): 1.6} | {(name, hopeless): 1.6 for name in NAMES}
    own = by_name(variants, found(at_all(time, NAMES)) + found(special, "known", errors=errors))
    assert {name: [str(s) for s in cost.shapes] for name, cost in own.items() if cost.shapes} == {
        "third": ["640x640x640"]
    }
    assert own["third"].coefficients == ()  # it runs there only


def test_a_chosen_variant_that_errs_at_a_known_shape_is_not_chosen_there(
    variants: list[Variant],
) -> None:
    time = microseconds(variants, SPECIALISTS)
    special = at_all(time, NAMES, ["640"])
    chosen, second, *_ = sorted(NAMES, key=lambda name: special[name, "640"])
    known = found(special, "known", errors={(chosen, "640"): 1.6})
    own = by_name(variants, found(at_all(time, NAMES)) + known)
    assert own[second].shapes == (Gemm(640, 640, 640),)


def test_the_judgement_says_what_the_choice_loses(variants: list[Variant]) -> None:
    time = microseconds(variants, SPECIALISTS)
    judged = [str(s) for s in random_shapes(Gemm, 20, 2, Gemm(64, 64, 64), Gemm(999, 999, 999))]
    rows = found(at_all(time, NAMES)) + found(at_all(time, NAMES, judged), "judged")
    costs = fit.fitted(rows, variants, GEMM, ARCH, "fixed")
    said = fit.judgement(rows, costs, variants, GEMM, ARCH)
    assert said.startswith("20 judged shapes, 3 variants: the choice loses 0.0% in the mean")
    assert "it errs over 1.5 times the library at 0.0%" in said
    ratio = LIBRARY / np.array([min(time(name, shape) for name in NAMES) for shape in judged])
    assert said.endswith(
        f"worst {ratio.min():.3f}, 5% {np.quantile(ratio, 0.05):.3f}, "
        f"median {np.median(ratio):.3f}, geometric mean {np.prod(ratio) ** (1 / 20):.3f}"
    )


def test_a_search_at_another_clock_joins_by_the_librarys_time(variants: list[Variant]) -> None:
    """The second search met a clock at which everything takes 1.4 times as long. Rows of variants
    that are no candidates any more are left out."""
    time = microseconds(variants, SPECIALISTS)
    first = found(at_all(time, ["grid", "fixed"]))
    slower = {key: 1.4 * value for key, value in at_all(time, ["other", "third"]).items()}
    gone = [row | {"variant": "grid/gone", "microseconds": 0.001} for row in first]
    rows = [*first, *found(slower, library=1.4 * LIBRARY)]
    own = fit.Measured(rows, variants, GEMM, ARCH)
    assert own.library == pytest.approx(1.2 * LIBRARY)
    for i, variant in enumerate(variants):
        expected = [1.2 * time(variant.name, shape) for shape in SHAPES]
        assert own.times[:, i] == pytest.approx(expected)
    assert fit.Measured(rows + gone, variants, GEMM, ARCH).fastest.min() > 1


def test_a_shape_that_a_variant_refuses_is_another_ones(variants: list[Variant]) -> None:
    """It was not timed there, so it is not predicted either; nor is a chain that is too long."""
    time = microseconds(variants, SPECIALISTS)
    times = {key: t for key, t in at_all(time, NAMES).items() if key != ("grid", SHAPES[0])}
    own = fit.Measured(found(times), variants, GEMM, ARCH)
    costs = [Cost(ARCH, v, own.costs(i)) for i, v in enumerate(variants)]
    chosen = [variants[i].name for i in own.chosen(costs)]
    assert chosen[0] != "grid" and {"grid", "other"} <= {*chosen}
    costs = [replace(cost, most_additions=(cost.variant.name == "other") * 1) for cost in costs]
    assert "other" not in {variants[i].name for i in own.chosen(costs)}


def test_the_work_is_that_of_the_cards_multiprocessors(variants: list[Variant]) -> None:
    shape = Gemm(2048, 2048, 64)
    for arch, count in (("sm_90", 132), ("sm_75", 72)):
        own = fit.Measured(found({("grid", str(shape)): 1.0}), variants, GEMM, arch)
        assert tuple(own.work[0, 0]) == astuple(work_of(variants[0], shape, count))
