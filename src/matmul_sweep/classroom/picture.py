"""Pictures of the wrong elements of C: in a terminal, and as PNG."""

import io

import numpy as np

from matmul_sweep.classroom.experiments import Run
from matmul_sweep.operations.shapes import ceil_div

MOST_ROWS, MOST_COLUMNS = 24, 64  # of characters
RIGHT, WRONG, UNWRITTEN = 0, 1, 2
CHARACTERS = "·x?"
LEGEND = "· right   x wrong   ? not written"


def states(run: Run) -> np.ndarray:
    """RIGHT, WRONG or UNWRITTEN for each element of C."""
    return np.where(run.wrong, np.where(run.unwritten, UNWRITTEN, WRONG), RIGHT)


def in_characters(run: Run) -> list[str]:
    """A line for each row of C; of a large C a character stands for several elements, the worst."""
    found = states(run)
    for axis, most in enumerate((MOST_ROWS, MOST_COLUMNS)):
        extent = found.shape[axis]
        found = np.maximum.reduceat(found, range(0, extent, ceil_div(extent, most)), axis=axis)
    return ["".join(CHARACTERS[state] for state in row) for row in found]


def as_png(run: Run) -> bytes:
    """The same as a PNG, with lines between the tiles of blocks."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    found = states(run)
    rows, columns = found.shape
    figure = Figure(
        figsize=(5, max(1.4, min(8.0, 4.2 * rows / columns + 0.8))), layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(found, cmap=ListedColormap(["#e8eef4", "#c0392b", "#f0c05a"]), vmin=0, vmax=2,
                extent=(0, columns, rows, 0), interpolation="nearest")  # fmt: skip
    assert run.launch.tile
    high, wide = run.launch.tile
    for row in range(high, rows, high):
        axes.axhline(row, color="#5b6b7a", linewidth=0.6)
    for column in range(wide, columns, wide):
        axes.axvline(column, color="#5b6b7a", linewidth=0.6)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.set_xlabel("column of C")
    axes.set_ylabel("row of C")
    axes.set_title(f"{run.shape}: red is wrong, yellow not written", fontsize=10)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()
