"""This card beside others: how many times as fast it is, and what their limits predict."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from matmul_sweep.experiment.dataset.selection import Results, in_words, processor
from matmul_sweep.experiment.report.facts.cards import points, roof
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.figure_base import (
    figure,
    kernel_lines,
    name_lines,
    need,
)
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations import OPERATIONS


@figure("This card compared with others", of=None)
def cards(results: Results) -> Figure:
    """A panel for each other card and operation."""
    panels = [
        (other, results.of(name), rows)
        for other in results.others
        for name in OPERATIONS
        if len(rows := predictable(points(results.of(name), other.of(name))))
    ]
    need(panels, "No other card with a published data set computed the same products.")
    made, grid = style.panels(rows=len(panels), height=1.8)
    for ax, (other, here, rows) in zip(grid[:, 0], panels, strict=True):
        draw(ax, here, other.of(here.product.name), rows)
        product = in_words(here.product)
        ax.set_title(f"{product}: time on {processor(other.device)} / time here", loc="left")
    grid[-1, 0].set_xlabel("operations per byte, if each matrix is moved once")
    style.claim(made, faster_by(results, panels))
    return made


def predictable(points: pd.DataFrame) -> pd.DataFrame:
    """Those that the prediction is for, or all if there is none, by intensity."""
    known = points[points.bound.notna()]
    return (known if len(known) else points).sort_values("intensity")


def faster_by(results: Results, panels: Sequence[tuple[Results, Results, pd.DataFrame]]) -> str:
    """From how many times to how many times as fast this card is as the first other one."""
    other, here, rows = panels[0]
    low, high = (significant(float(end)) for end in (rows.faster.min(), rows.faster.max()))
    here_version, version = (one.device["version"] for one in (results, other))
    kernels = "" if version == here_version else f" with kernels of version {version}"
    return (
        f"{processor(results.device)} is {low} to {high} times as fast as "
        f"{processor(other.device)}{kernels} in {in_words(here.product)}"
    )


def draw(ax: Axes, here: Results, there: Results, rows: pd.DataFrame) -> None:
    """The points of both cards, and the prediction from the least intensity to the largest."""
    style.parity(ax)
    kernel_lines(ax, here, rows, "faster", over="intensity", joined=False)
    own, theirs = roof(here), roof(there)
    if own and theirs:
        x = np.geomspace(rows.intensity.min(), rows.intensity.max(), 200)
        limits = [np.minimum(x * copy, rate) for copy, rate in (own, theirs)]
        ax.plot(x, limits[0] / limits[1], color=style.INK, label="predicted")
    style.log_values(ax, axis="x")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    name_lines([ax], here)
