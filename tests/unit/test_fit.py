"""The fit: costs from times, limits from errors, and the few variants that a dispatch needs."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple

import numpy as np
import pandas as pd
import pytest
from support import Entry, WriteCatalogue, work_of

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.dispatch import fit
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.dispatch.cost import TERMS
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


def found(
    times: Mapping[tuple[str, str], float], kind: str = "fitted", library: float = LIBRARY,
    errors: Mapping[tuple[str, str], float] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Rows of a search: of a variant at a shape."""
    rows = [
        (kind, shape, name, time, library, (errors or {}).get((name, shape), 1.0), 1.0)
        for (name, shape), time in times.items()
    ]
    columns = ["set", "shape", "variant", "microseconds", "library", "error", "largest_error"]
    return pd.DataFrame(rows, columns=columns)


def at_all(time: Times, names: list[str], shapes: list[str] = SHAPES) -> dict:
    return {(name, shape): time(name, shape) for shape in shapes for name in names}


def test_costs_are_recovered_from_the_times_that_they_make(variants: list[Variant]) -> None:
    planted = {
        "grid": {"launch": 6, "first_slabs": 0.1, "slabs": 0.05, "tiles": 0.6,
                 "ragged_slabs": 0.02, "edge_slabs": 0.01},
        "fixed": {"launch": 7, "slabs": 0.08, "waits": 2, "sums": 0.3, "far_megabytes": 0.4},
    }  # fmt: skip
    time = microseconds(variants, planted)
    own = fit.Measured(found(at_all(time, ["grid", "fixed"])), variants, GEMM, ARCH)
    assert own.names == ["grid", "fixed"]
    for name in planted:
        costs = own.costs(name)
        assert (costs >= 0).all()
        again = own.work[name] @ costs
        assert again == pytest.approx([time(name, shape) for shape in own.shapes], rel=0.01)
    costs = dict(zip(TERMS, own.costs("fixed"), strict=True))
    assert costs["waits"] == pytest.approx(2, abs=0.3)
    assert costs["sums"] == pytest.approx(0.3, rel=0.1)
    assert costs["far_megabytes"] == pytest.approx(0.4, rel=0.1)


def test_costs_do_not_follow_single_times(variants: list[Variant]) -> None:
    time = microseconds(variants, {"grid": {"launch": 2, "slabs": 0.05, "tiles": 0.6}})
    times = at_all(time, ["grid"])
    times["grid", SHAPES[7]] *= 3  # the only time there, so also the fastest
    own = fit.Measured(found(times), variants, GEMM, ARCH)
    right = [shape != SHAPES[7] for shape in own.shapes]
    again = own.work["grid"] @ own.costs("grid")
    expected = np.array([time("grid", shape) for shape in own.shapes])
    assert again[right] == pytest.approx(expected[right], rel=0.05)


def test_a_launch_costs_its_share_of_the_shortest_time(variants: list[Variant]) -> None:
    """Also where the times alone would not say so."""
    time = microseconds(variants, {"grid": {"slabs": 0.5}})
    own = fit.Measured(found(at_all(time, ["grid"])), variants, GEMM, ARCH)
    shortest = min(time("grid", shape) for shape in SHAPES)
    assert own.costs("grid")[TERMS.index("launch")] >= fit.LEAST_LAUNCH * shortest


def test_too_few_shapes_give_no_costs(variants: list[Variant]) -> None:
    time = microseconds(variants, {name: {"launch": 2} for name in ("grid", "other")})
    times = at_all(time, ["grid"]) | at_all(time, ["other"], SHAPES[: fit.SMALLEST - 1])
    assert fit.Measured(found(times), variants, GEMM, ARCH).names == ["grid"]


def deep(terms: int) -> str:
    return f"64x64x{terms}"


def limit(variants: list[Variant], erring: list[int], slow: list[int] | None = None) -> int:
    """Up to how many terms a variant may run that errs at some of these 200 sums."""
    shapes = [deep(terms) for terms in range(100, 20100, 100)]
    times = {(name, shape): 10.0 for shape in shapes for name in ("grid", "other")}
    times |= {("grid", deep(terms)): 20.0 for terms in slow or []}
    errors = {("grid", deep(terms)): 1.6 for terms in erring}
    rows = found(times, errors=errors)
    return fit.Measured(rows, variants, GEMM, ARCH).most_additions("grid")


def test_sums_are_limited_to_those_that_err_hardly_more(variants: list[Variant]) -> None:
    assert limit(variants, []) == 0
    # From 10000 on it errs: of the shapes up to 10200 these are 3 of 102, and up to 10100 2 of 101.
    # The last slab of 10100 terms, of eight each, is not full.
    assert limit(variants, list(range(10000, 20100, 100))) == 10104
    assert limit(variants, [500, 9000]) == 0  # two of 200: as seldom as it may
    assert limit(variants, list(range(100, 20100, 100))) == fit.FEW_ADDITIONS


def test_errors_do_not_count_where_a_variant_is_slow(variants: list[Variant]) -> None:
    late = list(range(10000, 20100, 100))
    assert limit(variants, late, slow=late) == 0


def test_an_error_counts_in_the_mean_and_at_most(variants: list[Variant]) -> None:
    rows = found({("grid", shape): 10.0 for shape in SHAPES[:4]})
    rows.loc[0, "error"], rows.loc[1, "largest_error"] = 1.51, 1.51
    rows.loc[2, ["error", "largest_error"]] = 1.49
    own = fit.Measured(rows, variants, GEMM, ARCH)
    assert list(own.errs["grid"]) == [True, True, False, False]


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
    own = fit.fitted(found(at_all(time, NAMES)), variants, GEMM, ARCH, "fixed")
    assert list(own.index[:1]) == ["fixed"]  # runs on every card, though it is never the fastest
    assert set(own.index) == {"fixed", "grid", "other"}
    assert own[list(TERMS)].notna().all(axis=None)
    assert list(own.most_additions) == [0, 0, 0] and list(own.shapes) == ["", "", ""]


def test_without_a_variant_for_every_card_there_are_those_that_are_chosen(
    variants: list[Variant],
) -> None:
    time = microseconds(variants, SPECIALISTS)
    own = fit.fitted(found(at_all(time, NAMES)), variants, GEMM, ARCH, None)
    assert set(own.index) == {"grid", "other"}


def test_a_known_shape_is_remembered_where_the_choice_loses(variants: list[Variant]) -> None:
    time = microseconds(variants, SPECIALISTS)
    times = at_all(time, NAMES)
    odd, kept, erring = "640", "100", "1024"
    special = at_all(time, NAMES, [odd, kept, erring])
    fastest = {shape: min(special[name, shape] for name in NAMES) for shape in (odd, kept, erring)}
    special["third", odd] = fastest[odd] * 0.9
    special["third", kept] = fastest[kept] * (1 - fit.SLACK / 2)
    special["third", erring] = fastest[erring] * 0.9
    rows = pd.concat([
        found(times), found(special, "known", errors={("third", erring): 1.6}),
    ])  # fmt: skip
    own = fit.fitted(rows, variants, GEMM, ARCH, "fixed")
    assert own.loc["third"].shapes == odd
    assert own.loc["third", list(TERMS)].isna().all()  # it runs there only
    assert list(own.drop("third").shapes) == ["", "", ""]


def test_a_chosen_variant_that_errs_at_a_known_shape_is_not_chosen_there(
    variants: list[Variant],
) -> None:
    time = microseconds(variants, SPECIALISTS)
    special = at_all(time, NAMES, ["640"])
    chosen, *others = sorted(NAMES, key=lambda name: special[name, "640"])
    rows = pd.concat([
        found(at_all(time, NAMES)), found(special, "known", errors={(chosen, "640"): 1.6}),
    ])  # fmt: skip
    own = fit.fitted(rows, variants, GEMM, ARCH, "fixed")
    assert own.loc[others[0]].shapes == "640"


def test_judged_shapes_are_not_fitted_to(variants: list[Variant]) -> None:
    time = microseconds(variants, SPECIALISTS)
    judged = [str(s) for s in random_shapes(Gemm, 20, 2, Gemm(64, 64, 64), Gemm(999, 999, 999))]
    nonsense = {key: 1 / value for key, value in at_all(time, NAMES, judged).items()}
    alone = fit.fitted(found(at_all(time, NAMES)), variants, GEMM, ARCH, "fixed")
    rows = pd.concat([found(at_all(time, NAMES)), found(nonsense, "judged")])
    pd.testing.assert_frame_equal(fit.fitted(rows, variants, GEMM, ARCH, "fixed"), alone)


def test_the_judgement_says_what_the_choice_loses(variants: list[Variant]) -> None:
    time = microseconds(variants, SPECIALISTS)
    judged = [str(s) for s in random_shapes(Gemm, 20, 2, Gemm(64, 64, 64), Gemm(999, 999, 999))]
    rows = pd.concat([found(at_all(time, NAMES)), found(at_all(time, NAMES, judged), "judged")])
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
    """The second search met a clock at which everything takes 1.4 times as long."""
    time = microseconds(variants, SPECIALISTS)
    first = found(at_all(time, ["grid", "fixed"]))
    second = found(
        {key: 1.4 * value for key, value in at_all(time, ["other", "third"]).items()},
        library=1.4 * LIBRARY,
    )
    own = fit.Measured(pd.concat([first, second]), variants, GEMM, ARCH)
    assert own.library.to_numpy() == pytest.approx(1.2 * LIBRARY)
    for name in NAMES:
        expected = [1.2 * time(name, shape) for shape in own.shapes]
        assert own.times[name].to_numpy() == pytest.approx(expected)


def test_rows_of_variants_that_are_no_candidates_any_more_are_left_out(
    variants: list[Variant],
) -> None:
    time = microseconds(variants, SPECIALISTS)
    rows = found(at_all(time, NAMES))
    gone = rows[rows.variant == "grid"].assign(variant="grid/gone", microseconds=0.001)
    own = fit.Measured(pd.concat([rows, gone]), variants, GEMM, ARCH)
    assert own.names == NAMES
    assert own.fastest.min() > 1


def test_a_shape_that_a_variant_refuses_is_another_ones(variants: list[Variant]) -> None:
    """It was not timed there, so it is not predicted either."""
    time = microseconds(variants, SPECIALISTS)
    times = {key: t for key, t in at_all(time, NAMES).items() if key != ("grid", SHAPES[0])}
    own = fit.Measured(found(times), variants, GEMM, ARCH)
    costs = pd.DataFrame({name: own.costs(name) for name in NAMES}, index=TERMS).T
    costs["most_additions"] = [0, 0, 0, 0]
    assert own.chosen(costs)[SHAPES[0]] != "grid"
    costs.loc["other", "most_additions"] = 1
    assert "other" not in set(own.chosen(costs))


def test_the_work_is_that_of_the_cards_multiprocessors(variants: list[Variant]) -> None:
    shape = Gemm(2048, 2048, 64)
    for arch, count in (("sm_90", 132), ("sm_75", 72)):
        rows = found({("grid", str(shape)): 1.0})
        own = fit.Measured(rows, variants, GEMM, arch)
        assert tuple(own.work["grid"][0]) == astuple(work_of(variants[0], shape, count))


def test_where_every_variant_errs_nothing_is_remembered(variants: list[Variant]) -> None:
    time = microseconds(variants, SPECIALISTS)
    errors = {(name, "640"): 1.6 for name in NAMES}
    rows = pd.concat([
        found(at_all(time, NAMES)), found(at_all(time, NAMES, ["640"]), "known", errors=errors),
    ])  # fmt: skip
    own = fit.fitted(rows, variants, GEMM, ARCH, "fixed")
    assert not any(own.shapes)
