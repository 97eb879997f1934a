"""The figure of the card's clock and power while it multiplied."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import Results, fastest, squares, state_absence
from matmul_sweep.experiment.dataset.tables import POINT
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.figure_base import (
    ends,
    figure,
    kernel_lines,
    need,
)
from matmul_sweep.operations import OPERATIONS

STATES = {
    "sm_clock_mhz": ("SM clock in MHz", "clock_mhz", "highest clock"),
    "power_w": ("power in W", "power_limit_w", "power limit"),
}


@figure("Clock and power of the card, by size", of=None)
def clocks(results: Results) -> Figure:
    """The card's state during hot launches of square products, a row of panels per operation."""
    found = {name: rows for name in OPERATIONS if len(rows := states(results.of(name)))}
    on_card = results.device.get("gpu")
    reason = state_absence(results.device) if on_card else results.gpu_absence()
    need(found, f"The card's state is not known ({reason}).")
    known = [name for name in STATES if any(rows[name].notna().any() for rows in found.values())]
    made, grid = style.panels(len(known), len(found), height=1.4, sharey=False)
    for row, (axes, (operation, rows)) in enumerate(zip(grid, found.items(), strict=True)):
        own = results.of(operation)
        for ax, name in zip(axes, known, strict=True):
            draw_state(ax, own, rows, name)
            ax.set_title(STATES[name][0] if row == 0 else "", loc="left")
        axes[0].set_ylabel(f"{own.product.title}, {own.product.dtype}")
        legend_beside(axes[-1], own)
    style.claim(made, lowest_clock(results, found))
    return made


def legend_beside(ax: Axes, results: Results) -> None:
    """A row's kernels at its right: their lines end too near to each other to be named there."""
    lines = style.named_lines(ax)
    ax.legend(lines.values(), map(results.title, lines), loc="center left", frameon=False,
              bbox_to_anchor=(1.02, 0.5), fontsize=style.SMALL_TEXT)  # fmt: skip


def lowest_clock(results: Results, found: dict[str, pd.DataFrame]) -> str:
    """How far the clock falls, and at which product."""
    rows = pd.concat(found.values(), ignore_index=True).dropna(subset=["sm_clock_mhz"])
    highest = results.device.get("clock_mhz")
    if rows.empty or not highest:
        return ""
    row = rows.loc[rows.sm_clock_mhz.idxmin()]
    if row.sm_clock_mhz >= highest:
        return f"The clock stays at its highest, {highest:.0f} MHz"
    return (f"The clock falls to {row.sm_clock_mhz:.0f} of {highest:.0f} MHz while "
            f"{results.title(row.kernel)} runs at n = {row.n}")  # fmt: skip


def states(results: Results) -> pd.DataFrame:
    """The card's states while the fastest variants of a few kernels computed square products."""
    timed = ends(results, squares(fastest(results.timed())))
    during = results.states[results.states.when == "during"]
    key = ["variant", *POINT, "cache"]
    rows = during.merge(timed[["kernel", *key]], on=key)
    return squares(rows.dropna(subset=list(STATES), how="all"))


def draw_state(ax: Axes, results: Results, rows: pd.DataFrame, name: str) -> None:
    """Draw one of STATES over size, below its limit if that is known."""
    _, fact, words = STATES[name]
    kernel_lines(ax, results, rows.dropna(subset=[name]), name)
    style.size_axis(ax, rows.n)
    if limit := results.device.get(fact):
        ax.axhline(limit, color=style.INK, linewidth=0.9, linestyle=style.PARITY.dashes)
        style.say(ax, f"{words}: {limit:.0f}", (0.02, limit), (0, 2), va="bottom",
                  xycoords=("axes fraction", "data"))  # fmt: skip
        low, high = ax.get_ylim()
        low = min(low, 0.9 * limit)
        ax.set_ylim(low, max(high, limit + 0.25 * (limit - low)))  # room for the words
