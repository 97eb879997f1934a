"""The steps of an operation: each kernel's rate, bound, and gain over the step before it."""

from typing import Any

import pandas as pd

from matmul_sweep.catalogue.entries import Variant, kernel_name
from matmul_sweep.experiment.dataset.selection import (
    Results,
    at,
    compared_leads,
    fastest,
    fastest_own,
    leading,
    leading_own,
    quotable,
    quotient_interval,
    rate_unit,
    shapes_of,
    size_name,
    squares,
    to_fastest,
    verdict_of,
    way_of,
)
from matmul_sweep.experiment.report.facts.bounds import predicted
from matmul_sweep.experiment.report.facts.findings import marked, named
from matmul_sweep.experiment.report.facts.held_back import counted, hot_loop
from matmul_sweep.experiment.report.facts.source_code import source_code
from matmul_sweep.experiment.report.numbers import ends, judged, known, significant
from matmul_sweep.operations import shape_of
from matmul_sweep.operations.shapes import Shape

CLEAR = 1.01  # times the rate: a difference that is told


def ladder(whole: Results, operation: str) -> dict[str, Any]:
    """Every step of an operation in the data set, and what all of them gain."""
    results = whole.of(operation, reduced=True)
    shape = results.compared or largest(results.summary)
    led, timed = fastest(results.leads), fastest(results.timed())
    here = at(led, shape) if shape else led[:0]
    unit, factor = rate_unit(here.tflops)
    way = leading(here)
    steps: list[dict[str, Any]] = []
    before = None
    for name in filter(results.hand_written, results.present):
        assert shape is not None  # what is present has a row, and a row a shape
        place = own_shape(results, name, shape)
        row = row_of(led, timed, name, place)
        step = described(results, name, row, place) | {
            "rate": None if row is None else marked(row, factor, way),
            "shares": [] if row is None else shares(results, row, factor),
            "size": None if place == shape else size_name(place),
            "missing": results.absence([name], place) if row is None else None,
            "before": gain(results, before if place == shape else None, row),
        }
        steps.append(step)
        alike = row is not None and row.name in here.index and row.kernel == name
        if alike and (before is None or step["source"]["code"]):
            before = row
    climbed = stairs(results, steps, here)
    high = {s["name"]: s["rate"]["value"] for s in steps if s["name"] in climbed}
    own = quotable(results.rivals(here))
    own = own[own.kernel.map(results.hand_written).astype(bool)]
    own = own.sort_values("kernel", key=lambda names: names.map(results.position))
    best = fastest_own(results, own)
    several = len(own) and own.index[0] != best.index[0]
    return {
        "size": shape and size_name(shape),
        "way": "alone" if way == "alone" else "in turn",
        "unit": unit,
        "steps": steps,
        "stairs": climbed,
        "heights": high,
        "gain": gain(results, own.iloc[0], best.iloc[0]) if several else None,
        "overlaps": results.overlaps,
        "top": max(high, key=lambda name: high[name], default=None),
        "lead": lead(whole.of(operation), factor),
        "reduced": reduced_leads(results, factor),
    }


def row_of(led: pd.DataFrame, timed: pd.DataFrame, name: str, shape: Shape) -> pd.Series | None:
    """A kernel's time at a shape: of those that lead its own, or else that of a dispatch which ran
    it; without one that in turn, of `timed`. None if it was not timed."""
    led, timed = at(led, shape), at(timed, shape)
    ran = led.ran.map(kernel_name)
    found = pd.concat([led[led.kernel == name], led[ran == name], timed[timed.kernel == name]])
    return next((row for _, row in found.iterrows()), None)


def stairs(
    results: Results, steps: list[dict[str, Any]], here: pd.DataFrame
) -> dict[str, dict[str, Any] | None]:
    """The steps of the ladder's picture, each with its gain over the one to its left: of those that
    were timed alike at the ladder's shape the first one, those with marked lines, and the fastest.
    Kernels of other arithmetic, which other units bound, are left out."""
    best = set(fastest_own(results, results.rivals(here)).kernel)
    timed = [s for s in steps if s["name"] in {*here.kernel} and s["arithmetic"] == "full"]
    rows = [
        here[here.kernel == step["name"]].iloc[0]
        for i, step in enumerate(timed)
        if i == 0 or step["source"]["code"] or step["name"] in best
    ]
    lefts = [None, *rows[:-1]]
    return {row.kernel: gain(results, left, row) for left, row in zip(lefts, rows, strict=False)}


def largest(rows: pd.DataFrame) -> Shape | None:
    """The largest square that was tried, or without one the largest shape."""
    return next(reversed(shapes_of(squares(rows)) or shapes_of(rows)), None)


def own_shape(results: Results, name: str, shape: Shape) -> Shape:
    """The shape at which a step is reported: the ladder's, or if it does not take that, the largest
    shape that it takes and that was tried."""
    rows = results.summary[results.summary.kernel == name]
    variants = [results.variant(text) for text in rows.variant.unique()]

    def takes(other: Shape) -> bool:
        return any(variant is None or variant.refusal(other) is None for variant in variants)

    return next(filter(takes, [shape, *reversed(shapes_of(rows))]), shape)


def described(results: Results, name: str, row: pd.Series | None, shape: Shape) -> dict[str, Any]:
    """What is known about a step without timing it: about its fastest variant, if one was timed,
    and for a dispatch about the variant that it chose. `short`: its title among its like."""
    told = results.summary[results.summary.kernel == name].iloc[0] if row is None else row
    ran = results.ran(told)
    kernel = results.catalogue.get(name)
    return {
        "name": name,
        "title": results.title(name),
        "short": results.title(name).removesuffix(f" in {results.product.dtype}"),
        "arithmetic": results.arithmetic(name),
        "idea": kernel and (kernel.idea or kernel.lesson),
        **{fact: getattr(kernel, fact, None) or None for fact in ("lesson", "adds", "missed")},
        "source": source_code(kernel),
        "variant": told.variant,
        "ran": ran and ran.name,
        "bound": predicted(results, ran, shape, None if row is None else row.tflops),
        "layout": picture(ran),
        "loop": hot_loop(results, ran.name if ran else None),
        "counters": counted(results, told.variant),
    }


def picture(variant: Variant | None) -> dict[str, Any] | None:
    """The extents that are drawn, in elements: rows and columns."""
    if variant is None or variant.layout is None:
        return None
    layout = variant.layout
    names = ["tile", "warp", "thread", "piece", "pieces", "step", "slab", "stages", "teams"]
    down, across = layout.lanes
    return {name: getattr(layout, name) for name in (*names, "units")} | {
        # A warp larger than a team has lanes of several teams, which lie over one another.
        "lanes": (min(down, layout.region[0] // layout.thread[0]), across),
        "half": variant.kernel.half,
    }


def pairs_of(results: Results, row: pd.Series) -> pd.DataFrame:
    """The ratios of a row's variant, timed in its way, to the libraries that fill C."""
    pairs = results.ratios[results.ratios.variant == row.variant]
    full = ~pairs.baseline.map(results.writes_half).astype(bool)
    return pairs[full & (pairs.cache == row.cache)]


def shares(results: Results, row: pd.Series, factor: int) -> list[dict[str, Any]]:
    """The times of the libraries that fill C over a row's, from pairs of neighbours, their rates
    there, and whether they compute all of a symmetric C."""
    return [
        {
            "library": named(results, pair.baseline),
            "rate": row.tflops * factor / pair.ratio,
            "computes_all": results.computes_all(pair.baseline),
        }
        | judged(pair)
        for pair in at(pairs_of(results, row), shape_of(row)).itertuples()
    ]


def lead(results: Results, factor: int, arithmetic: str = "full") -> dict[str, Any] | None:
    """What first pages tell of the fastest kernel of that arithmetic: its rate, its speed-up over
    the fastest library routine that fills C, from the same launches, the errors of both, the
    memory that it needs beside its matrices, the other shapes at which the library is faster and
    those at which its fastest routine ties, and alone
    the kernel that is clearly `ahead` of a dispatch that leads. None if there is no such kernel,
    and without a speed-up if no library was timed with it."""
    best, every = leading_own(results, arithmetic), compared_leads(results, arithmetic)
    alone = (every.cache == "alone") & every.kernel.map(results.hand_written).astype(bool)
    own = every[alone].nlargest(1, "tflops")
    for _, row in best.iterrows():
        shape = shape_of(row)
        pairs = [pair for pair in shares(results, row, factor) if pair["interval"]]
        pair = min(pairs, key=lambda pair: pair["ratio"], default=None)
        beside = at(results.launches[results.launches.fill == row.fill], shape)
        theirs = beside.mean_error[beside.kernel == (pair and pair["library"]["name"])]
        ran = results.ran(row)
        every = pairs_of(results, row)
        every = every.drop(at(every, shape).index)
        near = to_fastest(every)
        said = pd.Series([*map(verdict_of, near.ratio_low, near.ratio_high)], near.index, object)
        ties = near[said == "tie"]
        return {
            "kernel": named(results, row.kernel, row.variant),
            "size": size_name(shape),
            "rate": row.tflops * factor,
            "speedup": pair and pair | {"way": way_of(best)},
            "errors": [known(row.mean_error), *theirs.dropna()[:1]],
            "workspace_bytes": ran and ran.workspace_bytes(shape, results.architecture),
            "slower_at": [size_name(shape) for shape in shapes_of(every[every.ratio_high < 1])],
            "tie_at": [size_name(shape) for shape in shapes_of(ties)],
            "ahead": [
                {"kernel": named(results, top.kernel), "rate": top.tflops * factor}
                for top in own[own.tflops > CLEAR * row.tflops].itertuples()
            ],
        }
    return None


def reduced_leads(results: Results, factor: int) -> dict[str, dict[str, Any]]:
    """The lead of each arithmetic but the full one, as far as they were timed."""
    own = [name for name in results.present if results.hand_written(name)]
    kinds = sorted({results.arithmetic(name) for name in own} - {"full"})
    return {kind: found for kind in kinds if (found := lead(results, factor, kind))}


def gain(view: Results, before: pd.Series | None, row: pd.Series | None) -> dict[str, Any] | None:
    """How many times as fast one step is as another, with the widest interval that theirs allow,
    and whether it is faster, slower, neither, or the same to the digits that are printed. None if
    one sweep did not time both alone: in turn they have two clocks, and two jobs may have had two
    cards."""
    if before is None or row is None or before.cache != "alone" or row.cache != "alone":
        return None
    if before.sweep != row.sweep:
        return None
    quotient, ends_of = before.time_ms / row.time_ms, quotient_interval(before, row)
    return {
        "from": {"title": view.title(before.kernel)},
        "to": {"title": view.title(row.kernel)},
        "quotient": quotient,
        "interval": ends(*ends_of),
        "verdict": "same" if significant(quotient) == "1.00" else verdict_of(*ends_of),
    }
