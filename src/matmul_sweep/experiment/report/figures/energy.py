"""The figure of speed and energy, of the kernels that were timed alone with their power."""

import pandas as pd
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import Results, fastest, shapes_of, size_name
from matmul_sweep.experiment.report.facts.ways import per_joule
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import listed
from matmul_sweep.experiment.report.figures.figure_base import compared, figure, look, need, rated
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.operations import OPERATIONS

BAR = 0.17  # inches


@figure("Speed and energy: {product}", *OPERATIONS.values(), reduced=True, of=compared)
def energy(results: Results) -> Figure:
    """The rate of each kernel beside its operations per joule, at the shape of the comparison, but
    for libraries with reduced arithmetic, which stand beside their error only."""
    rows = results.at_compared(fastest(results.timed(cache="alone")).dropna(subset=["power_w"]))
    own = rows.kernel.map(results.hand_written).astype(bool)
    rows = rows[own | (rows.kernel.map(results.arithmetic) == "full")]
    need(rows[1:], "No two kernels were timed alone with their power.")
    rows, unit, _ = rated(rows.sort_values("kernel", key=lambda own: own.map(results.position)))
    rows, size = rows.assign(joule=per_joule(rows)), size_name(shapes_of(rows)[0])
    made, [axes] = style.panels(2, height=BAR * (len(rows) + 4))
    panels = {"rate": f"{unit} at n = {size}", "joule": "GFLOP per joule"}
    for ax, (column, words) in zip(axes, panels.items(), strict=True):
        colours = [look(results, kernel).colour for kernel in rows.kernel]
        ax.barh(range(len(rows)), rows[column], 0.78, color=colours)
        for place, value in enumerate(rows[column]):
            style.say(ax, significant(value), (value, place), (2, 0), va="center")
        ax.set_title(words, loc="left")
        ax.set_xlim(0, 1.25 * rows[column].max())  # room for the words
        ax.grid(visible=False, axis="y")
    axes[0].set_yticks(range(len(rows)), rows.kernel.map(results.title))
    axes[0].invert_yaxis()
    style.claim(made, most_of_a_joule(results, rows))
    return made


def most_of_a_joule(results: Results, rows: pd.DataFrame) -> str:
    """What a hand-written kernel and a library do that do the most with a joule."""
    own = rows.kernel.map(results.hand_written).astype(bool)
    best = [part.nlargest(1, "joule") for part in (rows[own], rows[~own])]
    said = [f"{significant(row.joule)} ({results.title(row.kernel)})"
            for part in best for row in part.itertuples()]  # fmt: skip
    return f"GFLOP per joule: {listed(said)}" if len(said) > 1 else ""
