"""The ratios of the dispatches to the library at shapes drawn at random."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.experiment.report.facts.random_shapes import drawn_ratios
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import listed
from matmul_sweep.experiment.report.figures.figure_base import figure, need
from matmul_sweep.experiment.report.figures.style import Look
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.operation import COMPACT

POINT = Look(style.BLUE, "o", "")


def every(results: Results) -> pd.DataFrame:
    """The ratios that are drawn."""
    return pd.concat(drawn_ratios(results).values())


@figure("Speed-up over the library on random shapes", of=every)
def random_shapes(results: Results) -> Figure:
    """Library time over kernel time, the lowest first, in a panel for each dispatch whose launches
    do not overlap with each other."""
    panels = {
        name: own
        for name, own in drawn_ratios(results).items()
        if not results.of(results.catalogue[name].operation).overlaps
    }
    need(panels, "No product was timed on random shapes.")
    made, grid = style.panels(len(panels), 2, height=1.5, sharey=False)
    style.grid_of(grid[0, 0]).set_height_ratios([5, 4])
    for axes, (kernel, rows) in zip(grid.T, panels.items(), strict=True):
        places = (np.arange(len(rows)) + 0.5) / len(rows)
        curve(axes[0], rows, places)
        lanes(axes[1], rows, places)
        for ax in axes:
            ax.set_xlim(-0.02, 1.02)
            ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        said = f"{results.title(kernel)}\nmedian {significant(rows.ratio.median())}"
        axes[0].set_title(said, loc="left")
        axes[1].set_xlabel(f"{len(rows)} shapes")
    grid[0, 0].set_ylabel("speed-up")
    style.claim(made, ahead(results, panels))
    return made


def curve(ax: Axes, rows: pd.DataFrame, places: np.ndarray) -> None:
    """The ratios in order over the share of the shapes; a line where both are equally fast."""
    low, high = min(rows.ratio.min(), 1), max(rows.ratio.max(), 1)
    style.log_values(ax)
    ax.set_ylim(low * (low / high) ** 0.1, high * (high / low) ** 0.1)
    ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    ax.axhline(1, color=style.INK, linewidth=0.9, linestyle=(0, (6, 2)))
    style.draw_line(ax, places, rows.ratio, POINT, "ratio")
    ax.tick_params(labelbottom=False)


def lanes(ax: Axes, rows: pd.DataFrame, places: np.ndarray) -> None:
    """Where the shapes of each class are on the curve, as strokes in a lane of their own."""
    classes = [*OPERATIONS[rows.operation.iloc[0]].classes, COMPACT]
    known = [name for name in classes if name in set(rows["class"])]
    ax.plot(places, rows["class"].map(known.index), "|", color=style.INK, markersize=7,
            markeredgewidth=0.7)  # fmt: skip
    ax.set_yticks(range(len(known)), known)
    ax.set_ylim(len(known) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")


def ahead(results: Results, panels: Mapping[str, pd.DataFrame]) -> str:
    """At how many of the random shapes each dispatch is faster than the library."""
    said = [f"{results.title(kernel)} at {(rows.ratio_low > 1).sum()} of {len(rows)}"
            for kernel, rows in panels.items()]  # fmt: skip
    return f"Faster than the library on random shapes: {listed(said)}"
