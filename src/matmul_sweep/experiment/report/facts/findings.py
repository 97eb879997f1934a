"""What a data set shows: the numbers of the report's sentences, without those that it lacks."""

from collections.abc import Iterator
from typing import Any

from matmul_sweep.experiment.dataset.selection import (
    Results,
    compared_errors,
    fastest,
    leading,
    leading_own,
    limits_of,
    power_capped,
    quotable,
    size_name,
    squares,
    state_absence,
    thermally_throttled,
    to_fastest,
    told_ratios,
    verdict_of,
)
from matmul_sweep.experiment.report.numbers import judged, known
from matmul_sweep.operations import OPERATIONS, shape_of
from matmul_sweep.operations.gemm import GEMM


def findings(results: Results) -> dict[str, Any]:
    """Every finding by name."""
    return {
        "shares": {name: [*shares(results.of(name))] for name in OPERATIONS},
        "accuracy": {name: accuracy(results.of(name, reduced=True)) for name in OPERATIONS},
        "card": card_state(results),
        "smallest": smallest(results.of(GEMM.name)),
        "odd_sizes": {name: odd_sizes(results.of(name)) for name in OPERATIONS},
        "power_of_two": power_of_two(results),
        "slump": slump(results),
    }


def named(results: Results, kernel: str, variant: str = "") -> dict[str, str]:
    return {"name": kernel, "title": results.title(kernel), "variant": variant}


def shares(results: Results) -> Iterator[dict[str, Any]]:
    """The largest speed-up over each library that fills C, or alone over the fastest, at the shape
    of the comparison, and the square sizes at which hand-written kernels win, and at which the best
    of them tie."""
    rows = quotable(squares(results.ratios))
    rows = rows[rows.kernel.map(results.hand_written).astype(bool)]
    way = leading(results.at_compared(rows))
    rows = told_ratios(results, rows[rows.cache == way])
    by_library = [rows[rows.baseline == library] for library in results.full_rivals]
    for own in [rows] if way == "alone" else by_library:
        verdicts = map(verdict_of, own.ratio_low, own.ratio_high)
        told = [*zip(map(int, own.n), verdicts, strict=True)]
        faster, tie = ({n for n, said in told if said == word} for word in ("faster", "tie"))
        here = results.at_compared(own)
        here = here[here.variant.isin(leading_own(results).variant)] if way == "alone" else here
        for best in here.sort_values("ratio").tail(1).itertuples():
            yield {
                "n": best.n,
                "kernel": named(results, best.kernel, best.variant),
                "library": named(results, best.baseline),
                "way": "alone" if way == "alone" else "",
                "sizes": own.n.nunique(),
                "faster_at": sorted(faster),
                "tie_at": sorted(tie - faster),
            } | judged(best)


def accuracy(results: Results) -> dict[str, Any] | None:
    """The errors of each kernel at the shape of the comparison, the smallest mean error first."""
    rows = compared_errors(results).sort_values("mean_error", kind="stable")
    if rows.empty:
        return None
    kernels = [
        named(results, row.kernel, row.variant)
        | {"arithmetic": results.arithmetic(row.kernel), "mean_error": row.mean_error}
        for row in rows.itertuples()
    ]
    return {"n": int(rows.n.iloc[0]), "kernels": kernels}


def smallest(view: Results) -> dict[str, Any] | None:
    """The smallest square, if the first step is faster than the library there: the times of both in
    µs. None if it is not, or if the two were not timed together."""
    rows = squares(view.timed())
    rows = rows[rows.n == rows.n.min()]
    times = fastest(rows).set_index("kernel").time_ms * 1e3
    first, library = view.told[:1], view.full_rivals[0]
    if not first or not {*first, library} <= {*times.index} or times[library] < times[first[0]]:
        return None
    kernels = {"kernel": first[0], "library": library}
    return {"n": int(rows.n.iloc[0])} | {
        role: {"title": view.title(name), "time_us": times[name]} for role, name in kernels.items()
    }


def odd_sizes(view: Results) -> list[dict[str, Any]]:
    """How a dispatch compares with the fastest library where rows begin anywhere: at shapes that
    somebody chose, with an odd number of columns, one launch at a time."""
    rows = quotable(view.ratios[view.ratios.kernel.map(view.is_dispatch).astype(bool)])
    for way in ("alone", "cold", "hot"):
        own = to_fastest(told_ratios(view, rows[(rows.cache == way) & (rows.n % 2 == 1)]))
        if len(own):
            return [
                {"kernel": view.title(row.kernel), "size": size_name(shape_of(row))} | judged(row)
                for row in own.itertuples()
            ]
    return []


def power_of_two(results: Results) -> dict[str, Any] | None:
    """What the triple loop takes at a square whose side is a power of two, and at a shape beside it
    with nearly as many operations, in s. None if it was not timed at both."""
    rows = results.of(GEMM.name).launches
    rows = rows[rows.kernel == "cpu_loop"].assign(terms=rows.m * rows.n * rows.k)
    for row in squares(rows).iloc[::-1].itertuples():
        near = rows[(rows.terms / row.terms).between(0.9, 1.1) & (rows.n % 2 == 1)]
        if row.n & (row.n - 1) == 0 and len(near):
            return {
                name: {"size": size_name(shape_of(own)), "time_s": own.time_ms / 1e3}
                for name, own in {"power": row, "near": next(near.itertuples())}.items()
            }
    return None


def slump(results: Results) -> dict[str, Any] | None:
    """The squares between which the rate of BLAS on the processor falls most, to less than half,
    with those rates in GFLOP/s; None if it falls nowhere so far."""
    rows = squares(results.of(GEMM.name).launches)
    rows = rows[rows.kernel == "cpu_blas"].sort_values("n").drop_duplicates("n")
    left = (rows.tflops / rows.tflops.shift()).reset_index(drop=True)
    if not (left < 0.5).any():
        return None
    last = int(left.idxmin())
    ends = rows.iloc[[last - 1, last]].itertuples()
    return {
        name: {"n": int(row.n), "gflops": 1e3 * row.tflops}
        for name, row in zip(("before", "after"), ends, strict=True)
    }


def marked(row: Any, factor: int, way: str) -> dict[str, Any]:
    """A rate in a unit, with a letter for each thing that limited the card, and `t` if it was timed
    in turn where the others were timed alone."""
    in_turn = "t" * (way == "alone" and row.cache != way)
    return {"value": float(row.tflops) * factor, "limits": limits_of(row.throttled) + in_turn}


def card_state(results: Results) -> dict[str, Any]:
    """At how many of the GPU's timed points the card slowed down, and how hot it was; or why nobody
    knows."""
    rows = results.launches[results.gpu(results.launches)]
    if rows.temperature_c.isna().all():
        return {"missing": state_absence(results.device)}
    return {
        "missing": None,
        "points": len(rows),
        "thermal": int(thermally_throttled(rows.throttled).sum()),
        "power": int(power_capped(rows.throttled).sum()),
        "temperature_c": known(rows.temperature_c.max()),
        "sm_clock_mhz": [known(rows.sm_clock_mhz.min()), known(rows.sm_clock_mhz.max())],
    }
