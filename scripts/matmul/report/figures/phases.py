"""Figures of the phases of a product: copies, the first launch, and their share of the whole."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from matmul.operations.gemm import GEMM
from matmul.report.figures import labels, style
from matmul.report.figures.claims import percent, times
from matmul.report.figures.figure_base import (
    NothingToDraw,
    ends,
    figure,
    kernel_lines,
    look,
    name_lines,
)
from matmul.report.figures.style import Look
from matmul.report.selection import Results, fastest, squares

PHASE_KERNELS = ["cublas_sgemm", "shared"]
# Phases are grey, so that a colour always means a kernel.
PHASES = {
    "kernel": ("kernel", None),
    "h2d": ("host to device", Look(style.QUIET, "^", (0, (4, 1.6)))),
    "d2h": ("device to host", Look(style.QUIET, "v", (0, (1, 1.2)))),
    "end_to_end": ("end to end", Look(style.INK, "s")),
    "unified": ("unified memory", Look(style.INK, "D", (0, (2, 1.2)))),
}
# Parts of an end-to-end product from the bottom up; the kernel in its colour.
PARTS = {
    "kernel": ("kernel", None),
    "h2d": ("A and B to the card", "#8c8c8c"),
    "d2h": ("C back", "#bdbdbd"),
    "rest": ("launch and wait", "#ececec"),
}


def phase_times(results: Results) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Times of square products by phase, each kernel's fastest variant, and those of PHASE_KERNELS
    that were timed end to end. Raises NothingToDraw."""
    phases = {phase: squares(fastest(results.timed(phase))) for phase in PHASES}
    kernels = [k for k in PHASE_KERNELS if k in set(phases["end_to_end"].kernel)]
    if not kernels:
        raise NothingToDraw(f"No copies were timed ({results.absence(PHASE_KERNELS)}).")
    return phases, kernels


@figure(GEMM, "Kernel time against copies, end to end, and unified memory")
def copies(results: Results) -> Figure:
    """Phases of one product, a panel per kernel: the library and the shared-memory kernel."""
    phases, kernels = phase_times(results)
    made, axes = style.panels(len(kernels))
    axes[0].set_ylabel("time in ms")
    for ax, kernel in zip(axes, kernels, strict=True):
        looks = {phase: drawn or look(results, kernel) for phase, (_, drawn) in PHASES.items()}
        for phase, rows in phases.items():
            own = rows[rows.kernel == kernel]
            style.draw_line(ax, own.n, own.time_ms, looks[phase], phase)
        style.size_axis(ax, phases["kernel"][phases["kernel"].kernel.isin(kernels)].n)
        style.log_values(ax)
        ax.set_title(results.title(kernel), loc="left")
    labels.label_ends(axes[-1], {phase: name for phase, (name, _) in PHASES.items()}, looks)
    style.claim(made, longer_copies(results, phases, kernels[0]))
    return made


def longer_copies(results: Results, phases: dict[str, pd.DataFrame], kernel: str) -> str:
    """At which sizes the copies take longer than a kernel."""
    shares = split(phases, kernel)
    longer = shares.index[shares.h2d + shares.d2h > shares.kernel]
    if not len(longer):
        return ""
    where = "every size" if len(longer) == len(shares) else f"{len(longer)} of {len(shares)} sizes"
    return f"Copying takes longer than {results.title(kernel)} at {where}"


@figure(GEMM, "Where the time of a product goes, end to end")
def time_split(results: Results) -> Figure:
    """Shares of kernel and copies in the time from host to host, a panel per kernel."""
    phases, kernels = phase_times(results)
    made, axes = style.panels(len(kernels))
    axes[0].set_ylabel("share of the end-to-end time")
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[0].set_ylim(0, 1)
    for ax, kernel in zip(axes, kernels, strict=True):
        shares = split(phases, kernel)
        below = pd.Series(0.0, shares.index)
        for part, (_, colour) in PARTS.items():
            ax.bar(range(len(shares)), shares[part], bottom=below, width=0.9, linewidth=0,
                   color=colour or look(results, kernel).colour)  # fmt: skip
            below += shares[part]
        places = range(len(shares))[::-2][::-1]  # every other size fits, the largest too
        ax.set_xticks(places, shares.index[places], rotation=90)
        ax.set_xlabel("n of the n×n matrices")
        ax.grid(visible=False)
        ax.set_title(results.title(kernel), loc="left")
    name_parts(axes[-1], shares.iloc[-1])
    style.claim(made, copied(results, phases, kernels[0]))
    return made


def copied(results: Results, phases: dict[str, pd.DataFrame], kernel: str) -> str:
    """What the copies take of a kernel's largest product."""
    last = split(phases, kernel).iloc[-1]
    share = percent(last.h2d + last.d2h)
    return f"At n = {last.name}, copies take {share} of a product by {results.title(kernel)}"


def name_parts(ax: Axes, shares: pd.Series) -> None:
    """The names of PARTS beside the last bar, each at the height of its part."""
    tops = shares[list(PARTS)].cumsum()
    heights = labels.spread(list(tops - shares[list(PARTS)] / 2), 0.07)
    for height, (words, _) in zip(heights, PARTS.values(), strict=True):
        ax.annotate(words, (1.02, height), xycoords="axes fraction", va="center",
                    fontsize=style.SMALL_TEXT, annotation_clip=False)  # fmt: skip


def split(phases: dict[str, pd.DataFrame], kernel: str) -> pd.DataFrame:
    """Shares of PARTS in a kernel's end-to-end time, by n. They never exceed the whole, although
    medians that were taken separately may add up to more."""
    times = pd.DataFrame(
        {
            phase: rows[rows.kernel == kernel].set_index("n").time_ms
            for phase, rows in phases.items()
        }
    ).dropna(subset=["kernel", "h2d", "d2h", "end_to_end"])
    parts = times[["kernel", "h2d", "d2h"]]
    parts = parts.assign(rest=(times.end_to_end - parts.sum(axis=1)).clip(lower=0))
    return parts.div(parts.sum(axis=1), axis=0)


@figure(GEMM, "The first launch over later ones", one_cache=False)
def first_launch(results: Results) -> Figure:
    """What a program that times a single launch would report: the first launch by the host's clock,
    divided by the device's time of later ones."""
    later = ends(results, squares(fastest(results.timed())))
    key = ["variant", "n"]
    first = squares(results.timed("first")).set_index(key).time_ms.rename("first_ms")
    rows = later.join(first, on=key).dropna(subset=["first_ms"])
    if rows.empty:
        reason = results.gpu_absence()
        raise NothingToDraw(f"No first launch was timed ({reason}).")
    made, (ax,) = style.panels()
    drawn = kernel_lines(ax, results, rows.assign(ratio=rows.first_ms / rows.time_ms), "ratio")
    style.size_axis(ax, rows.n)
    style.log_values(ax)
    style.parity(ax)
    ax.set_ylabel("first launch / later launches")
    name_lines([ax], results, [drawn])
    style.claim(made, longest_first(results, rows))
    return made


def longest_first(results: Results, rows: pd.DataFrame) -> str:
    """The first launch that takes the most times as long as later ones."""
    row = rows.loc[(rows.first_ms / rows.time_ms).idxmax()]
    ratio = row.first_ms / row.time_ms
    words = f"The first launch of {results.title(row.kernel)} takes {times(ratio)} as long"
    return f"{words} as later ones, at n = {row.n}" if ratio > 1 else ""
