"""The look of all figures: theme, colour and marker of a kernel, labels at line ends, saving."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecBase
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from matmul.catalogue.entries import Kind
from matmul.dataset.tables import whole_file

INK, QUIET, PALE = "#222222", "#6b6b6b", "#d9d9d9"
WIDTH, HEIGHT = 6.7, 3.5  # inches: the text's width on A4, two figures to a page
# seaborn's colour-blind palette without its yellow, which is too light for lines and labels; then
# hues that differ from those by being darker.
COLOURS = [c for i, c in enumerate(sns.color_palette("colorblind").as_hex()) if i != 8]
COLOURS += ["#08306b", "#004d40", "#7f2704", "#4a1486"]
# A length without a common factor: colour and marker together stay unique for 130 kernels.
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "p", "<", ">"]
HOLLOW = "hollow"
NOTHING = "nothing-to-draw"  # the id of the sentence that stands for a figure
SMALL_TEXT = 7.5  # points
SAME_COLUMN = 0.16  # of the axes' width: points this near share a column of labels
BESIDE = 0.02  # of the axes' width, from a point to its label
PAPER = {"facecolor": "white", "linewidth": 0, "pad": 0.4}  # behind words
SMALL: dict[str, Any] = {
    "markersize": 3.2,
    "markeredgewidth": 0.3,
    "linewidth": 1.2,
}  # a line of many points
DASHES = {Kind.C: (0, (1, 1.2)), Kind.CUDA: "-", Kind.DISPATCH: "-", Kind.LIBRARY: (0, (4, 1.6))}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# File formats, each with its canvas and the metadata to leave out: they name a date or a version.
FORMATS = {
    "svg": (FigureCanvasSVG, {"Date": None, "Creator": None}),
    "png": (FigureCanvasAgg, {"Software": None}),
}

SETTINGS: dict[Any, Any] = {
    "figure.dpi": 160,
    "text.parse_math": False,  # a title's dollars are dollars
    "text.hinting": "none",  # otherwise words change their width with the resolution
    "figure.constrained_layout.w_pad": 0.08,
    "axes.titley": 1.0,  # its usual place; searching for one takes long
    "svg.fonttype": "path",
    "svg.hashsalt": "matmul-sweep",
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.labelsize": 8.5,
    "axes.titlesize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.edgecolor": QUIET,
    "axes.linewidth": 0.7,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "lines.markeredgewidth": 0.6,
}


@dataclass(frozen=True)
class Look:
    """Colour, marker and dashes of one line."""

    colour: str
    marker: str
    dashes: object = "-"


def kernel_look(position: int, kind: Kind) -> Look:
    """The look of the kernel at `position` of the catalogue, the same in every figure."""
    colour, marker = COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)]
    return Look(colour, marker, DASHES[kind])


@contextmanager
def theme() -> Iterator[None]:
    """The style, while a figure is drawn or saved."""
    with sns.axes_style("whitegrid"), mpl.rc_context(SETTINGS):
        yield


def panels(
    count: int = 1, height: float = HEIGHT, sharey: bool = True
) -> tuple[Figure, Sequence[Axes]]:
    """A figure with `count` axes side by side, on one y axis or each on its own."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(1, count, squeeze=False, sharey=sharey)[0]
    for ax in axes:
        sns.despine(ax=ax)
    return figure, axes


def panel_rows(rows: int, columns: int, height: float = 2.3) -> tuple[Figure, np.ndarray]:
    """A figure with rows of `columns` axes, each on its own axes; `height` of a row."""
    figure = Figure(figsize=(WIDTH, 0.5 + height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for ax in grid.flat:
        sns.despine(ax=ax)
    return figure, grid


def empty_panel(sentence: str) -> Figure:
    """The replacement for a figure without data: one sentence. Its SVG has an element NOTHING, so
    that the report leaves it out."""
    figure = Figure(figsize=(WIDTH, 1.1), layout="constrained")
    ax = figure.subplots()
    ax.set_axis_off()
    ax.text(0.5, 0.5, sentence, ha="center", va="center", color=QUIET, wrap=True, gid=NOTHING)
    return figure


def finish(figure: Figure, title: str, source: str) -> None:
    """The title above the panels, and the source of the data below them."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    figure.supxlabel(source, x=0.01, ha="left", fontsize=6.5, color=QUIET)


def draw_line(ax: Axes, x: Iterable[float], y: Iterable[float], look: Look, name: str) -> None:
    """One line with its markers, smaller if they would touch; `name` lets others find it."""
    x = list(x)
    crowded = len(x) * columns(ax) > 40
    ax.plot(
        x, list(y), color=look.colour, marker=look.marker, linestyle=look.dashes,
        markeredgecolor="white", label=name, **(SMALL if crowded else {}),
    )  # fmt: skip


def columns(ax: Axes) -> int:
    """Panels side by side in the axes' figure."""
    return grid_of(ax).ncols


def grid_of(ax: Axes) -> GridSpecBase:
    """The grid of panels that the axes stand in."""
    place = ax.get_subplotspec()
    assert place is not None, "every panel is made by subplots"
    return place.get_gridspec()


def inches(ax: Axes) -> np.ndarray:
    """The approximate width and height of the axes."""
    grid, figure = grid_of(ax), ax.get_figure(root=True)
    assert figure is not None, "the axes are in a figure"
    width, height = figure.get_size_inches()
    return np.array([0.67 * width / grid.ncols, 0.72 * height / grid.nrows])


def hollow(ax: Axes, x: Sequence[float], y: Sequence[float], look: Look) -> None:
    """Hollow markers over a line's own, for points to be read with care."""
    if len(x):
        ax.plot(
            x, y, look.marker, markerfacecolor="white", markeredgecolor=look.colour,
            markeredgewidth=1.1, zorder=4, gid=HOLLOW,
        )  # fmt: skip


def has_hollow(figure: Figure) -> bool:
    return any(line.get_gid() == HOLLOW for ax in figure.axes for line in ax.get_lines())


def has_line(figure: Figure, name: str) -> bool:
    """Whether a line was drawn under `name`."""
    return any(line.get_label() == name for ax in figure.axes for line in ax.get_lines())


def size_axis(
    ax: Axes, sizes: Iterable[int], log: bool = True, words: str = "n of the n×n matrices"
) -> None:
    """The x axis of sizes, with powers of two as ticks if it is logarithmic."""
    sizes = sorted(set(sizes))
    ax.set_xlabel(words)
    room = 10 // columns(ax)  # ticks that fit a panel
    if not log:
        ax.set_xlim(left=0)
        ax.xaxis.set_major_locator(MaxNLocator(room, steps=[1, 2, 5, 10]))
        return
    ax.set_xscale("log", base=2)
    low, high = sizes[0], sizes[-1]
    ax.set_xlim(low / 1.15, high * 1.15)
    powers = [2**i for i in range(40) if low / 1.15 <= 2**i <= high * 1.15]
    step = -(-len(powers) // room) or 1  # there may be none between the sizes
    ax.xaxis.set_major_locator(FixedLocator(powers[::step] or sizes))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def plain(value: float) -> str:
    """0.01, 1, 10 000."""
    return f"{value:,.10g}".replace(",", "\u2009")


def power_of_ten(value: float) -> str:
    """10⁻⁵. matplotlib's own labels need its mathtext."""
    return "10" + str(round(math.log10(value))).translate(RAISED)


def powers_of_ten(ax: Axes) -> None:
    """A logarithmic x axis with at least two powers of ten, the only labels. All drawing must be
    done."""
    log_values(ax, power_of_ten, "x")
    low, high = ax.get_xlim()
    if high < 100 * low:
        ax.set_xlim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))


def log_values(ax: Axes, words: Callable[[float], str] = plain, axis: str = "y") -> None:
    """A logarithmic axis with these labels for its numbers."""
    ax.set(**{f"{axis}scale": "log"})
    ticks = {"x": ax.xaxis, "y": ax.yaxis}[axis]
    ticks.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    ticks.set_minor_locator(NullLocator())


def parity(ax: Axes) -> None:
    """The line where both are equally fast."""
    ax.axhline(1, color=INK, linewidth=0.9, linestyle=(0, (6, 2)))


def label_ends(ax: Axes, labels: Mapping[str, str], looks: Mapping[str, Look]) -> None:
    """Name each line beside its last point, at the right of the axes, without overlaps.

    `labels`: the text for each line, by the name given to draw_line. Limits must be final.
    """
    points = last_points(ax, labels)
    heights = label_heights(ax, points)
    label_column(ax, 1.03, points, heights, labels, looks)
    for name, y in heights.items():
        ax.plot(1.03, y, looks[name].marker, color=looks[name].colour, markersize=4.5,
                markeredgewidth=0, transform=ax.transAxes, clip_on=False)  # fmt: skip


def label_points(
    ax: Axes, labels: Mapping[str, str], looks: Mapping[str, Look], below: float
) -> None:
    """Name the last point of each line beside it, inside the axes and below a value of y. Points
    near one another in x share a column of labels, at their right, or at their left if it would
    meet the next column. Limits must be final."""
    _, ceiling = (ax.transData + ax.transAxes.inverted()).transform((ax.get_xlim()[0], below))
    ends = last_points(ax, labels)
    columns: list[dict[str, tuple[float, float]]] = []
    for name in sorted(ends, key=lambda name: ends[name][0]):
        x, _ = ends[name]
        if not columns or x - min(columns[-1].values())[0] > SAME_COLUMN:
            columns.append({})
        columns[-1][name] = ends[name]
    heights = [label_heights(ax, column, ceiling) for column in columns]
    for i, (column, own) in enumerate(zip(columns, heights, strict=True)):
        right = max(column.values())[0] + BESIDE
        if i + 1 < len(columns) and meet(ax, right, own, labels, columns[i + 1], heights[i + 1]):
            label_column(ax, min(column.values())[0] - BESIDE, column, own, labels, looks, "right")
        else:
            label_column(ax, right, column, own, labels, looks)


def meet(
    ax: Axes, x: float, heights: Mapping[str, float], labels: Mapping[str, str],
    following: Mapping[str, tuple[float, float]], following_heights: Mapping[str, float],
) -> bool:  # fmt: skip
    """Whether a label in a column at `x` reaches the column of the following points."""
    _, gap = label_extent(ax, "")
    start = min(following.values())[0]
    reaching = [y for name, y in heights.items() if x + label_extent(ax, labels[name])[0] > start]
    return any(abs(y - other) < gap for y in reaching for other in following_heights.values())


def last_points(ax: Axes, names: Iterable[str]) -> dict[str, tuple[float, float]]:
    """The last point of each named line, as shares of the axes' width and height."""
    lines = {line.get_label(): line for line in ax.get_lines()}
    return {name: tuple(shares(ax, lines[name])[-1]) for name in names if name in lines}


def shares(ax: Axes, line: Line2D) -> np.ndarray:
    """A line's points as shares of the axes' width and height. Limits must be final."""
    ax.autoscale_view()  # pending changes
    return (line.get_transform() + ax.transAxes.inverted()).transform(line.get_xydata())


def label_extent(ax: Axes, words: str) -> np.ndarray:
    """The approximate width and height of a text, as shares of the axes."""
    return SMALL_TEXT / 72 * np.array([0.6 * len(words), 1.25]) / inches(ax)


def label_heights(
    ax: Axes, points: Mapping[str, tuple[float, float]], ceiling: float = math.inf
) -> dict[str, float]:
    """The positions of labels under one another, from the lowest on and below `ceiling`."""
    _, gap = label_extent(ax, "")
    names = sorted(points, key=lambda name: points[name][1])
    wanted = [points[name][1] for name in names]
    return dict(zip(names, spread(wanted, gap, min(1.0, ceiling - 0.7 * gap)), strict=True))


def label_column(
    ax: Axes, x: float, points: Mapping[str, tuple[float, float]], heights: Mapping[str, float],
    labels: Mapping[str, str], looks: Mapping[str, Look], end: str = "left",
) -> None:  # fmt: skip
    """Draw labels under one another, their `end` at `x`, each with a line to its point. Places,
    heights and points are shares of the axes."""
    for name, y in heights.items():
        ax.annotate(
            "", xy=points[name], xytext=(x, y), xycoords="axes fraction",
            textcoords="axes fraction", annotation_clip=False, zorder=1,
            arrowprops={"arrowstyle": "-", "color": looks[name].colour, "lw": 0.6, "alpha": 0.6,
                        "shrinkA": 2, "shrinkB": 3},
        )  # fmt: skip
        ax.annotate(labels[name], (x, y), xycoords="axes fraction", ha=end, va="center",
                    xytext=(6 if end == "left" else -6, 0), textcoords="offset points", bbox=PAPER,
                    fontsize=SMALL_TEXT, annotation_clip=False)  # fmt: skip


def label_inside(ax: Axes, name: str, words: str) -> None:
    """Name a line inside the axes, above or below one of its points, as near as possible without a
    line crossing the text. Limits must be final."""
    half = label_extent(ax, words) / 2
    lines = {line.get_label(): shares(ax, line) for line in ax.get_lines()}
    others = np.concatenate([between(points) for points in lines.values()])

    def room(place: np.ndarray) -> float:
        """The distance from the middle of the text to the nearest line, in half sizes; none outside
        the axes."""
        if np.any(place - half < 0) or np.any(place + half > 1):
            return 0.0
        return float(np.abs((others - place) / half).max(axis=1).min())

    for halves in range(2, 12):
        off = halves * half * [0, 1]
        places = [point + side for point in between(lines[name]) for side in (off, -off)]
        place = max(places, key=room)
        if room(place) > 1.3:
            break
    ax.annotate(words, place, xycoords="axes fraction", ha="center", va="center",
                fontsize=SMALL_TEXT)  # fmt: skip


def between(points: np.ndarray, parts: int = 20) -> np.ndarray:
    """Points along a line, this many for each of its segments."""
    places = np.linspace(0, len(points) - 1, parts * (len(points) - 1) + 1)
    return np.stack(
        [np.interp(places, np.arange(len(points)), column) for column in points.T], axis=1
    )


def spread(wanted: Sequence[float], gap: float, ceiling: float = 1.0) -> list[float]:
    """Ascending positions near `wanted` (ascending, from 0 on) at least `gap` apart, none above
    `ceiling`."""
    placed: list[float] = []
    for y in wanted:
        placed.append(max(y, placed[-1] + gap) if placed else max(y, 0.0))
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return placed


def save(figure: Figure, folder: Path, name: str, formats: Iterable[str] = FORMATS) -> None:
    """Write NAME.svg and NAME.png, or one of them, whole. The same figure gives the same bytes."""
    with theme():
        # Only once, because the layout is the slowest part of drawing.
        if engine := figure.get_layout_engine():
            engine.execute(figure)
        figure.set_layout_engine("none")
        for kind in formats:
            with whole_file(folder / f"{name}.{kind}") as temporary:
                canvas, left_out = FORMATS[kind]  # savefig would draw each figure twice
                figure.set_dpi(SETTINGS["figure.dpi"])  # which an SVG changes
                getattr(canvas(figure), f"print_{kind}")(temporary, metadata=left_out)
