"""The documents' timing charts: time over size, with the documents' own times as crosses.

Every report begins with these figures. So they have something to draw whatever was measured: where
a data set has no time of a GPU's kernel, the times of a published set stand for it, dashed.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import (
    Results,
    fastest,
    of_series,
    processor,
    squares,
    thermally_throttled,
)
from matmul_sweep.experiment.report.facts.documents import document_times
from matmul_sweep.experiment.report.facts.published import stand_in
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import listed
from matmul_sweep.experiment.report.figures.figure_base import figure, look, name_lines
from matmul_sweep.experiment.report.figures.style import Look
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.gram import GRAM

IN_MS = 1000.0  # the longest time that is drawn in milliseconds on linear axes
PER_SECOND = 1000  # milliseconds
UNITS = [("s", 1e3), ("ms", 1.0), ("µs", 1e-3)]  # in milliseconds
PROCESSOR, SQUARE = ["cpu_loop", "cpu_blas"], ["naive", "shared"]  # SQUARE: of 002 and 003
ANY_SHAPE = ["naive_rect", "shared_rect", "shared_rect_split"]  # of document 000
GUIDE = Look(style.QUIET, "", (0, (2, 2)))
NO_POINTS = pd.DataFrame(columns=["kernel", "n", "time_ms", "text"])
Select = Callable[[pd.DataFrame], pd.DataFrame]


@dataclass(frozen=True, eq=False)
class Line:
    """A kernel's times by size, with its title and look."""

    kernel: str
    title: str
    look: Look
    rows: pd.DataFrame
    card: str = ""  # of the published set that has these times; empty: measured here

    def up_to(self, n: float = float("inf"), time_ms: float = float("inf")) -> "Line":
        """Its part at these sizes and times."""
        rows = self.rows[(self.rows.n <= n) & (self.rows.time_ms <= time_ms)]
        return dataclasses.replace(self, rows=rows)


def lines_of(results: Results, kernels: Sequence[str], select: Select = squares) -> list[Line]:
    """The lines of these kernels that have times, in their order: the fastest variants, of the
    shapes that `select` keeps."""
    found: dict[str, Line] = {}
    other = stand_in(results)
    for source in filter(None, [results, other and other.of(results.product.name)]):
        card = "" if source is results else processor(source.device)
        rows = select(fastest(source.timed()))
        for kernel, own in rows.groupby("kernel", sort=False):
            if kernel in kernels and kernel not in found and (not card or source.on_gpu(kernel)):
                drawn = look(source, kernel)
                drawn = dataclasses.replace(drawn, dashes=style.DASHES) if card else drawn
                found[kernel] = Line(kernel, source.title(kernel), drawn, own, card)
    return [found[kernel] for kernel in kernels if kernel in found]


def draw_lines(ax: Axes, lines: Iterable[Line], per_ms: float = 1.0) -> None:
    """Draw the lines that have points."""
    for line in lines:
        rows = line.rows
        if len(rows):
            style.draw_line(ax, rows.n, rows.time_ms * per_ms, line.look, line.kernel,
                            style.PUBLISHED if line.card else None,
                            thermally_throttled(rows.throttled))  # fmt: skip


def draw_crosses(
    ax: Axes, lines: Sequence[Line], points: pd.DataFrame, per_ms: float, named: bool = False
) -> None:
    """The documents' own times, each in the colour of the kernel that it is compared with; `named`:
    in words too at their largest size."""
    known = {line.kernel: line for line in lines}
    for point in points.itertuples():
        line, y = known.get(point.kernel), point.time_ms * per_ms
        style.cross(ax, point.n, y, line.look.colour if line else style.INK)
        if named and point.n == points.n.max():
            words = f"{line.title if line else point.kernel}: {point.text}"
            ax.annotate(words, (point.n, y), (-6, 0), ha="right", va="center",
                        textcoords="offset points", bbox=style.PAPER,
                        fontsize=style.SMALL_TEXT)  # fmt: skip


def in_words(ms: float) -> str:
    """A time in a unit that suits it."""
    value, unit = (ms / PER_SECOND, "s") if ms >= PER_SECOND else (ms, "ms")
    return f"{significant(value)}\u00a0{unit}"


def tick(ms: float) -> str:
    """`10 µs`, `1 ms`, `100 s`."""
    unit, size = next((own for own in UNITS if ms >= own[1] * 0.999), UNITS[-1])
    return f"{ms / size:.4g} {unit}"


def common_size(lines: Sequence[Line]) -> int:
    """The largest size at which all of several lines have a time; 0 without one."""
    sizes = [set(line.rows.n) for line in lines]
    return max(set.intersection(*sizes), default=0) if len(sizes) > 1 else 0


def took(lines: Sequence[Line]) -> str:
    """What a product takes with each of several kernels of one card at their largest common size,
    the slowest first."""
    cards = {line.card for line in lines}
    n = common_size(lines) if len(cards) == 1 else 0
    times = {line: line.rows.set_index("n").time_ms[n] for line in lines} if n else {}
    said = [
        f"{in_words(times[line])} ({line.title})"
        for line in sorted(times, key=lambda line: -times[line])
    ]
    card = "".join(cards)
    where = f"On an {card}, a" if card else "A"
    return f"{where} product of n = {n} takes {listed(said)}" if said else ""


@figure("Time of square products in seconds, as in document 002", GEMM)
def time_seconds(results: Results) -> Figure:
    """On linear axes: left with the document's points, right the GPU's kernels alone."""
    points = document_times(GEMM.name, "002")
    n = points.n.max()
    own, loop = ([line.up_to(n) for line in lines_of(results, names)]
                 for names in (SQUARE, PROCESSOR[:1]))  # fmt: skip
    return side_by_side(results, "s", "002", own, points, loop, "without them", own)


@figure("Time of square products in milliseconds, as in document 003", GEMM)
def time_milliseconds(results: Results) -> Figure:
    """On linear axes: left small products with the document's points, right the sizes at which
    every kernel takes less than a second."""
    lines = lines_of(results, [*SQUARE, *results.full_rivals])
    points = document_times(GEMM.name, "003")
    points = points[points.time_ms <= IN_MS]
    small, blas = ([line.up_to(points.n.max()) for line in own]
                   for own in (lines, lines_of(results, PROCESSOR[1:])))  # fmt: skip
    most = common_size([line.up_to(time_ms=IN_MS) for line in lines])
    large = [line.up_to(most) for line in lines]
    return side_by_side(results, "ms", "003", small, points, blas, "larger products", large)


def side_by_side(
    results: Results, unit: str, document: str, left: Sequence[Line], points: pd.DataFrame,
    beside: Sequence[Line], title: str, right: Sequence[Line],
) -> Figure:  # fmt: skip
    """A document's points with the lines on the left and those beside them; other lines on the
    right."""
    made, axes = style.panels(2, height=3.0, sharey=False)
    linear(axes[0], left, points, unit, beside)
    linear(axes[1], right, NO_POINTS, unit)
    axes[0].set_title(f"with document {document}'s times", loc="left")
    axes[1].set_title(title, loc="left")
    for ax in axes:
        name_lines([ax], results, context=True)
    style.claim(made, took(left))
    return made


def linear(
    ax: Axes, lines: Sequence[Line], points: pd.DataFrame, unit: str, beside: Sequence[Line] = ()
) -> None:
    """Lines and a document's points on linear axes from 0, in its unit, and lines beside them,
    which may leave the axes."""
    per_ms = {"s": 1 / PER_SECOND, "ms": 1.0}[unit]
    draw_lines(ax, lines, per_ms)
    draw_crosses(ax, lines, points, per_ms, named=True)
    _, top = ax.get_ylim()
    draw_lines(ax, beside, per_ms)
    ax.set_ylim(0, top)
    ax.set_ylabel(f"time in {unit}")
    style.linear_sizes(ax, ticks=8)


@figure("Time of square products, both axes logarithmic", GEMM)
def time_loglog(results: Results) -> Figure:
    """The documents' kernels and the fastest one, the slope of n³, and all documents' points."""
    other = stand_in(results)
    told = results.told or (other.of(GEMM.name).told if other else [])
    named = [*PROCESSOR, *SQUARE, *ANY_SHAPE, *results.full_rivals, *told[-1:]]
    lines = lines_of(results, list(dict.fromkeys(named)))
    points = document_times(GEMM.name)
    made, (ax,) = style.panels(height=3.8)
    logarithmic(ax, lines, points)
    cubic(ax, lines)
    name_lines([ax], results, context=True)
    style.claim(made, fell(lines))
    return made


def fell(lines: Sequence[Line]) -> str:
    """From which time to which, at the largest size of both the slowest kernel and the fastest."""
    by_speed = sorted(lines, key=lambda line: (line.rows.time_ms / line.rows.n**3).min())
    ends = [by_speed[-1], by_speed[0]] if len(lines) > 1 else []
    n = common_size(ends)
    if not n:
        return ""
    slow, fast = (
        f"{in_words(line.rows.set_index('n').time_ms[n])} "
        f"({', '.join(filter(None, [line.title, line.card]))})"
        for line in ends
    )
    return f"At n = {n} the time falls from {slow} to {fast}"


def logarithmic(ax: Axes, lines: Sequence[Line], points: pd.DataFrame) -> None:
    """Lines and the documents' points on logarithmic axes."""
    draw_lines(ax, lines)
    draw_crosses(ax, lines, points, 1.0)
    sizes = {int(n) for line in lines for n in line.rows.n} | {*points.n}
    style.size_axis(ax, sizes, crowd=False)
    style.log_values(ax, tick)


def cubic(ax: Axes, lines: Sequence[Line]) -> None:
    """A line of slope 3 below all others."""
    ends = [line.rows.iloc[-1] for line in lines]
    if ends:
        n = max(row.n for row in ends)
        last = min(row.time_ms for row in ends if row.n == n) / 4
        style.draw_line(ax, [n / 16, n], [last / 16**3, last], GUIDE, "slope of n³")


@figure("Time of AᵀA, as in document 004", GRAM)
def time(results: Results) -> Figure:
    """The document's three implementations in a panel for each form of A: above on linear axes as
    there, below on logarithmic ones with its points and the processor's times."""
    kernels = results.of_document("004")
    processors = [name for name in results.order if not results.on_gpu(name)]
    forms = {name: partial(of_series, name=name) for name in GRAM.series}
    every = {name: lines_of(results, [*kernels, *processors], own) for name, own in forms.items()}
    square = next(iter(forms))
    every = {name: lines for name, lines in every.items() if lines or name == square}
    made, grid = style.panel_rows(2, len(every), height=1.95)
    for (above, below), (name, lines) in zip(grid.T, every.items(), strict=True):
        own = [line for line in lines if line.kernel in kernels]
        points = document_times(GRAM.name) if name == square else NO_POINTS
        draw_lines(above, own, 1 / PER_SECOND)
        style.linear_sizes(above, words="")
        above.set_ylim(bottom=0)
        above.set_title(name, loc="left")
        logarithmic(below, lines, points)
        below.set_xlabel("n, columns of A")
    for row in grid:
        ends = [ax.get_ylim() for ax in row]
        for ax in row:
            ax.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
    grid[0, 0].set_ylabel("time in s")
    for ax in grid[:, -1]:
        name_lines([ax], results, context=True)
    style.claim(made, took([line for line in every[square] if line.kernel in kernels]))
    return made
