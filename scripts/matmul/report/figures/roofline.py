"""The figure of how near each step comes to the roofs over it: the peaks of the card's units."""

import pandas as pd
from matplotlib.figure import Figure

from matmul.report.facts.held_back import BUSY, UNITS
from matmul.report.figures import style
from matmul.report.figures.claims import percent
from matmul.report.figures.figure_base import NothingToDraw, each_figure
from matmul.report.figures.style import Look
from matmul.report.selection import Results

# Columns of counters.csv by the roof whose share of a peak they are; the largest counts.
ROOFS = {
    "arithmetic": UNITS["multiply"],
    "load and store": UNITS["load_store"],
    "memory and caches": UNITS["memory"],
    "DRAM": ["dram_percent"],
}
LOOKS = {
    "arithmetic": Look("#08306b", "o"),
    "load and store": Look("#d55e00", "s"),
    "memory and caches": Look("#e69f00", "^"),
    "DRAM": Look("#009e73", "D"),
}


@each_figure("How near each step comes to the peaks of the card's units")
def roofline(results: Results) -> Figure:
    """A row for each step with a mark for each roof, by the hardware counters of its largest
    square. Nothing can lie beyond the end of the axis."""
    rows = counted(results)
    made, (ax,) = style.panels(height=1.2 + 0.3 * len(rows))
    for roof, own in LOOKS.items():
        style.draw_line(ax, rows[roof], range(len(rows)), Look(own.colour, own.marker, ""), roof)
    ax.axvline(BUSY, color=style.INK, linewidth=0.9, linestyle=(0, (6, 2)))
    ax.set_yticks(range(len(rows)), [results.title(kernel) for kernel in rows.kernel])
    ax.set_ylim(len(rows) - 0.5, -0.9)
    ax.set_xlim(0, 103)
    ax.set_xlabel(f"percent of the unit's peak at n = {rows.n.iloc[0]}")
    ax.legend(loc="lower left", bbox_to_anchor=(-0.1, 1), ncols=len(LOOKS), frameon=False,
              handletextpad=0, columnspacing=0.8, borderaxespad=0)  # fmt: skip
    style.claim(made, nearest(results, rows))
    return made


def counted(results: Results) -> pd.DataFrame:
    """For each step that is told of, and each library that fills C, the shares of ROOFS at the
    largest size, of the variant that comes nearest to one. Raises NothingToDraw."""
    every = results.counters[results.counters.operation == results.operation]
    named = [*results.told, *results.full_rivals]
    rows = every[(every.status == "ok") & every.kernel.isin(named)]
    if rows.empty:
        why = every.reason.mode()
        timed = results.gpu(results.timed()).any()
        absence = "none were counted" if timed else results.gpu_absence()
        reason = why.iloc[0] if len(why) else absence
        raise NothingToDraw(f"No hardware counters of {results.product.title} ({reason}).")
    rows = rows[rows.n == rows.n.max()]
    shares = {roof: rows[columns].max(axis=1) for roof, columns in ROOFS.items()}
    rows = rows.assign(**shares, nearest=pd.DataFrame(shares).max(axis=1))
    best = rows.loc[rows.groupby("kernel").duration_ns.idxmin()]
    return best.sort_values("kernel", key=lambda names: names.map(named.index))


def nearest(results: Results, rows: pd.DataFrame) -> str:
    """The last step, and the roof that it comes nearest to."""
    own = rows[rows.kernel.isin(results.told)].dropna(subset=["nearest"])
    if own.empty:
        return ""
    row = own.iloc[-1]
    roof = row[list(ROOFS)].astype(float).idxmax()
    share = percent(row[roof] / 100)
    return f"{results.title(row.kernel)} comes nearest to the peak of {roof}, {share}"
