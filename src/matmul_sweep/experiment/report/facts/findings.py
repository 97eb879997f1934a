"""What a data set shows. Each finding has the numbers of one sentence; the report adds the words.

A finding without enough data is {"missing": why}. Every number names its cells.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from matmul_sweep.catalogue.entries import Kind
from matmul_sweep.experiment.dataset.intervals import SMALLEST
from matmul_sweep.experiment.dataset.selection import (
    Results,
    common_sizes,
    compared_errors,
    fastest,
    fastest_own,
    limits_of,
    over_hot,
    power_capped,
    quotable,
    quotient_interval,
    rate_unit,
    size_name,
    squares,
    state_absence,
    thermally_throttled,
    verdict_of,
)
from matmul_sweep.experiment.report.facts.executed_rates import (
    VECTOR,
    binding_peak,
    executed,
    float64_peak,
    rate,
)
from matmul_sweep.experiment.report.facts.quotients import quotient, shown
from matmul_sweep.experiment.report.numbers import ends, known
from matmul_sweep.operations import OPERATIONS, shape_of
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.gram import GRAM
from matmul_sweep.operations.operation import Operation

Compute = Callable[[Results], dict[str, Any]]
FINDINGS: dict[str, Compute] = {}
SETTLED = 4500  # from this size on the register tile is compared with naive
TOO_FEW = f"fewer than {SMALLEST} pairs or samples"


class Missing(Exception):
    """The data are not enough for a finding; the message says why."""


def finding(operation: Operation | None, reduced: bool = False) -> Callable[[Compute], Compute]:
    """Register a finding about one operation, or (None) about everything that was timed. `reduced`:
    with kernels of reduced arithmetic."""

    def decorate(compute: Compute) -> Compute:
        @functools.wraps(compute)
        def found(whole: Results) -> dict[str, Any]:
            return compute(whole.of(operation.name, reduced) if operation else whole)

        FINDINGS[compute.__name__] = found
        return found

    return decorate


def all_findings(results: Results) -> dict[str, dict[str, Any]]:
    """Every finding by name."""
    return {name: find(results, name) for name in FINDINGS}


def find(results: Results, name: str) -> dict[str, Any]:
    """A finding, or what is missing for it."""
    try:
        return {"missing": None, **FINDINGS[name](results)}
    except Missing as reason:
        return {"missing": str(reason)}


@finding(GEMM)
def best_share(results: Results) -> dict[str, Any]:
    """The hand-written kernel with the largest share of its library, at the compared size."""
    return largest_share(results, hand_written_ratios(results))


def largest_share(results: Results, rows: pd.DataFrame) -> dict[str, Any]:
    """The largest ratio to one library at the shape of the comparison, and where kernels win or
    tie."""
    compared = results.at_compared(rows)
    if compared.empty:
        raise Missing(f"{TOO_FEW} at {results.compared}")
    best = compared.loc[compared.ratio.idxmax()]
    return {
        "n": int(best.n),
        "cache": best.cache,
        "kernel": named(results, best.kernel, best.variant),
        "library": named(results, best.baseline, best.baseline),
        "ratio": float(best.ratio),
        "interval": ends(best.ratio_low, best.ratio_high),
        "verdict": verdict_of(best.ratio_low, best.ratio_high),
        "sizes": int(rows.n.nunique()),
    } | sizes_by_verdict(rows)


@finding(GEMM)
def highest_share(results: Results) -> dict[str, Any]:
    """The largest share of its library at any square size, and the kernel that ran there."""
    rows = hand_written_ratios(results)
    best = rows.loc[rows.ratio.idxmax()]
    own = time_row(results, best.variant, best.n, best.cache)
    ran = results.ran(own) if own is not None else None
    return {
        "n": int(best.n),
        "kernel": named(results, best.kernel, best.variant),
        "ratio": float(best.ratio),
        "ran": ran and {"title": ran.kernel.title, "lesson": ran.kernel.lesson},
    }


def hand_written_ratios(results: Results) -> pd.DataFrame:
    """Ratios of square products by CUDA kernels of the catalogue, hot ones if there are any, with
    an interval."""
    rows = results.square_ratios()
    rows = rows[rows.kernel.map(results.hand_written).astype(bool)]
    if rows.empty:
        gpu = [k for k in results.order if results.hand_written(k)]
        raise Missing(results.absence(gpu))
    if quotable(rows).empty:
        raise Missing(TOO_FEW)
    return quotable(rows)


def sizes_by_verdict(rows: pd.DataFrame) -> dict[str, list[int]]:
    """Square sizes at which some kernel is faster than its library, and among the others those with
    a tie."""
    verdicts = rows.apply(lambda row: verdict_of(row.ratio_low, row.ratio_high), axis=1)
    faster, tie = ({int(n) for n in rows[verdicts == word].n} for word in ("faster", "tie"))
    return {"faster_at": sorted(faster), "tie_at": sorted(tie - faster)}


def time_row(results: Results, variant: str, n: int, cache: str) -> pd.Series | None:
    """A variant's kernel time of the n×n product."""
    rows = squares(results.timed(cache=cache))
    rows = rows[(rows.variant == variant) & (rows.n == n)]
    return None if rows.empty else rows.iloc[0]


def named(results: Results, kernel: str, variant: str) -> dict[str, str]:
    return {"name": kernel, "title": results.title(kernel), "variant": variant}


@finding(GEMM)
def peak(results: Results) -> dict[str, Any]:
    """The highest rate of a square product, and its share of the card's float32 peak."""
    rows = squares(quotable(results.timed()))
    if rows.empty:
        raise Missing(f"no square product was timed, or with {TOO_FEW}")
    best = rows.loc[rows.tflops.idxmax()]
    ceiling = results.device.get("fp32_peak_tflops")
    unit, factor = rate_unit(rows.tflops)
    highest, most = float(best.tflops), None
    if ceiling and results.on_gpu(best.kernel):
        most = float(ceiling)
    return {
        "n": int(best.n),
        "kernel": named(results, best.kernel, best.variant),
        "rate": highest * factor,
        "unit": unit,
        "peak": most,
        "share": most and highest / most,
    }


@finding(GEMM)
def shared_over_naive(results: Results) -> dict[str, Any]:
    """How much faster shared is than naive, at the largest square size of both."""
    return versus(results, "naive", "shared")


@finding(GEMM)
def split_paths(results: Results) -> dict[str, Any]:
    """The gain of the split into whole tiles and edges over guards everywhere."""
    return versus(results, "shared_rect", "shared_rect_split")


@finding(GEMM)
def blas_over_loop(results: Results) -> dict[str, Any]:
    """What a library makes of the same processor."""
    return versus(results, "cpu_loop", "cpu_blas")


def versus(results: Results, slow: str, fast: str) -> dict[str, Any]:
    """Time of one kernel over another's at the largest common square size, fastest variants."""
    return compared_at(results, slow, fast)[-1]


def compared_at(results: Results, slow: str, fast: str) -> list[dict[str, Any]]:
    """The same at each common square size with enough samples, at least one. Raises Missing."""
    rows = squares(fastest(results.timed()))
    sizes = sizes_of_both(results, rows, slow, fast)
    sure = [n for n in sizes if n in common_sizes(quotable(rows), [slow, fast])]
    if not sure:
        raise Missing(TOO_FEW)
    found = [at_size for n in sure if (at_size := quotient_at(results, rows, slow, fast, n))]
    if not found:
        raise Missing("the card was at its power limit, and nothing was timed in turn with both")
    return found


def sizes_of_both(results: Results, rows: pd.DataFrame, slow: str, fast: str) -> list[int]:
    """Square sizes of two kernels, at least one. Raises Missing."""
    sizes = common_sizes(rows, [slow, fast])
    if not sizes:
        absent = next((k for k in (slow, fast) if rows[rows.kernel == k].empty), None)
        why = results.absence([absent]) if absent else "they have no size in common"
        raise Missing(why)
    return sizes


def quotient_at(
    results: Results, rows: pd.DataFrame, slow: str, fast: str, n: int
) -> dict[str, Any] | None:
    """Time of one kernel over another's at one size; None if they cannot be compared there."""
    one, other = (rows[(rows.kernel == k) & (rows.n == n)].iloc[0] for k in (slow, fast))
    found = quotient(results, one, other)
    if found is None:
        return None
    return {
        "n": int(n),
        "slow": named(results, slow, one.variant) | {"time_ms": float(one.time_ms)},
        "fast": named(results, fast, other.variant) | {"time_ms": float(other.time_ms)},
    } | found.facts(results)


def verdict(one: pd.Series, other: pd.Series) -> str:
    """What the intervals of two times say about `other`: a tie if they overlap."""
    return verdict_of(*quotient_interval(one, other))


@finding(GEMM)
def over_cpu(results: Results) -> dict[str, Any]:
    """The fastest GPU kernel over the two CPU kernels, at the largest size of each."""
    rows = squares(quotable(fastest(results.timed())))
    gpu = rows[results.gpu(rows)]
    found = {}
    for base in ("cpu_loop", "cpu_blas"):
        common = rows[(rows.kernel == base) & rows.n.isin(gpu.n)]
        if common.empty:
            continue
        slow = common.loc[common.n.idxmax()]
        same = gpu[gpu.n == slow.n]
        best = same.loc[same.time_ms.idxmin()]
        found[base] = {
            "n": int(slow.n),
            "base": named(results, base, slow.variant),
            "kernel": named(results, best.kernel, best.variant),
            "quotient": float(slow.time_ms) / float(best.time_ms),
            "verdict": verdict(slow, best),
        }
    if not found:
        gpu_kernels = [kernel for kernel in results.present if results.on_gpu(kernel)]
        for kernels in (gpu_kernels, ["cpu_loop", "cpu_blas"]):
            if not results.timed().kernel.isin(kernels).any():
                raise Missing(results.absence(kernels))
        raise Missing(TOO_FEW)
    return {"over": list(found.values())}


@finding(GEMM)
def tile_widths(results: Results) -> dict[str, Any]:
    """Document 001's question: which tile width is faster, at equal n."""
    rows = squares(results.timed())
    wanted = [k for k in results.of_document("001")
              if "TILE_WIDTH" in results.catalogue[k].variants[0].parameters]  # fmt: skip
    kernels = [entry for kernel in wanted if (entry := widths_of(results, rows, kernel))]
    if not kernels:
        raise Missing(results.absence(wanted))
    return {"kernels": kernels}


def widths_of(results: Results, rows: pd.DataFrame, kernel: str) -> dict[str, Any] | None:
    """The smallest and the largest width of a kernel at each size at which both were timed."""
    variants = sorted(results.catalogue[kernel].variants, key=lambda v: v.parameters["TILE_WIDTH"])
    narrow, wide = variants[0], variants[-1]
    both = [rows[rows.variant == variant.name].set_index("n", drop=False) for variant in
            (narrow, wide)]  # fmt: skip
    sizes = [int(n) for n in both[0].index if n in both[1].index]
    if not sizes or narrow == wide:
        return None
    entries = [width_row(results, rows, narrow.name, wide.name, n) for n in sizes]
    by_verdict = {word: [e["n"] for e in entries if e["wide_is"] == word]
                  for word in ("faster", "slower", "tie", "unknown")}  # fmt: skip
    widths = [variant.parameters["TILE_WIDTH"] for variant in (narrow, wide)]
    return named(results, kernel, "") | {"widths": widths, "rows": entries} | by_verdict


def width_row(
    results: Results, rows: pd.DataFrame, narrow: str, wide: str, n: int
) -> dict[str, Any]:
    """Both widths at one size."""
    one, other = (rows[(rows.variant == v) & (rows.n == n)].iloc[0] for v in (narrow, wide))
    found = quotient(results, one, other)
    return {
        "n": n,
        "times_ms": [float(row.time_ms) for row in (one, other)],
        "quotient": found and found.value,
        "wide_is": verdict_of(found.low, found.high) if found else "unknown",
    }


@finding(GEMM)
def copies(results: Results) -> dict[str, Any]:
    """The cost of the copies compared with the kernel, at the largest square size."""
    entries = [
        entry for kernel in ("cublas_sgemm", "shared") if (entry := copies_of(results, kernel))
    ]
    if not entries:
        timed = results.timed("unified").kernel.isin(["cublas_sgemm", "shared"]).any()
        raise Missing(TOO_FEW if timed else results.absence(["cublas_sgemm", "shared"]))
    return {"kernels": entries}


def copies_of(results: Results, kernel: str) -> dict[str, Any] | None:
    """All phases of a kernel's fastest variant, at the largest square size at which all of them
    have enough samples; None if there is none."""
    names = ("kernel", "h2d", "d2h", "end_to_end", "unified")
    timed = {name: squares(quotable(results.timed(name))) for name in names}
    best = fastest(timed["kernel"])
    for row in reversed([*best[best.kernel == kernel].itertuples()]):
        own = {name: rows[(rows.variant == row.variant) & (rows.n == row.n)]
               for name, rows in timed.items()}  # fmt: skip
        if all(len(rows) for rows in own.values()):
            break
    else:
        return None
    phases = {name: float(rows.iloc[0].time_ms) for name, rows in own.items()}
    quotients = {
        "copies_over_kernel": (phases["h2d"] + phases["d2h"]) / phases["kernel"],
        "end_to_end_over_kernel": phases["end_to_end"] / phases["kernel"],
        "unified_over_end_to_end": phases["unified"] / phases["end_to_end"],
    }
    return {"n": int(row.n)} | named(results, kernel, row.variant) | phases | quotients


@finding(GEMM, reduced=True)
def accuracy(results: Results) -> dict[str, Any]:
    """Rate and errors of each kernel at the largest common size, the smallest mean error first."""
    rows = compared_errors(results).sort_values("mean_error", kind="stable")
    if rows.empty:
        raise Missing(results.absence(results.order))
    unit, factor = rate_unit(rows.tflops)
    return {
        "n": int(rows.n.iloc[0]),
        "unit": unit,
        "kernels": [
            named(results, row.kernel, row.variant)
            | {"arithmetic": results.arithmetic(row.kernel)}
            | {"rate": float(row.tflops) * factor, "limits": limits_of(row.throttled)}
            | {name: float(row[name]) for name in ("mean_error", "largest_error", "error")}
            for _, row in rows.iterrows()
        ],
    }


@finding(None)
def fills(results: Results) -> dict[str, Any]:
    """The effect of the inputs' fill on rate and power, for each kernel timed with several
    fills."""
    kernels = []
    for rows in studied(results, "fill"):
        slow, fast = (rows.loc[place] for place in (rows.tflops.idxmin(), rows.tflops.idxmax()))
        quotient = float(fast.tflops) / float(slow.tflops)
        kernels.append(
            study_facts(results, rows, "fill")
            | {
                "slow": slow.fill,
                "fast": fast.fill,
                "quotient": quotient,
                "verdict": shown(quotient, verdict(slow, fast)),
                "power": power_span(rows),
            }
        )
    return {"kernels": kernels}


@finding(None)
def sustained(results: Results) -> dict[str, Any]:
    """The effect of seconds of load on each kernel's rate, compared with samples taken at once."""
    kernels = []
    for rows in studied(results, "mode"):
        burst, load = (row for _, row in rows.iterrows())
        quotient = float(load.tflops) / float(burst.tflops)
        change = quotient - 1
        kernels.append(
            study_facts(results, rows, "mode")
            | {"change": change, "verdict": shown(quotient, verdict(burst, load))}
        )
    return {"kernels": kernels}


def studied(results: Results, axis: str) -> list[pd.DataFrame]:
    """The rows of each kernel with more than one value of `axis`. Raises Missing if there is
    none."""
    rows = results.study_points(axis)
    groups = [rows[rows.kernel == kernel] for kernel in results.order]
    found = [own for own in groups if len(own) > 1]
    if not found:
        raise Missing(results.study_absence(axis))
    return found


def study_facts(results: Results, rows: pd.DataFrame, axis: str) -> dict[str, Any]:
    """One kernel of a study: where it was measured, and rate and state at each value of `axis`."""
    first = rows.iloc[0]
    unit, factor = rate_unit(rows.tflops)
    states = ("sm_clock_mhz", "power_w", "temperature_c")
    return named(results, first.kernel, first.variant) | {
        "size": size_name(shape_of(first)),
        "unit": unit,
        "rows": [
            {"value": row[axis], "rate": float(row.tflops) * factor}
            | {"limits": limits_of(row.throttled)}
            | {name: known(row[name]) for name in states}
            for _, row in rows.iterrows()
        ],
    }


def power_span(rows: pd.DataFrame) -> dict[str, Any] | None:
    """The fills with the least and the most power, and the quotient; None if it is not known."""
    if rows.power_w.isna().all():
        return None
    least, most = (rows.loc[place] for place in (rows.power_w.idxmin(), rows.power_w.idxmax()))
    powers = [float(row.power_w) for row in (least, most)]
    return {
        "least": least.fill,
        "most": most.fill,
        "watts": powers,
        "quotient": powers[1] / powers[0],
    }


@finding(None)
def hot_and_cold(results: Results) -> dict[str, Any]:
    """At how many points the intervals of hot and cold times do not overlap, by operation."""
    counts = {}
    for operation in OPERATIONS:
        pairs = over_hot(results.of(operation), "cold")
        verdicts = [verdict_of(row.ratio_low, row.ratio_high) for row in pairs.itertuples()]
        if verdicts:
            words = ("faster", "slower", "tie", "unknown")  # of the hot time
            counts[operation] = {word: verdicts.count(word) for word in words}
    if not counts:
        raise Missing("no kernel was timed both hot and cold")
    return {"points": counts}


@finding(None)
def throttling(results: Results) -> dict[str, Any]:
    """At how many of the GPU's timed points the card slowed down, and why."""
    rows = results.launches[results.gpu(results.launches)]
    if rows.empty:
        raise Missing("nothing was timed on a GPU")
    if rows.temperature_c.isna().all():
        raise Missing(f"not recorded: {state_absence(results.device)}")
    return {
        "points": len(rows),
        "thermal": int(thermally_throttled(rows.throttled).sum()),
        "power": int(power_capped(rows.throttled).sum()),
        "reasons": sorted({r for text in rows.throttled.dropna() for r in text.split("+") if r}),
        "temperature_c": extremes(rows, "temperature_c"),
        "sm_clock_mhz": extremes(rows, "sm_clock_mhz"),
        "memory_clock_mhz": extremes(rows, "memory_clock_mhz"),
        "power_w": extremes(rows, "power_w"),
    }


def extremes(rows: pd.DataFrame, column: str) -> Sequence[float] | None:
    """The smallest and the largest value of a column."""
    if rows[column].isna().all():
        return None
    places = (rows[column].idxmin(), rows[column].idxmax())
    return [float(rows.loc[place][column]) for place in places]


@finding(GRAM)
def gram_share(results: Results) -> dict[str, Any]:
    """The best hand-written kernel compared with the library's general and symmetric product."""
    rows = hand_written_ratios(results)
    against = [rows[rows.baseline == library] for library in results.full_rivals]
    found = [largest_share(results, own) for own in against if not own.empty]
    if not found:
        raise Missing(results.absence(results.full_rivals))
    return {"against": found}


@finding(GRAM)
def gram_over_naive(results: Results) -> dict[str, Any]:
    """The gain of the register tile: at the largest square size, and the least from SETTLED on."""
    found = compared_at(results, "gram_naive", "gram_register_tile")
    settled = [entry for entry in found if entry["n"] >= SETTLED]
    return found[-1] | {
        "settled": SETTLED,
        "least": min(settled, key=lambda one: one["quotient"]) if settled[1:] else None,
    }


@finding(GRAM)
def gram_symmetry(results: Results) -> dict[str, Any]:
    """What the library gains by symmetry, and what n(n+1)/2 elements instead of n² could gain."""
    found = versus(results, *results.product.rivals[:2])
    n = found["n"]
    return found | {"possible": 2 * n / (n + 1)}


@finding(GRAM)
def gram_mirroring(results: Results) -> dict[str, Any]:
    """The cost of filling the other triangle for the library's symmetric product."""
    return versus(results, "cublas_dsyrk", "cublas_dsyrk_triangle")


@finding(GRAM)
def gram_peaks(results: Results) -> dict[str, Any]:
    """The highest rates of squares by the operations executed, as shares of the units' peaks."""
    timed = squares(results.timed())
    rows = quotable(timed[results.gpu(timed)])
    if rows.empty:
        raise Missing(TOO_FEW if results.gpu(timed).any() else results.gpu_absence())
    unit, factor = rate_unit(rows.tflops)
    general, symmetric = (rows[rows.kernel == name] for name in results.product.rivals[:2])
    own = rows[rows.kernel.map(results.hand_written).astype(bool)]
    parts = [("half", own), ("full", general), ("half", symmetric)]
    return {
        "unit": unit,
        "rates": [
            highest_rate(results, found, part, factor) for part, found in parts if not found.empty
        ],
    }


def highest_rate(results: Results, rows: pd.DataFrame, part: str, factor: int) -> dict[str, Any]:
    """The highest rate of these rows, by the operations executed and as a share of its peak.

    For a library, `ceiling` is the speed of a kernel at the vector units' full peak over its own.
    """
    best = rows.loc[rows.tflops.idxmax()]
    highest = rate(executed(shape_of(best), part), float(best.time_ms))
    units, bound = binding_peak(results, best) or (None, None)
    vector = float64_peak(results, VECTOR) if results.kind(best.kernel) is Kind.LIBRARY else None
    return {
        "n": int(best.n),
        "kernel": named(results, best.kernel, best.variant),
        "part": part,
        "rate": highest * factor,
        "units": units,
        "peak": bound and bound * factor,
        "share": bound and highest / bound,
        "ceiling": vector and vector / float(best.tflops),
    }


@finding(GRAM)
def gram_tile_widths(results: Results) -> dict[str, Any]:
    """The time of each variant of the register tile at each square size, and the fastest by its
    share of the library."""
    rows = squares(results.timed())
    rows = rows[rows.kernel == "gram_register_tile"]
    kernel = results.catalogue.get("gram_register_tile")
    if rows.empty or kernel is None:
        raise Missing(results.absence(["gram_register_tile"]))
    timed = [variant for variant in kernel.variants if variant.name in set(rows.variant)]
    timed.sort(key=lambda variant: variant.tile)
    by_size = [
        tile_row(results, own, [variant.name for variant in timed]) for _, own in rows.groupby("n")
    ]
    names = [variant.tiling for variant in timed]
    return named(results, kernel.name, "") | {
        "variants": [
            {"name": name, "fastest_at": [row["n"] for row in by_size if row["fastest"] == i]}
            for i, name in enumerate(names)
        ],
        "rows": by_size,
    }


def tile_row(results: Results, rows: pd.DataFrame, variants: Sequence[str]) -> dict[str, Any]:
    """The times of the variants at one size, and which is the fastest."""
    own = {row.variant: row for _, row in rows.iterrows()}
    times = [float(own[name].time_ms) if name in own else None for name in variants]
    return {
        "n": int(rows.n.iloc[0]),
        "times_ms": times,
        "fastest": list(variants).index(fastest_own(results, rows).variant.iloc[0]),
    }


@finding(GRAM)
def gram_blas_over_loop(results: Results) -> dict[str, Any]:
    """What a library makes of the same processor, for AᵀA."""
    return versus(results, "gram_cpu_loop", "gram_cpu_blas")
