"""The names of lines: at their ends, and inside the axes."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from matmul_sweep.experiment.report.figures.style import (
    PAPER,
    SMALL_TEXT,
    Look,
    grid_of,
)

BESIDE = 1.03  # of the axes' width: where the names of lines begin
NEAR = 0.75  # of it: from here on a line to its name cannot be taken for data


def label_ends(ax: Axes, labels: Mapping[str, str], looks: Mapping[str, Look]) -> None:
    """Name each line beside its last point, at the right of the axes, without overlaps.

    `labels`: the text for each line, by the name given to draw_line. Limits must be final.
    """
    points = last_points(ax, labels)
    for name, y in label_heights(ax, points).items():
        look = looks[name]
        if points[name][0] >= NEAR:
            ax.annotate(
                "", xy=points[name], xytext=(BESIDE, y), xycoords="axes fraction",
                textcoords="axes fraction", annotation_clip=False, zorder=1,
                arrowprops={"arrowstyle": "-", "color": look.colour, "lw": 0.6, "alpha": 0.6,
                            "shrinkA": 2, "shrinkB": 3},
            )  # fmt: skip
        ax.plot(BESIDE, y, look.marker, color=look.colour, markersize=4.5, markeredgewidth=0,
                transform=ax.transAxes, clip_on=False)  # fmt: skip
        ax.annotate(labels[name], (BESIDE, y), (6, 0), xycoords="axes fraction", va="center",
                    textcoords="offset points", bbox=PAPER, fontsize=SMALL_TEXT,
                    annotation_clip=False)  # fmt: skip


def last_points(ax: Axes, names: Iterable[str]) -> dict[str, tuple[float, float]]:
    """The last point of each named line, as shares of the axes' width and height; of a line that
    leaves the axes at the top, a point there."""
    lines = {line.get_label(): line for line in ax.get_lines()}
    ends = {name: shares(ax, lines[name])[-1] for name in names if name in lines}
    return {name: (float(x), min(float(y), 1.0)) for name, (x, y) in ends.items()}


def shares(ax: Axes, line: Line2D) -> np.ndarray:
    """A line's points as shares of the axes' width and height. Limits must be final."""
    ax.autoscale_view()  # pending changes
    return (line.get_transform() + ax.transAxes.inverted()).transform(line.get_xydata())


def label_heights(ax: Axes, points: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The positions of labels under one another, from the lowest on."""
    grid, figure = grid_of(ax), ax.get_figure(root=True)
    assert figure is not None, "the axes are in a figure"
    height = 0.6 * figure.get_figheight() / grid.nrows  # of the axes, in inches, approximately
    gap = SMALL_TEXT / 72 * 1.25 / height
    names = sorted(points, key=lambda name: points[name][1])
    return dict(zip(names, spread([points[name][1] for name in names], gap), strict=True))


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Ascending positions near `wanted` (ascending, from 0 on) at least `gap` apart, none above
    1."""
    placed: list[float] = []
    for y in wanted:
        placed.append(max(y, placed[-1] + gap) if placed else max(y, 0.0))
    ceiling = 1.0
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return placed


def label_inside(ax: Axes, name: str, words: str) -> None:
    """Name a line inside the axes, below its last point. Limits must be final."""
    (line,) = [line for line in ax.get_lines() if line.get_label() == name]
    ax.annotate(words, shares(ax, line)[-1], (4, -16), xycoords="axes fraction", ha="right",
                va="top", textcoords="offset points", fontsize=SMALL_TEXT, bbox=PAPER)  # fmt: skip
