"""Words in a figure: names at the ends of lines and inside the axes."""

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


def inches(ax: Axes) -> np.ndarray:
    """The approximate width and height of the axes."""
    grid, figure = grid_of(ax), ax.get_figure(root=True)
    assert figure is not None, "the axes are in a figure"
    width, height = figure.get_size_inches()
    return np.array([0.67 * width / grid.ncols, 0.6 * height / grid.nrows])


def label_extent(ax: Axes, words: str) -> np.ndarray:
    """The approximate width and height of a text, as shares of the axes."""
    lines = words.split("\n")
    size = np.array([0.6 * max(map(len, lines)), 1.25 * len(lines)])
    return SMALL_TEXT / 72 * size / inches(ax)


def label_heights(ax: Axes, points: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The positions of labels under one another, from the lowest on."""
    _, gap = label_extent(ax, "")
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


def name_beyond(ax: Axes, points: Mapping[float, str]) -> None:
    """Words below the upper edge, by their value of x, for points that lie above it."""
    for x, words in points.items():
        across = (ax.transData + ax.transAxes.inverted()).transform((x, ax.get_ylim()[1]))[0]
        ax.annotate(f"↑ {words}", (x, 1), (2, -1), xycoords=ax.get_xaxis_transform(), va="top",
                    textcoords="offset points", ha="right" if across > 0.6 else "left",
                    fontsize=SMALL_TEXT, bbox=PAPER, zorder=5)  # fmt: skip


def label_inside(ax: Axes, name: str, words: str) -> None:
    """Name a line inside the axes, above or below one of its points, as near as possible without a
    line crossing the words, or at least inside. Limits must be final."""
    paths = {line.get_label(): between(shares(ax, line)) for line in ax.get_lines()}
    lines, half = np.concatenate([*paths.values()]), label_extent(ax, words) / 2

    def room(place: np.ndarray) -> float:
        """The distance to the nearest line, in half sizes of the text."""
        return float(np.abs((lines - place) / half).max(axis=1).min())

    for halves in range(2, 12):
        up = np.array([0, halves * half[1]])
        ways = [place for point in paths[name] for place in (point + up, point - up)]
        inside = [place for place in ways if np.all(np.abs(place - 0.5) + half <= 0.5)]
        place = max(inside or [np.clip(ways[0], half, 1 - half)], key=room)
        if room(place) > 1.3:
            break
    ax.annotate(words, tuple(place), xycoords="axes fraction", ha="center", va="center",
                fontsize=SMALL_TEXT)  # fmt: skip


def between(points: np.ndarray, parts: int = 20) -> np.ndarray:
    """Points along a line, this many for each of its segments."""
    places = np.linspace(0, len(points) - 1, parts * (len(points) - 1) + 1)
    return np.stack(
        [np.interp(places, np.arange(len(points)), column) for column in points.T], axis=1
    )
