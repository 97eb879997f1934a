"""The look of all figures: theme, colour and marker of a kernel, axes, titles, saving."""

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecBase
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from matmul_sweep.experiment.report.numbers import RAISED
from matmul_sweep.process.files import whole_file

INK, QUIET, PALE = "#262626", "#6b6b6b", "#d9d9d9"  # INK: the words' of seaborn's theme
WIDTH = 5.4  # inches: on a phone, 420 pixels wide, the labels have 9 pixels
HOLLOW, CROSS, PUBLISHED = "hollow", "cross", "published"  # marks of points and lines
DASHES = (0, (5, 1.8))  # of a line that was not measured here
SMALL_TEXT = 7.5  # points: the least, which the report prints at nine tenths
CLAIM_LETTERS, NOTE_LETTERS = 64, 94  # of a line of a title, and of the source below a figure
MANY = 5  # sizes in an octave
TICKS = 7  # that fit an axis of sizes
SIZE = "n of the n×n matrices"
PAPER = {"facecolor": "white", "linewidth": 0, "pad": 0.4}  # behind words
SMALL: dict[str, Any] = {"markersize": 3.2, "markeredgewidth": 0.3, "linewidth": 1.2}  # many points
# File formats, each with the metadata to leave out: they name a date or a version.
FORMATS: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
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
    "axes.titlesize": 8.5,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.edgecolor": QUIET,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "lines.markersize": 5,
    "lines.markeredgewidth": 0.6,
}


@dataclass(frozen=True)
class Look:
    """Colour, marker and dashes of one line."""

    colour: str
    marker: str
    dashes: object = "-"


# Colours mean one thing each. Blue: the steps of a ladder, the later the darker, so that grey print
# keeps their order. Orange and dashed: libraries. Green: reduced arithmetic. Grey: all others.
BLUE = "#0b559f"  # where there are no steps
STEP_MARKERS = ["o", "s", "^", "D", "v"]
LIBRARIES = [
    Look("#d55e00", "X", (0, (4, 1.6))),
    Look("#a6611a", "P", (0, (2, 1.2))),
    Look("#e69f00", "p", (0, (1, 1.2))),
]
REDUCED = [Look("#009e73", "<"), Look("#004d40", ">"), Look("#66c2a5", "p", (0, (4, 1.6)))]
CPU = [Look(INK, "o"), Look(INK, "^"), Look(QUIET, "s")]
CONTEXT = Look("#a8a8a8", "")


def step_look(place: int, count: int) -> Look:
    """The look of a step of a ladder of `count` steps, the last of them the darkest."""
    shade = mpl.colormaps["Blues"](0.45 + 0.55 * place / (count - 1) if count > 1 else 1.0)
    return Look(to_hex(shade), STEP_MARKERS[place % len(STEP_MARKERS)])


@contextmanager
def theme() -> Iterator[None]:
    """The style, while a figure is drawn or saved."""
    import seaborn as sns  # half of the start of a program that does not draw

    with sns.axes_style("whitegrid"), mpl.rc_context(SETTINGS):
        yield


def panels(
    columns: int = 1, rows: int = 1, height: float = 1.9, sharey: bool = True
) -> tuple[Figure, np.ndarray]:
    """A figure with rows of `columns` axes, all of a row on one y axis or each on its own;
    `height` of a row in inches."""
    import seaborn as sns

    figure = Figure(figsize=(WIDTH, 0.5 + height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey="row" if sharey else "none")
    sns.despine(figure)
    return figure, grid


def claim(figure: Figure, words: str) -> None:
    """What the data of a figure show, as its title, in lines of like length that do not end within
    "n = 8192"; nothing if they show nothing for sure."""
    words = words.replace(" = ", "\0=\0")
    count = len(textwrap.wrap(words, CLAIM_LETTERS))
    fits = (n for n in range(1, CLAIM_LETTERS) if len(textwrap.wrap(words, n)) <= count)
    lines = textwrap.fill(words, next(fits, CLAIM_LETTERS)).replace("\0", " ")
    figure.suptitle(lines, x=0.01, ha="left", fontsize=9.5, fontweight="bold")


def finish(figure: Figure, title: str, notes: Sequence[str], source: str) -> None:
    """The title above the panels, if the figure has no claim, and the notes and the source of the
    data below them. Every text has the report's apostrophe."""
    if figure.get_suptitle():
        notes = [title, *notes]
    else:
        claim(figure, title)
    paragraphs = filter(None, [" · ".join(notes), source])
    lines = "\n".join(textwrap.fill(words, NOTE_LETTERS) for words in paragraphs)
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=SMALL_TEXT, color=QUIET)
    for text in figure.findobj(Text):
        text.set_text(text.get_text().replace("'", "’"))  # as the report's text has it


def draw_line(
    ax: Axes, x: Iterable[float], y: Iterable[float], look: Look, name: str,
    mark: str | None = None, hot: Sequence[bool] | None = None,
) -> None:  # fmt: skip
    """One line with its markers, smaller if they would touch, and hollow for points that are `hot`,
    to be read with care; `name` and `mark` let others find it."""
    xs, ys = np.array([*x]), np.array([*y])
    crowded = len(xs) * grid_of(ax).ncols > 40
    ax.plot(
        xs, ys, color=look.colour, marker=look.marker, linestyle=look.dashes, label=name,
        markeredgecolor="white", zorder=1.5 if look.colour == CONTEXT.colour else 2, gid=mark,
        **(SMALL if crowded else {}),
    )  # fmt: skip
    if hot is not None and any(hot):
        ax.plot(xs[hot], ys[hot], look.marker, markerfacecolor="white", markeredgecolor=look.colour,
                markeredgewidth=1.1, zorder=4, gid=HOLLOW)  # fmt: skip


def grid_of(ax: Axes) -> GridSpecBase:
    """The grid of panels that the axes stand in."""
    place = ax.get_subplotspec()
    assert place is not None, "every panel is made by subplots"
    return place.get_gridspec()


def say(ax: Axes, text: str, at: tuple[float, float], offset: tuple[float, float],
        **where: Any) -> None:  # fmt: skip
    """Small words on paper, some points from a place."""
    look: dict[str, Any] = {"bbox": PAPER, "fontsize": SMALL_TEXT}
    ax.annotate(text, at, offset, textcoords="offset points", **look | where)


def named_lines(ax: Axes) -> dict[str, Line2D]:
    """The lines in a panel that have a name, by it."""
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    return {name: line for name, line in lines.items() if not name.startswith("_")}


def has(figure: Figure, mark: str) -> bool:
    """Whether it has a line of that name, or points or lines with a mark: HOLLOW, CROSS or
    PUBLISHED."""
    lines = (line for ax in figure.axes for line in ax.get_lines())
    return any(mark in (line.get_gid(), line.get_label()) for line in lines)


def linear_sizes(ax: Axes, words: str = SIZE, ticks: int = TICKS) -> None:
    """The x axis of sizes, linear from 0; `ticks`: how many fit in a row of panels."""
    ax.set_xlabel(words)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(ticks // grid_of(ax).ncols, steps=[1, 2, 5, 10]))


def size_axis(ax: Axes, sizes: Iterable[int], words: str = SIZE, crowd: bool = True) -> None:
    """The x axis of sizes, with powers of two as ticks; it is linear if many sizes would crowd in
    its last octave, unless `crowd` is false."""
    sizes = sorted(set(sizes))
    crowded = sum(size > sizes[-1] / 2 for size in sizes)
    if crowd and crowded > max(MANY, len(sizes) / 3):
        linear_sizes(ax, words)
        return
    ax.set_xlabel(words)
    room = TICKS // grid_of(ax).ncols
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


def log_values(ax: Axes, words: Callable[[float], str] = plain, axis: str = "y") -> None:
    """A logarithmic axis with these labels for its numbers: powers of ten, of an x axis others too,
    since rates lie within a few."""
    ax.set(**{f"{axis}scale": "log"})
    ticks = {"x": ax.xaxis, "y": ax.yaxis}[axis]
    ticks.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    ticks.set_minor_locator(NullLocator())
    if axis == "x":
        ticks.set_major_locator(LogLocator(subs=[1, 2, 5]))


def save(figure: Figure, folder: Path, name: str, formats: Iterable[str] = FORMATS) -> None:
    """Write NAME.svg and NAME.png, or one of them, whole. The same figure gives the same bytes."""
    with theme():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # only once: it is the slowest part of drawing
        for kind in formats:
            with whole_file(folder / f"{name}.{kind}") as temporary:
                figure.savefig(temporary, format=kind, metadata=FORMATS[kind])
