"""Figures of the studies: the inputs, sustained load, and error against speed."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import AXES, Results, shapes_of, size_name
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.claims import percent, reduced_beside_full
from matmul_sweep.experiment.report.figures.figure_base import (
    figure,
    kernel_lines,
    name_lines,
    need,
    rated,
)


@figure("What the inputs hold: rate and power")
def fills(results: Results) -> Figure:
    """Rate and power by fill, at one large size."""
    made = study_panels(results, "fill", {"power_w": "power in W"}, joined=False)
    style.claim(made, of_fills(results))
    return made


def of_fills(results: Results) -> str:
    """From which power to which the inputs take the kernel that they matter to most."""
    powers = results.study_points("fill").dropna(subset=["power_w"]).groupby("kernel").power_w
    spans = powers.agg(["min", "max", "count"]).query("count > 1")
    if spans.empty:
        return ""
    kernel = (spans["max"] / spans["min"]).idxmax()
    low, high = spans.loc[kernel, ["min", "max"]]
    return f"{results.title(kernel)} draws {low:.0f} to {high:.0f} W, depending on its inputs"


@figure("Burst against sustained load")
def sustained(results: Results) -> Figure:
    """Rate, clock and power at once and after seconds of load, at one large size."""
    columns = {"sm_clock_mhz": "SM clock in MHz", "power_w": "power in W"}
    made = study_panels(results, "mode", columns, joined=True)
    style.claim(made, of_load(results))
    return made


def of_load(results: Results) -> str:
    """What seconds of load cost the kernel that loses most, if the intervals do not overlap."""
    rows = results.study_points("mode")
    burst, later = (rows[rows["mode"] == mode] for mode in AXES["mode"])
    both = burst.merge(later, on="kernel", suffixes=("", "_later")).set_index("kernel")
    sure = both[both.time_low_ms_later > both.time_high_ms]
    if sure.empty:
        return ""
    losses = 1 - sure.time_ms / sure.time_ms_later
    kernel = losses.idxmax()
    return (
        f"Under sustained load, {results.title(kernel)} loses {percent(losses[kernel])} of its rate"
    )


@figure("Error against speed, by what the inputs hold")
def error_and_speed(results: Results) -> Figure:
    """Mean error over rate in a panel for each fill, at one large size. Kernels with reduced
    arithmetic are among them; an error of zero has no place on the axis."""
    rows = results.study_points("fill", reduced=True).query("mean_error > 0")
    need(rows, f"Not measured: {results.study_absence('fill')}.")
    rows, unit, _ = rated(rows)
    values = [value for value in AXES["fill"] if value in set(rows.fill)]
    made, [axes] = style.panels(len(values))
    for ax, value in zip(axes, values, strict=True):
        own = rows[rows.fill == value]
        kernel_lines(ax, results, own, "mean_error", "rate", joined=False)
        style.log_values(ax, style.power_of_ten)
        ax.set_xlim(0, rows.rate.max() * 1.1)
        ax.set_xlabel(f"{unit} at\nn = {size_name(shapes_of(rows)[0])}")
        ax.set_title(value, loc="left")
    axes[0].set_ylabel("mean error, share of Σ|a||b|")
    name_lines(axes, results, context=True)
    style.claim(made, reduced_beside_full(results, rows[rows.fill == values[0]]))
    return made


def study_panels(results: Results, axis: str, columns: Mapping[str, str], joined: bool) -> Figure:
    """A panel for the rate and one for each known column of `columns`, over the axis values."""
    rows = results.study_points(axis)
    need(rows, f"Not measured: {results.study_absence(axis)}.")
    values = [value for value in AXES[axis] if value in set(rows[axis])]
    rows, unit, _ = rated(rows.assign(place=rows[axis].map(values.index)))
    known = {column: words for column, words in columns.items() if rows[column].notna().any()}
    panels = {"rate": f"rate in {unit}"} | known
    sizes = ", ".join(dict.fromkeys(map(size_name, shapes_of(rows))))
    made, [axes] = style.panels(len(panels), height=2.9, sharey=False)
    for ax, (column, words) in zip(axes, panels.items(), strict=True):
        own = rows.dropna(subset=[column])
        kernel_lines(ax, results, own, column, "place", joined)
        ax.set_xticks(range(len(values)), values, rotation=30, ha="right")
        ax.set_xlabel(f"{axis}, at n = {sizes}")
        ax.set_xlim(-0.4, len(values) - 0.6)
        ax.set_ylim(0, own[column].max() * 1.08)
        ax.set_title(words, loc="left")
    name_lines(axes, results, context=True)
    return made
