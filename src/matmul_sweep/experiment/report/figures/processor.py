"""The processor's own lesson: the order of the loops, and a width that is a power of two."""

import pandas as pd
from matplotlib.figure import Figure

from matmul_sweep.catalogue.entries import Kind
from matmul_sweep.experiment.dataset.selection import Results, rate_unit
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import times
from matmul_sweep.experiment.report.figures.figure_base import figure, look, need
from matmul_sweep.experiment.report.numbers import significant

CLEARLY = 1.5  # times as fast, for what may be known by a product each


@figure("Rate of the processor, by width and order of the loops", of=None)
def processor_sizes(results: Results) -> Figure:
    """A bar for each loop at each size; the library's rates, which would dwarf them, in words."""
    rows = results.launches[results.launches.sweep.isin(results.lessons)]
    rows = rows[rows.n == rows.k]
    loops = rows[[results.kind(kernel) is Kind.C for kernel in rows.kernel]]
    need(loops, "No sweep of this data set compares the orders of the loops.")
    unit, per_tflops = rate_unit(loops.tflops)
    sizes, kernels = sorted(set(loops.n)), list(dict.fromkeys(loops.kernel))
    made, [[ax]] = style.panels()
    width = 0.8 / len(kernels)
    for place, kernel in enumerate(kernels):
        own = loops[loops.kernel == kernel]
        middle = [sizes.index(n) + (place - (len(kernels) - 1) / 2) * width for n in own.n]
        bars = ax.bar(middle, own.tflops * per_tflops, 0.92 * width, label=results.title(kernel),
                      color=look(results, kernel).colour, alpha=0.9 - 0.45 * place)  # fmt: skip
        ax.bar_label(bars, [significant(rate * per_tflops, 2) for rate in own.tflops],
                     fontsize=style.SMALL_TEXT, padding=1)  # fmt: skip
    ax.set_xticks(range(len(sizes)), map(str, sizes))
    ax.grid(visible=False, axis="x")
    ax.set_xlabel(f"n, of {' or '.join(map(str, sorted(set(rows.m))))} rows times a matrix n×n")
    ax.set_ylabel(f"{unit}, one core")
    ax.margins(y=0.3)
    ax.legend(loc="upper left", ncols=len(kernels), frameon=False, fontsize=style.SMALL_TEXT)
    ax.set_title(by_library(results, rows), loc="left")
    style.claim(made, slowest_width(results, loops[loops.kernel == kernels[0]]))
    return made


def by_library(results: Results, rows: pd.DataFrame) -> str:
    """`CPU BLAS on all cores: 210 to 230 GFLOP/s`; empty if it was not timed."""
    own = rows[[results.kind(kernel) is Kind.LIBRARY for kernel in rows.kernel]]
    if own.empty:
        return ""
    unit, per_tflops = rate_unit(own.tflops)
    low, high = (significant(end * per_tflops) for end in (own.tflops.min(), own.tflops.max()))
    return f"{results.title(own.kernel.iloc[0])} on all cores: {low} to {high} {unit}"


def slowest_width(results: Results, rows: pd.DataFrame) -> str:
    """How much slower a loop is at its slowest size than at its fastest."""
    slow, fast = rows.loc[rows.tflops.idxmin()], rows.loc[rows.tflops.idxmax()]
    if len(rows) < 2 or fast.tflops < CLEARLY * slow.tflops:
        return ""
    return (f"{results.title(slow.kernel)} is {times(fast.tflops / slow.tflops)} as fast at "
            f"n = {fast.n} as at n = {slow.n}")  # fmt: skip
