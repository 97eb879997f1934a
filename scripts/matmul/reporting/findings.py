"""What a data set shows, each finding the numbers of one sentence: the report only words them.

A finding that the data do not bear out is {"missing": why}. Every number names its cells.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from matmul.reporting.results import (
    Results,
    common_sizes,
    fastest,
    rate_unit,
    squares,
    thermally_throttled,
)
from matmul.reporting.traced import Number, cell

FINDINGS: dict[str, Callable[[Results], dict[str, Any]]] = {}
POWER = "power_cap"


class Missing(Exception):
    """The data do not bear a finding; the message says why."""


def finding(compute: Callable[[Results], dict[str, Any]]) -> Callable[[Results], dict[str, Any]]:
    FINDINGS[compute.__name__] = compute
    return compute


def all_findings(results: Results) -> dict[str, dict[str, Any]]:
    """Every finding by name, or what is missing for it."""
    found = {}
    for name, compute in FINDINGS.items():
        try:
            found[name] = {"missing": None} | compute(results)
        except Missing as reason:
            found[name] = {"missing": str(reason)}
    return found


@finding
def best_share(results: Results) -> dict[str, Any]:
    """The hand-written kernel with the largest share of its library, at the largest square size."""
    rows = hand_written_ratios(results)
    largest = rows[rows.n == rows.n.max()]
    best = largest.loc[largest.ratio.idxmax()]
    own, library = (
        time_row(results, column, best.n, best.cache) for column in (best.variant, best.baseline)
    )
    return {
        "n": int(best.n),
        "cache": best.cache,
        "kernel": named(results, best.kernel, best.variant),
        "library": named(results, best.baseline, best.baseline),
        "ratio": cell(best, "ratio", "ratios.csv").json(),
        "interval": interval(best),
        "rate": cell(own, "tflops").json() if own is not None else None,
        "library_rate": cell(library, "tflops").json() if library is not None else None,
        "faster_at": sizes_above_one(rows),
    }


def hand_written_ratios(results: Results) -> pd.DataFrame:
    """Ratios of square products by CUDA kernels of the catalogue, hot where there are any."""
    rows = results.square_ratios()
    rows = rows[rows.kernel.map(results.language) == "cuda"]
    if rows.empty:
        gpu = [kernel for kernel in results.present if results.language(kernel) == "cuda"]
        raise Missing(results.absence(gpu))
    return rows


def interval(row: pd.Series) -> list[dict[str, Any]] | None:
    """The ratio's 95% interval, None where there were too few pairs for one."""
    ends = [cell(row, column, "ratios.csv") for column in ("ratio_low", "ratio_high")]
    return [end.json() for end in ends] if all(ends) else None


def sizes_above_one(rows: pd.DataFrame) -> list[int]:
    """Square sizes at which some kernel is faster than its library, by the whole interval."""
    return sorted({int(n) for n in rows[rows.ratio_low > 1].n})


def time_row(results: Results, variant: str, n: int, cache: str) -> pd.Series | None:
    """A variant's kernel time of the n×n product."""
    rows = squares(results.timed(cache=cache))
    rows = rows[(rows.variant == variant) & (rows.n == n)]
    return None if rows.empty else rows.iloc[0]


def named(results: Results, kernel: str, variant: str) -> dict[str, str]:
    return {"name": kernel, "title": results.title(kernel), "variant": variant}


@finding
def peak(results: Results) -> dict[str, Any]:
    """The highest rate of a square product, and its share of the card's float32 peak."""
    rows = squares(results.timed())
    if rows.empty:
        raise Missing("no square product was timed")
    best = rows.loc[rows.tflops.idxmax()]
    ceiling = results.device.get("fp32_peak_tflops")
    unit, factor = rate_unit(rows.tflops)
    rate, share = cell(best, "tflops"), None
    if ceiling and results.on_gpu(best.kernel):
        share = rate / Number(ceiling, "device.json:fp32_peak_tflops")
    return {
        "n": int(best.n),
        "kernel": named(results, best.kernel, best.variant),
        "rate": rate.times(factor).json(),
        "unit": unit,
        "peak": Number(ceiling, "device.json:fp32_peak_tflops").json() if share else None,
        "share": share.json() if share else None,
    }


@finding
def shared_over_naive(results: Results) -> dict[str, Any]:
    """How much sooner shared is done than naive, at the largest square size of both."""
    return versus(results, "naive", "shared")


@finding
def split_paths(results: Results) -> dict[str, Any]:
    """What the split into whole tiles and edges gains over guards everywhere."""
    return versus(results, "shared_rect", "shared_rect_split")


@finding
def blas_over_loop(results: Results) -> dict[str, Any]:
    """What a library makes of the same processor."""
    return versus(results, "cpu_loop", "cpu_blas")


def versus(results: Results, slow: str, fast: str) -> dict[str, Any]:
    """Time of one kernel over another's at the largest common square size, fastest variants."""
    rows = squares(fastest(results.timed()))
    sizes = common_sizes(rows, [slow, fast])
    if not sizes:
        absent = next((k for k in (slow, fast) if rows[rows.kernel == k].empty), None)
        why = results.absence([absent]) if absent else "they have no size in common"
        raise Missing(why)
    one, other = (rows[(rows.kernel == k) & (rows.n == sizes[-1])].iloc[0] for k in (slow, fast))
    quotient = cell(one, "time_ms") / cell(other, "time_ms")
    return {
        "n": int(sizes[-1]),
        "slow": named(results, slow, one.variant) | {"time_ms": cell(one, "time_ms").json()},
        "fast": named(results, fast, other.variant) | {"time_ms": cell(other, "time_ms").json()},
        "quotient": quotient.json(),
        "verdict": verdict(one, other),
    }


def verdict(one: pd.Series, other: pd.Series) -> str:
    """Whether `other` is faster or slower than `one` by their intervals.

    `alike` where the intervals overlap, `unknown` where samples were too few for one.
    """
    if pd.isna([one.time_low_ms, other.time_low_ms]).any():
        return "unknown"
    if other.time_high_ms < one.time_low_ms:
        return "faster"
    return "slower" if other.time_low_ms > one.time_high_ms else "alike"


@finding
def over_cpu(results: Results) -> dict[str, Any]:
    """The fastest GPU kernel over the CPU's two, at the largest size that each was measured at."""
    rows = squares(fastest(results.timed()))
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
            "quotient": (cell(slow, "time_ms") / cell(best, "time_ms")).json(),
        }
    if not found:
        gpu_kernels = [kernel for kernel in results.present if results.on_gpu(kernel)]
        raise Missing(results.absence(gpu_kernels))
    return {"over": list(found.values())}


@finding
def tile_widths(results: Results) -> dict[str, Any]:
    """Document 001's question: which tile width is faster, at equal n."""
    rows = squares(results.timed())
    wanted = [k for k in results.of_document("001")
              if "TILE_WIDTH" in results.catalogue[k].parameters]  # fmt: skip
    kernels = [entry for kernel in wanted if (entry := widths_of(results, rows, kernel))]
    if not kernels:
        raise Missing(results.absence(wanted))
    return {"kernels": kernels}


def widths_of(results: Results, rows: pd.DataFrame, kernel: str) -> dict[str, Any] | None:
    """The smallest and the largest width of a kernel at each size that both were timed at."""
    variants = sorted(results.catalogue[kernel].variants, key=lambda v: v.parameters["TILE_WIDTH"])
    narrow, wide = variants[0], variants[-1]
    both = [rows[rows.variant == variant.name].set_index("n", drop=False) for variant in
            (narrow, wide)]  # fmt: skip
    sizes = [int(n) for n in both[0].index if n in both[1].index]
    if not sizes or narrow == wide:
        return None
    entries = [width_row(rows, narrow.name, wide.name, n) for n in sizes]
    by_verdict = {word: [e["n"] for e in entries if e["wide_is"] == word]
                  for word in ("faster", "slower", "alike", "unknown")}  # fmt: skip
    widths = [variant.parameters["TILE_WIDTH"] for variant in (narrow, wide)]
    return named(results, kernel, "") | {"widths": widths, "rows": entries} | by_verdict


def width_row(rows: pd.DataFrame, narrow: str, wide: str, n: int) -> dict[str, Any]:
    """Both widths at one size."""
    one, other = (rows[(rows.variant == v) & (rows.n == n)].iloc[0] for v in (narrow, wide))
    times = [cell(row, "time_ms") for row in (one, other)]
    return {
        "n": n,
        "times_ms": [time.json() for time in times],
        "quotient": (times[0] / times[1]).json(),
        "wide_is": verdict(one, other),
    }


@finding
def copies(results: Results) -> dict[str, Any]:
    """What the copies cost beside the kernel, at the largest square size."""
    entries = [
        entry for kernel in ("cublas_sgemm", "shared") if (entry := copies_of(results, kernel))
    ]
    if not entries:
        raise Missing(results.absence(["cublas_sgemm", "shared"]))
    return {"kernels": entries}


def copies_of(results: Results, kernel: str) -> dict[str, Any] | None:
    """All phases of the variant of a kernel that is fastest at its largest square size."""
    best = squares(fastest(results.timed()))
    best = best[best.kernel == kernel]
    phases = {}
    for phase in ("kernel", "h2d", "d2h", "end_to_end", "unified") if len(best) else ():
        rows = squares(results.timed(phase))
        rows = rows[(rows.variant == best.iloc[-1].variant) & (rows.n == best.iloc[-1].n)]
        if rows.empty:
            return None
        phases[phase] = cell(rows.iloc[0], "time_ms")
    if not phases:
        return None
    quotients = {
        "copies_over_kernel": (phases["h2d"] + phases["d2h"]) / phases["kernel"],
        "end_to_end_over_kernel": phases["end_to_end"] / phases["kernel"],
        "unified_over_end_to_end": phases["unified"] / phases["end_to_end"],
    }
    return (
        {"n": int(best.iloc[-1].n)}
        | named(results, kernel, best.iloc[-1].variant)
        | {name: value.json() for name, value in (phases | quotients).items()}
    )


@finding
def throttling(results: Results) -> dict[str, Any]:
    """At how many of the GPU's timed points the card slowed down, and why."""
    rows = results.summary[(results.summary.phase == "kernel") & (results.summary.status == "ok")]
    rows = rows[results.gpu(rows)]
    if rows.empty:
        raise Missing("nothing was timed on a GPU")
    if rows.temperature_c.isna().all():
        raise Missing("the card's clock, power and temperature were not recorded")
    power = rows.throttled.fillna("").str.contains(POWER)
    return {
        "points": len(rows),
        "thermal": int(thermally_throttled(rows.throttled).sum()),
        "power": int(power.sum()),
        "reasons": sorted({r for text in rows.throttled.dropna() for r in text.split("+") if r}),
        "temperature_c": extremes(rows, "temperature_c"),
        "sm_clock_mhz": extremes(rows, "sm_clock_mhz"),
        "power_w": extremes(rows, "power_w"),
    }


def extremes(rows: pd.DataFrame, column: str) -> Sequence[dict[str, Any]] | None:
    """Least and largest of a column."""
    if rows[column].isna().all():
        return None
    places = (rows[column].idxmin(), rows[column].idxmax())
    return [cell(rows.loc[place], column).json() for place in places]
