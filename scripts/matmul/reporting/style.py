"""How every figure looks: theme, a kernel's colour and marker, labels at lines' ends, saving."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from matmul.dataset import whole_file

INK, QUIET, PALE = "#222222", "#6b6b6b", "#d9d9d9"
WIDTH, HEIGHT = 6.7, 3.5  # inches: the text's width on A4, two figures to a page
# seaborn's colour-blind palette without its yellow, which is too light for lines and labels.
COLOURS = [c for i, c in enumerate(sns.color_palette("colorblind").as_hex()) if i != 8]
# Another length than the colours': colour and marker together stay unique for 90 kernels.
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "p", "<", ">"]
HOLLOW = "hollow"
SMALL = {"markersize": 3.2, "markeredgewidth": 0.3, "linewidth": 1.2}  # a line of many points
DASHES = {"c": (0, (1, 1.2)), "cuda": "-", "table": "-", "library": (0, (4, 1.6))}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# File formats, each with the metadata to leave out: they name a date or a version.
FORMATS = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}

SETTINGS = {
    "figure.dpi": 160,
    "savefig.dpi": 160,
    "text.parse_math": False,  # a title's dollars are dollars
    "text.hinting": "none",  # else words change their width with the resolution
    "figure.constrained_layout.w_pad": 0.08,
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


def kernel_look(position: int, language: str) -> Look:
    """The look of the kernel at `position` of the catalogue, the same in every figure."""
    colour, marker = COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)]
    return Look(colour, marker, DASHES[language])


@contextmanager
def theme() -> Iterator[None]:
    """The style, for as long as a figure is drawn or saved."""
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


def empty_panel(sentence: str) -> Figure:
    """What stands in for a figure without data: one sentence."""
    figure = Figure(figsize=(WIDTH, 1.1), layout="constrained")
    ax = figure.subplots()
    ax.set_axis_off()
    ax.text(0.5, 0.5, sentence, ha="center", va="center", color=QUIET, wrap=True)
    return figure


def finish(figure: Figure, title: str, source: str) -> None:
    """Title above the panels, and below them where the data come from."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    figure.supxlabel(source, x=0.01, ha="left", fontsize=6.5, color=QUIET)


def draw_line(ax: Axes, x: Iterable[float], y: Iterable[float], look: Look, name: str) -> None:
    """One line with its markers, smaller where they would touch; `name` lets others find it."""
    x = list(x)
    crowded = len(x) * columns(ax) > 40
    ax.plot(
        x, list(y), color=look.colour, marker=look.marker, linestyle=look.dashes,
        markeredgecolor="white", label=name, **(SMALL if crowded else {}),
    )  # fmt: skip


def columns(ax: Axes) -> int:
    """Panels side by side in the axes' figure."""
    return ax.get_subplotspec().get_gridspec().ncols


def hollow(ax: Axes, x: Sequence[float], y: Sequence[float], look: Look) -> None:
    """Hollow markers over a line's own: these points are to be read with care."""
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
    """The x axis of sizes, with powers of two as ticks where it is logarithmic."""
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


def log_values(ax: Axes, words: Callable[[float], str] = plain) -> None:
    """A logarithmic y axis with these words for its numbers."""
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    ax.yaxis.set_minor_locator(NullLocator())


def parity(ax: Axes) -> None:
    """The line at which both are equally fast."""
    ax.axhline(1, color=INK, linewidth=0.9, linestyle=(0, (6, 2)))


def label_ends(ax: Axes, labels: dict[str, str], looks: dict[str, Look]) -> None:
    """Name each line beside its last point, at the right of the axes, without overlaps.

    `labels`: the words for each line's name, as draw_line was given it. Limits must be final.
    """
    height = ax.figure.get_size_inches()[1] * 0.72
    gap = 1.25 * 7.5 / 72 / height  # of the axes' height, for a line of 7.5 points
    ends = {}
    for line in ax.get_lines():
        if line.get_label() in labels:
            point = line.get_xydata()[-1]
            y = ax.transAxes.inverted().transform(ax.transData.transform(point))[1]
            ends[line.get_label()] = (y, point)
    names = sorted(ends, key=lambda name: ends[name][0])
    for name, y in zip(names, spread([ends[name][0] for name in names], gap), strict=True):
        look = looks[name]
        ax.annotate(
            "", xy=ends[name][1], xytext=(1.03, y), textcoords="axes fraction",
            annotation_clip=False, zorder=1,
            arrowprops={"arrowstyle": "-", "color": look.colour, "lw": 0.6, "alpha": 0.6,
                        "shrinkA": 2, "shrinkB": 3},
        )  # fmt: skip
        ax.plot(1.03, y, look.marker, color=look.colour, markersize=4.5, markeredgewidth=0,
                transform=ax.transAxes, clip_on=False)  # fmt: skip
        ax.annotate(labels[name], (1.03, y), xycoords="axes fraction", xytext=(6, 0),
                    textcoords="offset points", va="center", fontsize=7.5,
                    annotation_clip=False)  # fmt: skip


def label_inside(ax: Axes, name: str, words: str) -> None:
    """Name a rising line below and right of its first point, inside the axes."""
    (line,) = [line for line in ax.get_lines() if line.get_label() == name]
    ax.annotate(words, line.get_xydata()[0], xytext=(8, 0), textcoords="offset points",
                ha="left", va="center", fontsize=7.5)  # fmt: skip


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Ascending positions near `wanted` (ascending, in 0 to 1) at least `gap` apart."""
    placed: list[float] = []
    for y in wanted:
        placed.append(max(y, placed[-1] + gap) if placed else max(y, 0.0))
    ceiling = 1.0
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return placed


def save(figure: Figure, folder: Path, name: str, formats: Iterable[str] = FORMATS) -> None:
    """Write NAME.svg and NAME.png, or one of them, whole; the same figure gives the same bytes."""
    with theme():
        # Once for all: the layout is the slowest part of drawing.
        figure.get_layout_engine().execute(figure)
        figure.set_layout_engine("none")
        for kind in formats:
            with whole_file(folder / f"{name}.{kind}") as temporary:
                figure.savefig(temporary, metadata=FORMATS[kind])
