"""The hand-written kernels of an operation as steps, in the order of the catalogue: each with its
tiles, its code, its bound, and its gain.

A kernel whose source has marked lines is told on a page. The gain of a step is that over the last
such kernel before it, or the first of all, since the kernels between them are variations.
"""

from typing import Any

import pandas as pd

from matmul_sweep.catalogue.architectures import ARCHITECTURES
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.selection import (
    Results,
    at,
    fastest,
    fastest_own,
    limits_of,
    quotable,
    rate_unit,
    shapes_of,
    size_name,
    squares,
    verdict_of,
)
from matmul_sweep.experiment.report.facts.bounds import predicted
from matmul_sweep.experiment.report.facts.held_back import counted, hot_loop
from matmul_sweep.experiment.report.facts.quotients import quotient
from matmul_sweep.experiment.report.facts.source_code import source_code
from matmul_sweep.experiment.report.numbers import ends, known
from matmul_sweep.operations import shape_of
from matmul_sweep.operations.shapes import Shape


def ladder(whole: Results, operation: str) -> dict[str, Any]:
    """Every step of an operation in the data set, and what all of them gain."""
    results = whole.of(operation, reduced=True)
    own = [name for name in results.present if results.hand_written(name)]
    timed = fastest(results.timed())
    shape = results.compared or largest(results.summary)
    here = at(timed, shape) if shape else timed[:0]
    unit, factor = rate_unit(here.tflops)
    steps: list[dict[str, Any]] = []
    before = None
    for name in own:
        assert shape is not None  # what is present has a row, and a row a shape
        place = own_shape(results, name, shape)
        apart = place != shape
        row = next((row for _, row in at(timed[timed.kernel == name], place).iterrows()), None)
        missing = results.absence([name], place) if row is None else None
        steps.append(
            {"name": name, "title": results.title(name)}
            | described(results, name, row, place)
            | measured(results, row, factor)
            | {
                "size": size_name(place) if apart else None,
                "missing": missing,
                "before": None if apart else gain(results, before, row),
            }
            | only(results, name, shape, missing)
        )
        if row is not None and not apart and (before is None or steps[-1]["source"]["code"]):
            before = row
    return {
        "size": shape and size_name(shape),
        "unit": unit,
        "steps": steps,
        "stairs": stairs(results, steps, here),
        "gain": whole_gain(results, here),
        "overlaps": results.overlaps,
    }


def stairs(results: Results, steps: list[dict[str, Any]], here: pd.DataFrame) -> list[str]:
    """The steps of the staircase, of those that were timed at the ladder's shape: the first one,
    those with a page, and the fastest. Kernels of other arithmetic, which other units bound, are
    left out."""
    timed = [
        step
        for step in steps
        if step["rate"] and not step["size"] and step["arithmetic"] == "full"
    ]  # fmt: skip
    best = set(fastest_own(results, results.rivals(here)).kernel)
    return [
        step["name"]
        for i, step in enumerate(timed)
        if i == 0 or step["source"]["code"] or step["name"] in best
    ]


def largest(rows: pd.DataFrame) -> Shape | None:
    """The largest square that was tried, or without one the largest shape."""
    shapes = shapes_of(squares(rows) if len(squares(rows)) else rows)
    return shapes[-1] if shapes else None


def refusals(results: Results, name: str, shape: Shape) -> dict[str, Variant]:
    """The variants of a step that does not take a shape, by reason; empty if one takes it or is not
    known to refuse it."""
    texts = results.summary[results.summary.kernel == name].variant.unique()
    variants = [results.variant(text) for text in texts]
    found = {variant and variant.refusal(shape): variant for variant in variants}
    if None in found:
        return {}
    return {reason: variant for reason, variant in found.items() if reason and variant}


def own_shape(results: Results, name: str, shape: Shape) -> Shape:
    """The shape at which a step is reported: the ladder's, or if it does not take that, the largest
    shape that it takes and that was tried."""
    if not refusals(results, name, shape):
        return shape
    tried = shapes_of(results.summary[results.summary.kernel == name])
    return next((own for own in reversed(tried) if not refusals(results, name, own)), shape)


def only(results: Results, name: str, shape: Shape, missing: str | None) -> dict[str, int]:
    """The most rows and columns of C that a step takes, if that is why it has no time at the
    ladder's shape; otherwise 0."""
    found = refusals(results, name, shape)
    if missing is not None and missing not in found:
        found = {}
    return {
        "only_rows": max((variant.most_rows for variant in found.values()), default=0),
        "only_columns": max((variant.most_columns for variant in found.values()), default=0),
    }


def described(results: Results, name: str, row: pd.Series | None, shape: Shape) -> dict[str, Any]:
    """What is known about a step without timing it: about its fastest variant, if one was timed,
    and for a dispatch about the variant that it chose."""
    told = results.summary[results.summary.kernel == name].iloc[0] if row is None else row
    ran = results.ran(told)
    kernel, bound = results.catalogue.get(name), predicted(results, ran, shape)
    return {
        "arithmetic": results.arithmetic(name),
        "adds": (kernel and kernel.adds) or None,
        "missed": (kernel and kernel.missed) or None,
        "source": source_code(kernel),
        "variant": told.variant,
        "ran": ran and ran.name,
        "bound": bound and bound.facts(None if row is None else float(row.tflops)),
        "layout": picture(ran),
        "resources": resources(results, ran),
        "loop": hot_loop(results, ran.name if ran else None),
        "counters": counted(results, told.variant),
    }


def picture(variant: Variant | None) -> dict[str, Any] | None:
    """The extents that are drawn, in elements: rows and columns."""
    if variant is None or variant.layout is None:
        return None
    layout = variant.layout
    down, across = layout.lanes
    return {
        "tile": layout.tile,
        "warp": layout.warp,
        "thread": layout.thread,
        "piece": layout.piece,
        "pieces": layout.pieces,
        "step": layout.step,
        # A warp larger than a team has lanes of several teams, which lie over one another.
        "lanes": (min(down, layout.region[0] // layout.thread[0]), across),
        "slab": layout.slab,
        "stages": layout.stages,
        "teams": layout.teams,
        "half": variant.kernel.half,
        "units": layout.units,
    }


def resources(results: Results, variant: Variant | None) -> dict[str, Any]:
    """The resources of a block, as far as the compiler's record tells them."""
    if variant is None:
        return {}
    record = results.kernels[results.kernels.variant == variant.name]
    counts = {
        name: known(record.iloc[0][name]) if len(record) else None
        for name in ("registers", "spill_bytes", "occupancy")
    }
    occupancy = counts.pop("occupancy")
    threads = variant.block[0] * variant.block[1]
    limits = ARCHITECTURES.get(results.device.get("compute_capability", ""))
    most = limits and limits.threads
    blocks = occupancy and most and occupancy * most / threads
    return {
        "occupancy": occupancy,
        "blocks": blocks and round(blocks),
    } | {name: count and int(count) for name, count in counts.items()}


def measured(results: Results, row: pd.Series | None, factor: int) -> dict[str, Any]:
    """Rate and shares of the libraries at the shape of a row; None and none without a row."""
    if row is None:
        return {"rate": None, "shares": []}
    ratios = results.ratios[
        (results.ratios.variant == row.variant) & (results.ratios.cache == row.cache)
    ]
    rate = float(row.tflops) * factor
    return {
        "rate": {"value": rate, "limits": limits_of(row.throttled)},
        "shares": [
            share(results, pair, rate)
            for _, pair in at(ratios, shape_of(row)).iterrows()
            if not results.writes_half(pair.baseline)
        ],
    }


def share(results: Results, pair: pd.Series, rate: float) -> dict[str, Any]:
    """A library's time over the kernel's, from pairs of neighbours, and its rate in them."""
    return {
        "library": {"title": results.title(pair.baseline)},
        "ratio": float(pair.ratio),
        "rate": rate / float(pair.ratio),
        "interval": ends(pair.ratio_low, pair.ratio_high),
        "verdict": verdict_of(pair.ratio_low, pair.ratio_high),
    }


def gain(
    results: Results, before: pd.Series | None, row: pd.Series | None
) -> dict[str, Any] | None:
    """The time of one step over another's; None if they cannot be compared."""
    if before is None or row is None or not (found := quotient(results, before, row)):
        return None
    return {
        "from": {"title": results.title(before.kernel)},
        "to": {"title": results.title(row.kernel)},
    } | found.facts(results)


def whole_gain(results: Results, here: pd.DataFrame) -> dict[str, Any] | None:
    """The gain from the first step to the fastest, among rows with enough samples at one shape."""
    rows = quotable(results.rivals(here))
    own = rows[rows.kernel.map(results.hand_written).astype(bool)]
    own = own.sort_values("kernel", key=lambda names: names.map(results.position))
    best = fastest_own(results, own)
    if own.empty or own.index[0] == best.index[0]:
        return None
    return gain(results, own.iloc[0], best.iloc[0])
