"""What a data set shows: the numbers of the report's sentences and small tables. What the data do
not show is left out."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.intervals import SMALLEST
from matmul_sweep.experiment.dataset.selection import (
    Results,
    compared_errors,
    fastest,
    limits_of,
    power_capped,
    quotable,
    rate_unit,
    size_name,
    squares,
    state_absence,
    thermally_throttled,
    verdict_of,
)
from matmul_sweep.experiment.report.facts.quotients import quotient
from matmul_sweep.experiment.report.numbers import ends, known
from matmul_sweep.operations import OPERATIONS, shape_of
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.gram import GRAM

TOO_FEW = f"fewer than {SMALLEST} pairs or samples"
# Programs that are held against each other, the slow one first, and what that shows.
PAIRS = {
    GEMM.name: [
        ("cpu_loop", "cpu_blas", "what a library makes of the processor"),
        ("cpu_loop", "sgemm", "the processor's loops against the GPU"),
        ("cpu_blas", "sgemm", "the processor's library against the GPU"),
        ("naive", "shared", "tiles in shared memory, of documents 002 and 003"),
        ("shared_rect", "shared_rect_split", "whole tiles without guards, of document 000"),
    ],
    GRAM.name: [
        ("gram_cpu_loop", "gram_cpu_blas", "what a library makes of the processor"),
        ("gram_naive", "gram_register_tile", "results in registers, of document 004"),
        ("cublas_dgemm", "cublas_dsyrk", "symmetry, which can save half of the operations"),
        ("cublas_dsyrk", "cublas_dsyrk_triangle", "one triangle of C left out"),
    ],
}
COPIED = ("cublas_sgemm", "shared")  # whose copies are told
PHASES = ("kernel", "h2d", "d2h", "end_to_end", "unified")
WIDTHS = {GEMM.name: ("naive", "shared"), GRAM.name: ("gram_register_tile",)}
STATES = ("sm_clock_mhz", "power_w", "temperature_c")


def findings(results: Results) -> dict[str, Any]:
    """Every finding by name."""
    return {
        "shares": {name: shares(results.of(name)) for name in OPERATIONS},
        "pairs": {name: pairs(results.of(name), PAIRS[name]) for name in PAIRS},
        "accuracy": accuracy(results.of(GEMM.name, reduced=True)),
        "studies": {axis: study(results, axis) for axis in ("fill", "mode")},
        "copies": copies(results.of(GEMM.name)),
        "tile_widths": [
            table
            for name, kernels in WIDTHS.items()
            if (table := tile_widths(results.of(name), kernels))
        ],
        "card": card_state(results),
    }


def named(results: Results, kernel: str, variant: str = "") -> dict[str, str]:
    return {"name": kernel, "title": results.title(kernel), "variant": variant}


def shares(results: Results) -> list[dict[str, Any]]:
    """For each library that fills C the largest share of its speed at the shape of the comparison,
    and the square sizes at which hand-written kernels win, and at which the best of them tie."""
    rows = quotable(results.square_ratios())
    rows = rows[rows.kernel.map(results.hand_written).astype(bool)]
    verdicts = [verdict_of(row.ratio_low, row.ratio_high) for row in rows.itertuples()]
    rows = rows.assign(verdict=pd.Series(verdicts, rows.index, dtype=str))
    found = []
    for library in results.full_rivals:
        own = rows[rows.baseline == library]
        faster, tie = ({*map(int, own.n[own.verdict == word])} for word in ("faster", "tie"))
        for best in results.at_compared(own).sort_values("ratio").tail(1).itertuples():
            found.append(
                {
                    "n": best.n,
                    "kernel": named(results, best.kernel, best.variant),
                    "library": named(results, library),
                    "ratio": best.ratio,
                    "interval": ends(best.ratio_low, best.ratio_high),
                    "verdict": best.verdict,
                    "sizes": own.n.nunique(),
                    "faster_at": sorted(faster),
                    "tie_at": sorted(tie - faster),
                }
            )
    return found


def pairs(results: Results, wanted: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """The time of one kernel over another's at the largest square at which both were timed often
    enough and can be compared."""
    rows = squares(quotable(fastest(results.timed())))
    found = []
    for slow, fast, what in wanted:
        one, other = (rows[rows.kernel == name].set_index("n", drop=False) for name in (slow, fast))
        for n in reversed(one.index.intersection(other.index)):
            if compared := quotient(results, one.loc[n], other.loc[n]):
                titles = {"slow": results.title(slow), "fast": results.title(fast)}
                found.append({"what": what, "n": int(n)} | titles | compared.facts(results))
                break
    return found


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


def study(results: Results, axis: str) -> list[dict[str, Any]]:
    """Rate and state of each kernel of a study at each value of `axis`."""
    points = results.study_points(axis)
    found = []
    for kernel in results.order:
        rows = points[points.kernel == kernel]
        if len(rows) < 2:
            continue
        unit, factor = rate_unit(rows.tflops)
        values = [
            {"value": row[axis], "rate": marked(row, factor)}
            | {name: known(row[name]) for name in STATES}
            for _, row in rows.iterrows()
        ]
        size = size_name(shape_of(rows.iloc[0]))
        found.append(named(results, kernel) | {"size": size, "unit": unit, "rows": values})
    return found


def marked(row: Any, factor: int) -> dict[str, Any]:
    """A rate in a unit, and what limited the card."""
    return {"value": float(row.tflops) * factor, "limits": limits_of(row.throttled)}


def copies(results: Results) -> list[dict[str, Any]]:
    """All phases of kernels' fastest variants, at the largest square at which each phase has enough
    samples."""
    phases = [squares(quotable(results.timed(name))) for name in PHASES]
    found = []
    for kernel in COPIED:
        times = fastest(phases[0][phases[0].kernel == kernel]).set_index(["variant", "n"])[[]]
        for name, rows in zip(PHASES, phases, strict=True):
            times = times.join(rows.set_index(["variant", "n"]).time_ms.rename(name), how="inner")
        for row in times.reset_index().nlargest(1, "n").itertuples():
            own = {name: float(getattr(row, name)) for name in PHASES}
            found.append(named(results, kernel, row.variant) | {"n": int(row.n)} | own)
    return found


def tile_widths(results: Results, kernels: Sequence[str]) -> dict[str, Any] | None:
    """The times of kernels at each square by tile width; None if no kernel was timed at two."""
    rows = squares(results.timed())
    timed = set(rows.variant)
    known_kernels = [results.catalogue[name] for name in kernels if name in results.catalogue]
    variants = [v for k in known_kernels for v in sorted(k.variants, key=lambda v: v.tile)]
    names = {v.name: f"{results.title(v.kernel.name)}, {v.tiling}" for v in variants
             if v.name in timed}  # fmt: skip
    if len(names) <= len(kernels):
        return None
    table = rows.pivot_table("time_ms", "n", "variant")[[*names]].dropna(how="all")
    lines = [{"n": int(n), "times_ms": [*map(known, row)]} for n, row in table.iterrows()]
    return {"columns": [*names.values()], "rows": lines}


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
