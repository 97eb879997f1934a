"""The names of lines at their ends."""

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.offsetbox import AnnotationBbox, DrawingArea

from matmul_sweep.experiment.report.figures.style import CROSS, SMALL_TEXT, grid_of, say

BESIDE = 1.03  # of the axes' width: where the names of lines begin
# Inches of height that title and notes of a figure take, and title and labels of a row, about.
AROUND, WITHIN = 1.0, 0.4
SAMPLE = 15  # points: the length of a line's sample
NEAR = 0.95  # the right end, so that no leader crosses the panel, where it would look like data


def label_ends(ax: Axes, lines: Iterable[tuple[Line2D, str]]) -> None:
    """Name each line, of some with their texts, beside its last point, at the right of the axes,
    without overlaps. Limits must be final."""
    # Of a line that leaves the axes at the top the point there; points of a scatter by their x.
    ends = [(*np.minimum(shares(ax, line)[-1], (np.inf, 1)), line, text) for line, text in lines]
    ends = [(0, x, line, text) if line.get_linestyle() == "None" and line.get_gid() != CROSS
            else (x, y, line, text) for x, y, line, text in ends]  # fmt: skip
    ends.sort(key=lambda end: end[1])
    heights = spread([y for _, y, *_ in ends], gap(ax))
    for (x, end, line, text), y in zip(ends, heights, strict=True):
        colour, cross = line.get_color(), line.get_gid() == CROSS
        if x >= NEAR:
            ax.annotate(
                "", xy=(x, end), xytext=(BESIDE, y), xycoords="axes fraction",
                textcoords="axes fraction", annotation_clip=False, zorder=1,
                arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.6,
                            "shrinkA": 2, "shrinkB": 3},
            )  # fmt: skip
        if not cross:  # which would look like another time
            ax.add_artist(AnnotationBbox(
                sample(line), (BESIDE, y), xycoords="axes fraction", box_alignment=(0, 0.5),
                frameon=False, pad=0, annotation_clip=False,
            ))  # fmt: skip
        say(ax, text, (BESIDE, y), (5 if cross else SAMPLE + 5, 0), xycoords="axes fraction",
            va="center", annotation_clip=False)  # fmt: skip


def sample(line: Line2D) -> DrawingArea:
    """A piece of a line, with its marker in the middle."""
    area = DrawingArea(SAMPLE, 0)
    piece = Line2D([0, SAMPLE / 2, SAMPLE], [0, 0, 0])
    piece.update_from(line)
    piece.set(markevery=[1], markersize=4, transform=area.get_transform(), clip_path=None)
    piece.set_clip_box(None)
    area.add_artist(piece)
    return area


def shares(ax: Axes, line: Line2D) -> np.ndarray:
    """A line's points as shares of the axes' width and height. Limits must be final."""
    ax.autoscale_view()  # pending changes
    return (line.get_transform() + ax.transAxes.inverted()).transform(line.get_xydata())


def gap(ax: Axes) -> float:
    """From one label to the next, as a share of the axes' height."""
    figure = ax.get_figure(root=True)
    assert figure is not None, "the axes are in a figure"
    height = (figure.get_figheight() - AROUND) / grid_of(ax).nrows - WITHIN
    return SMALL_TEXT / 72 * 1.25 / height


def spread(wanted: Sequence[float], gap: float) -> np.ndarray:
    """Ascending positions near `wanted` (ascending, from 0 on) at least `gap` apart, none above 1:
    each is raised above the one before it, and all are lowered as far as those above need."""
    steps = gap * np.arange(len(wanted))
    raised = steps + np.maximum.accumulate(np.maximum(wanted, 0) - steps)
    return np.minimum(raised, 1 - steps[::-1])
